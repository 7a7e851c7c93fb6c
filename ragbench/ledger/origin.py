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
# Settings that hold a digest of source text.
_NAMES_OF_SOURCES = re.compile(r"(^|\.)((class_)?sources\..*|source|code)$")


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
    """Why not, or why only in that run; empty where they may be used without limit."""


def may_reuse(origin: Origin, changed: Sequence[Changed]) -> Reuse:
    """Decides whether a stage's stored outcomes may be used again, and why not.

    An outcome that depends on things that cannot be seen, such as a server, may be reused only to
    finish its own run.

    Args:
        changed: what differs now from what they came from.
    """
    # A change that is known comes before anything unseen.
    if changed:
        return Reuse(False, False, "; ".join(change.sentence for change in changed))
    if origin.reach == "closed":
        return Reuse(True, False, "")
    # What cannot be seen may be another by the next run.
    # An open origin has something unseen.
    reason = origin.unseen[0]
    further = len(origin.unseen) - 1
    if further:
        reason += f" (and {further} more)"
    return Reuse(True, True, reason)


# --- what changed


def change_of(part: OriginPart, now: OriginPart | None) -> Changed | None:
    """The change of a part of an origin between two moments, or two runs; None without a change.

    A part is one thing that outcomes depend on: a file, a package, a variable. The sentence of the
    change tells a user why stored outcomes are not used again.

    Args:
        now: the part now, or in the other run; None where it is absent there.
    """
    name = part.name
    is_gone = now is None or now.digest == ABSENT
    digest_now = None
    if now is not None:
        digest_now = now.digest
    # Looked at first: of a file that changed while in use nothing else is known.
    if CHANGED_MEANWHILE in (part.digest, digest_now):
        # Also where both say so: the two digests are equal, and the contents need not be.
        sentence = f"{name} changed while it was in use"
    elif digest_now == part.digest:
        return None
    elif part.kind == "package":
        sentence = f"package {name}: {_versions_text(part, now)}"
    elif name == ARGUMENTS:
        # By name: the arguments are kept among the variables.
        sentence = "the arguments of the program changed"
    elif part.kind == "env":
        sentence = f"environment variable {name} changed"
        if is_gone:
            sentence = f"environment variable {name} is not set any more"
    elif is_gone:
        sentence = f"{name} is not there any more"
    elif part.digest == ABSENT:
        sentence = f"{name} is there now"
    else:
        sentence = f"{name} changed"
    return Changed(part, sentence)


def _versions_text(part: OriginPart, now: OriginPart | None) -> str:
    """The versions between which a package changed, in words, such as ``1.2 -> 1.3``.

    A package that its developer edits keeps its version: then only its files are named as changed.
    """
    before = _version_text(part)
    after = "not there"
    if now is not None:
        after = _version_text(now)
    if before == after:  # such as a package that its developer edits
        return f"{after} has other files"
    return f"{before} -> {after}"


def _version_text(package: OriginPart) -> str:
    """The version of a package in words; its digest where its installation names no version.

    A message shows it, where a digest would say nothing.
    """
    return package.detail.removeprefix("version ") or package.digest


def appeared(part: OriginPart) -> Changed:
    """The change that a file, package or variable exists which did not before.

    Outcomes may depend on it now, so that earlier ones are not reused.
    """
    sentences = {
        "package": "package {} is installed now",
        "env": "environment variable {} is set now",
    }
    sentence = sentences.get(part.kind, "{} is there now").format(part.name)
    # The part carries the digest of something absent: that is what it was before.
    return Changed(part._replace(digest=ABSENT), sentence)


# --- settings


