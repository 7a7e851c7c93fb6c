"""Operators that bring in more: text into chunks, and more chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from ragbench.core.calling import with_deadline
from ragbench.core.chat import ChatModel
from ragbench.core.checked import AboveZero, Checked, Filled, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max, reciprocal_rank_scores
from ragbench.core.record import replace
from ragbench.errors import InputError, InterfaceError, StageTimeoutError
from ragbench.llm.schema import ask_text
from ragbench.post.chunks import (
    age_text,
    chunk_of,
    known_time,
    made_from,
    passages_task,
    rewritten,
    rewritten_by,
)
from ragbench.post.operator import (
    ChunkNeighbours,
    ChunkSearch,
    Found,
    OperatorInput,
    OperatorOutput,
    RankedChunk,
    in_order,
    ranked,
)
from ragbench.safe_text import counted


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
        """Puts a heading above each chunk's text whose place is known; ids and scores stay.

        Metadata keys of the setting ``fields`` make the heading.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        return rewritten_by(self.name, context.chunks, self._text_with_heading)

    def _text_with_heading(self, entry: RankedChunk) -> str | None:
        """The chunk's text below its heading, such as ``[Leave policy > Carry-over]``.

        None for a chunk whose metadata have none of the fields of a heading.
        """
        chunk = entry.chunk
        # Metadata wins over the chunk's own document id: its author wrote it for readers.
        metadata = {"document_id": chunk.document_id, **chunk.metadata}
        headings: list[str] = []
        for field in self.fields:
            value = metadata.get(field)
            if value not in (None, ""):
                headings.append(str(value))
        if not headings:
            return None
        return f"[{self.joined_by.join(headings)}]\n{chunk.text}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata(Checked):
    """Ends each chunk with a line ``key: value`` for each of some metadata fields.

    A field that a chunk does not know gives no line; a chunk that knows none stays as it is.
    """

    name = "augment.metadata"

    fields: Annotated[Sequence[str], Meta(min_length=1)]
    """Metadata keys, in the order in which they are written."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Puts metadata fields below the text of each chunk that has one of them.

        Ids and scores stay.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        return rewritten_by(self.name, context.chunks, self._text_with_metadata)

    def _text_with_metadata(self, entry: RankedChunk) -> str | None:
        """The chunk's text above a line for each metadata field that the chunk has.

        None for a chunk that has none of these fields: such a chunk stays as it is.
        """
        chunk = entry.chunk
        lines: list[str] = []
        # In the order of the setting, whatever that of the metadata is.
        for field in self.fields:
            value = chunk.metadata.get(field)
            if value is not None:
                lines.append(f"{field}: {value}")
        if not lines:
            return None
        return "\n".join([chunk.text, *lines])


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
    timeout: AboveZero | None = 5.0
    """Seconds that a call of the service may take; null for no limit."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Widens the first chunks in their order.

        A neighbour that is among the chunks, or widens an earlier one, is not used again: no text
        comes twice.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        present_ids = {entry.chunk.id for entry in context.chunks}
        widened: list[RankedChunk] = []
        ask = self.service.neighbours
        for entry in context.chunks[: self.first]:
            neighbours: list[Chunk] = []
            for neighbour in _found_in_time(ask, entry.chunk.id, self.top_k, self.timeout):
                if neighbour.chunk.id not in present_ids:
                    neighbours.append(neighbour.chunk)
            # Before the next chunk is widened: a text must not come twice.
            present_ids.update(chunk.id for chunk in neighbours)
            widened.append(self._widened(entry, neighbours))
        return (*widened, *context.chunks[self.first :])

    def _widened(self, entry: RankedChunk, neighbours: Sequence[Chunk]) -> RankedChunk:
        """The chunk with the texts of its neighbours before and behind its own.

        Only its text changes: id and score stay those of the chunk.
        """
        if not neighbours:
            return entry
        chunk = entry.chunk
        # `sorted` is stable: neighbours whose place is not known keep the service's order.
        parts = sorted((chunk, *neighbours), key=partial(_reading_order, chunk))
        text = "\n".join(part.text for part in parts)
        neighbour_ids = [neighbour.id for neighbour in neighbours]
        return rewritten(entry, text, by=self.name, also_from=neighbour_ids)


def _reading_order(chunk: Chunk, part: Chunk) -> tuple[int, bool, int]:
    """A key that sorts a chunk and its neighbours as a reader would read them.

    First the parts that are known to come before the chunk in its document, then the chunk itself,
    then the rest of its document, and at last other documents.

    Args:
        chunk: the chunk in the middle.
        part: the chunk itself, or the neighbour that the key is of.
    """
    in_same_document = part.document_id == chunk.document_id
    if part is chunk:
        side = 1
    elif in_same_document and _stands_before(part, chunk):
        side = 0
    else:
        side = 2
    # An unknown place counts as 0: such neighbours keep the service's order.
    return side, not in_same_document, part.start or 0


