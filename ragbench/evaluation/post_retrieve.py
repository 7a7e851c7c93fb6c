"""The stage between a RAG's retrieval and its generation, and what the journal keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ragbench.evaluation.stage import Stage
from ragbench.interface.results import RetrievalResult
from ragbench.postretrieval.on_result import POST_RETRIEVE, post_retrieved, steps_of, written_text
from ragbench.postretrieval.operator import PostRetrieval
from ragbench.records.cells import Status
from ragbench.runs.codec import decode_retrieval, encode_retrieval
from ragbench.runs.fingerprint import fixed_digest, text_digest

__all__ = ["PostRetrieveInput", "handed_over", "post_retrieve_key", "post_retrieve_stage"]

PostRetrieveInput = tuple[str, RetrievalResult[Any]]
"""A query and what was retrieved for it."""


def post_retrieve_key(identity: bytes, retrieved: bytes, query: str) -> bytes:
    """Digest of all that post-retrieval depends on; ``retrieved`` is retrieval's digest."""
    return fixed_digest(identity, retrieved, query.encode())


def post_retrieve_stage(
    stage: PostRetrieval, identity: bytes
) -> Stage[PostRetrieveInput, RetrievalResult[Any]]:
    """The stage that takes a case's chunks through the operators.

    Args:
        stage: the operators.
        identity: fingerprint of them.
    """

    def call(inputs: Sequence[PostRetrieveInput]) -> Sequence[RetrievalResult[Any]]:
        return [post_retrieved(stage, query, result) for query, result in inputs]

    return Stage(
        name=POST_RETRIEVE,
        identity=identity,
        call=call,
        call_async=None,
        takes_batches=False,
        texts=lambda result: result.contexts,
        encode=encode_retrieval,
        decode=decode_retrieval,
        status=lambda _: Status.MEASURED,
        is_incomplete=_has_failures,
    )


def handed_over(result: RetrievalResult[Any], texts: bytes) -> tuple[Sequence[str], bytes]:
    """What generation is given of a post-retrieval result.

    Args:
        result: the stage's result.
        texts: digests of its contexts, one behind the other.

    Returns:
        The texts with their digests: what a format operator wrote, or else the contexts.
    """
    written = written_text(result)
    if written is None:
        return result.contexts, texts
    return [written], text_digest(written)


def _has_failures(body: bytes) -> bool:
    """Whether an operator failed and was passed over."""
    if b'"failures"' not in body:
        return False
    result = decode_retrieval([], orjson.dumps((None, None, None, orjson.loads(body)[3])))
    return any(step.failures for step in steps_of(result))
