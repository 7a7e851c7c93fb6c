"""What differs from engine to engine in reading a collection that ragbench did not fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from ragbench.core.filters import Filter
from ragbench.errors import ConfigError
from ragbench.safe_text import listed
from ragbench.stores.attached.mapping import FieldMapping, ForeignRow, MetricName
from ragbench.stores.base import NORMAL, Effort
from ragbench.stores.database import EngineDatabase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """The vectors that are searched."""

    vector: str
    """Their name; empty where the engine has but one and no name for it."""
    dimension: int | None
    """Their length; None where only a row could tell and there is none."""
    metric: MetricName
    metric_told: bool = True
    """Whether the engine, or the user, says what the metric is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What is searched by words."""

    field: str
    """A column, a sparse vector, or the output of a function."""
    how: str
    """How the store ranks it, for people, such as ``"ts_rank_cd, english"``."""


class ForeignEngine(Protocol):
    """A collection in the words of its engine. Nothing in it writes."""

    space: Space
    """What is searched by vectors."""
    words: Words | None
    """What is searched by words; None where the collection keeps nothing for that."""

    @property
    def most(self) -> int | None:
        """The most rows that it gives for one query; None where there is no limit."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` compares every vector, whatever the effort."""
        ...

    @property
    def key(self) -> str | None:
        """The field that is the engine's own id; None where the id is not a field."""
        ...

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """What connects to an address, and does not make anything there."""
        ...

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        """The collections that there are, whoever made them."""
        ...

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        """The collection; None when there is none of the name."""
        ...

    def count(self) -> int:
        """How many rows there are."""
        ...

    def sample(self, limit: int) -> list[ForeignRow]:
        """Some rows."""
        ...

    def condition(self, filters: Filter | None, native: object) -> Any:
        """A filter in the engine's own terms; None where there is none."""
        ...

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[ForeignRow]]:
        """The rows nearest to each query, at most so many each."""
        ...

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[ForeignRow]]:
        """The rows that match each question by words; called only where there are `words`."""
        ...


def chosen_vector(name: str, wanted: str | None, known: Sequence[str]) -> str:
    told = listed(known)
    if wanted is not None:
        if wanted in known:
            return wanted
        has = f"it has {told}" if any(known) else "its vector has no name: leave the name out"
        if not known:
            has = "it keeps no dense vectors"
        raise ConfigError(f"the collection '{name}' has no vector '{wanted}'; {has}")
    if len(known) == 1:
        return known[0]
    if not known:
        raise ConfigError(f"the collection '{name}' keeps no dense vectors: nothing to search by")
    raise ConfigError(
        f"the collection '{name}' has several vectors ({told}): say which one is searched with "
        f"--map vector={known[0]}"
    )


def chosen_words(name: str, wanted: str | None, known: Sequence[str]) -> str | None:
    """What is searched by words; None where there is nothing, or several and none is named."""
    if wanted is not None and wanted not in known:
        has = f"there are: {listed(known)}" if known else "it keeps nothing for such a search"
        raise ConfigError(f"the collection '{name}' has no words '{wanted}'; {has}")
    if wanted is not None:
        return wanted
    return known[0] if len(known) == 1 else None


def told_metric(name: str, wanted: MetricName | None, found: MetricName) -> MetricName:
    if wanted is not None and wanted != found:
        raise ConfigError(
            f"the collection '{name}' compares vectors by {found}, not by {wanted}: leave the "
            "metric out"
        )
    return found
