from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ragbench import metric, parse_metrics
from ragbench.core.metric import metric_of, stored_definition
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, MissingExtraError
from ragbench.metrics.plan import Plan
from tests.unit.metrics.builders import answered, cell, cells, failed, generated, trace

CALLED: list[int] = []


@metric(high=None)
def length(response: str) -> float:
    """A response's length; odd things happen at some lengths."""
    if len(response) == 13:
        raise ValueError("unlucky") from KeyError("why")
    return math.nan if len(response) == 7 else float(len(response))


@metric(high=None)
def plain_length(response: str) -> int:
    """A response's length."""
    CALLED.append(len(response))
    return len(response)


@metric(high=None, batch=True)
def length_of_all(response: Sequence[str]) -> list[float | None]:
    """The same, all at once."""
    CALLED.append(len(response))
    if any(len(one) == 13 for one in response):
        raise ValueError("unlucky")
    return [len(one) or None for one in response]


def answers(*responses: str) -> list[Trace]:
    return [trace(generation=generated(response)) for response in responses]


def test_a_bad_case_costs_its_own_cell_only() -> None:
    CALLED.clear()
    rows = cells([length, plain_length], *answers(*("x" * size for size in (1, 2, 13, 4, 5))))
    assert CALLED == [1, 2, 13, 4, 5]
    assert [row[0].value for row in rows] == [1.0, 2.0, None, 4.0, 5.0]
    assert [row[1].value for row in rows] == [1.0, 2.0, 13.0, 4.0, 5.0]
    failure = rows[2][0].failure
    assert failure is not None and failure.traceback is not None
    assert (failure.type, failure.message, failure.stage) == ("ValueError", "unlucky", "score")
    assert failure.cause == "KeyError: 'why'" and "unlucky" in failure.traceback


@pytest.mark.parametrize(("function", "error"), [
    (lambda response: next(iter([])) if response == "b" else 1.0, "StopIteration"),
    (lambda response: sys.exit(3) if response == "b" else 1.0, "SystemExit"),
    (lambda response, reference: 1.0 if reference == "right" else 1 / 0, "ZeroDivisionError"),
])  # fmt: skip
def test_whatever_a_function_raises_fails_its_case_alone(
    function: Callable[..., float], error: str
) -> None:
    fine = answered("a", "right", "right")
    rows = cells([metric(name="own")(function)], fine, answered("b", "right", "wrong"), fine)
    assert [row[0].value for row in rows] == [1.0, None, 1.0]
    assert error in str(rows[1][0].failure)


def test_a_function_of_many_cases_is_asked_in_halves_where_it_fails() -> None:
    CALLED.clear()
    rows = cells([length_of_all], *answers("a", "bb", "x" * 13, ""))
    assert CALLED == [4, 2, 2, 1, 1]
    assert [row[0].value for row in rows] == [1.0, 2.0, None, None]
    assert [row[0].status for row in rows] == ["measured", "measured", "failed", "skipped"]
    one_too_few = metric(name="few", batch=True)(lambda response: response[1:])
    found = cells([one_too_few], *answers("a", "b"))
    assert all("gave 0 values for 1 cases" in str(row[0].failure) for row in found)


def test_what_only_the_user_can_change_stops_the_run() -> None:
    @metric
    def needs_setting(response: str) -> float:
        raise ConfigError("no judge is configured")

    with pytest.raises(ConfigError, match="no judge"):
        cells([needs_setting], *answers("a"))


def test_a_metric_that_is_not_installed_stops_before_anything_runs() -> None:
    stored = metric_of(stored_definition(parse_metrics([plain_length])[0]))
    gone = replace(stored, definition=replace(stored.definition, scorer="nowhere:at_all"))
    with pytest.raises(ConfigError, match="'plain_length' cannot be computed here: there is no"):
        Plan([gone])


def test_what_a_metric_must_load_is_loaded_before_anything_runs() -> None:
    def prepare() -> None:
        raise MissingExtraError("sacrebleu", "text")

    with pytest.raises(MissingExtraError):
        Plan(parse_metrics([metric(name="heavy", prepare=prepare)(lambda response: 1.0)]))


def test_a_failed_stage_passes_its_failure_on() -> None:
    retrieval, generation = failed("retrieve"), failed("generate")
    one = trace(gold=["a"], references=["a"], retrieval=retrieval, generation=generation)
    row = cells("recall@5, token_f1, retrieval_latency, generation_latency, best_of_n", one)[0]
    which = (retrieval, generation, retrieval, generation, generation)
    assert [c.failure for c in row] == [one.failure for one in which]


def test_a_failure_without_a_record_is_still_a_failure() -> None:
    one = trace(gold=["a"], retrieval=Outcome(status=Status.FAILED))
    found = cell("recall@5", one).failure
    assert found == Failure(type="Failure", message="the cause was not recorded", stage="retrieval")


def test_an_alternative_reference_alone_is_a_reference() -> None:
    one = trace(references=["", "b"], generation=generated("b"))
    case = replace(one.case, reference=None)
    assert cell("exact_match", replace(one, case=case)) == Cell.measured(1.0)
