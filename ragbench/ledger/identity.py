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
import math
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

from ragbench.ledger.content import ABSENT, is_below, path_content
from ragbench.masking import MASK, is_secret, mask_text
from ragbench.plugins import is_own

_MAX_DEPTH = 8
"""Levels that are followed."""
_MAX_FOREIGN_DEPTH = 3
"""Levels that are followed into objects of installed packages: their settings, not their state."""
_MAX_ENTRIES = 200
"""Entries from which on a list or a mapping is described by its digest."""
_AUTHORIZATION = re.compile(r"(Bearer|Basic)\s+\S+")
"""The value of a header that holds a credential."""
_ABSOLUTE_PATH = re.compile(r"(/|~/|[A-Za-z]:[\\/])[^\n]+")
_LOOKS_LIKE_PATH = re.compile(r"[^\n\0]*([/\\]|\.\w{1,10}$)[^\n\0]*|~[^\n\0]*")
"""A text that may name a file by itself: it has a slash or an ending, or begins at a home."""
_NAMES_A_PATH = re.compile(
    r"(?i)(^|_)(path|file|folder|dir|directory|corpus|model|index|weights|data|store|reader|"
    r"tokenizer|calibration|checkpoint|database|db|persist)(_|$)"
)
"""Names of settings whose texts may name a file, whatever they look like."""
_PLAIN_ATTRIBUTES = (types.NoneType, bool, int, float, str, bytes, PurePath, list, dict)
"""Values of a class that are settings; anything else in it is code."""
_RANDOM_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of version 4, which is drawn at random."""
_LONGEST_PATH = 1_000
"""Characters up to which a text may be a path."""
_IMPORT_FOLDERS = 4
"""Folders that imported files are looked for in: that of the module, and those that it lies in."""


# --- values


class At(NamedTuple):
    """Where a value stands that is described."""

    depth: int = _MAX_DEPTH
    """Levels that are still followed."""
    within: tuple[int, ...] = ()
    """The ids of the objects that it lies in: those that hold each other end."""
    contents: bool = True
    """Whether files that are named count by what they hold."""
    project: Path | None = None
    """A folder whose files count by their names: what they hold is compared file by file, but for
    what the code writes itself."""


_ALL = At()
AS_SAID = At(contents=False)
"""A text that names a file counts by what it says."""


def described(value: object, name: str = "", at: At = _ALL) -> Any:
    """A value as plain values for JSON, the same in every process for the same value.

    By these descriptions a run decides whether a system is the one whose outcomes it has stored:
    another form of any value makes stored outcomes unusable.

    Settings of any class count: fields of dataclasses and models, and all else that an object
    holds, nested objects too. Functions count by their source, their defaults and what they hold on
    to. Files and folders that are named count by what they hold and not by where they lie.
    Credentials are masked, addresses and absolute paths left out. A class of ragbench's is what its
    ``identity`` and its fields say; a random generator, a lock or a connection is its class.
    """
    # A bool or an int of an enumeration counts by the enumeration's value, below.
    if value is None or (isinstance(value, (bool, int)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return str(value)  # JSON knows no NaN and no infinity
    # By the setting's name, before any value of it is looked at.
    if is_secret(name):
        return MASK
    if isinstance(value, Enum):
        return described(value.value, name, at)
    if isinstance(value, (str, PurePath)):
        return _described_text(value, name, at)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes#{short_digest(bytes(value))}"
    if isinstance(value, (date, time, timedelta, UUID, Decimal, Fraction, range)):
        return str(value)
    # A value that lies within itself, or too deep, is described by its class alone: else the
    # description would be endless, or huge.
    if id(value) in at.within or at.depth == 0:
        return {"class": _qualified_name(type(value))}
    # Each level has one less below it, and knows what it lies in.
    inside = at._replace(depth=at.depth - 1, within=(*at.within, id(value)))
    return _with_parts(value, name, inside)


def _with_parts(value: object, name: str, at: At) -> Any:
    """A container, a class, a function or an object described part by part, for `described`.

    Containers with many entries are described by one digest: a corpus is data, and not settings.

    Descriptions are compared with stored ones: another form makes stored outcomes unusable.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        if len(mapping) <= _MAX_ENTRIES:
            # In their order, which counts: another order of fields is another mapping.
            return {str(key): described(entry, str(key), at) for key, entry in mapping.items()}
        # Only the keys are described here; `_digest_of` does so with the values.
        pairs = [[described(key, "", at), entry] for key, entry in mapping.items()]
        return {"entries": len(mapping), "digest": _digest_of(pairs, "", at)}
    if isinstance(value, (list, tuple, deque)):
        entries = list(cast("Iterable[object]", value))
        if len(entries) <= _MAX_ENTRIES:
            return [described(entry, name, at) for entry in entries]
        return {"entries": len(entries), "digest": _digest_of(entries, name, at)}
    if isinstance(value, (set, frozenset)):
        members = [described(member, name, at) for member in cast("set[object]", value)]
        # By their JSON: members may be of kinds that do not compare, and the order of a set
        # differs by process.
        return sorted(members, key=lambda member: json.dumps(member, sort_keys=True))
    if isinstance(value, types.ModuleType):
        # A module counts by its name: what it holds is code, which is compared by files.
        return {"module": value.__name__}
    if isinstance(value, re.Pattern):
        return [cast("re.Pattern[Any]", value).pattern, value.flags]
    if inspect.isclass(value):
        return described_class(value)
    if isinstance(value, functools.partial) or inspect.isroutine(value):
        return _described_function(cast("Callable[..., Any]", value), at)
    return _described_object(value, at)


