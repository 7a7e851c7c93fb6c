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
    name, is_gone = part.name, now is None or now.digest == ABSENT
    if CHANGED_MEANWHILE in (part.digest, now and now.digest):
        sentence = f"{name} changed while it was in use"
    elif now is not None and now.digest == part.digest:
        return None
    elif part.kind == "package":
        before, after = (
            "not there" if one is None else one.detail.removeprefix("version ") or one.digest
            for one in (part, now)
        )
        changed = f"{before} -> {after}" if before != after else f"{after} has other files"
        sentence = f"package {name}: {changed}"
    elif name == ARGUMENTS:
        sentence = "the arguments of the program changed"
    elif part.kind == "env":
        state = "is not set any more" if is_gone else "changed"
        sentence = f"environment variable {name} {state}"
    elif is_gone:
        sentence = f"{name} is not there any more"
    else:
        sentence = f"{name} {'is there now' if part.digest == ABSENT else 'changed'}"
    return Changed(part, sentence)


def appeared(part: OriginPart) -> Changed:
    """Something that was not there before."""
    what = {"package": "package {} is installed now", "env": "environment variable {} is set now"}
    sentence = what.get(part.kind, "{} is there now").format(part.name)
    return Changed(part._replace(digest=ABSENT), sentence)


# --- settings


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
            shown = new.detail or f"{new.size:,} bytes"
            yield Changed(new._replace(digest=ABSENT), f"{name}: nothing -> {shown}")
        elif old is not None and (new is None or new.digest != old.digest):
            after = "nothing" if new is None else new.detail
            said = f"{name}: {old.detail} -> {after}"
            if not (old.detail and after):  # see `without_texts`
                said = f"{name} changed{_sizes(old, new)}"
            elif _DIGEST.fullmatch(old.detail) and _DIGEST.fullmatch(after):
                said = f"{name} changed"
            yield Changed(old, said)


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
    objects = {
        part.name.rpartition(".")[0]
        for part in origin.parts
        if part.name.endswith((".class", ".function")) and _CLASS.fullmatch(part.detail)
    }
    found: dict[tuple[PartKind, str], list[OriginPart]] = {}
    for part in origin.parts:
        name = _setting_of(part.name, objects) if part.kind == "setting" else _near(part)
        found.setdefault((part.kind, name), []).append(part)
    return origin._replace(parts=tuple(_bare(name, parts) for (_, name), parts in found.items()))


def _setting_of(name: str, objects: Collection[str]) -> str:
    root = _DATA.match(name)
    if root is None:
        return name
    known, *keys = name[root.end() :].split(".")
    known = root[0] + known
    for key in keys:
        if known not in objects:
            return known
        known += f".{key}"
    return known


def _near(part: OriginPart) -> str:
    if part.kind in ("package", "env") or not (away := _AWAY.match(part.name)):
        return part.name
    digest = hashlib.sha256(part.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{part.name[away.end() :]}#{digest}"


def _bare(name: str, parts: Sequence[OriginPart]) -> OriginPart:
    first = parts[0]
    if first.kind != "setting":
        is_version = first.kind == "package"
        detail = first.detail if is_version else first.detail.replace(first.name, name)
        shown = "" if detail.startswith("stamp ") else detail
        return first._replace(name=name, size=0 if is_version else first.size, detail=shown)
    if (len(parts), first.name) == (1, name):
        is_name = _NAMES.search(name) and _NAME.fullmatch(first.detail)
        is_figure = _FIGURE.fullmatch(first.detail) or _DIGEST.fullmatch(first.detail)
        return first if is_name or is_figure else first._replace(detail="")
    whole = hashlib.sha256("".join(f"{one.name}\0{one.digest}\0" for one in parts).encode())
    is_state = any(part.digest == STATE for part in parts)
    digest = STATE if is_state else whole.hexdigest()[:32]
    return OriginPart("setting", name, digest, sum(part.size for part in parts))


# --- between two runs


def differences(before: Origin, now: Origin) -> tuple[Changed, ...]:
    """What differs between what the outcomes of a stage came from in two runs.

    Only what both have is compared: another machine has other files, packages and variables.
    """
    others = {(part.kind, part.name): part for part in now.parts}
    both = [
        (part, other)
        for part in before.parts
        if part.kind not in ("setting", "address", "unseen")
        if (other := others.get((part.kind, part.name))) is not None
    ]
    both.sort(key=lambda pair: _ORDER.index(pair[0].kind))
    found = [
        change._replace(sentence=f"{change.sentence}{_sizes(part, other)}")
        if part.kind in ("code", "file", "model") and change.sentence.endswith(" changed")
        else change
        for part, other in both
        if (change := change_of(part, other))
    ]
    by_file = any(change.part.kind == "code" for change in found)
    state = [part.name for part in now.parts if part.digest == STATE]
    settings = [part for part in now.parts if part.kind == "setting" and part.digest != STATE]
    before = before._replace(
        parts=tuple(part for part in before.parts if not _is_under(part.name, state))
    )
    return (*found, *_changed_settings(before, settings, by_file=by_file))


_ORDER: tuple[PartKind, ...] = ("code", "file", "model", "package", "env")


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
