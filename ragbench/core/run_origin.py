"""Where a run that was looked at came from, and what differs between two."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOrigin:
    """What must be known of a run to find it again."""

    source: str
    """Where it was read from."""
    dataset: str
    rag: str
    cases: int
    """Cases of it that were looked at."""
    commit: str | None
    dirty: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemChange:
    """What differs between what the outcomes of two runs came from."""

    changes: tuple[str, ...] = ()
    """A sentence each: ``"prompts.py changed"``."""
    unseen: tuple[str, ...] = ()
    """What cannot be seen into, in either run: it may have changed as well."""
    unknown: str = ""
    """Why nothing is known of it at all; empty where something is."""

    @property
    def is_none(self) -> bool:
        """Whether it is one unchanged system, as far as can be seen."""
        return not self.changes and not self.unknown

    @property
    def is_ruled_out(self) -> bool:
        """Whether it is certain that both are of one system: nothing differs, all was seen."""
        return self.is_none and not self.unseen