def _stands_before(neighbour: Chunk, chunk: Chunk) -> bool:
    """Whether a neighbour is known to begin before the chunk in the document that both name.

    Offsets of both have to be known.
    """
    if neighbour.document_id is None or neighbour.start is None or chunk.start is None:
        return False
    return neighbour.start < chunk.start


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
        """Asks the model once about the first chunks, and puts its reply before all as a chunk.

        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        passages = context.chunks[: self.first]
        if not passages:
            return ()
        text = ask_text(self.chat, passages_task("reflect", context.query.text, passages))
        reflection = made_from(passages, text, id=REFLECTION_ID, by=self.name)
        return (reflection, *context.chunks)


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
        """Dates the chunks whose time is known.

        Notes count the others, and say where dates have no ages.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        now = context.query.now
        text_with_date = partial(self._text_with_date, now)
        chunks = rewritten_by(self.name, context.chunks, text_with_date)
        undated = 0
        for chunk, original in zip(chunks, context.chunks, strict=True):
            undated += chunk is original  # a chunk without a new text is the same object
        notes: list[str] = []
        if undated:
            notes.append(
                f"{undated} of {counted(len(chunks), 'chunk')} had no time in '{self.field}'"
            )
        if now is None and undated < len(chunks):
            notes.append("no 'now' is set: dates were written without ages")
        return OperatorOutput(chunks=tuple(chunks), notes=tuple(notes))

    def _text_with_date(self, now: datetime | None, entry: RankedChunk) -> str | None:
        """The chunk's text below its date; None for a chunk without a time.

        Args:
            now: what the chunk's age is counted from; without it only the date is written.
        """
        time = known_time(entry.chunk.metadata.get(self.field))
        if time is None:
            return None
        label = time.shown
        if now is not None:
            label += f", {age_text(time, now)}"
        # Above the text, where a model reads it first.
        return f"[{label}]\n{entry.chunk.text}"


# --- more chunks

Fusion = Literal["concat", "interleave", "weighted", "rrf"]
"""How several lists become one; `fuse` says what each does."""

Rankings = Sequence[Sequence[RankedChunk]]
"""Several lists of chunks, each best first."""


def newcomers(items: Sequence[Found]) -> list[RankedChunk]:
    """The chunks that a user's service returned, checked, as ones that retrieval did not return.

    These chunks have no place in retrieval: by that reports tell them from retrieved chunks.
    """
    chunks: list[Chunk] = []
    for position, item in enumerate(items):
        if isinstance(item, Chunk):
            chunk = item
        else:
            chunk = _chunk_of_service(item, position)
        if chunk.score is not None and not math.isfinite(chunk.score):
            raise InterfaceError(f"the chunk service gave chunk '{chunk.id}' score {chunk.score}")
        chunks.append(chunk)
    # `ranked` gives places as to retrieved chunks: they are taken away again, see above.
    return [replace(entry, initial_rank=None) for entry in ranked(chunks)]


def _chunk_of_service(item: object, position: int) -> Chunk:
    """The chunk of a mapping that a user's service returned.

    Args:
        position: of the mapping among the results, for messages.

    Raises:
        InterfaceError: it has no text or no id. It fails this question alone, and not the run.
    """
    where = f"result {position} of the chunk service"
    try:
        chunk = chunk_of(item, where)
    except InputError as error:  # which would end the run: a service may fail for one question
        raise InterfaceError(str(error)) from None
    if not chunk.id:
        raise InterfaceError(f"{where} names no 'id', 'entry_id' or 'node_id'")
    return chunk


def _found_in_time(
    ask: Callable[[str, int], Sequence[Found]], about: str, top_k: int, timeout: float | None
) -> list[RankedChunk]:
    """The chunks that a user's service finds within a time limit, at most ``top_k``.

    Also where it returns more than it was asked for.

    Args:
        ask: the service's method.
        about: a query, or the id of a chunk.
        timeout: seconds; None for no limit.
    """
    if timeout is None:
        # Cut here, as a service may ignore the number.
        return newcomers(ask(about, top_k))[:top_k]
    ask_in_time = with_deadline(partial(_ask_each, ask, top_k), timeout)
    try:
        items = ask_in_time([about])[0]
    except StageTimeoutError:
        raise StageTimeoutError(
            f"the chunk service gave no answer within {timeout:g} s: set a longer 'timeout'"
        ) from None
    return newcomers(items)[:top_k]


def _ask_each(
    ask: Callable[[str, int], Sequence[Found]], top_k: int, texts: Sequence[str]
) -> Sequence[Sequence[Found]]:
    """What a chunk service finds for each text, which is a query or the id of a chunk.

    `with_deadline` limits calls of this form, with a list of inputs; there is one text in it.
    """
    return [ask(text, top_k) for text in texts]


