"""What a configured thing is, as plain values.

Two things that are described alike behave alike, as far as their settings, their code and the
files that their settings name decide it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast
from uuid import UUID

import orjson

from ragbench.ledger.content import ABSENT, path_content
from ragbench.ledger.source import (
    compiled_digest,
    described_class,
    is_own,
    maker_of,
    qualified_name,
    short_digest,
    source_digest,
)
from ragbench.masking import MASK, is_secret, mask_text

_DEEPEST = 8
"""Levels that are followed."""
_DEEPEST_FOREIGN = 3
"""Levels that are followed into objects of installed packages: their settings, not their state."""
_LONGEST = 200
"""Entries from which on a list or a mapping is described by its digest."""
_AUTHORIZATION = re.compile(r"(Bearer|Basic)\s+\S+")
_ABSOLUTE = re.compile(r"(/|~/|[A-Za-z]:[\\/])[^\n]+")
_LOOKS_LIKE_PATH = re.compile(r"[^\n\0]*([/\\]|\.\w{1,10}$)[^\n\0]*|~[^\n\0]*")
_NAMES_A_PATH = re.compile(
    r"(?i)(^|_)(path|file|folder|dir|directory|corpus|model|index|weights|data|store|reader|"
    r"tokenizer|calibration|checkpoint|database|db|persist)(_|$)"
)
_RANDOM_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


# --- values


def described(value: object, *, contents: bool = True) -> Any:
    """A value as JSON can hold it, the same in every process for the same value.

    Settings of any class count: fields of dataclasses and models, and all else that an object
    holds, nested objects too. Functions count by their source, their defaults and what they hold
    on to. Files and folders that are named count by what they hold and not by where they lie.
    Credentials are masked, addresses and absolute paths left out. A class of ragbench's is what
    its ``identity`` and its fields say; a random generator, a lock or a connection is its class.
    """
    return _value(value, "", _At(contents=contents))


class _At(NamedTuple):
    depth: int = _DEEPEST
    """Levels that are still followed."""
    within: tuple[int, ...] = ()
    """The ids of the objects that it lies in: those that hold each other end."""
    contents: bool = True
    """Whether files that are named count by what they hold."""


def _value(value: object, name: str, at: _At) -> Any:
    if value is None or (isinstance(value, (bool, int)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON knows no NaN and no infinity
    if is_secret(name):
        return MASK
    if isinstance(value, Enum):
        return _value(value.value, name, at)
    if isinstance(value, (str, PurePath)):
        return _text(value, name, at)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes#{short_digest(bytes(value))}"
    if isinstance(value, (date, time, timedelta, UUID, Decimal, Fraction, range)):
        return str(value)
    if id(value) in at.within or at.depth == 0:
        return {"class": qualified_name(type(value))}
    inside = at._replace(depth=at.depth - 1, within=(*at.within, id(value)))
    return _held(value, name, inside)


def _held(value: object, name: str, at: _At) -> Any:
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[object, object]", value), at)
    if isinstance(value, (list, tuple, deque)):
        return _listed(cast("Iterable[object]", value), name, at)
    if isinstance(value, (set, frozenset)):
        plain = [_value(v, name, at) for v in cast("set[object]", value)]
        return sorted(plain, key=lambda entry: json.dumps(entry, sort_keys=True))
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    if isinstance(value, re.Pattern):
        return [cast("re.Pattern[Any]", value).pattern, value.flags]
    if inspect.isclass(value):
        return described_class(value)
    if isinstance(value, functools.partial):
        call = cast("functools.partial[Any]", value)
        given = {"args": list(call.args), "keywords": call.keywords}
        return {"partial": _value(call.func, "", at)} | {
            key: _value(entry, "", at) for key, entry in given.items() if entry
        }
    if inspect.isroutine(value):
        return _function(cast("Callable[..., Any]", value), at)
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _array(value)
    return _object(value, at)


def _mapping(value: Mapping[object, object], at: _At) -> Any:
    if len(value) > _LONGEST:
        pairs = [[_value(k, "", at), v] for k, v in value.items()]
        return {"entries": len(value), "digest": _digest_of(pairs, "", at)}
    return {str(key): _value(entry, str(key), at) for key, entry in value.items()}


def _listed(value: Iterable[object], name: str, at: _At) -> Any:
    entries = list(value)
    if len(entries) > _LONGEST:
        return {"entries": len(entries), "digest": _digest_of(entries, name, at)}
    return [_value(entry, name, at) for entry in entries]


_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS


def _digest_of(entries: list[Any], name: str, at: _At) -> str:
    try:  # texts and numbers alone: a corpus of a million passages takes a second
        return short_digest(orjson.dumps(entries, option=_PLAIN | orjson.OPT_PASSTHROUGH_DATETIME))
    except TypeError:
        whole = hashlib.sha256()
        for entry in entries:
            plain = _value(entry, name, at)
            whole.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
        return whole.hexdigest()[:16]


def _array(value: Any) -> Any:
    if str(value.dtype) == "object":
        return _value(value.tolist(), "", _At(_DEEPEST_FOREIGN))
    shape = list(getattr(value, "shape", ()))
    return {"array": str(value.dtype), "shape": shape, "digest": short_digest(value.tobytes())}


# --- functions and objects


def _function(function: Callable[..., Any], at: _At) -> dict[str, Any]:
    plain = inspect.unwrap(function)
    inner = getattr(plain, "__func__", plain)
    found: dict[str, Any] = {"function": qualified_name(plain), "source": source_digest(inner)}
    if "<lambda>" in found["function"]:  # there may be several on one line
        found["code"] = compiled_digest(inner)
    held = {
        "defaults": getattr(inner, "__defaults__", None),
        "keyword_defaults": getattr(inner, "__kwdefaults__", None),
        "closure": _closed_over(inner),
        "wrapped_with": _closed_over(function) if function is not plain else None,
    }
    bound = getattr(function, "__self__", None)
    if bound is not None and not isinstance(bound, types.ModuleType):
        held["self"] = bound
    return found | {key: _value(entry, "", at) for key, entry in held.items() if entry}


def _closed_over(function: object) -> list[object]:
    found: list[object] = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            found.append(None)
    return found


def _object(value: object, at: _At) -> dict[str, Any]:
    kind = type(value)
    found: dict[str, Any] = {"class": qualified_name(kind)}
    if is_own(kind.__module__):
        name, identity = getattr(value, "name", None), getattr(value, "identity", None)
        if isinstance(name, str):
            found["name"] = name
        if isinstance(identity, Mapping):
            # All that it depends on, in its own words: a path there is an address.
            literal = at._replace(contents=False)
            found["identity"] = _value(cast("object", identity), "", literal)
            return found
    settings = settings_of(value)
    maker = maker_of(kind)
    if maker == "user":
        key = "class_sources" if "sources" in settings else "sources"
        found[key] = described_class(kind)["sources"]
    if maker == "installed":
        at = at._replace(depth=min(at.depth, _DEEPEST_FOREIGN))
    return found | {key: _value(entry, key, at) for key, entry in settings.items()}


def settings_of(value: object) -> dict[str, Any]:
    """What an object was built with, as far as it says."""
    kind, maker = type(value), maker_of(type(value))
    settings = fields(value) if is_dataclass(value) else ()
    if maker in ("ragbench", "standard") and kind.__module__ != "types":
        known = [one.name for one in settings if one.metadata.get("setting", True)]
        return {name: getattr(value, name) for name in known if not name.startswith("_")}
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if maker_of(owner) == "user":
            found |= {k: v for k, v in vars(owner).items() if _is_plain_attribute(k, v)}
        slots: object = vars(owner).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(cast("Iterable[str]", slots)):
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                found[slot] = getattr(value, slot)
    found |= getattr(value, "__dict__", {})
    for one in settings:
        if not one.metadata.get("setting", True):
            found.pop(one.name, None)
    private = getattr(value, "__pydantic_private__", None)
    found |= private if isinstance(private, dict) else {}
    if maker == "installed":
        found = {k: _not_random(v) for k, v in found.items() if not k.startswith("_")}
    return {key: found[key] for key in sorted(found) if not key.startswith("__")}


def _is_plain_attribute(name: str, value: object) -> bool:
    if name.startswith("_") or name in ("model_config", "model_fields"):
        return False
    return value is None or isinstance(value, (bool, int, float, str, bytes, PurePath, list, dict))


def _not_random(value: object) -> object:
    """A value that is the same in every process: frameworks give their objects random names."""
    return "random" if isinstance(value, str) and _RANDOM_NAME.fullmatch(value) else value


# --- texts and paths


def _text(value: str | PurePath, name: str, at: _At) -> str:
    text = str(value)
    if _AUTHORIZATION.fullmatch(text):
        return MASK
    path = named_path(value, name) if at.contents else None
    if path is not None:
        content = path_content(path)
        if content.digest not in (ABSENT, "too large"):
            return f"{'folder' if path.is_dir() else 'file'}#{content.digest.rpartition(':')[2]}"
    return _where(text) if _ABSOLUTE.fullmatch(text) else mask_text(text)


def named_path(value: str | PurePath, name: str = "") -> Path | None:
    """The file or folder that a setting names; None where it names none that is there."""
    text = str(value)
    if isinstance(value, str):
        hinted = bool(text) and _NAMES_A_PATH.search(name) is not None
        if len(text) > 1_000 or "://" in text or "\0" in text:
            return None
        if not hinted and not _LOOKS_LIKE_PATH.fullmatch(text):
            return None
    try:
        path = Path(text).expanduser().absolute()
        return path if path.exists() and not _is_everywhere(path) else None
    except (OSError, RuntimeError, ValueError):
        return None


def _is_everywhere(path: Path) -> bool:
    """Whether a folder holds the project, or the machine: no input, and no end of files."""
    here = Path(os.path.normpath(path))
    return path.is_dir() and (here in Path.cwd().parents or here in (Path.cwd(), Path.home()))


def _where(text: str) -> str:
    path = Path(text).expanduser()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        # Two paths that end alike must stay two.
        return f"{PurePath(text).name}#{short_digest(text.encode('utf-8', 'surrogatepass'))[:8]}"
