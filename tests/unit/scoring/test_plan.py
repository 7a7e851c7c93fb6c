from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench.errors import ConfigError
from ragbench.records.cells import Cell, Failure, Outcome, Status
from ragbench.records.metrics import Direction, Group, Metric, MetricDefinition, Need
from ragbench.runs.trace import Trace
from ragbench.scoring.plan import Plan
from ragbench.scoring.registry import default_metrics
from tests.unit.scoring.builders import (
    SKIPPED,
    answered,
    cell,
    cells,
    failed,
    generated,
    retrieved,
    trace,
)

CALLS: list[int] = []


class Lengths:
    """Gives a response's length; odd things happen at some lengths."""

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        CALLS.append(len(traces))
        return [[self.cell(metric, trace) for trace in traces] for metric in metrics]

    def cell(self, metric: Metric, trace: Trace) -> Cell:
        assert trace.generation.value is not None
        length = len(trace.generation.value.response)
        if length == 13 and metric.definition.name == "length":
            raise ValueError("unlucky") from KeyError("why")
        return Cell.measured(math.nan if length == 7 else float(length))


class OneTooFew:
    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        return [[Cell.measured(1.0)] * (len(traces) - 1) for _ in metrics]


class NeedsSetting:
    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        raise ConfigError("no judge is configured")


def metric(scorer: str, name: str = "length", **changes: object) -> Metric:
    definition = MetricDefinition(
        name=name,
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE}),
        direction=Direction.NEITHER,
        summary="",
        citation="",
        scorer=f"tests.unit.scoring.test_plan:{scorer}",
        high=None,
    )
    return Metric(definition=replace(definition, **changes))  # type: ignore[arg-type]


def test_without_metrics_each_case_has_an_empty_row() -> None:
    assert Plan([]).score([answered("a"), answered("b")]) == [(), ()]


def test_without_cases_there_are_no_rows() -> None:
    assert Plan(default_metrics()).score([]) == []


def test_a_bad_case_costs_its_own_cell_only() -> None:
    plan = Plan([metric("Lengths"), metric("Lengths", "other")])
    rows = plan.score([answered("x" * length) for length in (1, 2, 13, 4, 5)])
    assert [row[0].value for row in rows] == [1.0, 2.0, None, 4.0, 5.0]
    assert [row[1].value for row in rows] == [1.0, 2.0, 13.0, 4.0, 5.0]
    failure = rows[2][0].failure
    assert failure is not None
    assert (failure.type, failure.message, failure.stage) == ("ValueError", "unlucky", "score")
    assert failure.cause == "KeyError: 'why'"
    assert failure.traceback is not None and "unlucky" in failure.traceback


def test_a_value_that_is_no_finite_number_is_a_failure() -> None:
    found = Plan([metric("Lengths")]).score([answered("x" * 7), answered("xx")])
    assert found[0][0].failure is not None
    assert found[0][0].failure.message == "the metric gave nan, which is no finite number"
    assert found[1][0] == Cell.measured(2.0)


def test_a_scorer_that_gives_too_few_cells_is_told() -> None:
    found = Plan([metric("OneTooFew")]).score([answered("a"), answered("b")])
    assert all(row[0].failure is not None for row in found)
    assert "OneTooFew.score gave lists of [0] cells for 1 metrics and 1 cases" in str(
        found[0][0].failure
    )


def test_what_only_the_user_can_change_stops_the_run() -> None:
    with pytest.raises(ConfigError, match="no judge"):
        Plan([metric("NeedsSetting")]).score([answered("a")])


def test_a_scorer_is_asked_once_and_only_about_cases_it_can_score() -> None:
    CALLS.clear()
    plan = Plan([metric("Lengths", "one"), metric("Lengths", "two")])
    rows = plan.score([answered("abc"), trace(generation=failed("generate")), answered("a")])
    assert CALLS == [2]
    assert [row[0].status for row in rows] == ["measured", "failed", "measured"]


def test_an_unknown_scorer_is_told_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="has no attribute 'Nothing'"):
        Plan([metric("Nothing")])


def test_a_failed_stage_passes_its_failure_on() -> None:
    retrieval, generation = failed("retrieve"), failed("generate")
    one = trace(gold=["a"], references=["a"], retrieval=retrieval, generation=generation)
    row = cells("recall@5, token_f1, retrieval_latency, generation_latency, best_of_n", one)[0]
    assert [c.failure for c in row] == [
        retrieval.failure,
        generation.failure,
        retrieval.failure,
        generation.failure,
        generation.failure,
    ]


def test_a_failure_without_a_record_is_still_a_failure() -> None:
    one = trace(gold=["a"], retrieval=Outcome(status=Status.FAILED))
    found = cell("recall@5", one).failure
    assert found == Failure(type="Failure", message="the cause was not recorded", stage="retrieval")


def test_post_retrieval_is_what_is_scored_where_there_is_one() -> None:
    one = trace(gold=["a"], retrieval=retrieved("a"))
    filtered = replace(one, post_retrieval=retrieved("b"))
    assert cell("recall@1", one) == Cell.measured(1.0)
    assert cell("recall@1", filtered) == Cell.measured(0.0)


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("recall@5", "not asked for"),
        ("token_f1", "not asked for"),
        ("retrieval_latency", "not asked for"),
        ("abstention_accuracy", "not asked for"),
    ],
)
def test_a_skipped_stage_passes_its_reason_on(metric: str, reason: str) -> None:
    assert cell(metric, trace(gold=["a"], references=["a"])) == Cell.skipped(reason)
    assert SKIPPED.reason == reason


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("token_f1", "no reference answer"),
        ("exact_match", "no reference answer"),
        ("best_of_n", "no reference answer"),
        ("candidate_agreement", "generation gave no candidates"),
        ("brier", "no reference answer"),
        ("abstention_accuracy", "not known whether the case is answerable"),
        ("generation_latency", "no time was measured"),
        ("response_tokens", "generation reported no token usage"),
    ],
)
def test_what_a_case_lacks_skips_it(metric: str, reason: str) -> None:
    assert cell(metric, trace(generation=generated("an answer"))) == Cell.skipped(reason)


def test_confidence_is_needed_for_calibration() -> None:
    assert cell("brier", answered("a", "a")) == Cell.skipped("generation gave no confidence")


def test_an_alternative_reference_alone_is_a_reference() -> None:
    one = trace(references=["", "b"], generation=generated("b"))
    case = replace(one.case, reference=None)
    assert cell("exact_match", replace(one, case=case)) == Cell.measured(1.0)
