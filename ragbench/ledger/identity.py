"""What a configured thing is, as plain values.

Two things that are described alike behave alike, as far as their settings, their code and the
files that their settings name decide it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import os
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import filterfalse
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

import orjson

from ragbench.ledger.content import ABSENT, path_content
from ragbench.masking import MASK, is_secret, mask_text
from ragbench.plugins import is_own

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
_PLAIN_ATTRIBUTES = (types.NoneType, bool, int, float, str, bytes, PurePath, list, dict)
_RANDOM_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


# --- values


class At(NamedTuple):
    """Where a value stands that is described."""

    depth: int = _DEEPEST
    """Levels that are still followed."""
    within: tuple[int, ...] = ()
    """The ids of the objects that it lies in: those that hold each other end."""
    contents: bool = True
    """Whether files that are named count by what they hold."""


_ALL = At()
AS_SAID = At(contents=False)
"""A text that names a file counts by what it says."""


def described(value: object, name: str = "", at: At = _ALL) -> Any:
    """A value as JSON can hold it, the same in every process for the same value.

    Settings of any class count: fields of dataclasses and models, and all else that an object
    holds, nested objects too. Functions count by their source, their defaults and what they hold
    on to. Files and folders that are named count by what they hold and not by where they lie.
    Credentials are masked, addresses and absolute paths left out. A class of ragbench's is what
    its ``identity`` and its fields say; a random generator, a lock or a connection is its class.
    """
    if value is None or (isinstance(value, (bool, int)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON knows no NaN and no infinity
    if is_secret(name):
        return MASK
    if isinstance(value, Enum):
        return described(value.value, name, at)
    if isinstance(value, (str, PurePath)):
        return _text(value, name, at)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes#{short_digest(bytes(value))}"
    if isinstance(value, (date, time, timedelta, UUID, Decimal, Fraction, range)):
        return str(value)
    if id(value) in at.within or at.depth == 0:
        return {"class": _qualified_name(type(value))}
    inside = at._replace(depth=at.depth - 1, within=(*at.within, id(value)))
    return _held(value, name, inside)


def _held(value: object, name: str, at: At) -> Any:
    if isinstance(value, Mapping):
        held = cast("Mapping[object, object]", value)
        if len(held) <= _LONGEST:
            return {str(key): described(entry, str(key), at) for key, entry in held.items()}
        pairs = [[described(key, "", at), entry] for key, entry in held.items()]
        return {"entries": len(held), "digest": _digest_of(pairs, "", at)}
    if isinstance(value, (list, tuple, deque)):
        entries = list(cast("Iterable[object]", value))
        if len(entries) <= _LONGEST:
            return [described(entry, name, at) for entry in entries]
        return {"entries": len(entries), "digest": _digest_of(entries, name, at)}
    if isinstance(value, (set, frozenset)):
        plain = [described(v, name, at) for v in cast("set[object]", value)]
        return sorted(plain, key=lambda entry: json.dumps(entry, sort_keys=True))
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    if isinstance(value, re.Pattern):
        return [cast("re.Pattern[Any]", value).pattern, value.flags]
    if inspect.isclass(value):
        return described_class(value)
    if isinstance(value, functools.partial) or inspect.isroutine(value):
        return _function(cast("Callable[..., Any]", value), at)
    return _object(value, at)


_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS


def _digest_of(entries: list[Any], name: str, at: At) -> str:
    try:  # texts and numbers alone: a corpus of a million passages takes a second
        return short_digest(orjson.dumps(entries, option=_PLAIN | orjson.OPT_PASSTHROUGH_DATETIME))
    except TypeError:
        whole = hashlib.sha256()
        for entry in entries:
            plain = described(entry, name, at)
            whole.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
        return whole.hexdigest()[:16]


# --- functions and objects


def _function(function: Callable[..., Any], at: At) -> dict[str, Any]:
    if isinstance(function, functools.partial):
        call = cast("functools.partial[Any]", function)
        given = {"args": list(call.args), "keywords": call.keywords}
        held = {key: described(entry, "", at) for key, entry in given.items() if entry}
        return {"partial": described(call.func, "", at), **held}
    plain = inspect.unwrap(function)
    inner = getattr(plain, "__func__", plain)
    found: dict[str, Any] = {"function": _qualified_name(plain), "source": _source_digest(inner)}
    if "<lambda>" in found["function"]:  # there may be several on one line
        found["code"] = _compiled_digest(inner)
    held = {
        "defaults": getattr(inner, "__defaults__", None),
        "keyword_defaults": getattr(inner, "__kwdefaults__", None),
        "closure": _closed_over(inner),
        "wrapped_with": _closed_over(function) if function is not plain else None,
    }
    bound = getattr(function, "__self__", None)
    if bound is not None and not isinstance(bound, types.ModuleType):
        held["self"] = bound
    return found | {key: described(entry, "", at) for key, entry in held.items() if entry}


def _closed_over(function: object) -> list[object]:
    found: list[object] = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            found.append(None)
    return found


def _object(value: Any, at: At) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        if str(value.dtype) == "object":
            return described(value.tolist(), "", At(_DEEPEST_FOREIGN))
        shape = list(getattr(value, "shape", ()))
        return {"array": str(value.dtype), "shape": shape, "digest": short_digest(value.tobytes())}
    kind = type(cast("object", value))
    found: dict[str, Any] = {"class": _qualified_name(kind)}
    if is_own(kind.__module__):
        name, identity = getattr(value, "name", None), getattr(value, "identity", None)
        if isinstance(name, str):
            found["name"] = name
        if isinstance(identity, Mapping):
            # All that it depends on, in its own words: a path there is an address.
            literal = at._replace(contents=False)
            found["identity"] = described(cast("object", identity), "", literal)
            return found
    settings = settings_of(value)
    maker = _maker_of(kind.__module__)
    if maker == "user":
        key = "class_sources" if "sources" in settings else "sources"
        found[key] = described_class(kind)["sources"]
    if maker == "installed":
        at = at._replace(depth=min(at.depth, _DEEPEST_FOREIGN))
    return found | {key: described(entry, key, at) for key, entry in settings.items()}


def settings_of(value: object) -> dict[str, Any]:
    """What an object was built with, as far as it says."""
    kind = type(value)
    maker = _maker_of(kind.__module__)
    settings = fields(value) if is_dataclass(value) else ()
    if maker in ("ragbench", "standard") and kind.__module__ != "types":
        known = [one.name for one in settings if one.metadata.get("setting", True)]
        return {name: getattr(value, name) for name in known if not name.startswith("_")}
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if _maker_of(owner.__module__) == "user":
            found |= {
                key: held
                for key, held in vars(owner).items()
                if not key.startswith("_")
                and key not in ("model_config", "model_fields")
                and isinstance(held, _PLAIN_ATTRIBUTES)
            }
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
        # Frameworks give their objects random names.
        found = {
            key: "random" if isinstance(held, str) and _RANDOM_NAME.fullmatch(held) else held
            for key, held in found.items()
            if not key.startswith("_")
        }
    return {key: found[key] for key in sorted(found) if not key.startswith("__")}


# --- texts and paths


def _text(value: str | PurePath, name: str, at: At) -> str:
    text = str(value)
    if _AUTHORIZATION.fullmatch(text):
        return MASK
    path = _named_path(value, name) if at.contents else None
    if path is not None:
        content = path_content(path)
        if content.digest not in (ABSENT, "too large"):
            return f"{'folder' if path.is_dir() else 'file'}#{content.digest.rpartition(':')[2]}"
    if not _ABSOLUTE.fullmatch(text):
        return mask_text(text)
    try:
        return Path(text).expanduser().relative_to(Path.cwd()).as_posix()
    except ValueError:
        # Two paths that end alike must stay two.
        return f"{PurePath(text).name}#{short_digest(text.encode('utf-8', 'surrogatepass'))[:8]}"


def _named_path(value: str | PurePath, name: str) -> Path | None:
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
        # The project, and what it lies in, is no input, and has no end of files.
        around = (Path.cwd(), *Path.cwd().parents, Path.home())
        is_one = path.exists() and not (path.is_dir() and Path(os.path.normpath(path)) in around)
        return path if is_one else None
    except (OSError, RuntimeError, ValueError):
        return None


# --- code


def _qualified_name(thing: object) -> str:
    """``module:name`` of a class or function, or of a thing's class."""
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    module = getattr(thing, "__module__", None)
    # A script is __main__ when it runs and has its own name when it is imported.
    if module in (None, "__main__"):
        return name
    # Where a class of ragbench lies is not part of what it is: files move between versions.
    return f"{'ragbench' if is_own(module) else module}:{name}"