_PLAIN_JSON = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
"""Plain values alone: of any other, orjson would choose a form that `described` does not give."""


def _digest_of(entries: list[Any], name: str, at: At) -> str:
    """The digest of many entries, which described one by one would fill a manifest.

    Plain entries are digested at once, since a corpus may have millions; others one by one. Neither
    way may change: the digest is compared with stored ones.
    """
    # One call for all: TypeError where an entry is no plain value.
    try:  # texts and numbers alone: a corpus of a million passages takes a second
        return short_digest(orjson.dumps(entries, option=_PLAIN_JSON))
    except TypeError:
        list_hash = hashlib.sha256()
        for entry in entries:
            plain = described(entry, name, at)
            list_hash.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
        return list_hash.hexdigest()[:16]


# --- functions and objects


def _described_function(function: Callable[..., Any], at: At) -> dict[str, Any]:
    """A function described by its source, its defaults and the values that it holds on to.

    A function holds on to its partial arguments, to variables of the function around it, and to the
    object that it is a method of: with other values it gives other answers.

    Descriptions are compared with stored ones: another key makes stored outcomes unusable.
    """
    if isinstance(function, functools.partial):
        call = cast("functools.partial[Any]", function)
        description: dict[str, Any] = {"partial": described(call.func, "", at)}
        return description | _not_empty(at, args=list(call.args), keywords=call.keywords)
    unwrapped = inspect.unwrap(function)  # without its decorators
    # Of a method the function behind it: the object is described apart.
    bound_function = getattr(unwrapped, "__func__", unwrapped)
    name = _qualified_name(unwrapped)
    description = {"function": name, "source": _source_digest(bound_function)}
    if "<lambda>" in name:  # there may be several on one line
        description["code"] = _compiled_digest(bound_function)
    wrapped_with: list[object] = []
    # A decorator's own values, such as a cache size, count beside those of the function.
    if function is not unwrapped:
        wrapped_with = _closed_over(function)
    bound_to = getattr(function, "__self__", None)
    # A function of C has its module as `__self__`, which is no object that it is bound to.
    if isinstance(bound_to, types.ModuleType):
        bound_to = None
    return description | _not_empty(
        at,
        defaults=getattr(bound_function, "__defaults__", None),
        keyword_defaults=getattr(bound_function, "__kwdefaults__", None),
        closure=_closed_over(bound_function),
        wrapped_with=wrapped_with,
        self=bound_to,
    )


def _not_empty(at: At, **parts: object) -> dict[str, Any]:
    """The parts of a function that are not empty, described, such as its defaults.

    Empty parts are left out, so that descriptions of plain functions stay short.
    """
    return {name: described(part, "", at) for name, part in parts.items() if part}


def _closed_over(function: object) -> list[object]:
    """The values of the variables that a function takes from the function around it.

    A retriever may be a function with its index in such a variable.
    """
    values: list[object] = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not filled yet
            values.append(None)
    return values


