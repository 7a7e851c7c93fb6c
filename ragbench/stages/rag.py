"""The stages that ask a RAG or its parts: retrieve, locate, post_retrieve and generate.

Each is a `CallStage`: what a case gives it to work on, and the call that is made for a batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

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
from ragbench.stages.stage import (
    LOCATE,
    NO_CONTEXTS,
    NO_RETRIEVAL,
    outcome_passed_on,
    skipped_outcome,
)

ChunksInput = tuple[str, RetrievalResult[Any], Said]
"""A query, what was retrieved for it, and what was said before, where the stage is to know."""


def post_retrieve_stage(
    stage: PostRetrieval, identity: bytes
) -> CallStage[ChunksInput, RetrievalResult[Any]]:
    """The stage of a run that takes each case's chunks through the post-retrieval operators.

    A result in which an operator failed counts as incomplete: a later run tries it again.
    """
    return CallStage(
        # Without the conversation: operators see the query alone.
        name=POST_RETRIEVE,
        identity=identity,
        reads=reads_chunks(),
        call=lambda inputs: [post_retrieved(stage, query, result) for query, result, _ in inputs],
        is_incomplete=lambda body: _holds_failures(body, _any_step_failed),
        # Operators that wait for a service, such as a model that rewrites queries.
        bears_calls=stage.bears_calls,
    )


def reads_chunks(
    *, in_conversation: bool = False
) -> Callable[[RunCase], Given[ChunksInput] | StageOutcome]:
    """Makes the function that reads, of a case, the query and the chunks that a stage works on.

    Args:
        in_conversation: the stage reads the messages before the query, too, and needs texts.
    """
    return partial(_chunks_input, in_conversation=in_conversation)


def _chunks_input(row: RunCase, *, in_conversation: bool) -> Given[ChunksInput] | StageOutcome:
    """The query of a case with its chunks, for a stage that works on chunks; with their digest.

    A case without chunks gets an outcome at once, and no call. Stored outcomes are kept under the
    digest: with another form of it, none of them is used again.

    Args:
        in_conversation: whether the stage reads the messages before the query, and needs texts.
    """
    # Written by post-retrieval where the run has that stage; else as retrieved.
    before = row.settled.get(POST_RETRIEVE, row.settled["retrieve"])
    if before.outcome.value is None:
        return outcome_passed_on(before)
    if in_conversation and before.outcome.value.is_ids_alone:
        return skipped_outcome(IDS_ALONE)  # a validator would read blank texts
    said: Said = ()
    # Of all that the stage is given: what it gave for the same is used again.
    digest = before.digest + row.case.query.encode()
    if in_conversation and row.case.history:
        said = row.case.messages
        digest = b"%b %b" % (digest, orjson.dumps(said))
    return Given((row.case.query, before.outcome.value, said), digest)


def contexts_for_generation(result: RetrievalResult[Any]) -> Sequence[str]:
    """The texts that generation is given: the chunks, or the one text that an operator wrote.

    Both the system and the metrics of answers read these texts, so that an answer is judged by what
    generation could see.
    """
    written = None
    # A text that an operator wrote is noted in the metadata.
    if result.metadata is not None:
        written = written_text(result)
    if written is None:
        return result.contexts
    return [written]


def _any_step_failed(result: RetrievalResult[Any]) -> bool:
    """Whether an operator failed in a post-retrieval result, and the others went on without it.

    A stored result of this kind counts as failed, and the stage is asked again on request.
    """
    return any(step.failures for step in steps_of(result))


def _pre_retrieval_failed(result: RetrievalResult[Any]) -> bool:
    """Whether an operator before the search failed, so that the retrieval went on without it.

    A stored result of this kind counts as failed, and the stage is asked again on request.
    """
    from ragbench.core.search_query import pre_retrieved

    return bool(pre_retrieved(result).failures)


def _holds_failures(body: bytes, has_failed: Callable[[RetrievalResult[Any]], bool]) -> bool:
    """Whether a stored result holds failures of operators that the rest went on without.

    Where the user has failures tried again, such a result is asked for anew: it may find more then.

    Args:
        has_failed: whether a result's metadata hold such failures.
    """
    # Most results hold none, and parsing each would take longer than all the rest.
    if b'"failures"' not in body:
        return False
    metadata = orjson.loads(body).get("metadata")
    return has_failed(RetrievalResult([], metadata=metadata))


RAG = RAGInterface[Any] | AsyncRAGInterface[Any]
RetrieveInput = tuple[str, list[dict[str, str]]]
"""A query, and the messages before it; none where the RAG takes no history."""
GenerateInput = tuple[str, Sequence[str], list[dict[str, str]]]
"""A query, the contexts to answer from, and the messages before it as in `RetrieveInput`."""


def retrieve_stage(
    rag: RAG, identity: bytes, top_k: int | None
) -> CallStage[RetrieveInput, RetrievalResult[Any]]:
    """The stage that asks a RAG for the chunks of each query.

    Args:
        identity: a digest of the system: stored outcomes are found under it.
        top_k: how many chunks are asked for; None leaves it to the RAG.
    """
    # The class may take histories in generation alone, so its retrieval method is asked as well.
    takes_messages = bool(rag.histories) and takes_history(rag, RETRIEVAL.rich_batch.name)
    arguments = partial(_retrieve_arguments, takes_messages=takes_messages)
    calls = _batch_calls(rag, RETRIEVAL, arguments, to_retrieval_result, top_k)
    return CallStage(
        name="retrieve",
        identity=identity,
        reads=partial(_retrieve_input, takes_messages=takes_messages),
        is_incomplete=lambda body: _holds_failures(body, _pre_retrieval_failed),
        call=calls.call,
        call_async=calls.call_async,
        takes_batches=calls.takes_batches,
        asks_system=True,
    )


def _retrieve_input(row: RunCase, *, takes_messages: bool) -> Given[RetrieveInput]:
    """The query of a case, with the messages before it where the RAG's retrieval takes them.

    Stored retrievals are kept under the digest: with another form of it, all are asked for again.
    """
    query = row.case.query
    digest = query.encode()
    if not takes_messages:
        return Given((query, []), digest)
    # In the form of chat messages, oldest first.
    messages = row.case.messages
    if messages:
        # The query's length stands before it, since any text may follow.
        digest = b"%d %b %b" % (len(digest), digest, orjson.dumps(messages))
    return Given((query, messages), digest)


def _retrieve_arguments(inputs: Sequence[RetrieveInput], *, takes_messages: bool) -> _Arguments:
    """The inputs of a batch of retrievals as the lists that a RAG's batch method takes.

    One list of queries, and one of messages if the RAG takes a history.
    """
    queries = [query for query, _ in inputs]
    messages: list[list[dict[str, str]]] | None = None
    if takes_messages:
        messages = [said for _, said in inputs]
    return _Arguments([queries], messages)


def generate_stage(rag: RAG, identity: bytes) -> CallStage[GenerateInput, GenerationResult[Any]]:
    """The stage that asks a RAG for the answer to each query with its contexts.

    Args:
        identity: a digest of the system: stored outcomes are found under it.
    """
    takes_messages = bool(rag.histories) and takes_history(rag, GENERATION.rich_batch.name)
    arguments = partial(_generate_arguments, takes_messages=takes_messages)
    calls = _batch_calls(rag, GENERATION, arguments, to_generation_result)
    return CallStage(
        name="generate",
        identity=identity,
        reads=lambda row: _generate_input(rag, row, takes_messages=takes_messages),
        status=lambda result: Status.ABSTAINED if abstained(result) else Status.MEASURED,
        call=calls.call,
        call_async=calls.call_async,
        takes_batches=calls.takes_batches,
        asks_system=True,
    )


def _generate_arguments(inputs: Sequence[GenerateInput], *, takes_messages: bool) -> _Arguments:
    """The inputs of a batch of generations as the lists that a RAG's batch method takes.

    One list of queries, one of contexts, and one of messages if the RAG takes a history.
    """
    queries = [query for query, _, _ in inputs]
    # Lists of their own: a RAG that sorts or cuts what it is given must not change what is scored.
    contexts = [list(texts) for _, texts, _ in inputs]
    messages: list[list[dict[str, str]]] | None = None
    if takes_messages:
        messages = [said for _, _, said in inputs]
    return _Arguments([queries, contexts], messages)


class _Arguments(NamedTuple):
    """What a batch method of a RAG is called with."""

    columns: Sequence[Sequence[Any]]
    """A list each of its arguments, with an item to each query."""
    messages: Sequence[Any] | None
    """What was said before each query; None where the RAG takes no history."""


class _BatchCalls(NamedTuple):
    """What calls a batch method: a function or a coroutine function, as the RAG's methods are."""

    call: Callable[[Sequence[Any]], Sequence[Any]] | None
    """None for a RAG whose methods are coroutines."""
    call_async: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]] | None
    """None for a RAG of plain methods."""
    takes_batches: bool
    """Whether the RAG works on a batch as a whole; else its queries are asked one by one."""