def described_class(cls: type) -> dict[str, Any]:
    """A class by its name, with a digest of the source of each file that it was written in."""
    sources = {
        _qualified_name(owner): _source_digest(owner)
        for owner in cls.__mro__
        if _maker_of(owner.__module__) in ("user", "installed")
    }
    return {"class": _qualified_name(cls), "sources": sources}


@functools.cache
def _maker_of(module: str) -> Literal["ragbench", "standard", "installed", "user"]:
    """Who wrote what stands in a module."""
    package = module.partition(".")[0]
    if is_own(package):
        return "ragbench"
    if package == "builtins" or package in sys.stdlib_module_names - {"__main__"}:
        return "standard"
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "installed" if "site-packages" in file or "dist-packages" in file else "user"


def _source_digest(thing: Any) -> str | None:
    """Digest of the code that defines a class or function.

    That is the whole file, for what stands beside it matters too; of code without a file (a
    notebook's, ``exec``) its compiled form. None for what was not written in Python.
    """
    with suppress(TypeError, OSError):  # there is no file, or none that can be read
        if file := inspect.getsourcefile(thing):
            # Line ends differ between checkouts of the same commit.
            return short_digest(Path(file).read_bytes().replace(b"\r\n", b"\n"))
    return _compiled_digest(thing)


