"""Which cases a metric can be asked about, from what its definition says that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ragbench.records.cells import Cell, Failure, Outcome, Status
from ragbench.records.metrics import Need
from ragbench.runs.trace import Trace
from ragbench.scoring.abstention import declined
from ragbench.scoring.matching import NO_GOLD

__all__ = ["blocked"]

Check = Callable[[Trace], Cell | None]

_DECLINED = Cell.abstained("the system declined to answer")


def blocked(traces: Sequence[Trace], *, needs: Iterable[Need], abstains: bool) -> list[Cell | None]:
    """Finds the cases that a metric must not be asked about.

    A failed stage comes before a declined answer, and a declined answer before what the case does
    not know: "I don't know" without a reference answer is an abstention.

    Args:
        traces: the cases.
        needs: what the metric reads.
        abstains: whether a declined answer gives an abstained cell.

    Returns:
        For each case its cell, or None when the metric can be computed.
    """
    found: list[Cell | None] = [None] * len(traces)
    for check in _checks(frozenset(needs), abstains):
        found = [
            check(trace) if cell is None else cell
            for cell, trace in zip(found, traces, strict=True)
        ]
    return found


def _checks(needs: frozenset[Need], abstains: bool) -> list[Check]:
    checks: list[Check] = []
    if needs & _OF_RETRIEVAL:
        checks.append(_retrieved)
    if abstains or needs & _OF_GENERATION:
        checks.append(_generated)
    if abstains:
        checks.append(lambda trace: _DECLINED if declined(trace.generation) else None)
    checks.extend(check for need, check in _KNOWN.items() if need in needs)
    return checks


def _retrieved(trace: Trace) -> Cell | None:
    outcome = trace.context
    return None if outcome.value is not None else _missing(outcome, "retrieval")


def _generated(trace: Trace) -> Cell | None:
    outcome = trace.generation
    return None if outcome.value is not None else _missing(outcome, "generation")


def _missing(outcome: Outcome[Any], stage: str) -> Cell:
    if outcome.status is Status.FAILED:
        unknown = Failure(type="Failure", message="the cause was not recorded", stage=stage)
        return Cell.failed(outcome.failure or unknown)
    return Cell.skipped(outcome.reason or f"no {stage}")


def _timed(outcome: Outcome[Any], stage: str) -> Cell | None:
    if outcome.value is None:
        return _missing(outcome, stage)
    return _NO_TIME if outcome.seconds is None else None


_NO_TIME = Cell.skipped("no time was measured")
_NO_GOLD = Cell.skipped(NO_GOLD)
_NO_IDS = Cell.skipped("retrieval gave no context ids")
_NO_REFERENCE = Cell.skipped("no reference answer")
_NO_REFERENCE_CONTEXTS = Cell.skipped("no reference contexts")
_NO_CANDIDATES = Cell.skipped("generation gave no candidates")
_NO_CONFIDENCE = Cell.skipped("generation gave no confidence")
_NO_ANSWERABLE = Cell.skipped("not known whether the case is answerable")
_NO_RUBRICS = Cell.skipped("no rubrics")


def _gold(trace: Trace) -> Cell | None:
    case = trace.case
    known = case.reference_context_ids is not None or case.grades is not None
    return None if known or case.reference_contexts is not None or case.evidence else _NO_GOLD


def _ids(trace: Trace) -> Cell | None:
    result = trace.context.value
    return _NO_IDS if result is None or result.context_ids is None else None


def _reference(trace: Trace) -> Cell | None:
    case = trace.case
    known = case.reference is not None or case.alternative_references
    return None if known else _NO_REFERENCE


def _reference_contexts(trace: Trace) -> Cell | None:
    return None if trace.case.reference_contexts else _NO_REFERENCE_CONTEXTS


def _candidates(trace: Trace) -> Cell | None:
    result = trace.generation.value
    return None if result is not None and result.multi_responses else _NO_CANDIDATES


def _confidence(trace: Trace) -> Cell | None:
    result = trace.generation.value
    return _NO_CONFIDENCE if result is None or result.confidence is None else None


def _answerable(trace: Trace) -> Cell | None:
    return _NO_ANSWERABLE if trace.case.answerable is None else None


def _rubrics(trace: Trace) -> Cell | None:
    return None if trace.case.metadata.get("rubrics") else _NO_RUBRICS


_OF_RETRIEVAL = frozenset({Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS})
_OF_GENERATION = frozenset({Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE, Need.TOKENS})
_KNOWN: dict[Need, Check] = {
    Need.JUDGEMENTS: _gold,
    Need.RETRIEVED_CONTEXT_IDS: _ids,
    Need.REFERENCE: _reference,
    Need.REFERENCE_CONTEXTS: _reference_contexts,
    Need.MULTI_RESPONSES: _candidates,
    Need.CONFIDENCE: _confidence,
    Need.ANSWERABLE: _answerable,
    Need.RUBRICS: _rubrics,
    Need.RETRIEVAL_LATENCY: lambda trace: _timed(trace.retrieval, "retrieval"),
    Need.GENERATION_LATENCY: lambda trace: _timed(trace.generation, "generation"),
}
