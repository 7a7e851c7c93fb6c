"""What the outcomes of a stage came from, and whether it is still the same.

The parts that a RAG reads are known only after it ran, so no key can hold them in advance. Build
systems solve this with verifying traces: an outcome is stored with the parts that it came from,
each with its digest, and used again while every one of them has the same digest now. Nothing has
to run to decide that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ragbench.core.origin import Origin, OriginPart, PartKind
from ragbench.ledger.content import ABSENT
from ragbench.safe_text import as_line

CHANGED_MEANWHILE = "changed meanwhile"
"""The digest of a file that changed while it was in use: no content is equal to it."""
ARGUMENTS = "sys.argv"
"""The name under which the arguments of a user's program stand among its variables."""
STATE = "state"
"""The digest of a setting that a system changes itself while it is asked: it is not compared."""
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


# --- what changed


def change_of(part: OriginPart, now: OriginPart | None) -> Changed | None:
    """How a part differs from what it is now, or in another run; None: it is absent there."""
    name = part.name
    is_gone = now is None or now.digest == ABSENT
    if CHANGED_MEANWHILE in (part.digest, now and now.digest):
        sentence = f"{name} changed while it was in use"
    elif now is not None and now.digest == part.digest:
        return None
    elif part.kind == "package":
        sentence = f"package {name}: {_versions(part, now)}"
    elif name == ARGUMENTS:
        sentence = "the arguments of the program changed"
    elif part.kind == "env":
        state = "is not set any more" if is_gone else "changed"
        sentence = f"environment variable {name} {state}"
    elif is_gone:
        sentence = f"{name} is not there any more"
    elif part.digest == ABSENT:
        sentence = f"{name} is there now"
    else:
        sentence = f"{name} changed"
    return Changed(part, sentence)


def _versions(part: OriginPart, now: OriginPart | None) -> str:
    """How a package changed, such as ``1.2 -> 1.3``."""
    before = _version(part)
    after = "not there" if now is None else _version(now)
    if before == after:
        return f"{after} has other files"
    return f"{before} -> {after}"


def _version(package: OriginPart) -> str:
    return package.detail.removeprefix("version ") or package.digest


def appeared(part: OriginPart) -> Changed:
    """Something that was not there before."""
    sentences = {
        "package": "package {} is installed now",
        "env": "environment variable {} is set now",
    }
    sentence = sentences.get(part.kind, "{} is there now").format(part.name)
    return Changed(part._replace(digest=ABSENT), sentence)


# --- settings


def own_state(first: Iterable[OriginPart], now: Iterable[OriginPart]) -> tuple[OriginPart, ...]:
    """Settings without those that a system changes itself while it is asked: counters, caches."""
    before = {part.name: part for part in first}
    after = {part.name: part for part in now}
    changed = before.keys() - after.keys()  # a list that was empty, and is not now
    for name, part in before.items():
        if name in after and after[name].digest != part.digest:
            changed.add(name)
    changed |= {name for name in after.keys() - before.keys() if not _is_under(name, changed)}
    settings = [part for name, part in before.items() if not _is_under(name, changed)]
    for name in sorted(changed):
        settings.append(OriginPart("setting", name, STATE))
    return tuple(settings)


def _is_under(name: str, names: Collection[str]) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in names)


def _changed_settings(
    origin: Origin, settings: Iterable[OriginPart], *, by_file: bool
) -> Iterator[Changed]:
    """How settings differ; where a source file did, the digests of sources say less than that."""
    state = {part.name for part in origin.parts if part.digest == STATE}
    before: dict[str, OriginPart] = {}
    for part in origin.parts:
        if part.kind == "setting" and part.digest != STATE:
            before[part.name] = part
    now = {part.name: part for part in settings if not _is_under(part.name, state)}
    # What has another value says most: a stage of another kind has other settings altogether.
    for name in sorted(before | now, key=lambda name: name not in before or name not in now):
        if by_file and _SOURCES.search(name):
            continue
        old = before.get(name)
        new = now.get(name)
        if old is None and new is not None:
            value = new.detail or f"{new.size:,} bytes"
            yield Changed(new._replace(digest=ABSENT), f"{name}: nothing -> {value}")
        elif old is not None and (new is None or new.digest != old.digest):
            yield Changed(old, _setting_sentence(old, new))


def _setting_sentence(old: OriginPart, new: OriginPart | None) -> str:
    after = "nothing" if new is None else new.detail
    if not old.detail or not after:  # see `without_texts`
        return f"{old.name} changed{_sizes(old, new)}"
    if _DIGEST.fullmatch(old.detail) and _DIGEST.fullmatch(after):
        return f"{old.name} changed"
    return f"{old.name}: {old.detail} -> {after}"


def _sizes(old: OriginPart, new: OriginPart | None) -> str:
    sizes = dict.fromkeys(f"{part.size:,}" for part in (old, new) if part is not None)
    return f" ({' -> '.join(sizes)} bytes)"


# --- what leaves the machine


