"""A dump that workers read: the command sees ids, digests and places, never the texts.

Each query is read twice, both times by a worker: once to learn what it is, so that a stored verdict
is taken where there is one, and once to be judged. Between the two, only its place travels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Outcome
from ragbench.core.record import replace
from ragbench.core.validation import RetrievalDump, Verdict
from ragbench.errors import DataError, Problem, RunError
from ragbench.io.addresses import ShortReadError, version_of_address
from ragbench.io.dumps.pieces import Piece, PieceItem, PlacedRetrieval, SplitDump
from ragbench.stages.doctor import SOURCE_FIELDS
from ragbench.stages.validate import VALIDATE, FarQuery, FarRetrieval, letters, retrieval_digest
from ragbench.workers.pool import Map, Task, WorkerPool, by_kind

READ = "read"


def read_pieces(split: SplitDump, pool: WorkerPool[Task, Any]) -> Iterator[Sequence[PieceItem]]:
    """The retrievals of a dump without their texts, piece by piece, in its order."""
    pieces = split.pieces()
    begun = deque[Any]()
    # A piece is enough for many batches: a few are read while those before them are judged.
    ahead = max(2, pool.ahead // 8)
    while True:
        while len(begun) < ahead:
            piece = next(pieces, None)
            if piece is None:
                break
            begun.append(pool.begin([Task(READ, piece)]))
        if not begun:
            return
        for items in pool.take(begun.popleft()):
            if items is None:
                raise RunError(f"{split.name}: a worker ended each time it read a part of it")
            yield items


def whole_retrieval(dump: RetrievalDump, split: SplitDump | None) -> RetrievalDump:
    """A retrieval with its texts: read again where they have stayed where they are."""
    if split is None or not isinstance(dump, FarRetrieval):
        return dump
    [retrieval] = _read_again(split, [dump.asked])
    return replace(retrieval, query_id=dump.query_id)


def check_unchanged(split: SplitDump) -> None:
    """Refuses verdicts on a dump that may be partly from before and partly from after a change."""
    with _readable(split):
        version = version_of_address(split.address)
    if version != split.version:
        raise _changed(split)


# --- on a worker


def far_calls(
    split: SplitDump, make: Callable[[], Map[RetrievalDump, Outcome[Verdict]]]
) -> Map[Task, Any]:
    """What a worker can be asked: to read a piece of the dump, or to judge some of its queries."""
    return by_kind({READ: partial(_reader, split), VALIDATE: partial(_judge, split, make)})


def _reader(split: SplitDump) -> Map[Piece, tuple[PieceItem, ...]]:
    """Reads pieces on a worker, and sends back their retrievals without the texts."""

    def read(pieces: Sequence[Piece]) -> list[tuple[PieceItem, ...]]:
        """The items of each piece, retrievals without their texts."""
        with _readable(split):
            return [tuple(map(_without_texts, split.read(piece))) for piece in pieces]

    return read


def _without_texts(item: PieceItem) -> PieceItem:
    """A retrieval without its texts, which stay on the worker; anything else as it is.

    A dump may have gigabytes of texts. The command needs ids, digests and sources alone.
    """
    if not isinstance(item, PlacedRetrieval) or item.retrieval is None:
        return item
    whole = item.retrieval
    chunks: list[Chunk] = []
    for chunk in whole.chunks:
        # The doctor's list of sources reads these fields, and nothing else of the metadata is read.
        sources = {name: chunk.metadata[name] for name in SOURCE_FIELDS if name in chunk.metadata}
        chunks.append(replace(chunk, text="", metadata=sources))
    far = FarRetrieval(
        query_id=whole.query_id,
        query=whole.query,
        chunks=tuple(chunks),
        warnings=whole.warnings,
        asked=FarQuery(item.place, retrieval_digest(whole), letters(whole)),
    )
    return item._replace(retrieval=far)


def _judge(
    split: SplitDump, make: Callable[[], Map[RetrievalDump, Outcome[Verdict]]]
) -> Map[FarQuery, Outcome[Verdict]]:
    """Judges queries on a worker: each is read again from its place, as only that travels."""
    call = make()
    return lambda queries: call(list(_read_again(split, queries)))


def _read_again(split: SplitDump, queries: Sequence[FarQuery]) -> Iterator[RetrievalDump]:
    """The retrievals of queries, with their texts; refuses a dump that has changed."""
    with _readable(split):
        retrievals = list(split.at([query.place for query in queries]))
    for query, retrieval in zip(queries, retrievals, strict=True):
        if retrieval is None or retrieval_digest(retrieval) != query.digest:
            raise _changed(split)
        yield retrieval


def _changed(split: SplitDump) -> DataError:
    """The error for a dump that is not the one that was read at first."""
    message = "it has changed since the command began to read it"
    return DataError([Problem(message=message, path=split.name)])


@contextmanager
def _readable(split: SplitDump) -> Generator[None]:
    """Says, where reading fails in the block, whether the dump has changed or cannot be reached."""
    try:
        yield
    except OSError as error:
        is_another = False
        with suppress(OSError):
            is_another = version_of_address(split.address) != split.version
        # A range that a shorter file has not is another error with every kind of place.
        if isinstance(error, ShortReadError) or is_another:
            raise _changed(split) from error
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = "there is no such file"
        message = f"a worker cannot read it: {why}. Every node must reach it under this address"
        raise DataError([Problem(message=message, path=split.name)]) from error
