"""What the outcomes of a stage came from, where a run did, and what differs between two."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from ragbench.core.record import Record

PartKind = Literal["code", "file", "model", "setting", "env", "package", "address", "unseen"]
Reach = Literal["closed", "open"]


class OriginPart(NamedTuple):
    """One thing that outcomes came from."""

    kind: PartKind
    """``"address"`` and ``"unseen"`` are not compared: they say how far the others reach."""
    name: str
    """A path relative to the project, to the home directory (``~``) or absolute; a setting, a
    variable, a package; an address; a sentence."""
    digest: str
    """Equal where the content is."""
    size: int = 0
    """Bytes of a file."""
    detail: str = ""
    """What lets a change be described; see `ragbench.ledger.content.Content`. Of a setting its
    value, of a package its version, of a variable nothing."""


class Origin(NamedTuple):
    """All that the outcomes of a stage came from, as far as it can be seen."""

    stage: str
    parts: tuple[OriginPart, ...]
    """By kind and name."""
    reach: Reach
    """``"open"``: something was met that cannot be seen into, so that equal parts prove nothing."""

    @property
    def digest(self) -> str:
        compared = [(*part[:3],) for part in self.parts]
        text = json.dumps([self.stage, self.reach, compared])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @property
    def unseen(self) -> tuple[str, ...]:
        """What cannot be seen into, in words; empty where the parts are all there is."""
        if self.reach == "closed":
            return ()
        named = (part.detail or part.name for part in self.parts if part.digest == "open")
        return tuple(named) or ("it reads something that cannot be seen",)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        """Of an object with the fields by name, as `_asdict` gives them."""
        parts = tuple(OriginPart(*part) for part in value["parts"])
        return cls(value["stage"], parts, value["reach"])


class RunOrigin(Record):
    """What must be known of a run to find it again."""

    source: str
    """Where it was read from."""
    dataset: str
    rag: str
    cases: int
    """Cases of it that were looked at."""
    commit: str | None
    dirty: bool

    @property
    def version(self) -> str:
        """Its commit in short, and whether files had changed; empty outside of a repository."""
        return f"{self.commit[:12]}{' with changes' * self.dirty}" if self.commit else ""


class SystemChange(Record):
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


_accounted: ContextVar[bool] = ContextVar("ragbench_accounted", default=False)


@contextmanager
def accounted() -> Generator[None]:
    """Marks requests whose answers are known by model and parameters.

    A connection inside of it says nothing more about what an outcome came from; tasks that are
    started inside count, too.
    """
    token = _accounted.set(True)
    try:
        yield
    finally:
        _accounted.reset(token)


def is_accounted() -> bool:
    """Whether this happens inside of `accounted`."""
    return _accounted.get()
