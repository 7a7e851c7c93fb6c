"""What a run's cells sum up to: mean, interval, reasons, slices, and figures of one's own."""

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
DECLINED = Cell.abstained("the system declined to answer")
UNKNOWN = Cell.skipped("no reference answer")


def case(
    *, cluster: str | None = None, tags: Sequence[str] = (), language: str | None = None
) -> Case:
    return Case(id="c", query="q", cluster=cluster, tags=tuple(tags), language=language)


def summarised(
    cells: Sequence[Cell], cases: Sequence[Case] | None = None, metric: MetricLike = "token_f1"
) -> Summary:
    """The summary of one metric over cases, which differ in nothing unless they are given."""
    if cases is None:
        cases = [case()] * len(cells)
    builder = SummaryBuilder(parse_metrics([metric]))
    for scored_case, cell in zip(cases, cells, strict=True):
        builder.add(scored_case, [cell])
    (summary,) = builder.summaries()
    return summary


def measured(*values: float) -> list[Cell]:
    return [Cell.measured(value) for value in values]


# --- the mean and the reasons


def test_only_measured_cells_enter_the_mean() -> None:
    summary = summarised([*measured(1.0, 0.5), FAILED, DECLINED, UNKNOWN])

    assert summary.score == 0.75


def test_all_cells_are_counted_by_their_outcome() -> None:
    summary = summarised([*measured(1.0, 0.5), FAILED, DECLINED, UNKNOWN, UNKNOWN, FAILED, FAILED])

    assert summary.total == 8
    assert summary.measured == 2
    assert summary.abstained == 1
    assert summary.skipped == 2
    assert summary.failed == 3


def test_reasons_are_listed_with_their_counts_the_most_frequent_one_first() -> None:
    summary = summarised([*measured(1.0, 0.5), FAILED, DECLINED, UNKNOWN, UNKNOWN, FAILED, FAILED])

    assert summary.reasons == (
        ("generate: ValueError", 3),
        ("no reference answer", 2),
        ("the system declined to answer", 1),
    )


def test_without_a_measured_cell_there_is_no_mean() -> None:
    summary = summarised([FAILED])

    assert (summary.score, summary.interval, summary.measured) == (None, None, 0)


def test_the_ten_most_frequent_reasons_are_listed_and_equal_ones_by_name() -> None:
    # Eleven reasons from k to a; then j and k once more.
    letters = [*"kjihgfedcba", "k", "j"]

    summary = summarised([Cell.skipped(f"reason {letter}") for letter in letters])

    assert summary.reasons == (
        ("reason j", 2),
        ("reason k", 2),
        ("reason a", 1),
        ("reason b", 1),
        ("reason c", 1),
        ("reason d", 1),
        ("reason e", 1),
        ("reason f", 1),
        ("reason g", 1),
        ("reason h", 1),
    )


def test_a_cell_without_a_reason_is_listed_by_its_outcome() -> None:
    summary = summarised([Cell(status=Status.SKIPPED), Cell(status=Status.ABSTAINED)])

    assert summary.reasons == (("abstained", 1), ("skipped", 1))


# --- intervals


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
        # As 20 trials, of values that are probabilities; see test_mean.py.
        (likely, [0.007] * 20, 0.0002105, 0.1909547),
    ],
)
def test_intervals_of_means_by_hand(
    metric: MetricLike, values: list[float], low: float, high: float
) -> None:
    interval = summarised(measured(*values), metric=metric).interval

    assert interval is not None
    assert interval.low == pytest.approx(low, abs=1e-6)
    assert interval.high == pytest.approx(high, abs=1e-6)
    assert interval.level == 0.95


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        # Equal values of a metric without a lowest one: nothing says how far they may lie apart.
        (signed, [1.0] * 3),
        # What words tell of answers has no known level.
        ("answer_correct", [0.007] * 20),
    ],
    ids=["no spread", "no known level"],
)
def test_a_mean_of_which_nothing_is_known_has_no_interval(
    metric: MetricLike, values: list[float]
) -> None:
    assert summarised(measured(*values), metric=metric).interval is None


@pytest.mark.parametrize("metric", ["token_f1", "retrieval_latency", signed, likely])
def test_the_mean_of_a_single_cluster_has_no_interval(metric: MetricLike) -> None:
    cases = [case(cluster="document")] * 4

    summary = summarised(measured(1.0, 1.0, 1.0, 0.6), cases, metric)

    assert summary.interval is None


# --- slices