def _described_object(value: Any, at: At) -> Any:
    """The description of an array by its content, and of any other object by class and settings.

    An object of ragbench's that has an ``identity`` is described by that alone.

    Descriptions are compared with stored ones: another key makes stored outcomes unusable.
    """
    # Told by its parts, since neither NumPy nor a tensor library is imported for it.
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):  # an array of numpy or its like
        if str(value.dtype) == "object":
            # An array of objects has no bytes of its own.
            return described(value.tolist(), "", At(_MAX_FOREIGN_DEPTH))
        shape = list(getattr(value, "shape", ()))
        return {"array": str(value.dtype), "shape": shape, "digest": short_digest(value.tobytes())}
    cls = type(cast("object", value))
    description: dict[str, Any] = {"class": _qualified_name(cls)}
    if is_own(cls.__module__):
        name = getattr(value, "name", None)
        if isinstance(name, str):
            description["name"] = name
        identity = getattr(value, "identity", None)
        if isinstance(identity, Mapping):
            # All that it depends on, in its own words: a path there is an address.
            # With it, a path is described by its text.
            literal = at._replace(contents=False)
            description["identity"] = described(cast("object", identity), "", literal)
            return description
    settings = settings_of(value)
    maker = _maker_of(cls.__module__)
    if maker == "user":
        # An attribute of the user's may have the name "sources".
        key = "class_sources" if "sources" in settings else "sources"
        description[key] = described_class(cls)["sources"]
    if maker == "installed":
        # Of a package's object only settings near the surface: deeper ones are its state.
        at = at._replace(depth=min(at.depth, _MAX_FOREIGN_DEPTH))
    for setting, entry in settings.items():
        description[setting] = described(entry, setting, at)
    return description


def settings_of(value: object) -> dict[str, Any]:
    """The settings of an object by name: its attributes, as far as they say how it was built.

    Of classes of ragbench's and Python's these are the public fields; of a user's class all
    attributes and the plain values of the class itself; of a package's class the attributes without
    its state.

    Descriptions are made of them: with another choice, stored outcomes become unusable.
    """
    cls = type(value)
    maker = _maker_of(cls.__module__)
    dataclass_fields = fields(value) if is_dataclass(value) else ()
    # Classes made by `types`, such as SimpleNamespace, hold settings in their attributes.
    if maker in ("ragbench", "standard") and cls.__module__ != "types":
        names = [field.name for field in dataclass_fields if field.metadata.get("setting", True)]
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    settings: dict[str, Any] = {}
    # What a subclass says goes before what its bases do, and the object before its classes.
    for owner in reversed(cls.__mro__):
        if _maker_of(owner.__module__) == "user":
            settings |= _class_settings(owner)
        for slot in _slots_of(owner):
            # A slot may be empty.
            if hasattr(value, slot):
                settings[slot] = getattr(value, slot)
    settings |= getattr(value, "__dict__", {})
    for field in dataclass_fields:
        # Fields that are no settings, such as a client, are marked in the class.
        if not field.metadata.get("setting", True):
            settings.pop(field.name, None)
    private = getattr(value, "__pydantic_private__", None)
    # Pydantic keeps private attributes apart.
    if isinstance(private, dict):
        settings |= cast("dict[str, Any]", private)
    if maker == "installed":
        settings = _foreign_settings(settings)
    # By name, so that the order in which attributes were set plays no part.
    return {name: settings[name] for name in sorted(settings) if not name.startswith("__")}


def _class_settings(cls: type) -> dict[str, Any]:
    """The settings that a user's class holds itself as plain values, such as ``top_k = 5``.

    Outcomes depend on such values as on the settings that an object holds.
    """
    settings: dict[str, Any] = {}
    for name, value in vars(cls).items():
        is_of_pydantic = name in ("model_config", "model_fields")
        # Nested classes, methods and properties are code, and not plain values.
        if not name.startswith("_") and not is_of_pydantic and isinstance(value, _PLAIN_ATTRIBUTES):
            settings[name] = value
    return settings


