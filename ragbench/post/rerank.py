"""Rerankers: the protocol, scores checked, their order applied, and kept where they are paid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, cast, runtime_checkable

from ragbench.core.calling import with_deadline
from ragbench.core.checked import AboveZero, Checked, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Failure
from ragbench.core.record import Record, replace
from ragbench.errors import InputError, InterfaceError, LLMStoppedError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.identity import described
from ragbench.ledger.scores import ScoreStore, digest
from ragbench.plugins import is_users_interruption
from ragbench.post.operator import (
    OperatorInput,
    OperatorOutput,
    Query,
    RankedChunk,
    as_query,
    ranked,
)
from ragbench.safe_text import counted


@runtime_checkable
class Reranker(Protocol):
    """Scores chunks for a query. Ordering and cutting are not its job.

    One that compares embeddings may say so with an attribute ``needs_embeddings``: a pipeline then
    refuses it where retrieval gives none.
    """

    @property
    def name(self) -> str:
        """The reranker's name in results, notes and errors, such as ``cross_encoder``."""
        ...

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        """The reranker's score of each chunk for the query, in the order of the chunks.

        Scores are finite, and higher is better. A reranker is not called where there is no chunk.
        """
        ...


IReranker = Reranker
"""The post-retrieval specification's name for it."""


class NotedScores(tuple[float, ...]):
    """Scores with what a reader should know about them, such as that embeddings were missing."""

    notes: tuple[str, ...]
    """Sentences for the user; they end up on the result of the reranking."""

    def __new__(cls, values: Iterable[float], notes: Iterable[str] = ()) -> NotedScores:
        """Makes the tuple of a reranker's scores and hangs the notes on it.

        The work is done here and not in ``__init__``, since a tuple has its items before that runs.
        """
        scores = super().__new__(cls, values)
        scores.notes = tuple(notes)
        return scores


def shown_texts(chunks: Sequence[Chunk], limit: int | None) -> tuple[list[str], tuple[str, ...]]:
    """The first characters of each chunk's text, and a note where that cut some.

    What a reranker shows to a model is limited by price and by what the model takes.

    Args:
        limit: characters of a text; None for all of it.
    """
    # All texts, in the order of the chunks: scores are paired with chunks by place.
    texts = [chunk.text for chunk in chunks]
    if limit is None:
        return texts, ()
    shortened = [text[:limit] for text in texts]
    cut_texts = [text for text in texts if len(text) > limit]
    if not cut_texts:
        return shortened, ()
    counts = f"{len(cut_texts)} of {counted(len(chunks), 'chunk')}"
    return shortened, (f"{counts} were cut to {limit} characters",)


