"""Traces for tests, from the few facts that a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case, Evidence
from ragbench.records.cells import Cell, Failure, Outcome, Status
from ragbench.records.metrics import Direction, Group, MetricDefinition, Need, Parameter
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan
from ragbench.scoring.registry import parse_metrics


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
    confidence: float | None = None,
    abstained: bool | None = None,
    metadata: Any = None,
    seconds: float | None = None,
) -> Outcome[GenerationResult[Any]]:
    result: GenerationResult[Any] = GenerationResult(
        response,
        multi_responses=candidates,
        confidence=confidence,
        abstained=abstained,
        metadata=metadata,
    )
    return Outcome(status=Status.MEASURED, value=result, seconds=seconds)


def failed(stage: str) -> Outcome[Any]:
    failure = Failure(type="ValueError", message="broken", stage=stage)
    return Outcome(status=Status.FAILED, failure=failure)


POLITENESS = MetricDefinition(
    name="politeness",
    group=Group.GENERATOR,
    needs=frozenset({Need.RESPONSE}),
    direction=Direction.HIGHER,
    summary="how polite",
    citation="nobody",
    scorer="nowhere:Scorer",
    parameters=(Parameter(name="style", default="plain", summary="a text"),),
)
"""What another package might add."""


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
    metrics: str, *traces: Trace, matching: Matching = Matching.AUTO
) -> list[tuple[Cell, ...]]:
    return Plan(parse_metrics(metrics), matching=matching).score(traces)


def cell(metric: str, one: Trace, *, matching: Matching = Matching.AUTO) -> Cell:
    return cells(metric, one, matching=matching)[0][0]


def value(metric: str, one: Trace, *, matching: Matching = Matching.AUTO) -> float:
    found = cell(metric, one, matching=matching)
    assert found.value is not None, found
    return found.value