def _batch_calls(
    rag: RAG,
    family: Family,
    arguments: Callable[[Sequence[Any]], _Arguments],
    check_result: Callable[[object, str], Any],
    top_k: int | None = None,
) -> _BatchCalls:
    """The functions with which a stage asks a RAG for a batch and has the results checked.

    A RAG that has no batch method of its own gets one that is derived from its other methods.

    Args:
        arguments: makes, of a batch of inputs, the arguments that the method is called with.
        check_result: gives a result in its usual form, or raises an `InterfaceError`; its second
            argument is the method's name for the message.
        top_k: how many chunks are asked for; None leaves it to the RAG.
    """
    name = family.rich_batch.name
    # For the message of an error: class and method, such as "MyRAG.batch_retrieve_with_metadata".
    where = f"{type(rag).__name__}.{name}"
    is_async = isinstance(rag, AsyncRAGInterface)
    # A derived method checks each result itself, with the name of the user's own method.
    is_own = name in rag.implemented
    ask: Callable[..., Any]
    if is_own:
        ask = own_method(rag, name, top_k)
    else:
        derive: Callable[..., Any] = derived_async if is_async else derived
        ask = partial(derive, rag, name, top_k=top_k)
    method = _BatchMethod(ask, where, is_own, arguments, check_result)
    return _BatchCalls(
        call=None if is_async else method.call,
        call_async=method.call_async if is_async else None,
        # The user's class lists which of its methods take a batch as a whole.
        takes_batches=name in rag.batched,
    )