def own_state(
    settings_before: Iterable[OriginPart], settings_now: Iterable[OriginPart]
) -> tuple[OriginPart, ...]:
    """A system's settings, with those marked that the system changes itself: counters, caches.

    Compared by their values, such settings would make every run's outcomes those of another system.

    Args:
        settings_before: as they were before it was asked; the unchanged ones of these come back.
        settings_now: as they are after it was asked.
    """
    before = {part.name: part for part in settings_before}
    now = {part.name: part for part in settings_now}
    # A name that is gone: a list that was empty is none any more when it has entries.
    # Settings that exist only before, or with another value.
    changed_names = before.keys() - now.keys()
    for name, part in before.items():
        if name in now and now[name].digest != part.digest:
            changed_names.add(name)
    # The entries of such a list are new, but are covered by the name of the list.
    # Only after: new, unless they lie under a name that changed.
    new_names = now.keys() - before.keys()
    changed_names |= {name for name in new_names if not _is_under(name, changed_names)}
    # Unchanged settings come back as they were before the system was asked.
    settings = [part for name, part in before.items() if not _is_under(name, changed_names)]
    # One for each root, by name: their entries have no part of their own.
    for name in sorted(changed_names):
        settings.append(OriginPart("setting", name, STATE))
    return tuple(settings)


def _is_under(name: str, roots: Collection[str]) -> bool:
    """Whether a setting is one of some roots, or an entry of one, as ``a.b`` is of ``a``.

    A change of a root is a change of all of its entries, which need no mention of their own.
    """
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _changed_settings(
    origin: Origin, settings: Iterable[OriginPart], *, by_file: bool
) -> Iterator[Changed]:
    """The changes of settings between stored outcomes and now, one for each setting.

    Changed values come before settings that exist on one side alone, since they say most.

    Args:
        origin: what outcomes came from.
        settings: those of now.
        by_file: whether a source file is said to have changed: then settings that hold digests of
            sources say nothing more, and are left out.
    """
    # Settings that the system changes itself are compared on neither side.
    state = {part.name for part in origin.parts if part.digest == STATE}
    before: dict[str, OriginPart] = {}
    for part in origin.parts:
        if part.kind == "setting" and part.digest != STATE:
            before[part.name] = part
    # Entries of such a setting are left out as well.
    now = {part.name: part for part in settings if not _is_under(part.name, state)}
    in_both = [name for name in before if name in now]
    in_one = [name for name in before | now if name not in before or name not in now]
    # What has another value says most: a stage of another kind has other settings altogether.
    for name in (*in_both, *in_one):
        if by_file and _NAMES_OF_SOURCES.search(name):
            continue
        old = before.get(name)
        new = now.get(name)
        if old is None and new is not None:
            # A text without a detail has its size alone.
            value = new.detail or f"{new.size:,} bytes"
            yield Changed(new._replace(digest=ABSENT), f"{name}: nothing -> {value}")
        elif old is not None and (new is None or new.digest != old.digest):
            yield Changed(old, _setting_sentence(old, new))


def _setting_sentence(old: OriginPart, new: OriginPart | None) -> str:
    """The sentence on a setting that has another value now, or none, such as ``top_k: 5 -> 8``.

    Digests are not shown, because their letters say nothing to a reader.

    Args:
        new: None where the setting does not exist any more.
    """
    value = "nothing"
    if new is not None:
        value = new.detail
    # An empty detail is one that was left out; "nothing" is a setting that is gone.
    if not old.detail or not value:  # a text that `without_texts` left out
        return f"{old.name} changed{_sizes_text(old, new)}"
    if _DIGEST.fullmatch(old.detail) and _DIGEST.fullmatch(value):
        return f"{old.name} changed"
    return f"{old.name}: {old.detail} -> {value}"


def _sizes_text(old: OriginPart, new: OriginPart | None) -> str:
    """The sizes of a changed part in brackets: all that is known of a text that was left out.

    A reader sees by them at least that a prompt has grown.
    """
    size_before = f"{old.size:,}"
    if new is None or new.size == old.size:
        return f" ({size_before} bytes)"
    return f" ({size_before} -> {new.size:,} bytes)"


# --- what leaves the machine