def fuse(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> tuple[RankedChunk, ...]:
    """Makes one ranking of several. Each chunk id appears once; the first record of it stays.

    - ``concat``: the first ranking whole, then what is new in the second, and so on. Scores stay.
    - ``interleave``: the first of each ranking, then the second of each ... Scores stay.
    - ``weighted``: by the sum of weight times score, scores brought to [0, 1] within each ranking
      by `ragbench.core.fusion.min_max` (Lee 1997; Fox & Shaw 1994, CombSUM). A ranking in which a
      chunk has no score counts by places instead: 1 for the first of n, 1/n for the last.
    - ``rrf``: by `ragbench.core.fusion.reciprocal_rank_scores`.

    Returns:
        The union, ranks from 1. Of equal sums the lower id comes first, as in retrieval.
    """
    entries: dict[str, RankedChunk] = {}
    if fusion == "concat":
        for ranking in rankings:
            for entry in ranking:
                entries.setdefault(entry.chunk.id, entry)
    else:
        for entries_at_rank in zip_longest(*rankings):
            for entry in entries_at_rank:
                if entry is not None:  # a shorter ranking has ended
                    entries.setdefault(entry.chunk.id, entry)
    if fusion in ("concat", "interleave"):
        return in_order(entries.values())
    if fusion == "rrf":
        ids_of_rankings: list[list[str]] = []
        for ranking in rankings:
            ids_of_rankings.append([entry.chunk.id for entry in ranking])
        sums = reciprocal_rank_scores(ids_of_rankings, weights=weights)
    else:
        sums = _weighted_sums(rankings, weights)
    best_first = sorted(entries, key=lambda id: (-sums[id], id))
    return in_order(replace(entries[id], score=sums[id]) for id in best_first)


def _weighted_sums(rankings: Rankings, weights: Sequence[float]) -> dict[str, float]:
    """The sum over the rankings of weight times score in [0, 1], by chunk id.

    A ranking in which a chunk has no score counts by places instead.
    """
    addends_of_id: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        scores = [entry.score for entry in ranking if entry.score is not None]
        if len(scores) == len(ranking):
            shares = min_max(scores)
        else:
            shares = [1.0 - place / len(ranking) for place in range(len(ranking))]
        # An id that a ranking repeats counts once, where it stands best.
        share_of_id: dict[str, float] = {}
        for entry, share in zip(ranking, shares, strict=True):
            share_of_id.setdefault(entry.chunk.id, share)
        for id, share in share_of_id.items():
            addends = addends_of_id.setdefault(id, [])
            addends.append(weight * share)
    # Rounded once, whatever the order of the rankings.
    return {id: math.fsum(addends) for id, addends in addends_of_id.items()}


def _fused_output(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> OperatorOutput:
    """The rankings as one, with a note of how many chunks the present list lacked.

    Args:
        rankings: the present chunks first.
    """
    chunks = fuse(rankings, fusion, weights)
    present_ids = {entry.chunk.id for entry in rankings[0]}
    added = len(chunks) - len(present_ids)
    note = f"added {counted(added, 'chunk')}"
    return OperatorOutput(chunks=chunks, notes=(note,))


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
    timeout: AboveZero | None = 5.0
    """Seconds that a call of the service may take; null for no limit."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Joins to the present chunks those that are up to ``depth`` links away.

        The service is asked once for each id, since links may lead in circles.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        # In breadth: all chunks that are one link away, then all that are two links away ...
        expanded_ids: set[str] = set()
        linked: dict[str, RankedChunk] = {}
        ask = self.service.neighbours
        frontier = [entry.chunk.id for entry in context.chunks[: self.first]]
        for _ in range(self.depth):
            next_frontier: list[str] = []
            for id in frontier:
                if id in expanded_ids:
                    continue
                expanded_ids.add(id)
                for entry in _found_in_time(ask, id, self.top_k, self.timeout):
                    linked_id = entry.chunk.id
                    if linked_id not in linked:
                        linked[linked_id] = entry
                        next_frontier.append(linked_id)
            frontier = next_frontier
        # A linked chunk may be among the present ones: `fuse` keeps the first of its two records.
        rankings = [context.chunks, list(linked.values())]
        return _fused_output(rankings, self.fusion, (1.0, self.weight))


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
    timeout: AboveZero | None = 5.0
    """Seconds that a call of the service may take; null for no limit."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Searches by each further query once, and fuses the results with the present chunks.

        The present chunks weigh 1.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        rankings: list[Sequence[RankedChunk]] = [context.chunks]
        # A weight for each ranking in the same order: the present chunks are the first.
        weights = [1.0]
        for query in self.queries:
            text = query.query.replace("{question}", context.query.text)
            rankings.append(_found_in_time(self.service.search, text, query.top_k, self.timeout))
            weights.append(query.weight)
        return _fused_output(rankings, self.fusion, weights)
