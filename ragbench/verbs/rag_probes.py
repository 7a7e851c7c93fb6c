"""Faults of a RAG that make numbers wrong without an error, found by a few questions to it.

An evaluation cannot see them: results of a batch in another order, an answer that does not come
from the contexts that generation was given, a top_k that nobody heeds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.core.outcome import Failure
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.metrics.abstention import abstained
from ragbench.stages.call_stage import CallStage
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage

_OTHER = "Which of these was built first, and by whom?"
_FOREIGN = "The harbour master counted forty-one blue boats before noon."


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    name: str
    holds: bool | None
    """None where it is unknown."""
    detail: str
    """What was found, and what follows for the numbers where it does not hold."""


async def probe_retrieval(rag: RAG, question: str) -> AsyncIterator[Probe]:
    """Tries retrieval: the same twice, the same in a batch, no more than asked for. Five calls."""
    stage = retrieve_stage(rag, b"", None)
    try:
        (first,), (again,), (other,) = [
            await _asked(stage, [query]) for query in (question, question, _OTHER)
        ]
        together = await _asked(stage, [question, _OTHER])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("retrieval again", error, stage)
        return
    found = [_ranked(result) for result in (first, again, other, *together)]
    yield _repeats("retrieval", found[0] == found[1])
    yield _in_batch("retrieval", found)
    if len(first.contexts) > 1:
        yield await _heeds_top_k(rag, question)


async def probe_generation(
    rag: RAG, question: str, contexts: Sequence[str]
) -> AsyncIterator[Probe]:
    """Tries generation: the same twice, in a batch, and whether contexts are used. Five calls."""
    stage = generate_stage(rag, b"")
    foreign = [_FOREIGN] * max(1, len(contexts))
    one, two = (question, list(contexts)), (_OTHER, foreign)
    try:
        (first,), (again,), (unfounded,), (other,) = [
            await _asked(stage, [each]) for each in (one, one, (question, foreign), two)
        ]
        together = await _asked(stage, [one, two])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("generation again", error, stage)
        return
    said = [result.response for result in (first, again, other, *together)]
    yield _repeats("generation", said[0] == said[1])
    yield _in_batch("generation", said)
    yield _uses_contexts(first, unfounded)


async def _asked(stage: CallStage[Any, Any], inputs: Sequence[Any]) -> list[Any]:
    if stage.call is not None:
        return list(stage.call(inputs))
    if stage.call_async is not None:
        return list(await stage.call_async(inputs))
    return []


def _ranked(result: RetrievalResult[Any]) -> tuple[object, ...]:
    return tuple(result.contexts), result.context_ids and tuple(result.context_ids)


def _broken(name: str, error: Exception, stage: CallStage[Any, Any]) -> Probe:
    failure = Failure.of(error, stage=stage.name)
    return Probe(
        name=name, holds=False, detail=f"asked again, or for two at once, it raises: {failure}"
    )


def _repeats(what: str, same: bool) -> Probe:
    return Probe(
        name=f"{what} repeats",
        holds=same,
        detail="the same when asked twice"
        if same
        else "asked twice it gives two results: eval --rag-repeats measures how much that moves "
        "the scores",
    )


def _in_batch(what: str, results: Sequence[object]) -> Probe:
    """Two questions alone and in one batch: first, first again, second, then both together."""
    first, again, second, *together = results
    name = f"{what} in batches"
    if together == [first, second]:
        return Probe(name=name, holds=True, detail="the same alone and in a batch of two")
    if together == [second, first]:
        detail = (
            "in a batch of two each question gets the other's result: results must come in the "
            "order of the queries"
        )
        return Probe(name=name, holds=False, detail=detail)
    if first != again:
        return Probe(name=name, holds=None, detail="unknown: it varies by itself")
    detail = (
        "a question gets another result in a batch than alone: what it is asked beside changes "
        "its score, and so does --batch-size"
    )
    return Probe(name=name, holds=False, detail=detail)


async def _heeds_top_k(rag: RAG, question: str) -> Probe:
    name = "retrieval top_k"
    try:
        (found,) = await _asked(retrieve_stage(rag, b"", 1), [question])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        failure = Failure.of(error, stage="retrieve")
        return Probe(name=name, holds=None, detail=f"asked for 1 context it raises: {failure}")
    count = len(found.contexts)
    if count <= 1:
        return Probe(name=name, holds=True, detail="asked for 1 context it gives no more")
    detail = f"asked for 1 context it gives {count}: --top-k changes nothing"
    return Probe(name=name, holds=False, detail=detail)


def _uses_contexts(first: GenerationResult[Any], unfounded: GenerationResult[Any]) -> Probe:
    name = "generation reads"
    if first.response != unfounded.response:
        detail = "with other contexts it answers something else"
        return Probe(name=name, holds=True, detail=detail)
    if abstained(first):
        return Probe(name=name, holds=None, detail="unknown: it declined the question")
    detail = (
        "its answer is the same with contexts of something else: it does not come from the "
        "contexts that generation is given, so faithfulness, causes, reranking and ablate say "
        "nothing of it"
    )
    return Probe(name=name, holds=False, detail=detail)
