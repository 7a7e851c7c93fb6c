"""One writer at a time to a folder.

Engines inside of the process do not keep writers apart: one of them opens a folder for one process
only, others let two make the same collection. So who writes to a folder of this machine holds a
file in it locked; the system unlocks it when the process ends, however it does. On a server the end
of an indexing tells: it compares what the collection holds with what was written.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ragbench.errors import StoreError

_LOCK = ".ragbench.lock"


def being_written(address: str) -> StoreError:
    return StoreError(
        f"{address}: another 'ragbench index' is writing there: wait until it is done, and run the "
        "same command again"
    )


@contextmanager
def sole_writer(folder: Path | None, address: str, *, patience: float = 0.0) -> Generator[None]:
    """Keeps other indexings out of a store's folder, which is made where there is none.

    Args:
        patience: seconds to wait for another one to be through.
    """
    if folder is None:
        yield
        return
    lock = FileLock(folder / _LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise being_written(address) from error
    except OSError as error:
        lock.release()
        raise StoreError(f"{address}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
