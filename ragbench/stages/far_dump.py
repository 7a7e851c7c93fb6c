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
    pieces = split.pieces()
    begun = deque[Any]()
    # A piece is enough for many batches: a few are read while those before them are judged.
    ahead = max(2, pool.ahead // 8)
    while True:
        while len(begun) < ahead and (piece := next(pieces, None)) is not None:
            begun.append(pool.begin([Task(READ, piece)]))
        if not begun:
            return
        for found in pool.take(begun.popleft()):
            if found is None:
                raise RunError(f"{split.name}: a worker ended each time it read a part of it")
            yield found


def whole_retrieval(dump: RetrievalDump, split: SplitDump | None) -> RetrievalDump:
    """A retrieval with its texts: read again where they have stayed where they are."""
    if split is None or not isinstance(dump, FarRetrieval):
        return dump
    [found] = _read_again(split, [dump.asked])
    return replace(found, query_id=dump.query_id)


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
    return by_kind({READ: partial(_reader, split), VALIDATE: partial(_judge, split, make)})


def _reader(split: SplitDump) -> Map[Piece, tuple[PieceItem, ...]]:
    def read(pieces: Sequence[Piece]) -> list[tuple[PieceItem, ...]]:
        with _readable(split):
            return [tuple(map(_light, split.read(piece))) for piece in pieces]

    return read


def _light(item: PieceItem) -> PieceItem:
    """A retrieval without its texts; anything else as it is."""
    if not isinstance(item, PlacedRetrieval) or item.retrieval is None:
        return item
    whole, chunks = item.retrieval, list[Chunk]()
    for chunk in whole.chunks:
        known = {name: chunk.metadata[name] for name in SOURCE_FIELDS if name in chunk.metadata}
        chunks.append(replace(chunk, text="", metadata=known))
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
    call = make()
    return lambda asked: call([*_read_again(split, asked)])


def _read_again(split: SplitDump, asked: Sequence[FarQuery]) -> Iterator[RetrievalDump]:
    with _readable(split):
        found = [*split.at([one.place for one in asked])]
    for one, retrieval in zip(asked, found, strict=True):
        if retrieval is None or retrieval_digest(retrieval) != one.digest:
            raise _changed(split)
        yield retrieval


def _changed(split: SplitDump) -> DataError:
    message = "it has changed since the command began to read it"
    return DataError([Problem(message=message, path=split.name)])


@contextmanager
def _readable(split: SplitDump) -> Generator[None]:
    try:
        yield
    except OSError as error:
        is_another = False
        with suppress(OSError):
            is_another = version_of_address(split.address) != split.version
        # A range that a shorter file has not is another error with every kind of place.
        if isinstance(error, ShortReadError) or is_another:
            raise _changed(split) from error
        why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        message = f"a worker cannot read it: {why}. Every node must reach it under this address"
        raise DataError([Problem(message=message, path=split.name)]) from error
