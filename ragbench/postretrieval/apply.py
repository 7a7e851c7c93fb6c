"""Ordering and cutting: what is done with a reranker's scores, and what when there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragbench.engines.deadline import with_deadline
from ragbench.errors import ConfigError, InputError, LLMStoppedError
from ragbench.postretrieval.checked_scores import checked_scores
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.reranker import NotedScores, Reranker
from ragbench.records.cells import Failure
from ragbench.records.corpus import Chunk

__all__ = ["Reranked", "rerank", "rerank_batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reranked:
    """What came of one reranking."""

    chunks: tuple[RankedChunk, ...]
    """The chunks that are kept, best first, ranks from 1; the incoming order after a failure."""
    failure: Failure | None = None
    """Why the reranker gave no usable scores; None when it did."""
    notes: tuple[str, ...] = ()
    """What the reranker said about its scores."""


def rerank(
    query: Query,
    chunks: Sequence[RankedChunk],
    reranker: Reranker,
    *,
    on_error: Literal["keep", "raise"] = "keep",
    timeout: float | None = None,
    top_k: int | None = None,
) -> Reranked:
    """Orders chunks by a reranker's scores, best first, and takes the first ones.

    Equal scores keep their present order. The chunks themselves stay the same objects.

    Args:
        query: the question, with embeddings where they are known.
        chunks: in their present order; may be empty, and then the reranker is not asked.
        reranker: scores them.
        on_error: what happens when the reranker raises, gives the wrong number of scores or one
            that is not finite, or takes longer than the timeout. ``"keep"``: the chunks keep
            their order and scores, and the failure stands on the result. ``"raise"``: it is
            raised. `InputError` (a package that is not installed, a model that does not exist) is
            always raised: it would fail for every query. So is `LLMStoppedError`: no model
            answers any more, and a later run goes on.
        timeout: seconds the reranker may take; None for no limit.
        top_k: how many chunks to keep, at least 1; None for all.

    Returns:
        min(top_k, len(chunks)) chunks.

    Raises:
        ConfigError: top_k or timeout is out of its range, or on_error is neither word.
        InterfaceError: with ``on_error="raise"``, the scores are unusable.
        StageTimeoutError: with ``on_error="raise"``, the timeout is over.
    """
    _check(on_error, timeout, top_k)
    if not chunks:
        return Reranked(chunks=())
    try:
        scores = _scores(query, chunks, reranker, timeout)
    except (InputError, LLMStoppedError):
        raise
    except (Exception, SystemExit) as error:
        if on_error == "raise":
            raise
        failure = Failure.of(error, stage=f"rerank {_name(reranker)}")
        kept = [_placed(one, rank, one.score) for rank, one in enumerate(chunks[:top_k], start=1)]
        return Reranked(chunks=tuple(kept), failure=failure)
    # sorted() is stable: of equal scores, the chunk that stands first stays first.
    order = sorted(range(len(chunks)), key=lambda at: -scores[at])[:top_k]
    kept = [_placed(chunks[at], rank, scores[at]) for rank, at in enumerate(order, start=1)]
    return Reranked(chunks=tuple(kept), notes=scores.notes)


def rerank_batch(
    queries: Sequence[Query],
    chunks: Sequence[Sequence[RankedChunk]],
    reranker: Reranker,
    *,
    on_error: Literal["keep", "raise"] = "keep",
    timeout: float | None = None,
    top_k: int | None = None,
) -> list[Reranked]:
    """`rerank` for several queries, each with its own chunks, in their order.

    Raises:
        ValueError: there are not as many lists of chunks as queries.
    """
    return [
        rerank(query, given, reranker, on_error=on_error, timeout=timeout, top_k=top_k)
        for query, given in zip(queries, chunks, strict=True)
    ]


def _scores(
    query: Query, chunks: Sequence[RankedChunk], reranker: Reranker, timeout: float | None
) -> NotedScores:
    present = [_with_present_score(ranked) for ranked in chunks]

    def call(queries: Sequence[Query]) -> Sequence[NotedScores]:
        return [checked_scores(reranker, one, present) for one in queries]

    # The time allowed is for the whole list, not for each chunk of it.
    return (call if timeout is None else with_deadline(call, timeout))([query])[0]


def _with_present_score(ranked: RankedChunk) -> Chunk:
    if ranked.score == ranked.chunk.score:
        return ranked.chunk
    # A record of its own, with the same text and metadata.
    return replace(ranked.chunk, score=ranked.score)


def _placed(ranked: RankedChunk, rank: int, score: float | None) -> RankedChunk:
    # Written out: replace() takes several times as long, and this is done for every chunk.
    return RankedChunk(
        chunk=ranked.chunk,
        score=score,
        rank=rank,
        initial_score=ranked.initial_score,
        initial_rank=ranked.initial_rank,
    )


def _name(reranker: Reranker) -> str:
    return str(getattr(reranker, "name", type(reranker).__name__))


def _check(on_error: str, timeout: float | None, top_k: int | None) -> None:
    if on_error not in ("keep", "raise"):
        raise ConfigError(f"on_error must be 'keep' or 'raise', not '{on_error}'")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"the timeout of a reranker must be above 0 seconds, not {timeout:g}")
    if top_k is not None and top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {top_k}")
