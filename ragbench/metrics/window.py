"""A window of cases as columns: which of them can be scored, and what functions are given.

Each column is made when it is first asked for, and then serves every metric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from ragbench.core.case import Case
from ragbench.core.matched import Matched
from ragbench.core.metric import Need, Skip
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.abstention import declined
from ragbench.metrics.matching import NO_GOLD, Matching, match
from ragbench.metrics.operational import token_counts
from ragbench.metrics.rank import ranking_of

Check = Callable[[Trace], Cell | None]
Compared: TypeAlias = Matched | Skip | None
"""A retrieval compared with what is relevant; None where nothing was retrieved."""
_NO_RESULT = Skip("retrieval gave no result")


@dataclass(slots=True)
class Window:
    traces: Sequence[Trace]
    matching: Matching
    matched: Sequence[Compared] | None
    _columns: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def column(self, argument: str) -> list[Any]:
        """What each case gives for an argument of a metric's function."""
        found = self._columns.get(argument)
        if found is None:
            read = _READ.get(argument)
            if read is not None:
                found = [*map(read, self.traces)]
            else:
                both = ((trace.case, trace.context.value) for trace in self.traces)
                matched = self.matched or [
                    None if result is None else match(case, result, self.matching)
                    for case, result in both
                ]
                found = [
                    ranking_of(one) if isinstance(one, Matched) else one or _NO_RESULT
                    for one in matched
                ]
            self._columns[argument] = found
        return found


def blocked(trace: Trace, *, needs: frozenset[Need], abstains: bool) -> Cell | None:
    """The cell of a case that a metric must not be asked about; None when it can be computed.

    A failed stage comes before a declined answer, and a declined answer before what the case does
    not know: "I don't know" without a reference answer is an abstention.
    """
    if not needs.isdisjoint(_OF_RETRIEVAL) and trace.context.value is None:
        return _missing(trace.context, "retrieval")
    if abstains or not needs.isdisjoint(_OF_GENERATION):
        if trace.generation.value is None:
            return _missing(trace.generation, "generation")
        if abstains and declined(trace.generation):
            return _DECLINED
    for check in _checks(needs):
        cell = check(trace)
        if cell is not None:
            return cell
    return None


@cache
def _checks(needs: frozenset[Need]) -> tuple[Check, ...]:
    return tuple(check for need, check in _KNOWN.items() if need in needs)


def _missing(outcome: Outcome[Any], stage: str) -> Cell:
    if outcome.status is Status.FAILED:
        unknown = Failure(type="Failure", message="the cause was not recorded", stage=stage)
        return Cell.failed(outcome.failure or unknown)
    return Cell.skipped(outcome.reason or f"no {stage}")


def _timed(outcome: Outcome[Any], stage: str) -> Cell | None:
    if outcome.value is None:
        return _missing(outcome, stage)
    if outcome.sharing > 1:
        return _SHARED_TIME
    return _NO_TIME if outcome.seconds is None else None


_NO_TIME = Cell.skipped("no time was measured")
_SHARED_TIME = Cell.skipped("cases shared a call: the time of one is not known")
_DECLINED = Cell.abstained("the system declined to answer")


def _unless(is_there: Callable[[Trace], bool], reason: str) -> Check:
    skipped = Cell.skipped(reason)
    return lambda trace: None if is_there(trace) else skipped


def _retrieval_gave(field: str, what: str) -> Check:
    return _unless(
        lambda trace: getattr(trace.context.value, field, None) is not None,
        f"retrieval gave no {what}",
    )


_OF_RETRIEVAL = frozenset({Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS})
_OF_GENERATION = frozenset({Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE, Need.TOKENS})
_KNOWN: dict[Need, Check] = {
    Need.JUDGEMENTS: _unless(
        lambda t: (
            t.case.judgements is not None
            or t.case.reference_contexts is not None
            or bool(t.case.evidence)
        ),
        NO_GOLD,
    ),
    Need.RETRIEVED_CONTEXT_IDS: _retrieval_gave("context_ids", "context ids"),
    Need.SCORES: _retrieval_gave("scores", "scores"),
    Need.CONTEXT_METADATA: _retrieval_gave("context_metadata", "metadata of contexts"),
    Need.REFERENCE: _unless(
        lambda t: t.case.reference is not None or bool(t.case.alternative_references),
        "no reference answer",
    ),
    Need.REFERENCE_CONTEXTS: _unless(
        lambda t: bool(t.case.reference_contexts), "no reference contexts"
    ),
    Need.REFERENCE_CONTEXT_IDS: _unless(
        lambda t: t.case.judgements is not None, "no reference context ids"
    ),
    Need.GRADES: _unless(lambda t: t.case.judgements is not None, "no reference context ids"),
    Need.EVIDENCE: _unless(lambda t: bool(t.case.evidence), "no evidence"),
    Need.MULTI_RESPONSES: _unless(
        lambda t: bool(getattr(t.generation.value, "multi_responses", None)),
        "generation gave no candidates",
    ),
    Need.CONFIDENCE: _unless(
        lambda t: getattr(t.generation.value, "confidence", None) is not None,
        "generation gave no confidence",
    ),
    Need.ANSWERABLE: _unless(
        lambda t: t.case.answerable is not None, "not known whether the case is answerable"
    ),
    Need.RUBRICS: _unless(lambda t: bool(t.case.metadata.get("rubrics")), "no rubrics"),
    Need.RETRIEVAL_LATENCY: lambda trace: _timed(trace.retrieval, "retrieval"),
    Need.GENERATION_LATENCY: lambda trace: _timed(trace.generation, "generation"),
}


def _relevant_ids(case: Case) -> tuple[str, ...]:
    """The reference ids, or else those that the grades call relevant."""
    if case.reference_context_ids is not None or case.grades is None:
        return case.reference_context_ids or ()
    return tuple([id for id, grade in case.grades.items() if grade > 0])


# A case that lacks what an argument needs has been kept away. Lists are handed out as tuples: what
# one metric does with them must not reach the next.
_READ: dict[str, Callable[[Any], Any]] = {
    "query": lambda trace: trace.case.query,
    "response": lambda trace: trace.generation.value.response,
    "multi_responses": lambda trace: tuple(trace.generation.value.multi_responses),
    "confidence": lambda trace: trace.generation.value.confidence,
    "declined": lambda trace: declined(trace.generation),
    "tokens": lambda trace: token_counts(trace.generation.value.metadata),
    "reference": lambda trace: trace.case.references[0],
    "references": lambda trace: trace.case.references,
    "answerable": lambda trace: trace.case.answerable,
    "contexts": lambda trace: tuple(trace.context.value.contexts),
    "context_ids": lambda trace: tuple(trace.context.value.context_ids),
    "scores": lambda trace: tuple(trace.context.value.scores),
    "context_metadata": lambda trace: tuple(trace.context.value.context_metadata),
    "reference_contexts": lambda trace: trace.case.reference_contexts,
    "reference_context_ids": lambda trace: _relevant_ids(trace.case),
    "grades": lambda trace: trace.case.judgements,
    "evidence": lambda trace: trace.case.evidence,
    "retrieval_seconds": lambda trace: trace.retrieval.seconds,
    "generation_seconds": lambda trace: trace.generation.seconds,
    "retrieval": lambda trace: trace.context.value,
    "generation": lambda trace: trace.generation.value,
    "case": lambda trace: trace.case,
    "trace": lambda trace: trace,
}
"""All arguments but ``ranking``, which depends on how chunks are compared."""
