"""One writer at a time to a collection.

A server keeps writers apart by a lease in each collection. Engines inside of the process cannot:
one of them opens a folder for one process only, others let two make the same collection. So who
writes to a folder of this machine holds a file in it locked; the system unlocks it when the process
ends, however it does.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from filelock import FileLock, Timeout

from ragbench.errors import StoreError
from ragbench.stores.collection import OwnCollection

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


_HELD = 120.0
"""Seconds after which a lease that nobody renews is nobody's."""
_RENEWED = 20.0
"""Seconds after which it is renewed; far fewer, for a batch may take long."""


@dataclass(slots=True)
class Lease:
    """The right to write to a collection, kept with what the collection says of itself.

    A process that dies frees it: at once where the next one runs on the same machine, after two
    minutes elsewhere. Two that take it in the same moment find out before either is done: it is
    read again before each batch, and the last one that took it has it.
    """

    store: OwnCollection
    owner: str = field(default_factory=lambda: uuid4().hex)
    _renewed: float = -_HELD
    """By the monotonic clock."""

    def check_free(self) -> None:
        """Refuses a collection that another indexing is writing to."""
        found = _read(self.store.info().lease)
        if not found or found["owner"] == self.owner or not _is_held(found):
            return
        name = self.store.info().name
        raise StoreError(
            f"another 'ragbench index' is writing to the collection '{name}' (process "
            f"{found['pid']} on {found['host']}): wait until it is done. If it was killed there, "
            f"the collection is free {int(_HELD)} seconds after its last sign of life"
        )

    def take(self, identity: dict[str, Any]) -> None:
        """Marks the collection as incomplete and as ours."""
        self.check_free()
        self._mark(identity)
        self.check_ours()

    def check_ours(self) -> None:
        """Before a write: whether it is still ours; renewed now and then."""
        found = _read(self.store.info().lease)
        if not found or found["owner"] != self.owner:
            raise StoreError(
                f"another 'ragbench index' has begun to write to the collection "
                f"'{self.store.info().name}': this one stops. Run one of them again when the "
                "other is done"
            )
        if time.monotonic() - self._renewed >= _RENEWED:
            self._mark(None)

    def _mark(self, identity: dict[str, Any] | None) -> None:
        self._renewed = time.monotonic()
        lease = {
            "owner": self.owner,
            "host": platform.node(),
            "pid": os.getpid(),
            "renewed": time.time(),
        }
        self.store.mark(complete=False, identity=identity, lease=json.dumps(lease))

    def give_back(self) -> None:
        """After a failure: others need not wait. What cannot be reached frees itself in time."""
        try:
            found = _read(self.store.info().lease)
            if found and found["owner"] == self.owner:
                self.store.mark(complete=False)
        except StoreError:
            return


def _read(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(text)) if text else {}


def _is_held(found: dict[str, Any]) -> bool:
    if time.time() - found["renewed"] >= _HELD:
        return False
    if found["host"] != platform.node() or sys.platform == "win32":
        return True
    try:
        os.kill(found["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
