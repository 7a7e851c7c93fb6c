"""The two stages that a RAG brings: retrieve and generate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import orjson

from ragbench.errors import InterfaceError
from ragbench.evaluation.stage import Stage
from ragbench.interface.base import AsyncRAGInterface, RAGInterface
from ragbench.interface.coerce import to_batch, to_generation_result, to_retrieval_result
from ragbench.interface.forms import GENERATION, RETRIEVAL, Family, routes
from ragbench.interface.partial import PartialBatchError
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.interface.top_k import pass_top_k, top_k_of_method
from ragbench.preretrieval.on_result import PRE_RETRIEVE, pre_retrieval_failures
from ragbench.records.cells import Status
from ragbench.runs.codec import (
    decode_generation,
    decode_retrieval,
    encode_generation,
    encode_retrieval,
)
from ragbench.scoring.abstention import abstained

__all__ = ["RAG", "GenerateInput", "generate_stage", "retrieve_stage"]

RAG = RAGInterface[Any] | AsyncRAGInterface[Any]
GenerateInput = tuple[str, Sequence[str]]
"""A query and its contexts."""


def retrieve_stage(
    rag: RAG, identity: bytes, top_k: int | None
) -> Stage[str, RetrievalResult[Any]]:
    """The stage that calls ``batch_retrieve_with_metadata``.

    Args:
        rag: the system.
        identity: fingerprint of its retrieval, ``top_k`` included.
        top_k: handed to the RAG when given.

    Raises:
        InterfaceError: ``top_k`` is given, and the RAG's method cannot be told.
    """
    where = f"{type(rag).__name__}.{RETRIEVAL.rich_batch.name}"
    way = top_k_of_method(type(cast("object", rag)), RETRIEVAL.rich_batch.name)
    extra, options = pass_top_k(way, top_k, where)

    def check(values: object, size: int) -> Sequence[RetrievalResult[Any]]:
        return [to_retrieval_result(value, where) for value in to_batch(values, size, where)]

    def call(queries: Sequence[str]) -> Sequence[RetrievalResult[Any]]:
        with _checked_parts(check):
            return check(
                rag.batch_retrieve_with_metadata(list(queries), *extra, **options), len(queries)
            )

    async def call_async(queries: Sequence[str]) -> Sequence[RetrievalResult[Any]]:
        with _checked_parts(check):
            values = rag.batch_retrieve_with_metadata(list(queries), *extra, **options)
            return check(await cast("Awaitable[object]", values), len(queries))

    is_async = isinstance(rag, AsyncRAGInterface)
    return Stage(
        name="retrieve",
        identity=identity,
        call=None if is_async else call,
        call_async=call_async if is_async else None,
        takes_batches=_takes_batches(rag, RETRIEVAL),
        texts=lambda result: result.contexts,
        encode=encode_retrieval,
        decode=decode_retrieval,
        status=lambda _: Status.MEASURED,
        is_incomplete=_was_made_up_for,
    )


def _was_made_up_for(body: bytes) -> bool:
    """Whether something went wrong before the retrieval, and another try may find more."""
    if PRE_RETRIEVE.encode() not in body or b'"failures"' not in body:
        return False
    result: RetrievalResult[Any] = RetrievalResult([], metadata=orjson.loads(body)[3])
    return bool(pre_retrieval_failures(result))


def generate_stage(rag: RAG, identity: bytes) -> Stage[GenerateInput, GenerationResult[Any]]:
    """The stage that calls ``batch_generate_with_metadata``.

    Args:
        rag: the system.
        identity: fingerprint of its generation.
    """
    where = f"{type(rag).__name__}.{GENERATION.rich_batch.name}"

    def check(values: object, size: int) -> Sequence[GenerationResult[Any]]:
        return [to_generation_result(value, where) for value in to_batch(values, size, where)]

    def call(inputs: Sequence[GenerateInput]) -> Sequence[GenerationResult[Any]]:
        with _checked_parts(check):
            return check(rag.batch_generate_with_metadata(*_columns(inputs)), len(inputs))

    async def call_async(inputs: Sequence[GenerateInput]) -> Sequence[GenerationResult[Any]]:
        with _checked_parts(check):
            values = rag.batch_generate_with_metadata(*_columns(inputs))
            return check(await cast("Awaitable[object]", values), len(inputs))

    is_async = isinstance(rag, AsyncRAGInterface)
    return Stage(
        name="generate",
        identity=identity,
        call=None if is_async else call,
        call_async=call_async if is_async else None,
        takes_batches=_takes_batches(rag, GENERATION),
        texts=lambda _: (),
        encode=encode_generation,
        decode=lambda _, body: decode_generation(body),
        status=lambda result: Status.ABSTAINED if abstained(result) else Status.MEASURED,
    )


def _columns(inputs: Sequence[GenerateInput]) -> tuple[list[str], list[list[str]]]:
    # Lists of their own: a RAG that sorts or cuts what it is given must not change what is scored.
    return [query for query, _ in inputs], [[*contexts] for _, contexts in inputs]


@contextmanager
def _checked_parts(check: Callable[[object, int], Sequence[Any]]) -> Generator[None]:
    """Checks the results of a batch of which some queries failed, as those of any other."""
    try:
        yield
    except PartialBatchError as error:
        outcomes: list[object] = []
        for outcome in error.outcomes:
            try:
                outcomes += [outcome] if isinstance(outcome, Exception) else check([outcome], 1)
            except InterfaceError as refused:
                outcomes.append(refused)
        raise PartialBatchError(outcomes, error.where) from error


def _takes_batches(rag: RAG, family: Family) -> bool:
    """Whether a batch becomes one call of a method that the user wrote."""
    name = family.rich_batch.name
    if name in rag.implemented:
        return True
    source = routes(rag.implemented).get(name)
    return source is not None and source.batch
