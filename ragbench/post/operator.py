"""The protocol of an operator: what it is given and gives back, and how it checks its settings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Protocol, get_args, get_type_hints, runtime_checkable

import msgspec
from msgspec import Meta

from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Failure
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError


class Query(Record):
    """One question, as post-retrieval sees it. Embeddings are given, never computed here."""

    text: str
    """The question."""
    embedding: Sequence[float] | None = None
    """Its embedding, by the model that embedded the chunks; None when unknown."""
    chunk_embeddings: Mapping[str, Sequence[float]] | None = None
    """Embeddings of chunks by id; None when unknown. A chunk may also carry its own under
    ``metadata["embedding"]``."""
    now: datetime | None = None
    """The point in time that ages are counted from; None when it is not known."""


class RankedChunk(Record):
    """A chunk with where it stands and where it stood. The chunk itself is never changed."""

    chunk: Chunk
    """The same object that retrieval gave."""
    score: float | None
    """Its present score, higher is better; None when nothing scored it."""
    rank: int
    """Its present place, from 1."""
    initial_score: float | None
    """The score that retrieval gave."""
    initial_rank: int | None
    """The place that retrieval gave, from 1; None for a chunk that was added later."""


def as_query(query: Query | str) -> Query:
    """A question as post-retrieval sees it."""
    return Query(text=query) if isinstance(query, str) else query


def ranked(chunks: Sequence[Chunk | RankedChunk]) -> list[RankedChunk]:
    """Retrieval's chunks as they enter post-retrieval: in the order given, ranks from 1.

    Chunks that have entered it already stay as they are.
    """
    return [
        one
        if isinstance(one, RankedChunk)
        else RankedChunk(
            chunk=one, score=one.score, rank=rank, initial_score=one.score, initial_rank=rank
        )
        for rank, one in enumerate(chunks, start=1)
    ]


class OperatorInput(Record):
    """What stands before an operator."""

    query: Query
    """The question that the chunks were retrieved for."""
    chunks: tuple[RankedChunk, ...]
    """The chunks in their present order, ranks from 1."""
    history_text: str | None = None
    """The text for generation, where a format operator has already written it."""


class OperatorOutput(Record):
    chunks: tuple[RankedChunk, ...]
    """The chunks in their new order; their ranks are set anew."""
    history_text: str | None = None
    """The text for generation; None leaves what was there."""
    notes: tuple[str, ...] = ()
    """What a reader must know to understand the result, such as "3 chunks have no score"."""
    failures: tuple[Failure, ...] = ()
    """What went wrong inside and was made up for."""


@runtime_checkable
class Operator(Protocol):
    """One step between retrieval and generation: a frozen dataclass whose fields are settings."""

    @property
    def name(self) -> str: ...

    def apply(self, context: OperatorInput) -> OperatorOutput | Sequence[RankedChunk]:
        """Does the step.

        What it returns is the chunks that are left, in their new order: a sequence, or an
        `OperatorOutput` where there is more to say.

        It computes no embedding, writes nowhere, and leaves the chunks that it is given as they
        are. A chunk whose text it changes is a new one that says where it came from; see
        `ragbench.post.chunks`.
        """
        ...


def in_order(chunks: Iterable[RankedChunk]) -> tuple[RankedChunk, ...]:
    """The chunks with ranks from 1 in the order given."""
    return tuple(
        entry if entry.rank == rank else replace(entry, rank=rank)
        for rank, entry in enumerate(chunks, start=1)
    )


def refuse(*problems: str | None) -> None:
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ConfigError("\n".join(found))


@runtime_checkable
class ChunkSearch(Protocol):
    """Finds chunks by a query."""

    def search(self, query: str, top_k: int) -> Sequence[Chunk]: ...


@runtime_checkable
class ChunkNeighbours(Protocol):
    """Finds chunks by a chunk."""

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        """Finds chunks that are linked with a chunk, or stand beside it."""
        ...


Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Weight = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Filled = Annotated[str, Meta(min_length=1, pattern=r"\S")]


_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


class Checked:
    """Settings whose types say in what range they lie: refused out of it, however they are made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        kind: Any = type(self)
        refuse(*(_problem(name, getattr(self, name), hint) for name, hint in _hints(kind)))


@cache
def _hints(kind: Any) -> Sequence[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(one.name, hints[one.name]) for one in fields(kind) if one.init]


def _problem(name: str, value: Any, hint: Any) -> str | None:
    """What is wrong with the range of a value; its type is looked at where settings are read."""
    given = float(value) if isinstance(value, float) else value  # also one of numpy's
    if isinstance(given, float) and not math.isfinite(given):
        return f"{name} must be a finite number, not {value!r}"
    try:
        msgspec.convert(given, hint)
    except msgspec.ValidationError as error:
        message = str(error)
    except TypeError:  # a service or a model
        return None
    else:
        return None
    if "of length" in message or "regex" in message:
        return f"{name} must not be empty"
    if "enum" in message:
        return f"{name} must be one of {', '.join(map(str, get_args(hint)))}, not {value!r}"
    bound = re.match(r"Expected `\w+` ([<>]=?) (\S+)", message)
    if bound is None:
        return None
    return f"{name} must be {_BOUNDS[bound[1]]} {float(bound[2]):g}, not {value!r}"