def checked_scores(reranker: Reranker, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
    """A reranker's scores of the chunks, checked to be one finite number for each.

    The reranker may be a user's: a wrong number of scores would move some to other chunks, unseen.

    Raises:
        InterfaceError: there are too few or too many, or one is not finite.
    """
    # The scores become floats before they are counted: a user's may be a generator, or of NumPy.
    scores = reranker.score(query, chunks)
    values = tuple(float(score) for score in scores)
    if len(values) != len(chunks):
        raise InterfaceError(
            f"reranker '{reranker.name}' gave {counted(len(values), 'score')} for "
            f"{counted(len(chunks), 'chunk')}"
        )
    for position, score in enumerate(values, start=1):
        if not math.isfinite(score):
            raise InterfaceError(
                f"reranker '{reranker.name}' gave the score {score} for chunk {position} of "
                f"{len(chunks)}; scores must be finite"
            )
    if isinstance(scores, NotedScores):
        return NotedScores(values, scores.notes)
    return NotedScores(values)


class Reranked(Record):
    """The result of one reranking."""

    chunks: tuple[RankedChunk, ...]
    """The chunks that are kept, best first, ranks from 1; the incoming order after a failure."""
    failure: Failure | None = None
    """Why the reranker gave no usable scores; None when it did."""
    notes: tuple[str, ...] = ()
    """The reranker's notes on its scores."""


def rerank(
    query: Query | str,
    chunks: Sequence[RankedChunk | Chunk],
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
        chunks: in their present order, as retrieval or an earlier step gave them; may be empty,
            and then the reranker is not asked.
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
    operator = Rerank(reranker=reranker, top_k=top_k, timeout=timeout, on_error=on_error)
    return operator.reranked(as_query(query), ranked(chunks))


def with_members(reranker: Reranker) -> Iterator[Reranker]:
    """A reranker and, of one that fuses the scores of others, those within it.

    What one of them needs, such as a model or the time, the whole needs.
    """
    yield reranker
    for member in getattr(reranker, "rerankers", None) or ():
        # A fusion may hold fusions: all levels are gone through.
        yield from with_members(member)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerank(Checked):
    """Best first by a reranker, and the first ones of that. See `ragbench.post.rerank`."""

    reranker: Reranker
    """Scores the chunks."""
    top_k: Positive | None = None
    """How many chunks to keep, at least 1; all when not given."""
    timeout: AboveZero | None = None
    """Seconds that the reranker may take; no limit when not given."""
    on_error: Literal["keep", "raise"] = "keep"
    """If the reranker fails: the chunks keep their order, or the error is raised."""

    @property
    def name(self) -> str:
        """The operator's name, with its reranker's: a stage may rerank several times.

        Reports show one row for each step under this name.
        """
        return f"rerank.{self.reranker.name}"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Reranks the chunks; a failure that left the old order is recorded with the step.

        Other results need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        result = self.reranked(context.query, context.chunks)
        failures: tuple[Failure, ...] = ()
        if result.failure is not None:
            failures = (result.failure,)
        return OperatorOutput(chunks=result.chunks, notes=result.notes, failures=failures)

    def reranked(self, query: Query, entries: Sequence[RankedChunk]) -> Reranked:
        """The chunks in the order of the reranker's scores; see `ragbench.post.rerank.rerank`.

        Equal scores keep the present order. After a failure that is kept, all do, and the failure
        is on the result.
        """
        if not entries:
            return Reranked(chunks=())
        chunks: list[Chunk] = []
        for entry in entries:
            chunk = entry.chunk
            # Rerankers read a chunk's present score, which an earlier operator may have set.
            if entry.score != chunk.score:
                chunk = replace(chunk, score=entry.score)
            chunks.append(chunk)
        failure: Failure | None = None
        notes: tuple[str, ...] = ()
        positions = list(range(len(entries)))
        try:
            scores = self._scores(query, chunks)
        except BaseException as error:  # a user's reranker may call sys.exit()
            if self.on_error == "raise" or isinstance(error, (InputError, LLMStoppedError)):
                raise
            if is_users_interruption(error):
                raise
            failure = Failure.of(error, stage=f"rerank {self.reranker.name}")
            new_scores = [entry.score for entry in entries]
        else:
            # The sort is stable: of equal scores, the chunk that stands first stays first.
            positions.sort(key=lambda position: -scores[position])
            new_scores = list(scores)
            notes = scores.notes
        reordered: list[RankedChunk] = []
        for rank, position in enumerate(positions[: self.top_k], start=1):
            reordered.append(replace(entries[position], score=new_scores[position], rank=rank))
        return Reranked(chunks=tuple(reordered), failure=failure, notes=notes)

    def _scores(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The reranker's scores of the chunks, within the timeout, which is for the whole list.

        Raises:
            StageTimeoutError: the time is over.
        """
        if self.timeout is None:
            return checked_scores(self.reranker, query, chunks)
        scores_of_each = partial(_scores_of_each, self.reranker, chunks)
        scores_in_time = with_deadline(scores_of_each, self.timeout)
        return scores_in_time([query])[0]


def _scores_of_each(
    reranker: Reranker, chunks: Sequence[Chunk], queries: Sequence[Query]
) -> Sequence[NotedScores]:
    """A reranker's scores of the same chunks for each query.

    `with_deadline` limits calls of this form, with a list of inputs; there is one query in it.
    """
    return [checked_scores(reranker, query, chunks) for query in queries]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredReranker:
    """A reranker that is asked only for scores that the store lacks.

    Where a chunk's score depends on it and the query alone (``scores_alone``), each is stored by
    itself. Else a list of chunks is one question: other chunks, or another order, are asked anew.
    """

    reranker: Reranker
    store: ScoreStore = field(compare=False, metadata={"setting": False})
    model: str = field(init=False)
    """Digest of all that its scores depend on besides query and chunk."""

    def __post_init__(self) -> None:
        """Digests the reranker's settings once, and not for every query.

        Scores are stored under this digest: with other settings they are asked for anew.
        """
        # The class is frozen: only so can a field be set here.
        object.__setattr__(self, "model", fingerprint(described(self.reranker)))

    @property
    def name(self) -> str:
        """The reranker's own name: results are the same wherever the scores came from.

        A store must not show in notes or reports.
        """
        return self.reranker.name

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The reranker's scores, of which only those that the store lacks are asked for.

        The keys are digests of texts, as the store's file has them: another form of key makes
        stored scores useless. Notes on a list are kept beside its scores: a run that asks nothing
        repeats them.
        """
        texts = [chunk.text for chunk in chunks]
        question = digest(query.text)
        whole_list = digest(*texts)
        if getattr(self.reranker, "scores_alone", False):
            keys = [digest(text) for text in texts]
        else:
            # Four bytes hold any place: no list of candidates has four thousand million.
            keys = [whole_list + place.to_bytes(4, "big") for place in range(len(texts))]
        stored_values = self.store.known(self.model, question, keys)
        # A mapping by key: for a text that is there twice, one score is asked for.
        unscored: dict[bytes, Chunk] = {}
        for key, chunk in zip(keys, chunks, strict=True):
            if key not in stored_values:
                unscored[key] = chunk
        notes_key = b"notes" + whole_list
        # `known` gives all values of the question, also those that were not asked for by key.
        notes: Sequence[str] = stored_values.get(notes_key, ())
        if unscored:
            scores = checked_scores(self.reranker, query, list(unscored.values()))
            notes = scores.notes
            new_values: dict[bytes, Any] = dict(zip(unscored, scores, strict=True))
            stored_values |= new_values
            if notes:
                new_values[notes_key] = notes
            self.store.keep(self.model, question, new_values)
        scores_in_order = [stored_values[key] for key in keys]
        return NotedScores(scores_in_order, notes)


def stored(reranker: Reranker, store: ScoreStore) -> Reranker:
    """A reranker with a store of scores before it, where it is slow or paid (``asks_elsewhere``).

    The store is put before rerankers within the reranker, too. Rerankers that are neither slow nor
    paid stay as they are: computing their scores costs less than looking them up.
    """
    # A reranker that asks elsewhere is stored as a whole, though it may have rerankers within it.
    if getattr(reranker, "asks_elsewhere", False):
        return StoredReranker(reranker=reranker, store=store)
    fusion: Any = reranker
    if "rerankers" not in getattr(fusion, "__dataclass_fields__", ()):
        return reranker
    members = [stored(member, store) for member in fusion.rerankers]
    return cast("Reranker", dataclasses.replace(fusion, rerankers=members))