class _BatchMethod(NamedTuple):
    """A batch method of a RAG, with what is needed to ask it and to check its results."""

    ask: Callable[..., Any]
    """Takes the columns of `_Arguments`, and as `said` the messages before each query; a coroutine
    function where the RAG's methods are."""
    where: str
    """The method's name, for the message of an error."""
    is_own: bool
    """Whether the user's class has the method; else it is derived from others, which check."""
    arguments: Callable[[Sequence[Any]], _Arguments]
    check_result: Callable[[object, str], Any]
    """Gives a result in its usual form, or raises an `InterfaceError`."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Asks a RAG of plain methods for a batch, and returns one checked result a query.

        Where only some queries failed, the error carries the checked results of the others.
        """
        columns, messages = self.arguments(inputs)
        try:
            answer = self.ask(*columns, said=messages)
        except PartialBatchError as error:
            raise _with_checked_results(error, self.check_result) from error
        return self._checked_results(answer, len(inputs))

    async def call_async(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Asks a RAG of coroutine methods for a batch, and returns one checked result a query.

        Where only some queries failed, the error carries the checked results of the others.
        """
        columns, messages = self.arguments(inputs)
        try:
            answer = await self.ask(*columns, said=messages)
        except PartialBatchError as error:
            raise _with_checked_results(error, self.check_result) from error
        return self._checked_results(answer, len(inputs))

    def _checked_results(self, answer: Any, size: int) -> Sequence[Any]:
        """The results that a RAG's batch method returned, checked to be one a query.

        A user's method may return anything: a wrong form is an error with the method's name.
        """
        if not self.is_own:
            return cast("Sequence[Any]", answer)  # a derived method has checked each result
        results = to_batch(answer, size, self.where)
        return [self.check_result(result, self.where) for result in results]


def _with_checked_results(
    error: PartialBatchError, check_result: Callable[[object, str], Any]
) -> PartialBatchError:
    """The error of a batch of which some queries failed, with the other queries' results checked.

    Those results are kept, as no query is asked twice, so they must have the usual form like any
    others. A result that has not becomes the failure of its query alone.
    """
    outcomes: list[object] = []
    for outcome in error.outcomes:
        # A query that failed keeps its own error; only results are checked.
        if isinstance(outcome, Exception):
            outcomes.append(outcome)
            continue
        try:
            outcomes.append(check_result(outcome, error.where))
        except InterfaceError as refusal:
            outcomes.append(refusal)
    return PartialBatchError(outcomes, error.where)


def _generate_input(
    rag: RAG, row: RunCase, *, takes_messages: bool
) -> Given[GenerateInput] | StageOutcome:
    """The query, contexts and earlier messages of a case for generation, with their digest.

    A case with nothing to answer from gets an outcome at once, with the reason. Stored answers are
    kept under the digest: with another form of it, all are asked for again.
    """
    query = row.case.query
    retrieved = row.settled["retrieve"]
    before = row.settled.get("post_retrieve", retrieved)
    result = before.outcome.value
    messages: list[dict[str, str]] = []
    if rag.histories and row.case.history:
        # The messages go along also where the method does not take them: `restore` finds an answer
        # by them.
        messages = row.case.messages
    contexts: Sequence[str]
    # Read from the reason: such a retrieval is skipped on purpose, and has not failed.
    if before.outcome.reason == NO_RETRIEVAL:  # the RAG only generates
        contexts = row.case.reference_contexts or ()
        digests = b"".join(map(text_digest, contexts))
    elif before.outcome.reason == NO_CONTEXTS:  # it answered in the call that was to retrieve
        contexts = ()
        digests = b""
    elif result is None:
        return outcome_passed_on(before)
    elif before.outcome.known is Known.RECORDED and result.is_ids_alone:
        # Only of a recorded retrieval: a RAG that gives ids alone answers from its own store.
        return skipped_outcome(IDS_ALONE)  # there is nothing to answer from
    else:
        # A RAG that answers in one call gets its answer back out of the stored retrieval.
        if retrieved.outcome.value is not None and isinstance(rag, AdaptedRAG):
            rag.restore(query, retrieved.outcome.value, messages)
        contexts = result.contexts
        digests = before.texts
        # Generation is given other texts than the chunks only where an operator wrote a text.
        if "post_retrieve" in row.settled:
            shown = contexts_for_generation(result)
            if shown is not contexts:
                contexts = shown
                digests = text_digest(shown[0])
    # The query's length stands before it, since any text may follow.
    encoded = query.encode()
    digest = b"%d %b" % (len(encoded), encoded) + digests
    # Only what the method is given may change its answer.
    if messages and takes_messages:
        digest = b"%b %b" % (digest, orjson.dumps(messages))
    return Given((query, contexts, messages), digest)


def chunk_service(rag: RAG) -> ChunkSearch | None:
    """The search of a RAG, for operators that look for further chunks.

    None for a RAG whose methods are coroutines, or that does not retrieve: operators are plain
    calls.
    """
    if not isinstance(rag, RAGInterface) or "retrieval" not in rag.families:
        return None
    name = type(rag).__name__
    # Not part of the interface: a RAG may offer the chunks around one as a method of this name.
    neighbours: Any = getattr(rag, "neighbours", None)
    if neighbours is None:
        return _RagSearch(name=name, rag=rag)
    return _SearchAndNeighbours(name=name, rag=rag, neighbours=neighbours)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RagSearch:
    """Lets operators search with a RAG's own retrieval."""

    name: str
    rag: RAGInterface[Any] = field(repr=False, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """The best ``top_k`` chunks for a query by the RAG's own retrieval.

        Cut here to that number, as a RAG may return more than it is asked for.
        """
        answer = self.rag.retrieve_with_metadata(query, top_k)
        where = f"{self.name}.retrieve_with_metadata"
        return to_retrieval_result(answer, where).to_chunks()[:top_k]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchAndNeighbours(_RagSearch):
    """Lets operators search with a RAG's own retrieval, and ask it for the chunks around one."""

    neighbours: Callable[[str, int], Sequence[Chunk]] = field(
        repr=False, metadata={"setting": False}
    )


LocateInput = tuple[Case, RetrievalResult[Any]]
"""A case with gold, and what was retrieved for it."""


class Locator(Protocol):
    """Says where the gold of a case is that retrieval has missed."""

    def has_gold(self, case: Case) -> bool:
        """Whether a case has gold to search for: contexts that its retrieval should return.

        The stage `locate` skips any other case.
        """
        ...

    def located(
        self, inputs: Sequence[LocateInput], top_k: int | None = None
    ) -> Sequence[GoldSearch]:
        """For each case and its retrieval, where the case's gold is and why retrieval missed it.

        Answers come in the order of the cases, one each.

        Args:
            top_k: how many chunks the run's retrieval asks for; None for the system's own number.
        """
        ...


def locate_stage(
    locator: Locator, identity: bytes, top_k: int | None
) -> CallStage[LocateInput, GoldSearch]:
    """The stage that looks for the gold that retrieval missed, so that a report names the reason.

    Reasons are, for example, an index that lost the gold, a filter, or a rank below the cut.
    """
    return CallStage(
        name=LOCATE,
        identity=identity,
        reads=partial(_locate_input, locator),
        call=lambda inputs: locator.located(inputs, top_k),
        takes_batches=True,
    )


def _locate_input(locator: Locator, row: RunCase) -> Given[LocateInput] | StageOutcome:
    """The case with its retrieved chunks, to see which gold is missing and why.

    An outcome instead, and no search, for a case without chunks or without gold.
    """
    retrieved = row.settled["retrieve"]
    if retrieved.outcome.value is None:
        return outcome_passed_on(retrieved)
    if not locator.has_gold(row.case):
        return skipped_outcome("no relevant context is known")
    # The case's digest holds its gold: with other gold the search is another.
    return Given((row.case, retrieved.outcome.value), row.digest + retrieved.digest)