_FIGURE = re.compile(r"-?\d[\d.e+-]*|true|false|null|\{\}|\[\]")
_NAMES = re.compile(r"(^|\.)(stage_identity|class|method|model|name|strategy|type|version)$")
_NAME = re.compile(r'"\w[\w.:@/-]{0,63}"')
"""What a setting of such a name may hold to be shown: one word, which is no path from the root."""
_CLASS = re.compile(r'"[\w.<>]+:[\w.<>]+"')
_DATA = re.compile(r"(settings|arguments|config\.settings|stage_identity\.named)\.")
"""How settings begin below which keys are a user's own: names of attributes, ids of chunks."""
_AWAY = re.compile(r"(~/|/|[A-Za-z]:/|\.\./).*/")


def without_texts(origin: Origin) -> Origin:
    """The origin by digests, sizes, figures and versions, for what is committed and commented.

    A setting is named, and its value kept where it is a number or names a class or a model. What a
    system holds in a mapping or a list is one setting: its keys may be ids. Of a path outside of
    the project the last part is kept.
    """
    objects: set[str] = set()
    for part in origin.parts:
        parent, _, attribute = part.name.rpartition(".")
        if attribute in ("class", "function") and _CLASS.fullmatch(part.detail):
            objects.add(parent)
    by_name: dict[tuple[PartKind, str], list[OriginPart]] = {}
    for part in origin.parts:
        if part.kind == "setting":
            name = _setting_of(part.name, objects)
        else:
            name = _name_inside(part)
        by_name.setdefault((part.kind, name), []).append(part)
    parts: list[OriginPart] = []
    for (kind, name), same_name in by_name.items():
        if kind == "setting":
            parts.append(_setting_without_text(name, same_name))
        else:
            parts.append(_without_place(name, same_name[0]))
    return origin._replace(parts=tuple(parts))


def _setting_of(name: str, objects: Collection[str]) -> str:
    """The part of a setting's name before the keys of a mapping or a list."""
    root = _DATA.match(name)
    if root is None:
        return name
    attribute, *keys = name[root.end() :].split(".")
    setting = root[0] + attribute
    for key in keys:
        if setting not in objects:
            return setting
        setting += f".{key}"
    return setting


def _name_inside(part: OriginPart) -> str:
    """A path outside of the project by its last part and a digest; other names as they are."""
    outside = None
    if part.kind not in ("package", "env"):
        outside = _AWAY.match(part.name)
    if outside is None:
        return part.name
    digest = hashlib.sha256(part.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{part.name[outside.end() :]}#{digest}"


def _without_place(name: str, part: OriginPart) -> OriginPart:
    if part.kind == "package":  # its detail is its version
        return part._replace(name=name, size=0)
    detail = part.detail.replace(part.name, name)
    if detail.startswith("stamp "):  # the time of a file differs from machine to machine
        detail = ""
    return part._replace(name=name, detail=detail)


def _setting_without_text(name: str, parts: Sequence[OriginPart]) -> OriginPart:
    first = parts[0]
    if len(parts) == 1 and first.name == name:
        is_name = _NAMES.search(name) and _NAME.fullmatch(first.detail)
        is_figure = _FIGURE.fullmatch(first.detail) or _DIGEST.fullmatch(first.detail)
        if is_name or is_figure:
            return first
        return first._replace(detail="")
    digest = STATE
    if all(part.digest != STATE for part in parts):
        contents = "".join(f"{part.name}\0{part.digest}\0" for part in parts)
        digest = hashlib.sha256(contents.encode()).hexdigest()[:32]
    return OriginPart("setting", name, digest, sum(part.size for part in parts))


# --- between two runs


def differences(before: Origin, now: Origin) -> tuple[Changed, ...]:
    """What differs between what the outcomes of a stage came from in two runs.

    Only what both have is compared: another machine has other files, packages and variables.
    """
    parts_now = {(part.kind, part.name): part for part in now.parts}
    changes: list[Changed] = []
    for part in sorted(before.parts, key=_order_of):
        part_now = parts_now.get((part.kind, part.name))
        if part.kind not in _ORDER or part_now is None:
            continue
        change = change_of(part, part_now)
        if change is None:
            continue
        if part.kind in _FILES and change.sentence.endswith(" changed"):
            change = change._replace(sentence=f"{change.sentence}{_sizes(part, part_now)}")
        changes.append(change)
    by_file = any(change.part.kind == "code" for change in changes)
    state = [part.name for part in now.parts if part.digest == STATE]
    settings = [part for part in now.parts if part.kind == "setting" and part.digest != STATE]
    compared = tuple(part for part in before.parts if not _is_under(part.name, state))
    before = before._replace(parts=compared)
    return (*changes, *_changed_settings(before, settings, by_file=by_file))


_FILES: tuple[PartKind, ...] = ("code", "file", "model")
_ORDER: tuple[PartKind, ...] = (*_FILES, "package", "env")
"""What is compared between two runs by name, in the order in which it is said. Settings are
compared by themselves; of an address or a program nothing is known."""


def _order_of(part: OriginPart) -> int:
    return _ORDER.index(part.kind) if part.kind in _ORDER else len(_ORDER)


# --- for users


def asked_again_sentence(reuse: Reuse) -> str:
    """Says why nothing was reused; empty where it was.

    Example:
        >>> asked_again_sentence(Reuse(False, False, "prompts.py changed"))
        'asked again: prompts.py changed'
    """
    if reuse.allowed and not reuse.same_run_only:
        return ""
    return f"asked again: {as_line(reuse.because.split('; '), most=3)}"
