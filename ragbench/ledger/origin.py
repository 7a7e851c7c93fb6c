"""What the outcomes of a stage came from, and whether it is still the same.

The parts that a RAG reads are known only after it ran, so no key can hold them in advance. Build
systems solve this with verifying traces: an outcome is stored with the parts that it came from,
each with its digest, and used again while every one of them has the same digest now. Nothing has
to run to decide that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ragbench.ledger.content import (
    ABSENT,
    Content,
    changed_lines,
    file_content,
    folder_content,
    listing,
)
from ragbench.ledger.environ import BULK, env_digest
from ragbench.ledger.fingerprint import always_jsonable

__all__ = [
    "CHANGED_MEANWHILE",
    "STATE",
    "Changed",
    "Origin",
    "Part",
    "PartKind",
    "Reach",
    "Reuse",
    "asked_again_sentence",
    "may_reuse",
    "name_of",
    "named_origin",
    "own_state",
    "package_version",
    "place_of",
    "reuse_sentence",
    "setting_parts",
    "still_same",
]

PartKind = Literal[
    "code", "file", "folder", "model", "setting", "env", "package", "address", "unseen"
]
Reach = Literal["closed", "open"]

CHANGED_MEANWHILE = "changed meanwhile"
"""The digest of a file that changed while it was in use: no content is equal to it."""
STATE = "state"
"""The digest of a setting that a system changes itself while it is asked: it is not compared."""
_LONGEST_VALUE = 120
_SOURCES = re.compile(r"(^|\.)((class_)?sources\..*|source|code)$")


class Part(NamedTuple):
    """One thing that outcomes came from."""

    kind: PartKind
    """``"address"`` and ``"unseen"`` are not compared: they say how far the others reach."""
    name: str
    """A path relative to the project, to the home directory (``~``) or absolute; a setting, a
    variable, a package; an address; a sentence."""
    digest: str
    """Equal where the content is; of a package its version."""
    size: int = 0
    """Bytes of a file, entries of a folder."""
    detail: str = ""
    """What lets a change be described; see `ragbench.ledger.content.Content`. Of a setting its
    value, of a variable nothing."""


class Origin(NamedTuple):
    """All that the outcomes of a stage came from, as far as it can be seen."""

    stage: str
    parts: tuple[Part, ...]
    """By kind and name."""
    reach: Reach
    """``"open"``: something was met that cannot be seen into, so that equal parts prove nothing."""

    @property
    def digest(self) -> str:
        """Equal for equal parts."""
        compared = [(*part[:3],) for part in self.parts]
        text = json.dumps([self.stage, self.reach, compared])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    def as_json(self) -> dict[str, Any]:
        """The origin as JSON can hold it."""
        return {"stage": self.stage, "reach": self.reach, "parts": [[*p] for p in self.parts]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        """Takes back `as_json`."""
        parts = tuple(Part(*part) for part in value["parts"])
        return cls(value["stage"], parts, value["reach"])


class Changed(NamedTuple):
    """A part that is not what it was."""

    part: Part
    """As it was."""
    sentence: str
    """What changed: ``"prompts.py changed (3 lines)"``."""


class Reuse(NamedTuple):
    """Whether outcomes may be used again."""

    allowed: bool
    same_run_only: bool
    """They may only finish the run that they are from."""
    because: str
    """Why not, or why only there; empty where nothing stands against it."""


def may_reuse(origin: Origin, changed: Sequence[Changed]) -> Reuse:
    """Decides whether a stage's outcomes may be used again.

    Args:
        origin: what they came from.
        changed: what `still_same` said.
    """
    if changed:
        return Reuse(False, False, "; ".join(change.sentence for change in changed))
    if origin.reach == "closed":
        return Reuse(True, False, "")
    unseen = [part.detail or part.name for part in origin.parts if part.digest == "open"]
    because = unseen[0] if unseen else "it reads something that cannot be seen"
    more = f" (and {len(unseen) - 1} more)" if len(unseen) > 1 else ""
    return Reuse(True, True, because + more)


def named_origin(stage: str, identity: object) -> Origin:
    """The origin of outcomes of a system that names its version itself.

    Args:
        stage: the stage's name.
        identity: what it says, as plain values; see `ragbench.rag.interface.RAGBase`.
    """
    return Origin(stage, setting_parts({"stage_identity": identity}), "closed")


# --- names and places


def name_of(path: Path, base: Path) -> str:
    """A path as a part names it: relative to the project, else to the home directory.

    Args:
        path: absolute.
        base: the project's folder, absolute.
    """
    for root, before in ((base, ""), (Path.home(), "~/")):
        try:
            return f"{before}{path.relative_to(root).as_posix()}"
        except ValueError:
            continue
    return path.as_posix()


def place_of(name: str, base: Path) -> Path:
    """Where the file or folder lies that a part names."""
    return base / Path(name).expanduser()


# --- what is it now


def still_same(
    origin: Origin,
    base: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    leaving_out: Collection[str | Path] = (),
) -> tuple[Changed, ...]:
    """Compares everything that outcomes came from with what it is now.

    Args:
        origin: what they came from.
        base: the project's folder; see `ragbench.ledger.watch.project_folder`.
        settings: how the stage is described now; without it settings are not compared.
        leaving_out: as `ragbench.ledger.inputs.Inputs` was given it.

    Returns:
        What changed; nothing when all is the same.
    """
    written = [part for part in origin.parts if part.digest == "written"]
    without = {str(place_of(part.name, base)) for part in written}
    without |= {str(Path(path).absolute()) for path in leaving_out}
    found = [change for part in origin.parts if (change := _change(part, base, without))]
    if settings is not None:
        by_file = any(change.part.kind == "code" for change in found)
        found += [
            change
            for change in _changed_settings(origin, settings)
            # The digest of a source says less than the file that it is of.
            if not (by_file and _SOURCES.search(change.part.name))
        ]
    return tuple(found)


def _change(part: Part, base: Path, without: set[str]) -> Changed | None:
    if part.digest == CHANGED_MEANWHILE:
        return Changed(part, f"{part.name} changed while it was in use")
    if part.kind in ("code", "file", "model", "folder"):
        now = _content(part, place_of(part.name, base), without)
        same = now.digest == part.digest != "too large"
        return None if same else Changed(part, _file_sentence(part, now))
    if part.kind == "env":
        value = os.environ.get(part.name)
        if env_digest(part.name, value) != part.digest:
            return Changed(part, _env_sentence(part, value))
    elif part.kind == "package":
        found = package_version(part.name)
        if found != part.digest:
            return Changed(part, f"package {part.name}: {part.digest} -> {found or 'not there'}")
    return None


def _content(part: Part, path: Path, without: set[str]) -> Content:
    if part.digest.startswith("names:"):
        return listing(path, without=without)
    if part.kind == "folder":
        return folder_content(path, without=without)
    return file_content(path, before=Content(part.digest, part.size, part.detail))


def _file_sentence(part: Part, now: Content) -> str:
    if now.digest == ABSENT:
        return f"{part.name} is not there any more"
    if part.digest == ABSENT:
        return f"{part.name} is there now"
    if part.kind == "folder":
        return f"{part.name}/ changed ({_entries_sentence(part.detail, now.detail)})"
    lines = changed_lines(part.detail, now.detail)
    if lines:
        return f"{part.name} changed ({_count(lines, 'line')})"
    if now.size != part.size:
        return f"{part.name} changed ({part.size:,} -> {now.size:,} bytes)"
    return f"{part.name} changed"


def _entries_sentence(before: str, now: str) -> str:
    if not (before.startswith("entries ") and now.startswith("entries ")):
        return "too many files to name them"
    old: dict[str, str] = json.loads(before[8:])
    new: dict[str, str] = json.loads(now[8:])
    counts = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in old if name in new and new[name] != old[name]],
    }
    said = [
        f"{names[0] if len(names) == 1 else _count(len(names), 'file')} {what}"
        for what, names in counts.items()
        if names
    ]
    return ", ".join(said) or "its order"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _env_sentence(part: Part, value: str | None) -> str:
    if part.name == BULK:
        return "environment variables were added or removed"
    what = "is not set any more" if value is None else "changed"
    return f"environment variable {part.name} {'is set now' if part.digest == 'unset' else what}"


def package_version(name: str) -> str:
    """The version of an installed package, or of Python; empty when it is not there."""
    if name == "python":
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


# --- settings


def setting_parts(settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """What a stage is described by, one part a value.

    Args:
        settings: as JSON can hold it, without credentials; see
            `ragbench.ledger.identity.described`.
    """
    return tuple(
        Part("setting", name, hashlib.sha256(text).hexdigest()[:32], len(text), _short(text))
        for name, text in sorted(_leaves(settings, "", 6))
        if name
    )


def _leaves(value: object, name: str, depth: int) -> Iterator[tuple[str, bytes]]:
    items: Iterable[tuple[object, object]] = ()
    if depth and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
    elif depth and isinstance(value, (list, tuple)) and len(cast("list[object]", value)) <= 50:
        items = enumerate(cast("list[object]", value))
    found = False
    for key, entry in items:
        found = True
        yield from _leaves(entry, f"{name}.{key}" if name else str(key), depth - 1)
    if not found:
        yield name, always_jsonable(cast("object", value))


def _short(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]} ..."


def own_state(first: Iterable[Part], now: Iterable[Part]) -> tuple[Part, ...]:
    """Settings without those that a system changes itself while it is asked: counters, caches.

    Args:
        first: its settings before it was asked.
        now: the same afterwards.

    Returns:
        The first ones; in the place of what changed a part with the digest `STATE`, which stands
        for all under its name and is not compared.
    """
    before = {part.name: part for part in first}
    after = {part.name: part for part in now}
    changed = {name for name, part in before.items() if after.get(name, part)[2] != part[2]}
    changed |= before.keys() - after.keys()  # a list that was empty, and is not now
    changed |= {name for name in after.keys() - before.keys() if not _is_under(name, changed)}
    kept = [part for name, part in before.items() if not _is_under(name, changed)]
    return (*kept, *(Part("setting", name, STATE) for name in sorted(changed)))


def _is_under(name: str, names: Collection[str]) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in names)


def _changed_settings(origin: Origin, settings: Mapping[str, Any]) -> Iterator[Changed]:
    state = {part.name for part in origin.parts if part.digest == STATE}
    known = (part for part in origin.parts if part.kind == "setting" and part.digest != STATE)
    before = {part.name: part for part in known}
    now = {part.name: part for part in setting_parts(settings) if not _is_under(part.name, state)}
    for name, part in before.items():
        other = now.get(name)
        if other is None:
            yield Changed(part, f"{name}: {part.detail} -> nothing")
        elif other.digest != part.digest:
            yield Changed(part, f"{name}: {part.detail} -> {other.detail}")
    for name, part in now.items():
        if name not in before:
            yield Changed(part._replace(digest=ABSENT), f"{name}: nothing -> {part.detail}")


# --- for users


def reuse_sentence(count: int, what: str, when: str) -> str:
    """Says that something was reused.

    Args:
        count: how many.
        what: one of them: ``"answer"``.
        when: when they were made, as the reader writes it; may be empty.

    Example:
        >>> reuse_sentence(329, "answer", "09:17")
        '329 answers of 09:17 reused; --fresh asks again'
    """
    return f"{_count(count, what)}{f' of {when}' if when else ''} reused; --fresh asks again"


def asked_again_sentence(reuse: Reuse, *, most: int = 3) -> str:
    """Says why nothing was reused; empty where it was.

    Args:
        reuse: what was decided.
        most: reasons that are named.

    Example:
        >>> asked_again_sentence(Reuse(False, False, "prompts.py changed (3 lines)"))
        'asked again: prompts.py changed (3 lines)'
    """
    if reuse.allowed and not reuse.same_run_only:
        return ""
    reasons = reuse.because.split("; ")
    more = f" and {len(reasons) - most} more" if len(reasons) > most else ""
    return f"asked again: {', '.join(reasons[:most])}{more}"