# Values of settings that say nothing of texts: figures, names and classes.
_FIGURE_VALUE = re.compile(r"-?\d[\d.e+-]*|true|false|null|\{\}|\[\]")
_NAMES_OF_NAMES = re.compile(
    r"(^|\.)(stage_identity|class|method|model|name|strategy|type|version)$"
)
_NAME_VALUE = re.compile(r'"\w[\w.:@/-]{0,63}"')
"""What a setting of such a name may hold to be shown: one word, which is no path from the root."""
_CLASS_VALUE = re.compile(r'"[\w.<>]+:[\w.<>]+"')
_USER_DATA = re.compile(r"(settings|arguments|config\.settings|stage_identity\.named)\.")
"""How settings begin below which keys are a user's own: names of attributes, ids of chunks."""
_OUTSIDE_PATH = re.compile(r"(~/|/|[A-Za-z]:/|\.\./).*/")


def without_texts(origin: Origin) -> Origin:
    """The origin without prompts, paths and other texts, for files that are committed or published.

    An origin is a list of parts that outcomes depend on: files, packages, settings. A setting is
    named, and its value kept where it is a number or names a class or a model. A mapping or a list
    is one setting, since its keys may be ids. Of a path outside of the project the last part is
    kept.
    """
    # Settings that are objects: what follows in a name are their attributes, and no user's keys.
    objects: set[str] = set()
    for part in origin.parts:
        # An object's description has its class or function as an entry.
        parent, _, attribute = part.name.rpartition(".")
        if attribute in ("class", "function") and _CLASS_VALUE.fullmatch(part.detail):
            objects.add(parent)
    by_name: dict[tuple[PartKind, str], list[OriginPart]] = {}
    # Several settings may get one name, below which keys were cut off.
    for part in origin.parts:
        if part.kind == "setting":
            name = _setting_of(part.name, objects)
        else:
            name = _name_inside(part)
        by_name.setdefault((part.kind, name), []).append(part)
    parts: list[OriginPart] = []
    for (kind, name), parts_of_name in by_name.items():
        if kind == "setting":
            parts.append(_setting_without_text(name, parts_of_name))
        else:
            # Files keep their own names: of two with one name the first is kept.
            parts.append(_without_place(name, parts_of_name[0]))
    return origin._replace(parts=tuple(parts))


def _setting_of(name: str, objects: Collection[str]) -> str:
    """The part of a setting's name before the keys of a mapping or a list.

    Keys may be texts of the user's, such as ids, and must not be published; attributes of classes
    are names in code.

    Args:
        objects: settings that are objects of a class: what follows such a name is an attribute.
    """
    # Only below some settings are keys the user's own.
    root = _USER_DATA.match(name)
    if root is None:
        return name
    attribute, *keys = name[root.end() :].split(".")
    setting = root[0] + attribute
    # An attribute of an object is a name in code; anything else may be a key.
    for key in keys:
        if setting not in objects:
            return setting
        setting += f".{key}"
    return setting


