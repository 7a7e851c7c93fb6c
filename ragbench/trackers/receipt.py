"""``trackers.json`` of a run folder: where the run was sent, and under which ids.

With it a second export updates what the first one made, also where the first one was interrupted.
"""

from __future__ import annotations

import uuid
from functools import partial
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
        """Reads ``trackers.json`` of a run's folder, or begins a new one.

        A file of another run, which has another fingerprint, is replaced: its ids belong to that
        run's exports.

        Args:
            folder: the run's folder.
            fingerprint: of dataset, system, metrics and settings.
        """
        self.path = folder / RECEIPT
        receipts = None
        if self.path.is_file():
            receipts = _read_receipts(self.path)
        # Another dataset, system, metric or setting: its ids belong to that other run.
        if receipts is None or receipts.fingerprint != fingerprint:
            receipts = Receipts(key=uuid.uuid4().hex, fingerprint=fingerprint)
        self._receipts = receipts
        # Written at once: an interrupted export leaves its key behind, from which the next export
        # derives the same ids.
        self._write()

    @property
    def key(self) -> str:
        """The key of this run's exports, a text that no other run has.

        Trackers store it with the run, so that a later export recognises its own run.
        """
        return self._receipts.key

    def derived_id(self, *parts: str) -> str:
        """A UUID for a part of this run, such as a case's score, by the part's names.

        Equal at each export of the run, so that a tracker overwrites the part and makes no second
        one. Another formula would make every earlier export a stranger.
        """
        # A null character is in no id that a tracker accepts, so different parts never join alike.
        name = "\0".join(parts)
        return str(uuid.uuid5(uuid.UUID(self.key), name))

    def id_at(self, place: str) -> str | None:
        """The id that a tracker gave to the run at an earlier export; None where there was none.

        Args:
            place: the tracker, its address and its project, as `keep` stored it.
        """
        return self._receipts.ids.get(place)

    def keep(self, place: str, id: str) -> None:
        """Stores the id that a tracker gave to the run, at once: an export may be interrupted.

        Args:
            place: the tracker, its address and its project.
        """
        self._receipts.ids[place] = id
        self._write()

    def _write(self) -> None:
        """Writes the receipts to their file, indented, so that people can read it.

        Whole, because a half-written file would lose the ids by which later exports update the run.
        """
        content = msgspec.json.encode(self._receipts)
        write_whole(self.path, msgspec.json.format(content) + b"\n")


def _read_receipts(path: Path) -> Receipts:
    """The receipts of a run's exports, from the file that an earlier export wrote.

    A receipt is the id that a tracker gave to the run: with it a second export updates the first.
    The form is stored in run folders, so older files must stay readable.

    Raises:
        RunMismatchError: the file is damaged.
    """
    with Reading(partial(_unreadable_receipts, path)):
        receipts = msgspec.json.decode(path.read_bytes(), type=Receipts)
        uuid.UUID(receipts.key)  # a key that is none is found now, not when ids are derived
    return receipts


def _unreadable_receipts(path: Path, error: Exception) -> RunMismatchError:
    """The error of a damaged ``trackers.json``, with a next step for the user.

    Without its ids a second export would make a second run: only the user may decide that.
    """
    reason = words_of(error)
    return RunMismatchError(
        f"{path}: cannot be read: {reason}. Delete it, and the run is sent as a new one"
    )
