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
    """Reads a dump through workers, piece by piece in its order; yields retrievals without texts.

    A dump may be of gigabytes: workers read it where it is, and only ids and places travel. Some
    pieces are begun ahead, so that workers read while earlier pieces are judged.
    """
    pieces = split.pieces()
    begun = deque[Any]()
    # A piece is enough for many batches: a few are read while those before them are judged.
    # An eighth of the pool's batches, but two at least: one is read while one is judged.
    ahead = max(2, pool.ahead // 8)
    while True:
        while len(begun) < ahead:
            piece = next(pieces, None)
            if piece is None:
                break
            begun.append(pool.begin([Task(READ, piece)]))
        if not begun:
            return
        # One task a batch: `take` gives one list of items, or None for a task that lost its
        # workers.
        for items in pool.take(begun.popleft()):
            if items is None:
                raise RunError(f"{split.name}: a worker ended each time it read a part of it")
            yield items


def whole_retrieval(dump: RetrievalDump, split: SplitDump | None) -> RetrievalDump:
    """A retrieval of a dump with the texts of its chunks.

    Where workers read the dump, the texts stayed behind: then they are read again from their place.
    Any other retrieval has its texts already, and is returned as it is.
    """
    if split is None or not isinstance(dump, FarRetrieval):
        return dump
    [retrieval] = _read_again(split, [dump.asked])
    # The second reading may know no id: the one under which the command knows the query counts.
    return replace(retrieval, query_id=dump.query_id)


def check_unchanged(split: SplitDump) -> None:
    """Refuses a dump that has changed since the command began to read it.

    The verdicts of the command might be partly on the content before the change, and partly on the
    content after it.
    """
    with _reading_on_worker(split):
        version = version_of_address(split.address)
    if version != split.version:
        raise _error_of_changed(split)


# --- on a worker


def far_calls(
    split: SplitDump, make: Callable[[], Map[RetrievalDump, Outcome[Verdict]]]
) -> Map[Task, Any]:
    """Makes a worker's calls by kind of task: to read pieces of a dump, or to judge queries.

    Runs on each worker; a call is made when the first task of its kind comes.

    Args:
        split: the dump, as a worker reads it under its address.
        make: makes the validator's call on whole retrievals.
    """
    return by_kind(
        {READ: partial(_piece_reader, split), VALIDATE: partial(_query_judge, split, make)}
    )


def _piece_reader(split: SplitDump) -> Map[Piece, tuple[PieceItem, ...]]:
    """Makes the function with which a worker reads pieces of a dump, texts left out.

    Made on the worker, as tasks of this kind first come there.
    """
    return partial(_pieces_without_texts, split)


def _pieces_without_texts(split: SplitDump, pieces: Sequence[Piece]) -> list[tuple[PieceItem, ...]]:
    """The items of each piece of a dump, read on a worker: retrievals without their texts.

    Texts of gigabytes stay on the worker; the command needs only ids, digests and places.
    """
    with _reading_on_worker(split):
        return [tuple(map(_without_texts, split.read(piece))) for piece in pieces]


def _without_texts(item: PieceItem) -> PieceItem:
    """A retrieval without its texts, which stay on the worker; anything else as it is.

    A dump may have gigabytes of texts. The command needs ids, digests and sources alone.
    """
    # A problem in the dump, or a place without a retrieval, holds no texts.
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
        # The place, to read it again; the digest, to see a change; the letters, to share out work.
        asked=FarQuery(item.place, retrieval_digest(whole), letters(whole)),
    )
    return item._replace(retrieval=far)


def _query_judge(
    split: SplitDump, make: Callable[[], Map[RetrievalDump, Outcome[Verdict]]]
) -> Map[FarQuery, Outcome[Verdict]]:
    """Makes the function with which a worker judges queries of a dump.

    Only the place of a query travels to the worker, which reads the query again from there.

    Args:
        make: makes the validator's call, on the worker.
    """
    call = make()
    return lambda queries: call(list(_read_again(split, queries)))


def _read_again(split: SplitDump, queries: Sequence[FarQuery]) -> Iterator[RetrievalDump]:
    """The retrievals of queries with their texts, read again from their places in the dump.

    A dump that has changed meanwhile is refused: a verdict would be stored for another text.
    """
    # Read within the block, all of them: a generator's errors would leave it unexplained.
    with _reading_on_worker(split):
        retrievals = list(split.at([query.place for query in queries]))
    for query, retrieval in zip(queries, retrievals, strict=True):
        if retrieval is None or retrieval_digest(retrieval) != query.digest:
            raise _error_of_changed(split)
        yield retrieval


def _error_of_changed(split: SplitDump) -> DataError:
    """The error for a dump that has changed since the command began to read it.

    The verdicts of the command would be partly on the old content, so the command ends.
    """
    message = "it has changed since the command began to read it"
    return DataError([Problem(message=message, path=split.name)])


@contextmanager
def _reading_on_worker(split: SplitDump) -> Generator[None]:
    """Turns an error of reading, in the block, into one that names the cause and the dump.

    The dump has changed, or the worker's node cannot reach it, for which a bare error of the system
    gives no hint.
    """
    try:
        yield
    except OSError as error:
        is_another = False
        with suppress(OSError):
            is_another = version_of_address(split.address) != split.version
        # A range that a shorter file has not is another error with every kind of place.
        if isinstance(error, ShortReadError) or is_another:
            raise _error_of_changed(split) from error
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = "there is no such file"
        message = f"a worker cannot read it: {why}. Every node must reach it under this address"
        raise DataError([Problem(message=message, path=split.name)]) from error
