"""Traces of the few facts that a test is about, and judges that answer at once, by a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ragbench import Case, Evidence, GenerationResult, RetrievalResult, metric, parse_metrics
from ragbench.core.chat import Message, Reply, Vector
from ragbench.core.outcome import Cell, Failure, JudgedCell, Outcome, Status
from ragbench.core.trace import Trace
from ragbench.llm.schema import Schema, read_structure
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import JudgePlan
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike
from tests.llm_server import instance_of
from tests.unit.llm.builders import reply


def retrieved(
    *ids: str,
    texts: Sequence[str] | None = None,
    with_ids: bool = True,
    metadata: Sequence[Mapping[str, Any]] | None = None,
    seconds: float | None = None,
) -> Outcome[RetrievalResult[Any]]:
    if texts is None:
        texts = [f"text of {id}" for id in ids]
    context_ids = list(ids) if with_ids else None
    result: RetrievalResult[Any] = RetrievalResult(
        list(texts), context_ids=context_ids, context_metadata=metadata
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
    """A case with what its dataset says of it, and what the RAG retrieved and answered."""
    spans = [Evidence(text=text) for text in evidence]
    case = Case(
        id="case",
        query="query",
        reference=references[0] if references else None,
        alternative_references=tuple(references[1:]),
        reference_contexts=None if gold_texts is None else tuple(gold_texts),
        reference_context_ids=None if gold is None else tuple(gold),
        grades=grades,
        evidence=tuple(spans),
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


def cell(metric: str, trace: Trace, *, matching: Matching = Matching.AUTO) -> Cell:
    rows = cells(metric, trace, matching=matching)
    return rows[0][0]


def value(metric: str, trace: Trace, *, matching: Matching = Matching.AUTO) -> float:
    measured = cell(metric, trace, matching=matching)
    assert measured.value is not None, measured
    return measured.value


Say = Callable[[str, Mapping[str, Any], int], Any]
"""What the judge says to a prompt, given the schema and the repetition: JSON, or an exception."""


def instances(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
    return instance_of(schema)


@dataclass
class Judge:
    """A panel that asks no network."""

    say: Say = instances
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Prompts with their repetition."""
    embedded: list[list[str]] = field(default_factory=list)

    @property
    def jurors(self) -> Sequence[tuple[str, Judge]]:
        return ()

    @property
    def chat(self) -> Judge:
        return self

    @property
    def embeddings(self) -> Judge:
        return self

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any],
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        prompt = messages[-1].content
        self.asked.append((prompt, repeat))
        answer = self.say(prompt, schema.definition, repeat)
        if isinstance(answer, Exception):
            raise answer
        text = json.dumps(answer)
        # Raises LLMReplyError, as the client in the end.
        return replace(reply("", text, "m"), value=read_structure(text, schema), cached=False)

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> tuple[Vector, ...]:
        self.embedded.append(list(texts))
        return tuple((float(len(text)), 1.0) for text in texts)


def judged(metric: str, trace: Trace, judge: Judge, *, repeats: int = 1) -> JudgedCell:
    plan = JudgePlan(parse_metrics([metric]), repeats=repeats)
    return asyncio.run(plan.judge(plan.metrics[0], trace, cast("ModelClients", judge)))


def statements(texts: Sequence[str], verdicts: Sequence[int]) -> Say:
    """A judge that finds these statements in an answer, then gives each a verdict.

    With fewer verdicts than statements, the judge forgets the last ones.
    """

    def say(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
        if schema["title"] in ("StatementGeneratorOutput", "ClaimDecompositionOutput"):
            name = next(iter(schema["properties"]))
            return {name: list(texts)}
        rows: list[dict[str, Any]] = []
        for text, verdict in zip(texts, verdicts, strict=False):
            rows.append({"statement": text, "reason": "because", "verdict": verdict})
        return {"statements": rows}

    return say
