"""Who writes to a collection: one indexing at a time."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from ragbench.errors import StoreError
from ragbench.stores.base import VectorStore

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

    store: VectorStore
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
        said = {
            "owner": self.owner,
            "host": platform.node(),
            "pid": os.getpid(),
            "renewed": time.time(),
        }
        self.store.mark(complete=False, identity=identity, lease=json.dumps(said))

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
