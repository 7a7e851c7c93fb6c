"""What a collection says of itself, how hard a search looks, and what an engine does."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from shutil import disk_usage
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.core.reading import Reading
from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, RagbenchError, StoreError
from ragbench.masking import mask_text
from ragbench.plugins import Floats32, NDArray, np
from ragbench.search.stores.record import StoredChunk, WordsForm, WordVector

_FORMAT = 2
"""Changes when a search of this release could not use what an older one has written."""


class IndexIdentity(Record):
    """What made a collection's vectors: written by an indexing, kept by the store.

    A search reads it, so that it embeds questions by the same model and settings.
    """

    embedder: Mapping[str, Any]
    """Identity of the embedder; vectors of another one are never compared with these."""
    embedder_name: str
    """What opens that embedder again, such as ``"onnx:models/bge-small"``."""
    embedder_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The settings that it was opened with; no credentials."""
    calibration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The embedder's measured scale, as `ragbench.search.embedders.embedder` writes it."""
    chunker: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How documents were cut."""
    digest: str = ""
    """Of all chunks, once the indexing is complete; empty before."""
    dense_weight: float | None = None
    """Of vectors in hybrid searches, as `pipeline.agreement` measures it; None where
    nothing could be said."""

    def to_json(self) -> dict[str, Any]:
        """The identity of an index as JSON, with ragbench's mark and the number of its form.

        `CollectionInfo.made_by` reads it back and refuses another number. The fields are stored in
        collections: with others, `_FORMAT` has to rise, and collections of older releases are
        refused.
        """
        return {"ragbench_index": _FORMAT, **asdict(self)}


class Effort(Record):
    """How hard a store looks in a search by vectors.

    Raises:
        ConfigError: ``ef`` is below 1, or is given for an exact search.
    """

    ef: int | None = None
    """How many candidates an approximate index keeps while it looks (``hnsw.ef_search`` in
    PostgreSQL, ``hnsw_ef`` in Qdrant, ``ef`` in Milvus); None for the store's own setting. A store
    without such an index has no use for it."""
    exact: bool = False
    """Whether every vector is compared, whatever index there is."""

    def __post_init__(self) -> None:
        """Refuses an ``ef`` that the search would ignore, or that leaves the index no candidates.

        ``ef`` is how many candidates an approximate index keeps; an exact search keeps none.
        """
        if self.ef is None:
            return
        if self.exact:
            raise ConfigError(f"ef has no meaning for an exact search: {self.ef}")
        if self.ef < 1:
            raise ConfigError(f"ef must be at least 1: {self.ef}")


NORMAL = Effort()
"""As the store is set."""

Vectors: TypeAlias = "NDArray[np.floating[Any]]"
"""Rows of floats, shape (number of texts, dimension)."""
Rows: TypeAlias = Floats32
"""The same as engines take and keep them."""


class CollectionInfo(Record):
    """What a collection says of itself."""

    name: str
    dimension: int
    """Length of its vectors."""
    identity: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What its vectors were made by and of, as JSON: embedder, chunker, digest of the corpus."""
    complete: bool = False
    """Whether indexing came to its end; False from the first write of an indexing to its last."""
    words: WordsForm | None = None
    """How it keeps the words of its chunks for the store to rank; None where it keeps none."""

    @property
    def made_by(self) -> IndexIdentity:
        """The embedder, chunker and settings that an indexing has stored with the collection.

        A search opens the same embedder by it, so that questions and chunks have comparable
        vectors.

        Raises:
            StoreError: another program, or a release with another form, has written the identity.
        """
        # The error is for another program's identity, an older form, or a damaged one.
        with Reading(lambda _: _unreadable_identity(self.name)):
            fields = dict(self.identity)
            has_our_form = fields.pop("ragbench_index") == _FORMAT
            has_our_fields = fields.keys() <= set(IndexIdentity.__struct_fields__)
            if not has_our_form or not has_our_fields:
                raise ValueError("another form")
            return msgspec.convert(fields, IndexIdentity)


def _unreadable_identity(name: str) -> StoreError:
    """The error for a collection whose stored identity this release of ragbench cannot read.

    The identity is the record of the embedder and chunker that made the collection's vectors;
    without it questions cannot be embedded alike. So the error asks for a new indexing.
    """
    return StoreError(
        f"the collection '{name}' was not made by 'ragbench index', or by another "
        "release of it: index it anew under another name"
    )


