"""Which cases of a dataset a run takes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Protocol, TypeVar

from ragbench.errors import ConfigError

__all__ = ["Named", "Selection"]


class Named(Protocol):
    """A case, or a labelled claim."""

    @property
    def id(self) -> str:
        """What tells it from others."""
        ...


ItemT = TypeVar("ItemT", bound=Named)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The first n cases, a random draw of n, or all.

    Raises:
        ConfigError: a number below 1, or both given.
    """

    limit: int | None = None
    """Take only the first so many."""
    sample: int | None = None
    """Draw so many at random, kept in the dataset's order."""
    seed: int = 0
    """Seed of the draw."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        if self.limit is not None and self.sample is not None:
            raise ConfigError("--limit and --sample exclude each other: give one of them")
        for name, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def apply(self, cases: Iterable[ItemT]) -> Iterator[ItemT]:
        """The chosen cases.

        A draw takes the n cases with the smallest hash of seed and id: the same cases in whatever
        order the dataset stands, and when it grows, most of them again.
        """
        if self.sample is not None:
            yield from self._drawn(cases, self.sample)
        else:
            yield from islice(cases, self.limit)

    def _drawn(self, cases: Iterable[ItemT], size: int) -> Iterator[ItemT]:
        def rank(entry: tuple[int, ItemT]) -> bytes:
            text = f"{self.seed}:{entry[1].id}".encode("utf-8", "backslashreplace")
            return blake2b(text, digest_size=16).digest()

        drawn = heapq.nsmallest(size, enumerate(cases), key=rank)
        for _, case in sorted(drawn, key=lambda entry: entry[0]):
            yield case
