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
from typing import Any, NamedTuple, cast

from ragbench.core.origin import Origin, OriginPart, PartKind
from ragbench.ledger.content import (
    ABSENT,
    Content,
    file_content,
    folder_content,
    listing,
)
from ragbench.ledger.environ import BULK, env_digest
from ragbench.ledger.fingerprint import always_jsonable

CHANGED_MEANWHILE = "changed meanwhile"
"""The digest of a file that changed while it was in use: no content is equal to it."""
STATE = "state"
"""The digest of a setting that a system changes itself while it is asked: it is not compared."""
_TOO_LARGE = "too large"
_LONGEST_VALUE = 120
_DIGEST = re.compile(r'"[0-9a-f]{16,}"')
"""A setting that stands for a content: its letters say nothing to anybody."""
_SOURCES = re.compile(r"(^|\.)((class_)?sources\..*|source|code)$")


class Changed(NamedTuple):
    """A part that is not what it was."""

    part: OriginPart
    """As it was."""
    sentence: str
    """What changed: ``"prompts.py changed"``."""


class Reuse(NamedTuple):
    """Whether outcomes may be used again."""

    allowed: bool
    same_run_only: bool
    """They may only finish the run that they are from."""
    because: str
    """Why not, or why only there; empty where nothing stands against it."""


def may_reuse(origin: Origin, changed: Sequence[Changed]) -> Reuse:
    """Decides whether a stage's outcomes may be used again."""
    if changed:
        return Reuse(False, False, "; ".join(change.sentence for change in changed))
    if origin.reach == "closed":
        return Reuse(True, False, "")
    first, *others = origin.unseen
    more = f" (and {len(others)} more)" if others else ""
    return Reuse(True, True, first + more)


def named_origin(stage: str, identity: object) -> Origin:
    """The origin of outcomes of a system that names its version itself."""
    return Origin(stage, setting_parts({"stage_identity": identity}), "closed")


# --- names and places


def name_of(path: Path, base: Path) -> str:
    """A path as a part names it: relative to the project, else to the home directory."""
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
    *,
    leaving_out: Collection[str | Path] = (),
) -> tuple[Changed, ...]:
    """Compares what outcomes came from with what it is now; settings are part of their keys."""
    written = [part for part in origin.parts if part.digest == "written"]
    without = {str(place_of(part.name, base)) for part in written}
    without |= {str(Path(path).absolute()) for path in leaving_out}
    return tuple(change for part in origin.parts if (change := _change(part, base, without)))


def _change(part: OriginPart, base: Path, without: set[str]) -> Changed | None:
    if part.digest == CHANGED_MEANWHILE:
        return Changed(part, f"{part.name} changed while it was in use")
    if part.kind in ("code", "file", "model", "folder"):
        now = _content(part, place_of(part.name, base), without)
        same = now.digest == part.digest != _TOO_LARGE
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


def _content(part: OriginPart, path: Path, without: set[str]) -> Content:
    if part.digest.startswith("names:"):
        return listing(path, without=without)
    if part.kind == "folder":
        return folder_content(path, without=without)
    return file_content(path, before=Content(part.digest, part.size, part.detail))


def _file_sentence(part: OriginPart, now: Content) -> str:
    if now.digest == ABSENT:
        return f"{part.name} is not there any more"
    if part.digest == ABSENT:
        return f"{part.name} is there now"
    if part.kind == "folder":
        return f"{part.name}/ changed ({_entries_sentence(part.detail, now.detail)})"
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
    counted = [
        f"{names[0] if len(names) == 1 else _count(len(names), 'file')} {what}"
        for what, names in counts.items()
        if names
    ]
    return ", ".join(counted) or "its order"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _env_sentence(part: OriginPart, value: str | None) -> str:
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


def setting_parts(settings: Mapping[str, Any]) -> tuple[OriginPart, ...]:
    """What a stage is described by, one part a value."""
    return tuple(
        OriginPart("setting", name, hashlib.sha256(text).hexdigest()[:32], len(text), _short(text))
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


def own_state(first: Iterable[OriginPart], now: Iterable[OriginPart]) -> tuple[OriginPart, ...]:
    """Settings without those that a system changes itself while it is asked: counters, caches."""
    before = {part.name: part for part in first}
    after = {part.name: part for part in now}
    changed = {name for name, part in before.items() if after.get(name, part)[2] != part[2]}
    changed |= before.keys() - after.keys()  # a list that was empty, and is not now
    changed |= {name for name in after.keys() - before.keys() if not _is_under(name, changed)}
    kept = [part for name, part in before.items() if not _is_under(name, changed)]
    return (*kept, *(OriginPart("setting", name, STATE) for name in sorted(changed)))


def _is_under(name: str, names: Collection[str]) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in names)


