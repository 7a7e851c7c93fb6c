"""Traces for tests, from the few facts that a test is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragbench import Case, Evidence, GenerationResult, RetrievalResult, metric, parse_metrics
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike


def retrieved(
    *ids: str,
    texts: Sequence[str] | None = None,
    with_ids: bool = True,
    metadata: Sequence[Mapping[str, Any]] | None = None,
    seconds: float | None = None,
) -> Outcome[RetrievalResult[Any]]:
    contexts = [f"text of {id}" for id in ids] if texts is None else list(texts)
    result: RetrievalResult[Any] = RetrievalResult(
        contexts, context_ids=list(ids) if with_ids else None, context_metadata=metadata
    )
    return Outcome(status=Status.MEASURED, value=result, seconds=seconds)


def generated(
    response: str,
    *,
    candidates: Sequence[str] | None = None,
    seconds: float | None = None,
    **facts: Any,
) -> Outcome[GenerationResult[Any]]:
    result = GenerationResult[Any](response, multi_responses=candidates, **facts)
    return Outcome(status=Status.MEASURED, value=result, seconds=seconds)


def failed(stage: str) -> Outcome[Any]:
    failure = Failure(type="ValueError", message="broken", stage=stage)
    return Outcome(status=Status.FAILED, failure=failure)


@metric(aliases=("courtesy",))
def politeness(response: str, *, style: str = "plain") -> float:
    """How polite the answer is: what another package might add."""
    return float("please" in response or style in response)


SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="not asked for")


def trace(
    *,
    gold: Sequence[str] | None = None,
    grades: Mapping[str, int] | None = None,
    gold_texts: Sequence[str] | None = None,
    evidence: Sequence[str] = (),
    references: Sequence[str] = (),
    answerable: bool | None = None,
    retrieval: Outcome[RetrievalResult[Any]] = SKIPPED,
    generation: Outcome[GenerationResult[Any]] = SKIPPED,
) -> Trace:
    case = Case(
        id="case",
        query="query",
        reference=references[0] if references else None,
        alternative_references=tuple(references[1:]),
        reference_contexts=None if gold_texts is None else tuple(gold_texts),
        reference_context_ids=None if gold is None else tuple(gold),
        grades=grades,
        evidence=tuple(Evidence(text=text) for text in evidence),
        answerable=answerable,
    )
    return Trace(case=case, retrieval=retrieval, generation=generation)


def answered(response: str, *references: str) -> Trace:
    return trace(references=references, generation=generated(response))


def ranked(ids: Sequence[str], grades: Mapping[str, int]) -> Trace:
    return trace(grades=grades, retrieval=retrieved(*ids))


def cells(
    metrics: str | Iterable[MetricLike], *traces: Trace, matching: Matching = Matching.AUTO
) -> list[tuple[Cell, ...]]:
    return Plan(parse_metrics(metrics), matching=matching).score(traces)


def cell(name: str, one: Trace, *, matching: Matching = Matching.AUTO) -> Cell:
    return cells(name, one, matching=matching)[0][0]


def value(name: str, one: Trace, *, matching: Matching = Matching.AUTO) -> float:
    found = cell(name, one, matching=matching)
    assert found.value is not None, found
    return found.value
