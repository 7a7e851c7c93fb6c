"""One writer at a time to a folder.

Engines inside of the process do not keep writers apart: one of them opens a folder for one process
only, others let two make the same collection. So who writes to a folder of this machine holds a
file in it locked; the system unlocks it when the process ends, however it does. On a server the end
of an indexing tells: it compares what the collection holds with what was written.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ragbench.errors import StoreError

_LOCK = ".ragbench.lock"
_HOLDER = ".ragbench.writer"


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
        (folder / _HOLDER).write_text(_self(), "utf-8")
    except Timeout as error:
        raise StoreError(
            f"{address}: another 'ragbench index' is writing there{_holder(folder)}: wait until it "
            "is done, and run the same command again"
        ) from error
    except OSError as error:
        lock.release()
        raise StoreError(f"{address}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        (folder / _HOLDER).unlink(missing_ok=True)
        lock.release()


def in_use(address: str, folder: Path) -> StoreError:
    """What to raise where an engine finds its folder opened by another process."""
    holder = _holder(folder, but=_self())
    return StoreError(
        f"{address}: in use by another process{holder}. Such a folder is open to one process at a "
        "time: wait until that one is done, close it, or use a server"
    )


def _self() -> str:
    return f"process {os.getpid()} on {platform.node()}"


def _holder(folder: Path, *, but: str = "") -> str:
    """Who writes there now. One that was killed has left its name, and no lock."""
    try:
        with FileLock(folder / _LOCK, timeout=0):
            return ""
    except Timeout:
        name = (folder / _HOLDER).read_text("utf-8") if (folder / _HOLDER).is_file() else ""
    except OSError:
        return ""
    return f" ({name})" if name not in ("", but) else ""
