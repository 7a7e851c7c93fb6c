"""What is known of a tool's way to hand over what it retrieved: the primitive behind each form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

__all__ = ["DumpForm", "Hits", "is_list", "is_object", "list_of_hits", "lists_of_hits"]

Hits = Sequence[object]
"""What was retrieved for one query, best first: objects or texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpForm:
    """A tool's form of a response.

    The paths are candidates, the more telling ones first; which of them a dump really uses is
    found out from its first records.
    """

    name: str
    """As ``--format`` takes it."""
    summary: str
    """One sentence."""
    example: str
    """What it looks like, shortened."""
    unwrap: Callable[[object], Sequence[Hits] | None]
    """The hits in a response, a sequence a query; None when the value is no such response."""
    is_hit: Callable[[object], bool]
    """Whether a value is a single hit in this form."""
    id: tuple[str, ...] = ("id",)
    """Where a hit's id may be."""
    text: tuple[str, ...] = ("text",)
    """Where its text may be."""
    score: tuple[str, ...] = ("score",)
    """Where its score may be."""
    metadata: tuple[str, ...] = ("metadata",)
    """Where its metadata may be."""
    any_text_in: str | None = None
    """Where to look for a text when none of the candidates is there."""
    scores_are_distances: bool | None = None
    """Whether lower is better, when the order of the hits does not tell; None: by the name."""


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a JSON array."""
    return type(value) is list


def list_of_hits(value: object, is_hit: Callable[[object], bool]) -> Hits | None:
    """The value when it is an array that begins with a hit; None otherwise, also when empty."""
    if is_list(value) and value and is_hit(value[0]):
        return value
    return None


def lists_of_hits(
    values: Sequence[object], find: Callable[[object], Hits | None]
) -> Sequence[Hits] | None:
    """The hits of each query of a batch; None when one of them has no such hits.

    Args:
        values: a value a query; an empty array says that nothing was found for it.
        find: gives the hits in one of them.
    """
    found: list[Hits] = []
    for value in values:
        hits = value if is_list(value) and not value else find(value)
        if hits is None:
            return None
        found.append(hits)
    return found