def checked_native(native: object, kind: type, engine: str, expected: str) -> Any:
    """A filter in an engine's own syntax; refused where it is empty or of another type.

    Such a native filter goes to the engine unread, for conditions that ragbench's own filters
    cannot express. An empty one is a slip: it would narrow nothing.

    Args:
        kind: the type that it must have.
        engine: its vendor's name, for the message.
        expected: what such a filter is, for the message.
    """
    if not isinstance(native, kind) or not native:
        raise ConfigError(f"the native filter of {engine} is {expected}, found {native!r}")
    return native


def other_form(address: str, name: str) -> StoreError:
    """The error for a collection that another release of ragbench has stored in a form of its own.

    Read on as if it were this release's form, its chunks or scores could be wrong without an error.
    """
    return StoreError(
        f"{address}: another release of ragbench wrote the collection '{name}', in a form that "
        "this one does not read: remove it with 'ragbench index --drop', then index the corpus "
        "again; or index it under another name"
    )


MetricName: TypeAlias = Literal["cosine", "dot", "euclid", "manhattan"]
"""How two vectors are compared."""


class Row(NamedTuple):
    """One row as its engine keeps it, without its vectors."""

    id: str
    """The engine's own id; empty where it has none."""
    fields: Any
    """All that is kept of the row: for whom it is foreign, by the names of its fields."""
    score: float = 0.0
    """How near it is to a query, turned so that higher is better."""


Rankings: TypeAlias = list[list[Row]]
"""For each query its rows."""


class Space(Record):
    """The vectors of a collection that are searched."""

    vector: str
    """Their name; empty where the engine has but one and no name for it."""
    dimension: int | None
    """Their length; None where only a row shows it and there is none."""
    metric: MetricName
    metric_known: bool = True
    """Whether the engine, or the user, says what the metric is."""


class Words(Record):
    """The field of a collection that the store itself ranks by words."""

    field: str
    """A column, a sparse vector, or the output of a function."""
    ranking: str
    """How the store ranks it, for people, such as ``"ts_rank_cd, english"``."""


