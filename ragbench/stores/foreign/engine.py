"""What differs from engine to engine in reading a collection that ragbench did not fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from ragbench.errors import ConfigError
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.mapping import FieldMapping, MetricName
from ragbench.stores.foreign.one_line import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ForeignEngine", "ForeignRow", "Space", "chosen_vector", "told_metric"]


class ForeignRow(NamedTuple):
    """One row as its engine keeps it, without its vectors."""

    id: str
    """The engine's own id; empty where it has none."""
    fields: Mapping[str, object]
    """All that is kept of the row."""
    score: float = 0.0
    """How near it is to a query, as the engine tells it, turned so that higher is better."""


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


class ForeignEngine(Protocol):
    """A collection in the words of its engine. Nothing in it writes."""

    space: Space
    """What is searched."""

    @property
    def most(self) -> int | None:
        """The most rows that it gives for one query; None where there is no limit."""
        ...

    @property
    def key(self) -> str | None:
        """The field that is the engine's own id; None where the id is no field."""
        ...

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """What connects to an address, and does not make anything there.

        Raises:
            ConfigError: it is no address of this engine.
            StoreError: there is no such folder or file.
        """
        ...

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        """The collections that there are, whoever made them."""
        ...

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        """The collection; None when there is none of the name.

        Raises:
            ConfigError: the vector that the mapping names is not there, or must be named.
        """
        ...

    def count(self) -> int:
        """How many rows there are."""
        ...

    def sample(self, limit: int) -> list[ForeignRow]:
        """Some rows."""
        ...

    def nearest(self, rows: NDArray[np.float32], limit: int) -> list[list[ForeignRow]]:
        """The rows nearest to each query, at most so many each."""
        ...


def chosen_vector(name: str, wanted: str | None, known: Sequence[str]) -> str:
    """The vector that is searched.

    Args:
        name: the collection's, for messages.
        wanted: the vector that the user names.
        known: those that there are.

    Raises:
        ConfigError: there is no such vector, or none at all, or which one is not said.
    """
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


def told_metric(name: str, wanted: MetricName | None, found: MetricName) -> MetricName:
    """The metric that the engine tells.

    Raises:
        ConfigError: the user names another one.
    """
    if wanted is not None and wanted != found:
        raise ConfigError(
            f"the collection '{name}' compares vectors by {found}, not by {wanted}: leave the "
            "metric out"
        )
    return found
