from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ragbench import Case, metric, parse_metrics
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import Slice, Summary
from ragbench.metrics.registry import MetricLike
from ragbench.metrics.summary import SummaryBuilder

FAILED = Cell.failed(Failure(type="ValueError", message="x 1", stage="generate"))


def case(
    *, cluster: str | None = None, tags: Sequence[str] = (), language: str | None = None
) -> Case:
    return Case(id="c", query="q", cluster=cluster, tags=tuple(tags), language=language)


def summarised(
    cells: Sequence[Cell], cases: Sequence[Case] = (), name: MetricLike = "token_f1"
) -> Summary:
    builder = SummaryBuilder(parse_metrics([name]))
    for number, cell in enumerate(cells):
        builder.add(cases[number] if cases else case(), [cell])
    (summary,) = builder.summaries()
    return summary


def measured(*values: float) -> list[Cell]:
    return [Cell.measured(value) for value in values]


def test_only_measured_cells_enter_the_mean_and_all_are_counted() -> None:
    declined = Cell.abstained("the system declined to answer")
    unknown = Cell.skipped("no reference answer")
    found = summarised([*measured(1.0, 0.5), FAILED, declined, unknown, unknown, FAILED, FAILED])
    assert found.score == 0.75
    assert (found.total, found.measured, found.abstained) == (8, 2, 1)
    assert (found.skipped, found.failed) == (2, 3)
    declined_to = ("the system declined to answer", 1)
    assert found.reasons == (("generate: ValueError", 3), ("no reference answer", 2), declined_to)
    nothing = summarised([FAILED])
    assert (nothing.score, nothing.interval, nothing.measured) == (None, None, 0)


@metric(low=None, high=1.0)
def signed(response: str) -> float:
    return 1.0


@metric(probability=True)
def likely(response: str) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("metric", "values", "low", "high"),
    [
        # Clopper and Pearson's, as a gate prints it
        ("token_f1", [1.0] * 4, 0.025**0.25, 1.0),
        # It stays in the metric's range: 2.9 / 3 -+ 4.302653 / 30, and 2.05 -+ 12.706205 * 1.95.
        ("token_f1", [1.0, 1.0, 0.9], 0.8232449, 1.0),
        ("retrieval_latency", [0.1, 4.0], 0.0, 26.8271),
        # mean 0.9, s = 0.2, n = 4, t(0.975; 3) = 3.182446: 0.9 +- 0.318245
        (signed, [1.0, 1.0, 1.0, 0.6], 0.9 - 0.3182446, 1.0),
        (signed, [1.0] * 3, None, None),
        # As 20 trials, of values that are probabilities; see test_mean.py.
        (likely, [0.007] * 20, 0.0002105, 0.1909547),
        # What words tell of answers has no known level.
        ("answer_correct", [0.007] * 20, None, None),
    ],
)
def test_intervals_of_means(
    metric: MetricLike, values: list[float], low: float | None, high: float | None
) -> None:
    found = summarised(measured(*values), name=metric).interval
    ends = (None, None) if found is None else (found.low, found.high)
    assert ends == pytest.approx((low, high), abs=1e-6)
    clustered = summarised(measured(*values), [case(cluster="one")] * len(values), metric).interval
    assert clustered is None and (found is None or found.level == 0.95)


def test_the_ten_most_frequent_reasons_are_listed_and_equal_ones_by_name() -> None:
    cells = [Cell.skipped(f"reason {letter}") for letter in "kjihgfedcba"]
    found = summarised([*cells, Cell.skipped("reason k"), Cell.skipped("reason j")])
    once = [(f"reason {letter}", 1) for letter in "abcdefgh"]
    assert list(found.reasons) == [("reason j", 2), ("reason k", 2), *once]
    bare = summarised([Cell(status=Status.SKIPPED), Cell(status=Status.ABSTAINED)])
    assert bare.reasons == (("abstained", 1), ("skipped", 1))


def test_slices_by_tag_and_language() -> None:
    tags = ("new hard hard", "zh"), ("hard", "en"), ("", "zh")
    cases = [case(tags=found.split(), language=language) for found, language in tags]
    found = summarised([*measured(1.0), FAILED, *measured(0.5)], cases)
    assert tuple(replace(part, interval=None, clusters=0) for part in found.slices) == (
        Slice(by="tag", value="hard", total=2, measured=1, score=1.0),
        Slice(by="tag", value="new", total=1, measured=1, score=1.0),
        Slice(by="language", value="en", total=1, measured=0, score=None),
        Slice(by="language", value="zh", total=2, measured=2, score=0.75),
    )


def test_a_slice_has_the_interval_that_its_cases_have_as_a_run() -> None:
    scores = [1.0, 0.0, 1.0, 0.5, 0.25, 0.75]
    cases = [case(tags=["hard"] if at % 2 else ["easy"], cluster=f"c{at // 3}") for at in range(6)]
    for part in summarised(measured(*scores), cases).slices:
        own = slice(part.value == "hard", None, 2)
        alone = summarised(measured(*scores[own]), cases[own])
        assert part.interval is not None and part.interval == alone.interval
    ece = summarised(measured(0.1, -0.1), [case(language="en")] * 2, name="ECE")
    assert ece.slices[0].interval is None  # of a mean only


def test_a_metric_with_its_own_aggregate_is_summed_up_by_it() -> None:
    cases = [case(tags=["sure"]), case(), case(tags=["sure"])]
    found = summarised(measured(0.1, -0.1, -0.9), cases, name="ECE(bins=2)")
    # Confidence 0.9 right and 0.9 wrong in one bin, 0.1 wrong in the other.
    assert found.score == pytest.approx((abs(0.1 - 0.9) + 0.1) / 3)
    assert found.interval is None
    assert found.slices[0].score == pytest.approx(0.8 / 2)


def test_each_case_costs_a_few_bytes() -> None:
    builder = SummaryBuilder(parse_metrics("token_f1, exact_match"))
    one, row = case(tags=["a"], language="en"), measured(0.5, 1.0)
    builder.add(one, row)
    tracemalloc.start()
    for _ in range(20_000):
        builder.add(one, row)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two values, a cluster, two slice members: 40 bytes, and what the arrays keep in reserve.
    assert size < 20_000 * 60


@pytest.mark.parametrize(
    ("aggregate", "figure", "reason"),
    [
        (max, 2.0, ""),
        (lambda values, *, power: sum(value**power for value in values), 9.0, ""),
        (lambda values: dict[str, float]()["unlucky"], None, "KeyError: 'unlucky'"),
        (lambda values: math.nan, None, "it is nan"),
        (lambda values: "much", None, "ValueError: could not convert string to float: 'much'"),
    ],
)
def test_a_function_of_ones_own_makes_the_figure_or_costs_the_figure_alone(
    aggregate: Any, figure: float | None, reason: str
) -> None:
    @metric(high=None, low=None, aggregate=aggregate)
    def own(response: str, *, power: int = 2) -> float:
        return 1.0

    builder = SummaryBuilder(parse_metrics([partial(own, power=3)]))
    for value in (1.0, 2.0):
        builder.add(case(tags=["x"]), measured(value))
    (found,) = builder.summaries()
    assert (found.score, found.slices[0].score, found.interval) == (figure, figure, None)
    assert found.measured == 2
    if reason:
        assert found.reasons == ((f"no figure over the run: {reason}", 2),)