def _changed_settings(
    origin: Origin, settings: Iterable[OriginPart], *, by_file: bool
) -> Iterator[Changed]:
    """How settings differ; where a source file did, the digests of sources say less than that."""
    state = {part.name for part in origin.parts if part.digest == STATE}
    known = (part for part in origin.parts if part.kind == "setting" and part.digest != STATE)
    before = {part.name: part for part in known}
    now = {part.name: part for part in settings if not _is_under(part.name, state)}
    # What has another value says most: a stage of another kind has other settings altogether.
    for name in sorted(before | now, key=lambda name: name not in before or name not in now):
        if by_file and _SOURCES.search(name):
            continue
        old, new = before.get(name), now.get(name)
        if old is None and new is not None:
            yield Changed(new._replace(digest=ABSENT), f"{name}: nothing -> {new.detail}")
        elif old is not None and (new is None or new.digest != old.digest):
            yield Changed(old, _setting_sentence(name, old, new))


def _setting_sentence(name: str, old: OriginPart, new: OriginPart | None) -> str:
    if new is None:
        return f"{name}: {old.detail} -> nothing"
    if _DIGEST.fullmatch(old.detail) and _DIGEST.fullmatch(new.detail):
        return f"{name} changed"
    return f"{name}: {old.detail} -> {new.detail}"


# --- between two runs


def differences(before: Origin, now: Origin) -> tuple[Changed, ...]:
    """What differs between what the outcomes of a stage came from in two runs.

    Only what both have met is compared: what a program reads follows from what it has read
    before, so that the first difference is always among that. That environment variables came or
    went says nothing between two machines.
    """
    others = {(part.kind, part.name): part for part in now.parts}
    both = [
        (part, other)
        for part in before.parts
        if part.kind not in ("setting", "address", "unseen") and part.name != BULK
        if (other := others.get((part.kind, part.name))) is not None
    ]
    both.sort(key=lambda pair: _ORDER.index(pair[0].kind))
    found = [change for part, other in both if (change := _difference(part, other))]
    by_file = any(change.part.kind == "code" for change in found)
    state = [part.name for part in now.parts if part.digest == STATE]
    settings = [part for part in now.parts if part.kind == "setting" and part.digest != STATE]
    before = before._replace(
        parts=tuple(part for part in before.parts if not _is_under(part.name, state))
    )
    return (*found, *_changed_settings(before, settings, by_file=by_file))


_ORDER: tuple[PartKind, ...] = ("code", "file", "folder", "model", "package", "env")


def _difference(part: OriginPart, other: OriginPart) -> Changed | None:
    digests = (part.digest, other.digest)
    if CHANGED_MEANWHILE in digests:
        return Changed(part, f"{part.name} changed while it was in use")
    by_name = [digest.startswith("names:") for digest in digests]
    if part.digest == other.digest or _TOO_LARGE in digests or by_name[0] != by_name[1]:
        return None
    if part.kind == "package":
        return Changed(part, f"package {part.name}: {part.digest} -> {other.digest or 'not there'}")
    if part.kind == "env":
        states = {"unset": "is not set any more", "set": "changed"}
        what = "is set now" if part.digest == "unset" else states.get(other.digest, "changed")
        return Changed(part, f"environment variable {part.name} {what}")
    return Changed(part, _file_sentence(part, Content(other.digest, other.size, other.detail)))


# --- for users


def asked_again_sentence(reuse: Reuse) -> str:
    """Says why nothing was reused; empty where it was.

    Example:
        >>> asked_again_sentence(Reuse(False, False, "prompts.py changed"))
        'asked again: prompts.py changed'
    """
    if reuse.allowed and not reuse.same_run_only:
        return ""
    reasons = reuse.because.split("; ")
    more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return f"asked again: {', '.join(reasons[:3])}{more}"
