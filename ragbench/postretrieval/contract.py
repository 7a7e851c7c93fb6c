"""What an operator is given, what it gives back, and the one method between the two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ragbench.errors import ConfigError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.records.cells import Failure

__all__ = ["Operator", "OperatorInput", "OperatorOutput", "in_order", "refuse"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorInput:
    """What stands before an operator."""

    query: Query
    """The question that the chunks were retrieved for."""
    chunks: tuple[RankedChunk, ...]
    """The chunks in their present order, ranks from 1."""
    history_text: str | None = None
    """The text for generation, where a format operator has already written it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorOutput:
    """What an operator leaves behind it."""

    chunks: tuple[RankedChunk, ...]
    """The chunks in their new order, ranks from 1."""
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
    def name(self) -> str:
        """Its action and its variant, such as ``"filter.top_k"``."""
        ...

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Does the step.

        It computes no embedding, writes nowhere, and leaves the chunks that it is given as they
        are. A chunk whose text it changes is a new one that says where it came from; see
        `ragbench.postretrieval.derived`.
        """
        ...


def in_order(chunks: Iterable[RankedChunk]) -> tuple[RankedChunk, ...]:
    """The chunks with ranks from 1 in the order given."""
    return tuple(
        entry if entry.rank == rank else replace(entry, rank=rank)
        for rank, entry in enumerate(chunks, start=1)
    )


def refuse(*problems: str | None) -> None:
    """Refuses settings.

    Args:
        *problems: what is wrong, each beginning with the name of the setting; None for nothing.

    Raises:
        ConfigError: there is a problem; one line each.
    """
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ConfigError("\n".join(found))
