"""``trackers.json`` of a run folder: where the run was sent, and under which ids.

With it a second export updates what the first one made, also where the first one was interrupted.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec

from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record, field
from ragbench.errors import RunMismatchError
from ragbench.io.atomic import write_whole

RECEIPT = "trackers.json"


class Receipts(Record):
    """The content of the file."""

    key: str
    """Unique to this run: ids of its parts are derived from it."""
    fingerprint: str
    """Of dataset, system, metrics and settings: with others it is another run."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The trackers' ids of the run, by place."""


class Receipt:
    """The receipts of one run, each written as soon as the tracker has given an id."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        """Reads the file; begins a new one where there is none, or where it is of another run."""
        self.path = folder / RECEIPT
        receipts = None
        if self.path.is_file():
            receipts = _read(self.path)
        if receipts is None or receipts.fingerprint != fingerprint:
            receipts = Receipts(key=uuid.uuid4().hex, fingerprint=fingerprint)
        self._receipts = receipts
        # An interrupted export leaves its key behind: the next one derives the same ids.
        self._write()

    @property
    def key(self) -> str:
        """A text that no other run has."""
        return self._receipts.key

    def derived_id(self, *parts: str) -> str:
        """A UUID of this run and some names: equal at each export."""
        # A null character is in no id that a tracker accepts, so different parts never join alike.
        name = "\0".join(parts)
        return str(uuid.uuid5(uuid.UUID(self.key), name))

    def id_at(self, place: str) -> str | None:
        """The id that a tracker gave to the run; None where it was not sent there."""
        return self._receipts.ids.get(place)

    def keep(self, place: str, id: str) -> None:
        """Stores the id that a tracker gave to the run.

        Args:
            place: the tracker, its address and its project.
        """
        self._receipts.ids[place] = id
        self._write()

    def _write(self) -> None:
        """Writes the file whole, indented, so that people can read it."""
        content = msgspec.json.encode(self._receipts)
        write_whole(self.path, msgspec.json.format(content) + b"\n")


def _read(path: Path) -> Receipts:
    """The receipts of a file.

    Raises:
        RunMismatchError: the file is damaged.
    """

    def refusal(error: Exception) -> Exception:
        """The error of a file that is no receipt, with what to do."""
        reason = words_of(error)
        return RunMismatchError(
            f"{path}: cannot be read: {reason}. Delete it, and the run is sent as a new one"
        )

    with Reading(refusal):
        receipts = msgspec.json.decode(path.read_bytes(), type=Receipts)
        uuid.UUID(receipts.key)  # a key that is none is found now, not when ids are derived
    return receipts
