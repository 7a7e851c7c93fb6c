"""Operators that bring in more: text into chunks, and more chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from ragbench.core.chat import ChatModel
from ragbench.core.checked import AboveZero, Checked, Filled, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max, reciprocal_rank_scores
from ragbench.core.record import replace
from ragbench.errors import InterfaceError
from ragbench.llm.schema import ask_text
from ragbench.post.chunks import age_text, asked_of, known_time, made_from, rewritten, rewritten_by
from ragbench.post.operator import (
    ChunkNeighbours,
    ChunkSearch,
    OperatorInput,
    OperatorOutput,
    RankedChunk,
    in_order,
    ranked,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Context(Checked):
    """Begins each chunk with a line that names its place.

    A passage cut out of its document no longer says what it is about; a heading in front of it
    does. The line holds those of ``fields`` that the chunk's metadata knows, outermost first, such
    as ``[Leave policy > Carry-over]``. A chunk that knows none stays as it is.
    """

    name = "augment.context"

    fields: Annotated[Sequence[str], Meta(min_length=1)] = ("title", "section")
    """Metadata keys; ``document_id`` also finds the chunk's own."""
    joined_by: str = " > "
    """Text between two of them."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        def headed(entry: RankedChunk) -> str | None:
            known = {"document_id": entry.chunk.document_id, **entry.chunk.metadata}
            parts = [str(known[one]) for one in self.fields if known.get(one) not in (None, "")]
            return f"[{self.joined_by.join(parts)}]\n{entry.chunk.text}" if parts else None

        return rewritten_by(self.name, context.chunks, headed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata(Checked):
    """Ends each chunk with a line ``key: value`` for each of some metadata fields.

    A field that a chunk does not know gives no line; a chunk that knows none stays as it is.
    """

    name = "augment.metadata"

    fields: Annotated[Sequence[str], Meta(min_length=1)]
    """Metadata keys, in the order in which they are written."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        def described(entry: RankedChunk) -> str | None:
            known = entry.chunk.metadata
            lines = [f"{one}: {known[one]}" for one in self.fields if known.get(one) is not None]
            return "\n".join([entry.chunk.text, *lines]) if lines else None

        return rewritten_by(self.name, context.chunks, described)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours(Checked):
    """Widens the first chunks by the texts of their neighbours, in reading order.

    A neighbour that is known to stand earlier in the same document goes before the chunk's text,
    every other behind it. A text that already stands among the chunks is not repeated.
    """

    name = "augment.neighbours"

    service: ChunkNeighbours
    """Where the chunks came from."""
    first: Positive = 3
    """How many chunks are widened."""
    top_k: Positive = 2
    """How many neighbours to ask for at each."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        present = {entry.chunk.id for entry in context.chunks}
        widened: list[RankedChunk] = []
        for entry in context.chunks[: self.first]:
            given = newcomers(self.service.neighbours(entry.chunk.id, self.top_k))[: self.top_k]
            fresh = [found.chunk for found in given if found.chunk.id not in present]
            present.update(chunk.id for chunk in fresh)
            widened.append(self._widened(entry, fresh))
        return (*widened, *context.chunks[self.first :])

    def _widened(self, entry: RankedChunk, around: Sequence[Chunk]) -> RankedChunk:
        if not around:
            return entry
        own = entry.chunk

        def place(one: Chunk) -> tuple[int, bool, int]:
            same = one.document_id is not None and one.document_id == own.document_id
            known = one.start is not None and own.start is not None and one.start < own.start
            turn = 1 if one is own else 0 if same and known else 2
            return turn, one.document_id != own.document_id, one.start or 0

        text = "\n".join(one.text for one in sorted((own, *around), key=place))
        return rewritten(entry, text, by=self.name, more=[one.id for one in around])


REFLECTION_ID = "augment.reflection"
"""The id of the chunk that is added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflection(Checked):
    """Puts a reflection on the first chunks before all of them, as a chunk of its own."""

    name = "augment.reflection"

    chat: ChatModel
    """The language model."""
    first: Positive = 10
    """How many chunks it reads."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        read = context.chunks[: self.first]
        if not read:
            return ()
        reflection = ask_text(self.chat, asked_of("reflect", context.query.text, read))
        added = made_from(read, reflection, id=REFLECTION_ID, by=self.name)
        return (added, *context.chunks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Temporal(Checked):
    """Begins each chunk with its date and its age, such as ``[2024-05-01, 12 days old]``.

    Ages are counted from the stage's ``now`` (a run's date by default). Without one only the date
    is written. A year stays a year (``[1998, 26 years old]``), and a chunk without a time stays as
    it is.
    """

    name = "augment.temporal"

    reads_now: ClassVar[bool] = True

    field: Filled = "timestamp"
    """The metadata key of the time; see `ragbench.post.chunks.known_time`."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        now = context.query.now

        def dated(entry: RankedChunk) -> str | None:
            time = known_time(entry.chunk.metadata.get(self.field))
            age = "" if time is None or now is None else f", {age_text(time, now)}"
            return None if time is None else f"[{time.shown}{age}]\n{entry.chunk.text}"

        chunks, notes = rewritten_by(self.name, context.chunks, dated), list[str]()
        undated = sum(new is old for new, old in zip(chunks, context.chunks, strict=True))
        if undated:
            notes.append(f"{undated} of {len(chunks)} chunks have no time in '{self.field}'")
        if now is None and undated < len(chunks):
            notes.append("no 'now' is set: dates were written without ages")
        return OperatorOutput(chunks=tuple(chunks), notes=tuple(notes))


