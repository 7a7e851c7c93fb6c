"""What differs from vendor to vendor: an engine speaks its own language and checks nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, RagbenchError, StoreError
from ragbench.masking import mask_text
from ragbench.safe_text import listed
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, MetricName, Row
from ragbench.stores.record import StoredChunk
from ragbench.stores.words import WordVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UNREACHABLE = re.compile(
    r"refused|unavailable|timed? ?out|not connect|fail connecting|not known|resolve|unreachable",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """The vectors that are searched."""

    vector: str
    """Their name; empty where the engine has but one and no name for it."""
    dimension: int | None
    """Their length; None where only a row shows it and there is none."""
    metric: MetricName
    metric_known: bool = True
    """Whether the engine, or the user, says what the metric is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What is searched by words."""

    field: str
    """A column, a sparse vector, or the output of a function."""
    how: str
    """How the store ranks it, for people, such as ``"ts_rank_cd, english"``."""


class Engine(Protocol):
    """A collection that is read, whoever filled it."""

    @property
    def space(self) -> Space:
        """What is searched by vectors."""
        ...

    @property
    def words(self) -> Words | None:
        """What is searched by words; None where the collection keeps nothing for that."""
        ...

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

    def count(self) -> int: ...

    def sample(self, limit: int) -> list[Row]: ...

    def condition(self, filters: Filter | None, native: object) -> Any:
        """A folded filter, and one in the engine's own syntax, as `nearest` takes them."""
        ...

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[Row]]:
        """The rows nearest to each query, at most so many each."""
        ...

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """The rows that match each question by words; called only where there are `words`."""
        ...


class Writer(Protocol):
    """A collection that ragbench fills; vectors have unit length, or are zeros."""

    @property
    def is_exact(self) -> bool: ...

    def read_info(self) -> CollectionInfo: ...

    def write_info(self, info: CollectionInfo) -> None: ...

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        """Adds or replaces chunks; each id is there once."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Removes those that are there."""
        ...

    def kept(self, ids: Sequence[str]) -> Sequence[Any]:
        """What is kept of those that are there, in any order, as `read` takes it."""
        ...

    @property
    def read(self) -> Callable[[Any, float | None], Chunk]:
        """Makes a chunk of what is kept of one, and of its score."""
        ...

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of those that are there."""
        ...

    def digests(self) -> dict[str, str]:
        """All ids with their digests."""
        ...

    def count(self) -> int: ...

    def condition(self, filters: Filter | None, native: object) -> Any: ...

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[Row]]:
        """The chunks of the greatest inner products."""
        ...


class WordWriter(Writer, Protocol):
    """A `Writer` that ranks by words, too; see `ragbench.stores.words`."""

    def best_sums(
        self, queries: Sequence[WordVector], limit: int, condition: Any
    ) -> list[list[Row]]:
        """The chunks of the greatest sums above 0."""
        ...

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """What words are worth; None where no chunk has the word."""
        ...


_MadeT = TypeVar("_MadeT")


class Translated(Generic[_MadeT]):
    """What was made of a filter, for as long as the same one is asked for."""

    def __init__(self, make: Callable[[Filter], _MadeT]) -> None:
        self._make = make
        self._last: tuple[Filter, _MadeT] | None = None

    def __call__(self, filters: Filter) -> _MadeT:
        last = self._last
        # The same, not an equal one: to Python 1 and True are equal.
        if last is None or last[0] is not filters:
            last = self._last = (filters, self._make(filters))
        return last[1]


@contextmanager
def engine_failures(address: str, failures: tuple[type[Exception], ...]) -> Generator[None]:
    """Makes what an engine raises a `StoreError` of one line."""
    try:
        yield
    except RagbenchError:
        raise
    except failures as error:
        raise _failure(address, error) from error


def _failure(address: str, error: Exception) -> StoreError:
    problem = mask_text(" ".join(str(error).split()))[:300] or type(error).__name__
    if _UNREACHABLE.search(problem):
        problem = f"cannot be reached: is it running, and is the address right? ({problem})"
    return StoreError(f"{address}: {problem}")


def chosen_vector(name: str, wanted: str | None, known: Sequence[str]) -> str:
    names = listed(known)
    if wanted is not None:
        if wanted in known:
            return wanted
        has = f"it has {names}" if any(known) else "its vector has no name: leave the name out"
        if not known:
            has = "it keeps no dense vectors"
        raise ConfigError(f"the collection '{name}' has no vector '{wanted}'; {has}")
    if len(known) == 1:
        return known[0]
    if not known:
        raise ConfigError(f"the collection '{name}' keeps no dense vectors: nothing to search by")
    raise ConfigError(
        f"the collection '{name}' has several vectors ({names}): say which one is searched with "
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


def checked_metric(name: str, wanted: MetricName | None, found: MetricName) -> MetricName:
    if wanted is not None and wanted != found:
        raise ConfigError(
            f"the collection '{name}' compares vectors by {found}, not by {wanted}: leave the "
            "metric out"
        )
    return found
