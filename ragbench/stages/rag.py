"""Retrieve, generate, post_retrieve as stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

import orjson

from ragbench.core.biography import POST_RETRIEVE, steps_of, written_text
from ragbench.core.case import Case, Said
from ragbench.core.chunk import Chunk
from ragbench.core.matched import GoldSearch
from ragbench.core.outcome import Known, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.errors import InterfaceError
from ragbench.ledger.fingerprint import text_digest
from ragbench.metrics.answer import abstained
from ragbench.metrics.matching import IDS_ALONE
from ragbench.post.operator import ChunkSearch
from ragbench.post.stage import PostRetrieval, post_retrieved
from ragbench.rag.fallback import (
    PartialBatchError,
    derived,
    derived_async,
    own_method,
    takes_history,
    to_batch,
    to_generation_result,
    to_retrieval_result,
)
from ragbench.rag.forms import GENERATION, RETRIEVAL, Family
from ragbench.rag.interface import AsyncRAGInterface, RAGInterface
from ragbench.rag.parts import AdaptedRAG
from ragbench.stages.call_stage import CallStage, Given
from ragbench.stages.stage import LOCATE, NO_CONTEXTS, NO_RETRIEVAL, passed_on, skipped

ChunksInput = tuple[str, RetrievalResult[Any], Said]
"""A query, what was retrieved for it, and what was said before, where the stage is to know."""


def post_retrieve_stage(
    stage: PostRetrieval, identity: bytes
) -> CallStage[ChunksInput, RetrievalResult[Any]]:
    """The stage that takes a case's chunks through the operators."""
    return CallStage(
        name=POST_RETRIEVE,
        identity=identity,
        reads=reads_chunks(),
        call=lambda inputs: [post_retrieved(stage, query, result) for query, result, _ in inputs],
        is_incomplete=lambda body: _recovered(
            body, lambda found: any(step.failures for step in steps_of(found))
        ),
    )


def reads_chunks(
    *, in_conversation: bool = False
) -> Callable[[RunCase], Given[ChunksInput] | StageOutcome]:
    """What a stage is given that works on a query and the chunks that there are so far."""

    def reads(row: RunCase) -> Given[ChunksInput] | StageOutcome:
        before = row.settled.get(POST_RETRIEVE, row.settled["retrieve"])
        if before.outcome.value is None:
            return passed_on(before)
        if in_conversation and before.outcome.value.is_ids_alone:
            return skipped(IDS_ALONE)  # a validator would read blank texts
        said: Said = ()
        digest = before.digest + row.case.query.encode()
        if in_conversation and row.case.history:
            said = row.case.messages
            digest = b"%b %b" % (digest, orjson.dumps(said))
        return Given((row.case.query, before.outcome.value, said), digest)

    return reads


def contexts_for_generation(result: RetrievalResult[Any]) -> Sequence[str]:
    written = written_text(result) if result.metadata else None
    return result.contexts if written is None else [written]


def _pre_retrieval_failures(found: RetrievalResult[Any]) -> object:
    from ragbench.core.search_query import pre_retrieved

    return pre_retrieved(found).failures


def _recovered(body: bytes, failures: Callable[[RetrievalResult[Any]], object]) -> bool:
    """Whether a stored result holds failures that were passed over: another try may find more."""
    if b'"failures"' not in body:
        return False
    metadata = orjson.loads(body).get("metadata")
    return bool(failures(RetrievalResult([], metadata=metadata)))


RAG = RAGInterface[Any] | AsyncRAGInterface[Any]
RetrieveInput = tuple[str, list[dict[str, str]]]
"""A query, and what was said before it, where the RAG is to know."""
GenerateInput = tuple[str, Sequence[str], list[dict[str, str]]]
"""The same with the contexts."""


def retrieve_stage(
    rag: RAG, identity: bytes, top_k: int | None
) -> CallStage[RetrieveInput, RetrievalResult[Any]]:
    is_told = bool(rag.histories) and takes_history(rag, RETRIEVAL.rich_batch.name)
    return CallStage(
        name="retrieve",
        identity=identity,
        reads=lambda row: (
            _in_conversation(row.case)
            if is_told
            else Given((row.case.query, []), row.case.query.encode())
        ),
        is_incomplete=lambda body: _recovered(body, _pre_retrieval_failures),
        **_calls(
            rag,
            RETRIEVAL,
            lambda given: (
                [[query for query, _ in given]],
                [said for _, said in given] if is_told else None,
            ),
            to_retrieval_result,
            top_k,
        ),
    )


def _in_conversation(case: Case) -> Given[RetrieveInput]:
    said, query = case.messages, case.query.encode()
    digest = b"%d %b %b" % (len(query), query, orjson.dumps(said)) if said else query
    return Given((case.query, said), digest)


def generate_stage(rag: RAG, identity: bytes) -> CallStage[GenerateInput, GenerationResult[Any]]:
    is_told = bool(rag.histories) and takes_history(rag, GENERATION.rich_batch.name)
    return CallStage(
        name="generate",
        identity=identity,
        reads=lambda row: _given(rag, row, is_told=is_told),
        status=lambda result: Status.ABSTAINED if abstained(result) else Status.MEASURED,
        **_calls(
            rag,
            GENERATION,
            # Lists of their own: a RAG that sorts or cuts what it is given must not change what
            # is scored.
            lambda given: (
                ([query for query, _, _ in given], [[*contexts] for _, contexts, _ in given]),
                [said for _, _, said in given] if is_told else None,
            ),
            to_generation_result,
        ),
    )