Fusion = Literal["concat", "interleave", "weighted", "rrf"]

Rankings = Sequence[Sequence[RankedChunk]]


def newcomers(chunks: Sequence[Chunk]) -> list[RankedChunk]:
    """What a service gave, as chunks that retrieval did not give."""
    for chunk in chunks:
        if not isinstance(chunk, Chunk):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            raise InterfaceError(f"the chunk service gave {type(chunk).__name__}, not a Chunk")
        if chunk.score is not None and not math.isfinite(chunk.score):
            raise InterfaceError(f"the chunk service gave chunk '{chunk.id}' score {chunk.score}")
    return [replace(entry, initial_rank=None) for entry in ranked(chunks)]


def fuse(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> tuple[RankedChunk, ...]:
    """Makes one ranking of several. Each chunk id appears once; the first record of it stays.

    - ``concat``: the first ranking whole, then what is new in the second, and so on. Scores stay.
    - ``interleave``: the first of each ranking, then the second of each ... Scores stay.
    - ``weighted``: by the sum of weight times score, scores brought to [0, 1] within each ranking
      by `ragbench.core.fusion.min_max` (Lee 1997; Fox & Shaw 1994, CombSUM). A ranking in which a
      chunk
      has no score counts by places instead: 1 for the first of n, 1/n for the last.
    - ``rrf``: by `ragbench.core.fusion.reciprocal_rank_scores`.

    Returns:
        The union, ranks from 1. Of equal sums the lower id comes first, as in retrieval.
    """
    if fusion == "concat":
        given = [entry for ranking in rankings for entry in ranking]
    else:
        turns = zip_longest(*rankings)
        given = [entry for turn in turns for entry in turn if entry is not None]
    # The last of an id would win: they are looked at from the end.
    taken = {entry.chunk.id: entry for entry in reversed(given)}
    order = dict.fromkeys(entry.chunk.id for entry in given)
    if fusion in ("concat", "interleave"):
        return in_order(taken[id] for id in order)
    if fusion == "rrf":
        ids = [[entry.chunk.id for entry in ranking] for ranking in rankings]
        sums = reciprocal_rank_scores(ids, weights=weights)
    else:
        sums = _weighted_sums(rankings, weights)
    best = sorted(order, key=lambda id: (-sums[id], id))
    return in_order(replace(taken[id], score=sums[id]) for id in best)


def _weighted_sums(rankings: Rankings, weights: Sequence[float]) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        scores = [entry.score for entry in ranking if entry.score is not None]
        shares = min_max(scores)
        if len(scores) < len(ranking):
            shares = [1.0 - place / len(ranking) for place in range(len(ranking))]
        # A repeated id counts where it stands best.
        own = dict(zip((one.chunk.id for one in reversed(ranking)), reversed(shares), strict=True))
        for id, share in own.items():
            sums.setdefault(id, []).append(weight * share)
    return {id: math.fsum(parts) for id, parts in sums.items()}


def _joined(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> OperatorOutput:
    chunks = fuse(rankings, fusion, weights)
    added = len(chunks) - len({entry.chunk.id for entry in rankings[0]})
    return OperatorOutput(chunks=chunks, notes=(f"{added} chunks were added",))


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkExpand(Checked):
    """Asks the service for the neighbours of the first chunks, then for those of its results."""

    name = "merge.link_expand"

    service: ChunkNeighbours
    """Where the chunks came from."""
    first: Positive = 3
    """How many of the present chunks are expanded."""
    depth: Positive = 1
    """How many links away a chunk may be."""
    top_k: Positive = 5
    """How many neighbours to ask for at each chunk."""
    fusion: Fusion = "concat"
    """How results join the present chunks; see `ragbench.post.augment.fuse`."""
    weight: AboveZero = 0.5
    """Of results, against 1 for the present chunks; for ``weighted`` and ``rrf``."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        # In breadth: all that is one link away, then all that is two ...
        asked: set[str] = set()
        found: dict[str, RankedChunk] = {}
        frontier = [entry.chunk.id for entry in context.chunks[: self.first]]
        for _ in range(self.depth):
            following: list[str] = []
            for id in frontier:
                if id in asked:
                    continue
                asked.add(id)
                for entry in newcomers(self.service.neighbours(id, self.top_k))[: self.top_k]:
                    if entry.chunk.id not in found:
                        found[entry.chunk.id] = entry
                        following.append(entry.chunk.id)
            frontier = following
        return _joined([context.chunks, [*found.values()]], self.fusion, (1.0, self.weight))


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondaryQuery(Checked):
    """One more query to ask."""

    query: Filled
    """Its text; ``{question}`` stands for the question."""
    top_k: Positive = 5
    """How many chunks to ask for."""
    weight: AboveZero = 1.0
    """Against 1 for the chunks that stand; for ``weighted`` and ``rrf``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryMerge(Checked):
    """Searches by further queries and fuses their results with the present chunks."""

    name = "merge.multi_query"

    service: ChunkSearch
    """Where the chunks came from."""
    queries: Annotated[Sequence[SecondaryQuery], Meta(min_length=1)]
    """Further queries."""
    fusion: Fusion = "concat"
    """How the rankings become one; see `ragbench.post.augment.fuse`."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        rankings: list[Sequence[RankedChunk]] = [context.chunks]
        for query in self.queries:
            text = query.query.replace("{question}", context.query.text)
            rankings.append(newcomers(self.service.search(text, query.top_k))[: query.top_k])
        weights = (1.0, *(query.weight for query in self.queries))
        return _joined(rankings, self.fusion, weights)
