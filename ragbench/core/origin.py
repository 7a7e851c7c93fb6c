"""The inputs of a stage's outcomes, the origin of a run, and the differences between two systems.

`ragbench.ledger.origin` collects the inputs: code, packages, files, settings. An outcome is reused
only while all of them are the same, and the gate names those that changed.
"""

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
    """One input of a stage's outcomes."""

    kind: PartKind
    """Parts of the kinds ``"address"`` and ``"unseen"`` are not compared: they mark inputs that
    cannot be read, so that equal parts do not prove an equal system."""
    name: str
    """A path relative to the project, to the home directory (``~``) or absolute; a setting, a
    variable, a package; an address; a sentence."""
    digest: str
    """A digest of its content; of a package perhaps its version. A word in place of it, such as
    ``"open"``, where the content cannot be read."""
    size: int = 0
    """Bytes of a file or setting. Of a package the time of its record in nanoseconds, by which a
    later look sees that it need not be read again; 0 where neither is known."""
    detail: str = ""
    """What a message about a change shows: of a setting its value, of a package its version, of a
    variable nothing. Of a file see `ragbench.ledger.content.Content`."""


class Origin(NamedTuple):
    """All inputs of a stage's outcomes that can be read."""

    stage: str
    parts: tuple[OriginPart, ...]
    """Sorted by kind and name."""
    reach: Reach
    """``"open"`` where there is an input that cannot be read, such as a remote service: equal parts
    then prove nothing. Else ``"closed"``."""

    @property
    def digest(self) -> str:
        """A digest of the stage and of kind, name and digest of all its inputs.

        Equal digests are how runs see that nothing has changed; they are stored. Size and detail of
        an input do not count: they only serve messages.
        """
        compared = [(part.kind, part.name, part.digest) for part in self.parts]
        text = json.dumps([self.stage, self.reach, compared])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @property
    def is_named(self) -> bool:
        """Whether the origin is a version that the user names, and nothing else.

        With such an origin no code or file is compared: outcomes are reused as long as the version
        stays.
        """
        return all(part.kind == "setting" for part in self.parts)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The stage's inputs that cannot be read, such as a remote service, in words.

        Empty without any. Reports name them, as the same inputs then do not prove the same system.
        """
        if self.reach == "closed":
            return ()
        descriptions: list[str] = []
        for part in self.parts:
            # The mark of an input that cannot be read, in the place of a digest.
            if part.digest == "open":
                descriptions.append(part.detail or part.name)
        # Only the reach shows it: no part names the input.
        if not descriptions:
            descriptions.append("it reads something that cannot be seen")
        return tuple(descriptions)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        """The origin of an object with its fields by name, as `_asdict` makes it.

        Runs and baseline files store origins in that form.
        """
        parts = tuple(OriginPart(*part) for part in value["parts"])
        return cls(value["stage"], parts, value["reach"])


class RunOrigin(Record):
    """The facts by which a reader identifies a run: where it is, of which system and commit."""

    source: str
    """Where it was read from."""
    dataset: str
    rag: str
    cases: int
    """Number of its cases that were compared."""
    commit: str | None
    """Commit of the working folder; None outside a repository."""
    dirty: bool
    """Whether files differed from this commit."""

    @property
    def version(self) -> str:
        """The run's commit for readers: ``1f3a5b7c9d0e with changes``.

        Empty outside a repository.
        """
        if not self.commit:
            return ""
        version = self.commit[:12]
        if self.dirty:
            version += " with changes"
        return version


class SystemChange(Record):
    """The differences between the systems of two runs, by the inputs of their outcomes."""

    changes: tuple[str, ...] = ()
    """One sentence per difference: ``"prompts.py changed"``."""
    unseen: tuple[str, ...] = ()
    """Inputs that cannot be read, in either run: they may have changed, too."""
    unknown: str = ""
    """Why the systems cannot be compared at all; empty where they can be."""

    @property
    def is_none(self) -> bool:
        """Whether no input that can be read differs between the systems of the two runs.

        Inputs that cannot be read may still have changed.
        """
        return not self.changes and not self.unknown

    @property
    def is_ruled_out(self) -> bool:
        """Whether both runs are certainly of one system: no input differs, and all can be read.

        Where it is certain, a difference of the runs' scores comes of chance, and not of a change.
        """
        return self.is_none and not self.unseen


_accounted: ContextVar[bool] = ContextVar("ragbench_accounted", default=False)


@contextmanager
def accounted() -> Generator[None]:
    """Marks network requests inside as inputs that are recorded by other means.

    For example, of a call to a language model the model's name and parameters are recorded, as
    settings. Without this mark,
    the watch on connections would note the host as an input that cannot be read. Tasks that are
    started inside have the mark, too.
    """
    token = _accounted.set(True)
    try:
        yield
    finally:
        _accounted.reset(token)


def is_accounted() -> bool:
    """Whether the calling code runs inside `accounted`: its requests are recorded by other means.

    The watch on connections then does not note the host as an input that cannot be read.
    """
    return _accounted.get()