def _calls(
    rag: RAG,
    family: Family,
    columns_of: Callable[[Sequence[Any]], tuple[Sequence[Sequence[Any]], Sequence[Any] | None]],
    checked: Callable[[object, str], Any],
    top_k: int | None = None,
) -> dict[str, Any]:
    """What calls a batch method and checks what it gives: plain, or as a coroutine function.

    Args:
        columns_of: the method's arguments, and what was said before each query.
    """
    name, is_async = family.rich_batch.name, isinstance(rag, AsyncRAGInterface)
    where, is_own = f"{type(rag).__name__}.{name}", name in rag.implemented
    derive = cast("Callable[..., Any]", derived_async if is_async else derived)
    ask = own_method(rag, name, top_k) if is_own else partial(derive, rag, name, top_k=top_k)

    def every(found: object, size: int) -> Sequence[Any]:
        return [checked(one, where) for one in to_batch(found, size, where)]

    def call(inputs: Sequence[Any]) -> Sequence[Any]:
        columns, said = columns_of(inputs)
        try:
            found = ask(*columns, said=said)
        except PartialBatchError as error:
            raise _checked(error, checked) from error
        # What is derived is checked already.
        return every(found, len(inputs)) if is_own else found

    async def call_async(inputs: Sequence[Any]) -> Sequence[Any]:
        columns, said = columns_of(inputs)
        try:
            found = await ask(*columns, said=said)
        except PartialBatchError as error:
            raise _checked(error, checked) from error
        return every(found, len(inputs)) if is_own else found

    return {
        "call": None if is_async else call,
        "call_async": call_async if is_async else None,
        "takes_batches": name in rag.batched,
    }


def _checked(error: PartialBatchError, checked: Callable[[object, str], Any]) -> PartialBatchError:
    """The results of a batch of which some queries failed, checked as those of any other."""
    outcomes: list[object] = []
    for one in error.outcomes:
        try:
            outcomes.append(one if isinstance(one, Exception) else checked(one, error.where))
        except InterfaceError as refused:
            outcomes.append(refused)
    return PartialBatchError(outcomes, error.where)


def _given(rag: RAG, row: RunCase, *, is_told: bool) -> Given[GenerateInput] | StageOutcome:
    query, first = row.case.query, row.settled["retrieve"]
    before = row.settled.get("post_retrieve", first)
    said = row.case.messages if rag.histories and row.case.history else []
    contexts: Sequence[str]
    if before.outcome.reason == NO_RETRIEVAL:  # the RAG only generates
        contexts = row.case.reference_contexts or ()
        digests = b"".join(map(text_digest, contexts))
    elif before.outcome.reason == NO_CONTEXTS:  # it answered in the call that was to retrieve
        contexts, digests = (), b""
    elif before.outcome.value is None:
        return passed_on(before)
    elif before.outcome.known is Known.RECORDED and before.outcome.value.is_ids_alone:
        return skipped(IDS_ALONE)  # there is nothing to answer from
    else:
        # A RAG that answers in one call gets its answer back out of the stored retrieval.
        if first.outcome.value is not None and isinstance(rag, AdaptedRAG):
            rag.restore(query, first.outcome.value, said)
        contexts, digests = before.outcome.value.contexts, before.texts
        if "post_retrieve" in row.settled:
            shown = contexts_for_generation(before.outcome.value)
            if shown is not contexts:
                contexts, digests = shown, text_digest(shown[0])
    # Where the query ends must be known: any text may follow.
    asked = query.encode()
    digest = b"%d %b" % (len(asked), asked) + digests
    if said and is_told:
        digest = b"%b %b" % (digest, orjson.dumps(said))
    return Given((query, contexts, said), digest)


def chunk_service(rag: RAG) -> ChunkSearch | None:
    """What operators may ask of a RAG.

    None for a RAG whose methods are coroutines, or that does not retrieve.
    """
    if not isinstance(rag, RAGInterface) or "retrieval" not in rag.families:
        return None
    name = type(rag).__name__
    asked: Any = getattr(rag, "neighbours", None)
    if asked is None:
        return _RagSearch(name=name, rag=rag)
    return _SearchAndNeighbours(name=name, rag=rag, neighbours=asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RagSearch:
    name: str
    rag: RAGInterface[Any] = field(repr=False, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        given = self.rag.retrieve_with_metadata(query, top_k)
        where = f"{self.name}.retrieve_with_metadata"
        return to_retrieval_result(given, where).to_chunks()[:top_k]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchAndNeighbours(_RagSearch):
    neighbours: Callable[[str, int], Sequence[Chunk]] = field(
        repr=False, metadata={"setting": False}
    )


LocateInput = tuple[Case, RetrievalResult[Any]]
"""A case with gold, and what was retrieved for it."""


class Locator(Protocol):
    """Says where the gold of a case is that retrieval has missed."""

    def has_gold(self, case: Case) -> bool:
        """Whether a retrieval for the case should find anything that is known."""
        ...

    def located(
        self, inputs: Sequence[LocateInput], top_k: int | None = None
    ) -> Sequence[GoldSearch]:
        """For each case and its retrieval, where its gold is."""
        ...


def locate_stage(
    locator: Locator, identity: bytes, top_k: int | None
) -> CallStage[LocateInput, GoldSearch]:
    """The stage that looks for what retrieval has missed."""
    return CallStage(
        name=LOCATE,
        identity=identity,
        reads=partial(_reads, locator),
        call=lambda inputs: locator.located(inputs, top_k),
        takes_batches=True,
    )


def _reads(locator: Locator, row: RunCase) -> Given[LocateInput] | StageOutcome:
    retrieved = row.settled["retrieve"]
    if retrieved.outcome.value is None:
        return passed_on(retrieved)
    if not locator.has_gold(row.case):
        return skipped("no relevant context is known")
    return Given((row.case, retrieved.outcome.value), row.digest + retrieved.digest)
