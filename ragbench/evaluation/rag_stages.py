"""The two stages that a RAG brings: retrieve and generate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragbench.interface.base import AsyncRAGInterface, RAGInterface
from ragbench.interface.coerce import to_batch, to_generation_result, to_retrieval_result
from ragbench.interface.forms import GENERATION, RETRIEVAL, Family, routes
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cells import Status
from ragbench.runs.codec import (
    decode_generation,
    decode_retrieval,
    encode_generation,
    encode_retrieval,
)
from ragbench.scoring.abstention import abstained
from ragbench.evaluation.stage import Stage

__all__ = ["RAG", "GenerateInput", "generate_stage", "retrieve_stage"]

RAG = RAGInterface[Any] | AsyncRAGInterface[Any]
GenerateInput = tuple[str, list[str]]
"""A query and its contexts."""


def retrieve_stage(
    rag: RAG, identity: bytes, top_k: int | None
) -> Stage[str, RetrievalResult[Any]]:
    """The stage that calls ``batch_retrieve_with_metadata``.

    Args:
        rag: the system.
        identity: fingerprint of its retrieval, ``top_k`` included.
        top_k: handed to the RAG when given.
    """
    tail = () if top_k is None else (top_k,)
    where = f"{type(rag).__name__}.{RETRIEVAL.rich_batch.name}"

    def check(values: object, size: int) -> Sequence[RetrievalResult[Any]]:
        return [to_retrieval_result(value, where) for value in to_batch(values, size, where)]

    call, call_async = None, None
    if isinstance(rag, AsyncRAGInterface):
        coroutine = rag.batch_retrieve_with_metadata

        async def call_async(queries: Sequence[str]) -> Sequence[RetrievalResult[Any]]:
            return check(await coroutine(list(queries), *tail), len(queries))
    else:
        plain = rag.batch_retrieve_with_metadata

        def call(queries: Sequence[str]) -> Sequence[RetrievalResult[Any]]:
            return check(plain(list(queries), *tail), len(queries))

    return Stage(
        name="retrieve",
        identity=identity,
        call=call,
        call_async=call_async,
        takes_batches=_takes_batches(rag, RETRIEVAL),
        texts=lambda result: result.contexts,
        encode=encode_retrieval,
        decode=decode_retrieval,
        status=lambda _: Status.MEASURED,
    )


def generate_stage(rag: RAG, identity: bytes) -> Stage[GenerateInput, GenerationResult[Any]]:
    """The stage that calls ``batch_generate_with_metadata``.

    Args:
        rag: the system.
        identity: fingerprint of its generation.
    """
    where = f"{type(rag).__name__}.{GENERATION.rich_batch.name}"

    def check(values: object, size: int) -> Sequence[GenerationResult[Any]]:
        return [to_generation_result(value, where) for value in to_batch(values, size, where)]

    call, call_async = None, None
    if isinstance(rag, AsyncRAGInterface):
        coroutine = rag.batch_generate_with_metadata

        async def call_async(inputs: Sequence[GenerateInput]) -> Sequence[GenerationResult[Any]]:
            queries, contexts = _columns(inputs)
            return check(await coroutine(queries, contexts), len(inputs))
    else:
        plain = rag.batch_generate_with_metadata

        def call(inputs: Sequence[GenerateInput]) -> Sequence[GenerationResult[Any]]:
            queries, contexts = _columns(inputs)
            return check(plain(queries, contexts), len(inputs))

    return Stage(
        name="generate",
        identity=identity,
        call=call,
        call_async=call_async,
        takes_batches=_takes_batches(rag, GENERATION),
        texts=lambda _: (),
        encode=encode_generation,
        decode=lambda _, body: decode_generation(body),
        status=lambda result: Status.ABSTAINED if abstained(result) else Status.MEASURED,
    )


def _columns(inputs: Sequence[GenerateInput]) -> tuple[list[str], list[list[str]]]:
    return [query for query, _ in inputs], [contexts for _, contexts in inputs]


def _takes_batches(rag: RAG, family: Family) -> bool:
    """Whether a batch becomes one call of a method that the user wrote."""
    name = family.rich_batch.name
    if name in rag.implemented:
        return True
    source = routes(family, rag.implemented).get(name)
    return source is not None and source.batch