class Engine(Protocol):
    """A collection that is searched: it speaks its vendor's language and checks nothing."""

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` compares every vector of the collection, whatever the effort.

        Only where one may be missed has the index to be measured.
        """
        ...

    def count(self) -> int:
        """How many rows the collection has, as the engine counts them.

        Reports show the number.
        """
        ...

    def condition(self, filters: Filter | None, native: object) -> Any:
        """A filter of ragbench and one in the engine's own syntax as one condition, for `nearest`.

        A search translates them once, for all of its queries.

        Args:
            filters: folded (`ragbench.core.filters.folded`): no part lets all rows pass or none.
            native: the filter in the engine's own syntax.
        """
        ...

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> Rankings:
        """The rows nearest to each query vector, at most `limit` a query, in any order.

        Ties and their cut are no concern of an engine: `top_k` sorts.

        Args:
            rows: the query vectors.
            condition: made by `condition`; None where all rows may be found.
            effort: how many vectors an approximate index looks at.
        """
        ...


class Reader(Engine, Protocol):
    """A collection that another program fills."""

    @property
    def space(self) -> Space:
        """The vectors that `nearest` searches in the collection, and their metric.

        A user chooses by name where a collection has several.
        """
        ...

    @property
    def words(self) -> Words | None:
        """The field that the store ranks by words; None where the collection has none.

        A user can search by words only where there is one.
        """
        ...

    @property
    def row_limit(self) -> int | None:
        """The most rows that the engine gives for one query; None where there is no limit.

        A search for ties among the last scores ends there.
        """
        ...

    @property
    def key(self) -> str | None:
        """The field that is the engine's own id of a row; None where that id is not a field.

        Its values become the ids of chunks where the user names no other field.
        """
        ...

    def sample(self, limit: int) -> list[Row]:
        """Any rows of the collection, at most `limit`.

        The meaning of its fields is guessed from them.
        """
        ...

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> Rankings:
        """The rows that match each question by words; called only where `words` names a field.

        Scores are the engine's, and higher is better.
        """
        ...


class Writer(Engine, Protocol):
    """A collection that ragbench fills; vectors have unit length, or are zeros."""

    def read_info(self) -> CollectionInfo:
        """The collection's record of itself (embedder, completeness, words) as it is now.

        Another process may be writing: the record is read anew each time.
        """
        ...

    def write_info(self, info: CollectionInfo) -> None:
        """Replaces the collection's record of itself, once all earlier chunks are on the disk.

        The order counts: a record that calls the collection complete must never be there before the
        chunks.
        """
        ...

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        """Adds chunks with their vectors, or replaces those of the same id.

        Each id is there once, and the next read sees the chunks.
        """
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Removes the chunks of these ids; ids that the collection does not have are no error.

        An indexing removes so the chunks that the corpus no longer has.
        """
        ...

    def stored(self, ids: Sequence[str]) -> Sequence[Any]:
        """The stored fields of the chunks with these ids, in any order, as `read` takes them.

        Ids that the store does not have are left out.
        """
        ...

    @property
    def read(self) -> Callable[[Any, float | None], Chunk]:
        """The function that makes a chunk of an item of `stored`, or of a hit, and a score.

        Only the hits in a result are made chunks, as reading their metadata takes time.
        """
        ...

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The vectors of those chunks of these ids that the store has, by id.

        Measurements and rerankers read them, so that no text is embedded twice.
        """
        ...

    def digests(self) -> dict[str, str]:
        """The digest of every stored chunk, by id.

        An indexing sees by the digests which chunks have changed.
        """
        ...


class WordWriter(Writer, Protocol):
    """A `Writer` that ranks by words, too; see `ragbench.search.stores.record`."""

    def best_sums(self, queries: Sequence[WordVector], limit: int, condition: Any) -> Rankings:
        """The chunks that share words with each query: those with the greatest sums above 0.

        The sum is the BM25 of a chunk, cut in two: its own part is stored, the question's comes
        here.

        Args:
            queries: weights of words by their numbers (`record.word_number`).
            limit: the most chunks of one query.
            condition: made by `condition`; None where all chunks may be found.
        """
        ...

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """The weight (inverse document frequency) of each word; None where no chunk has it.

        Queries are scaled by these, so that scores are shares of the question.

        Args:
            numbers: of the words (`record.word_number`).
        """
        ...


_FULL_DISK = 1 << 20
"""With fewer free bytes than these, a failed write is the full disk's fault."""
_UNREACHABLE = re.compile(
    r"refused|unavailable|timed? ?out|not connect|fail connecting|not known|resolve|unreachable",
    re.IGNORECASE,
)
"""What the messages of drivers say where no server answers."""


@contextmanager
def engine_failures(address: str, failures: tuple[type[Exception], ...]) -> Generator[None]:
    """A context in which an engine's exceptions become a `StoreError` of one line.

    It adds the probable cause where engines themselves are silent: a full disk, or a server that
    does not answer. ragbench's own errors pass unchanged.

    Args:
        address: of the store, without a password; it begins the line.
        failures: the exceptions of the engine's client.
    """
    try:
        yield
    except RagbenchError:  # in ragbench's own words already
        raise
    except failures as error:
        message = " ".join(str(error).split())
        # Drivers may quote whole statements: 300 characters say what is wrong.
        problem = mask_text(message)[:300] or type(error).__name__
        # An embedded store's address ends with its folder; a server's path is never looked at.
        _, _, path = address.partition(":")
        folder = Path(path)
        is_local = "://" not in address and folder.exists()
        if is_local and disk_usage(folder).free < _FULL_DISK:
            problem = f"the disk is full ({problem})"
        elif _UNREACHABLE.search(problem):
            problem = f"cannot be reached: is it running, and is the address right? ({problem})"
        raise StoreError(f"{address}: {problem}") from error


def _best_first(row: Row) -> tuple[float, str]:
    """A sort key of rows: the best score first, and of equal scores the lowest id.

    Results of all stores have this order: which chunks are among the first `k` must not depend on
    the engine.
    """
    return -row.score, row.id


def top_k(
    fetch: Callable[[Sequence[int], int], Rankings], queries: int, k: int, row_limit: int | None
) -> Rankings:
    """The first `k` rows of each query by score, then by id, in whichever order the engine answers.

    Engines order ties (rows of equal score) as they like, and cut anywhere within them. So one row
    more than `k` is fetched: when it ties with the last, more are, until the tie is whole.

    Args:
        fetch: gives the rows of some queries, by their positions, at most so many a query.
        queries: the number of queries.
        k: rows that are wanted of each query.
        row_limit: the most rows that one query can fetch; None where there is no limit.
    """
    limit = k + 1
    if row_limit is not None:
        limit = min(limit, row_limit)
    rankings = fetch(range(queries), limit)
    for query, rows in enumerate(rankings):
        rows.sort(key=_best_first)
        limit_of_query = limit
        # At the engine's own limit a longer tie stays cut where the engine cut it.
        while limit_of_query != row_limit:
            is_whole = len(rows) < limit_of_query  # the engine has no more
            if is_whole or rows[-1].score != rows[k - 1].score:
                break
            limit_of_query *= 4  # few requests, also where thousands tie
            if row_limit is not None:
                limit_of_query = min(limit_of_query, row_limit)
            [more_rows] = fetch([query], limit_of_query)
            rows = sorted(more_rows, key=_best_first)
        # Cut only now: a tie of the last row could not be seen before.
        rankings[query] = rows[:k]
    return rankings