def _compiled_digest(thing: Any) -> str | None:
    """Digest of the compiled form of a function, or of all functions of a class."""
    code = getattr(thing, "__code__", None)
    if isinstance(code, types.CodeType):
        return compiled(code)
    members = vars(thing).items() if inspect.isclass(thing) else ()
    found = {
        name: _compiled_digest(member)
        for name, member in members
        if isinstance(getattr(member, "__code__", None), types.CodeType)
    }
    return short_digest(json.dumps(found, sort_keys=True).encode()) if found else None


def compiled(code: types.CodeType) -> str:
    """Digest of compiled code, wherever it stands in its file."""
    return short_digest(repr(_code(code)).encode("utf-8", "backslashreplace"))


def _code(code: types.CodeType) -> tuple[object, ...]:
    constants: list[object] = []
    for one in code.co_consts:
        # The order in which a set shows its elements differs from process to process.
        if isinstance(one, frozenset):
            constants.append(f"{{{sorted(map(repr, cast('frozenset[object]', one)))}}}")
        else:
            constants.append(_code(one) if isinstance(one, types.CodeType) else repr(one))
    return code.co_code, tuple(constants), code.co_names, code.co_varnames, code.co_freevars


def short_digest(data: bytes) -> str:
    """Digest that people can compare by eye."""
    return hashlib.sha256(data).hexdigest()[:16]


def imported_sources(function: Any) -> list[str]:
    """Digests of the file of a function and of all files beside it that those import, sorted."""
    first = inspect.getsourcefile(function)
    waiting, found = [Path(first)] if first else [], dict[Path, str]()
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        text = path.read_bytes().replace(b"\r\n", b"\n")
        found[path] = short_digest(text)
        try:
            waiting += _imported_beside(path, ast.parse(text))
        except SyntaxError:  # a notebook's, or a template
            continue
    return sorted(found.values())


def _imported_beside(path: Path, tree: ast.Module) -> Iterator[Path]:
    """The files that the import statements of a module may mean, from its folder upwards."""
    roots = [path.parent, *path.parent.parents][:4]
    for node in ast.walk(tree):
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            above = roots[max(0, node.level - 1) :][:1] if node.level else roots
            places = [module, *(f"{module}.{name}".strip(".") for name in names)]
        elif isinstance(node, ast.Import):
            above, places = roots, names
        else:
            continue
        for root in above:
            for place in filterfalse(is_own, places):  # a version of ragbench is a package's
                inside = root.joinpath(*place.split("."))
                yield from (inside.with_suffix(".py"), inside / "__init__.py")