def test_slices_by_tag_and_language() -> None:
    cases = [
        case(tags=["new", "hard", "hard"], language="zh"),
        case(tags=["hard"], language="en"),
        case(language="zh"),
    ]

    summary = summarised([*measured(1.0), FAILED, *measured(0.5)], cases)

    counts = [replace(part, interval=None, clusters=0) for part in summary.slices]
    assert counts == [
        Slice(by="tag", value="hard", total=2, measured=1, score=1.0),
        Slice(by="tag", value="new", total=1, measured=1, score=1.0),
        Slice(by="language", value="en", total=1, measured=0, score=None),
        Slice(by="language", value="zh", total=2, measured=2, score=0.75),
    ]


@pytest.mark.parametrize(("tag", "position"), [("easy", 0), ("hard", 1)])
def test_a_slice_has_the_interval_that_its_cases_have_as_a_run(tag: str, position: int) -> None:
    # Easy and hard cases by turns; the first three are of one cluster, the last ones of another.
    cases = [
        case(tags=["easy"], cluster="a"),
        case(tags=["hard"], cluster="a"),
        case(tags=["easy"], cluster="a"),
        case(tags=["hard"], cluster="b"),
        case(tags=["easy"], cluster="b"),
        case(tags=["hard"], cluster="b"),
    ]
    cells = measured(1.0, 0.0, 1.0, 0.5, 0.25, 0.75)

    part = summarised(cells, cases).slices[position]
    run = summarised(cells[position::2], cases[position::2])

    assert part.value == tag
    assert part.interval is not None
    assert part.interval == run.interval


def test_a_slice_of_a_figure_that_is_no_mean_has_no_interval() -> None:
    cases = [case(language="en"), case(language="en")]

    summary = summarised(measured(0.1, -0.1), cases, metric="ECE")

    assert summary.slices[0].interval is None


# --- figures that are no means


def test_a_metric_with_its_own_aggregate_is_summed_up_by_it() -> None:
    cases = [case(tags=["sure"]), case(), case(tags=["sure"])]

    summary = summarised(measured(0.1, -0.1, -0.9), cases, metric="ECE(bins=2)")

    # Confidence 0.9 right and 0.9 wrong in one bin, 0.1 wrong in the other.
    assert summary.score == pytest.approx((abs(0.1 - 0.9) + 0.1) / 3)
    assert summary.interval is None
    assert summary.slices[0].score == pytest.approx(0.8 / 2)


def summary_of_own(aggregate: Any) -> Summary:
    """The values 1 and 2, summed up by a function of the user's with the parameter power=3."""

    @metric(high=None, low=None, aggregate=aggregate)
    def own(response: str, *, power: int = 2) -> float:
        return 1.0

    cases = [case(tags=["x"]), case(tags=["x"])]
    return summarised(measured(1.0, 2.0), cases, partial(own, power=3))


@pytest.mark.parametrize(
    ("aggregate", "figure"),
    [
        (max, 2.0),
        # 1^3 + 2^3: the parameter of the metric is one of its aggregate too.
        (lambda values, *, power: sum(value**power for value in values), 9.0),
    ],
    ids=["the highest", "with a parameter"],
)
def test_a_function_of_ones_own_makes_the_figure(aggregate: Any, figure: float) -> None:
    summary = summary_of_own(aggregate)

    assert summary.score == figure
    assert summary.slices[0].score == figure
    assert summary.interval is None
    assert summary.measured == 2


@pytest.mark.parametrize(
    ("aggregate", "reason"),
    [
        (lambda values: dict[str, float]()["unlucky"], "KeyError: 'unlucky'"),
        (lambda values: math.nan, "it is nan"),
        (lambda values: "much", "ValueError: could not convert string to float: 'much'"),
    ],
    ids=["it raises", "no number", "a text"],
)
def test_a_function_of_ones_own_that_fails_costs_the_figure_alone(
    aggregate: Any, reason: str
) -> None:
    summary = summary_of_own(aggregate)

    assert summary.score is None
    assert summary.slices[0].score is None
    assert summary.interval is None
    assert summary.measured == 2
    assert summary.reasons == ((f"no figure over the run: {reason}", 2),)


# --- its size


def test_each_case_costs_a_few_bytes() -> None:
    builder = SummaryBuilder(parse_metrics("token_f1, exact_match"))
    tagged = case(tags=["a"], language="en")
    row = measured(0.5, 1.0)
    builder.add(tagged, row)  # what is made once is not counted

    tracemalloc.start()
    for _ in range(20_000):
        builder.add(tagged, row)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # Two values, a cluster, two slice members: 40 bytes, and what the arrays keep in reserve.
    assert size < 20_000 * 60