def _slots_of(cls: type) -> list[str]:
    """The names of the attributes that a class keeps in slots, which ``__dict__`` does not show.

    An object's settings would be incomplete without them.
    """
    slots: object = vars(cls).get("__slots__", ())
    if isinstance(slots, str):  # Python takes a single name for one slot
        names = [slots]
    else:
        names = list(cast("Iterable[str]", slots))
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _foreign_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an object of an installed package: its public attributes.

    Private attributes, such as caches and connections, change while the object is used, and would
    make it another system in each run.
    """
    public: dict[str, Any] = {}
    for name, value in settings.items():
        if name.startswith("_"):
            continue
        # Frameworks give their objects random names.
        if isinstance(value, str) and _RANDOM_NAME.fullmatch(value):
            value = "random"
        public[name] = value
    return public


# --- texts and paths


def _described_text(value: str | PurePath, name: str, at: At) -> str:
    """The description of a text: itself, or the content's digest of a file that it names.

    By the digest, a prompt or an index that changes under the same name makes another system.
    Credentials are
    masked, and absolute paths left out: descriptions are stored and shown.

    Descriptions are compared with stored ones: another form makes stored outcomes unusable.
    """
    text = str(value)
    if _AUTHORIZATION.fullmatch(text):
        return MASK
    path: Path | None = None
    if at.contents:
        path = _named_path(value, name)
    # A file of the project is compared as a file: here it counts by its name.
    is_in_project = path is not None and at.project is not None and is_below(at.project, path)
    if path is not None and not is_in_project:
        digest = path_content(path).digest
        # Without content, or too large to be read: the name alone counts.
        if digest not in (ABSENT, "too large"):
            kind = "folder" if path.is_dir() else "file"
            return f"{kind}#{digest.rpartition(':')[2]}"
    # Below are absolute paths, of which the user's folders are left out.
    if not _ABSOLUTE_PATH.fullmatch(text):
        return mask_text(text)
    try:
        return Path(text).expanduser().relative_to(Path.cwd()).as_posix()
    except ValueError:
        # Two paths that end alike must stay two.
        return f"{PurePath(text).name}#{short_digest(text.encode('utf-8', 'surrogatepass'))[:8]}"


def _named_path(value: str | PurePath, name: str) -> Path | None:
    """The file or folder that a setting names; None where it names none that exists.

    The project's own folder and those around it do not count: they are no input, and have no end of
    files.

    Args:
        name: of the setting, such as ``index_path``.
    """
    text = str(value)
    if isinstance(value, str):
        # An address, or a text that is too long for a path.
        if len(text) > _LONGEST_PATH or "://" in text or "\0" in text:
            return None
        is_named_so = bool(text) and _NAMES_A_PATH.search(name) is not None
        if not is_named_so and not _LOOKS_LIKE_PATH.fullmatch(text):
            return None
    # Names may be too long for the system, or of a user that does not exist.
    try:
        path = Path(text).expanduser().absolute()
        if not path.exists():
            return None
        # The project, and what it lies in, is no input, and has no end of files.
        around = (Path.cwd(), *Path.cwd().parents, Path.home())
        if path.is_dir() and Path(os.path.normpath(path)) in around:
            return None
        return path
    except (OSError, RuntimeError, ValueError):
        return None


# --- code


def _qualified_name(thing: object) -> str:
    """The name of a class or function in descriptions, as ``module:name``; of a thing, its class's.

    The name must be the same in every process: a script that is run has the module name
    ``__main__``, and another one where it is imported.

    Descriptions are compared with stored ones: another form makes stored outcomes unusable.
    """
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    module = getattr(thing, "__module__", None)
    # A script is __main__ when it runs and has its own name when it is imported.
    if module in (None, "__main__"):
        return name
    # Where a class of ragbench lies is not part of what it is: files move between versions.
    package = "ragbench" if is_own(module) else module
    return f"{package}:{name}"


def described_class(cls: type) -> dict[str, Any]:
    """The description of a class: its name, and a digest of each source file of it and its bases.

    A changed method then makes another system, whose outcomes are asked for anew.

    Descriptions are compared with stored ones: another key makes stored outcomes unusable.
    """
    sources: dict[str, str | None] = {}
    # Bases as well: a changed method of a base is a changed method.
    for owner in cls.__mro__:
        if _maker_of(owner.__module__) in ("user", "installed"):
            sources[_qualified_name(owner)] = _source_digest(owner)
    return {"class": _qualified_name(cls), "sources": sources}


@functools.cache
def _maker_of(module: str) -> Literal["ragbench", "standard", "installed", "user"]:
    """Who wrote a module: ragbench, Python, an installed package, or the user.

    By the maker, descriptions decide how far to follow the values that a module's objects hold: the
    user's objects are described in full, a package's by their settings alone.
    """
    package = module.partition(".")[0]
    if is_own(package):
        return "ragbench"
    # `__main__` is listed among the standard modules, and is the user's script.
    if package == "builtins" or package in sys.stdlib_module_names - {"__main__"}:
        return "standard"
    # A module without a file, as in a notebook, is the user's.
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if "site-packages" in file or "dist-packages" in file:
        return "installed"
    return "user"


def _source_digest(thing: Any) -> str | None:
    """A digest of the code that defines a class or function.

    The digest is of the whole file, since other functions in the file matter too; of code without a
    file (a notebook's, ``exec``) it is of the compiled form. None for code that was not written in
    Python. Stored descriptions hold the digest: another form makes stored outcomes unusable.
    """
    with suppress(TypeError, OSError):  # there is no file, or none that can be read
        file = inspect.getsourcefile(thing)
        if file:
            # Line ends differ between checkouts of the same commit.
            return short_digest(Path(file).read_bytes().replace(b"\r\n", b"\n"))
    return _compiled_digest(thing)


def _compiled_digest(thing: Any) -> str | None:
    """A digest of the compiled form of a function, or of all functions of a class.

    For code without a file. None for things without compiled form, such as functions in C. Stored
    descriptions hold the digest: another form makes stored outcomes unusable.
    """
    code = getattr(thing, "__code__", None)
    if isinstance(code, types.CodeType):
        return compiled(code)
    if not inspect.isclass(thing):
        return None
    # Only methods: what a class holds beside them is described as settings.
    methods: dict[str, str | None] = {}
    for name, member in vars(thing).items():
        if isinstance(getattr(member, "__code__", None), types.CodeType):
            methods[name] = _compiled_digest(member)
    if not methods:
        return None
    return short_digest(json.dumps(methods, sort_keys=True).encode())


def compiled(code: types.CodeType) -> str:
    """A digest of compiled code that stays the same when the code moves in its file.

    A comment or a blank line above a function does not make it another one.
    """
    return short_digest(repr(_code_without_lines(code)).encode("utf-8", "backslashreplace"))


def _code_without_lines(code: types.CodeType) -> tuple[object, ...]:
    """Compiled code as a tuple without line numbers, so that moving the code changes nothing.

    The tuple is digested and compared with stored digests: its parts and their order stay.
    """
    constants: list[object] = []
    # Functions inside of a function are among its constants.
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(_code_without_lines(constant))
        elif isinstance(constant, frozenset):
            # The order in which a set shows its elements differs from process to process.
            members = sorted(map(repr, cast("frozenset[object]", constant)))
            constants.append(f"{{{members}}}")
        else:
            constants.append(repr(constant))
    # Without names of files and lines.
    return code.co_code, tuple(constants), code.co_names, code.co_varnames, code.co_freevars


def short_digest(data: bytes) -> str:
    """A digest of 16 hexadecimal digits, short enough to be compared by eye.

    Stored descriptions hold such digests: another length makes stored outcomes unusable.
    """
    return hashlib.sha256(data).hexdigest()[:16]


def imported_sources(function: Any) -> list[str]:
    """The digests of a function's file and of all files beside it that it imports, sorted.

    These digests identify a user's metric: a change of any of the files may change its scores.
    """
    own_file = inspect.getsourcefile(function)
    unread_paths = [Path(own_file)] if own_file else []
    # Also the files that were read: two modules may import each other.
    digests: dict[Path, str] = {}
    while unread_paths:
        path = unread_paths.pop()
        if path in digests or not path.is_file():
            continue
        text = path.read_bytes().replace(b"\r\n", b"\n")
        digests[path] = short_digest(text)
        try:
            unread_paths += _imported_beside(path, ast.parse(text))
        except Exception:  # noqa: BLE001  # a notebook, a template, or damaged: it imports nothing
            continue
    # Sorted by content: where the files lie plays no part.
    return sorted(digests.values())


def _imported_beside(path: Path, tree: ast.Module) -> Iterator[Path]:
    """The paths that the import statements of a module may mean, from its folder upwards.

    Which of these folders is on Python's path is not known: callers skip the paths that do not
    exist.
    """
    folders = [path.parent, *path.parent.parents][:_IMPORT_FOLDERS]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package = node.module or ""
            modules = [package]
            for alias in node.names:
                modules.append(f"{package}.{alias.name}".strip("."))
            roots = folders
            if node.level:  # relative: one dot is the module's own folder
                # One dot more for each folder above.
                roots = folders[node.level - 1 : node.level]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            roots = folders
        else:
            continue
        for root in roots:
            # What is imported may be a module or a package.
            for module in filterfalse(is_own, modules):  # a version of ragbench is a package's
                place = root.joinpath(*module.split("."))
                yield place.with_suffix(".py")
                yield place / "__init__.py"