def _name_inside(part: OriginPart) -> str:
    """The name of a part without the folders of a path outside of the project.

    Folders outside of the project may hold a user's name, and must not be published. A digest of
    the whole path keeps files of the same name in two folders apart; other names stay unchanged.
    """
    outside = None
    # Packages and variables have names, and no paths.
    if part.kind not in ("package", "env"):
        outside = _OUTSIDE_PATH.match(part.name)
    if outside is None:
        return part.name
    # Eight digits of a digest: enough to keep two folders apart.
    digest = hashlib.sha256(part.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{part.name[outside.end() :]}#{digest}"


def _without_place(name: str, part: OriginPart) -> OriginPart:
    """A part other than a setting, without anything that tells its place on this machine.

    Otherwise the same file on two machines would seem to differ.

    Args:
        name: the new name, without folders outside of the project.
    """
    # Of a package, the size is the time of its RECORD on this machine.
    if part.kind == "package":  # its detail is its version
        return part._replace(name=name, size=0)
    detail = part.detail.replace(part.name, name)
    if detail.startswith("stamp "):  # the time of a file differs from machine to machine
        detail = ""
    return part._replace(name=name, detail=detail)


def _setting_without_text(name: str, parts: Sequence[OriginPart]) -> OriginPart:
    """A setting with its value only where this is no text; entries of a mapping become one part.

    Several entries are joined by a digest of their digests: a change is still seen, and no key
    shown.

    Args:
        name: the setting's, without keys of mappings.
        parts: the settings with this name before their keys.
    """
    setting = parts[0]
    # One setting under its own name, and no entry of a mapping.
    if len(parts) == 1 and setting.name == name:
        is_name = _NAMES_OF_NAMES.search(name) and _NAME_VALUE.fullmatch(setting.detail)
        is_figure = _FIGURE_VALUE.fullmatch(setting.detail) or _DIGEST.fullmatch(setting.detail)
        if is_name or is_figure:
            return setting
        return setting._replace(detail="")
    # The state of any entry makes all of it state.
    digest = STATE
    if all(part.digest != STATE for part in parts):
        # With zero bytes between, which neither names nor digests hold.
        contents = "".join(f"{part.name}\0{part.digest}\0" for part in parts)
        digest = hashlib.sha256(contents.encode()).hexdigest()[:32]
    # The sizes add up; a detail would show keys.
    return OriginPart("setting", name, digest, sum(part.size for part in parts))


# --- between two runs


def differences(before: Origin, now: Origin) -> tuple[Changed, ...]:
    """The changes between what a stage's outcomes came from in two runs, to be shown to a user.

    Only parts that both runs have are compared: another machine has other files, packages and
    variables.
    """
    parts_now = {(part.kind, part.name): part for part in now.parts}
    changes: list[Changed] = []
    for part in sorted(before.parts, key=_rank_of_kind):
        part_now = parts_now.get((part.kind, part.name))
        # Parts that only one of the runs has say nothing: machines differ.
        if part.kind not in _KIND_ORDER or part_now is None:
            continue
        change = change_of(part, part_now)
        if change is None:
            continue
        if part.kind in _FILE_KINDS and change.sentence.endswith(" changed"):
            change = change._replace(sentence=f"{change.sentence}{_sizes_text(part, part_now)}")
        changes.append(change)
    # A source file that changed explains the settings that are made of it.
    by_file = any(change.part.kind == "code" for change in changes)
    # What either of the two systems changed itself is not compared.
    state_now = [part.name for part in now.parts if part.digest == STATE]
    settings = [part for part in now.parts if part.kind == "setting" and part.digest != STATE]
    comparable_parts = tuple(part for part in before.parts if not _is_under(part.name, state_now))
    before = before._replace(parts=comparable_parts)
    return (*changes, *_changed_settings(before, settings, by_file=by_file))


_FILE_KINDS: tuple[PartKind, ...] = ("code", "file", "model")
_KIND_ORDER: tuple[PartKind, ...] = (*_FILE_KINDS, "package", "env")
"""What is compared between two runs by name, in the order in which it is said. Settings are
compared by themselves; of an address or a program nothing is known."""


def _rank_of_kind(part: OriginPart) -> int:
    """The place of a part in the message on changes: files, then packages, then variables.

    The user's own files explain a change best, so they come first.
    """
    if part.kind in _KIND_ORDER:
        return _KIND_ORDER.index(part.kind)
    return len(_KIND_ORDER)


# --- for users


def asked_again_sentence(reuse: Reuse) -> str:
    """The sentence of a report on why stored outcomes were not reused; empty where they were.

    A run that asks everything again costs time and money: a user wants to know the reason.

    Example:
        >>> asked_again_sentence(Reuse(False, False, "prompts.py changed"))
        'asked again: prompts.py changed'
    """
    if reuse.allowed and not reuse.same_run_only:
        return ""
    # Reasons are joined by semicolons, and a few of them are named.
    return f"asked again: {as_line(reuse.because.split('; '), most=3)}"
