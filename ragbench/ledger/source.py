"""What code is: its name, a digest of its source, and whose it is."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import sys
import sysconfig
import types
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import filterfalse
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal, cast


def is_own(module: str) -> bool:
    return module.partition(".")[0] in ("ragbench", "ragbench_cli")


def qualified_name(thing: object) -> str:
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
    owners = [owner for owner in cls.__mro__ if maker_of(owner) in ("user", "installed")]
    sources = {qualified_name(owner): source_digest(owner) for owner in owners}
    return {"class": qualified_name(cls), "sources": sources}


def maker_of(cls: type) -> Literal["ragbench", "standard", "installed", "user"]:
    """Who wrote a class."""
    package = cls.__module__.partition(".")[0]
    if is_own(package):
        return "ragbench"
    if package == "builtins" or package in sys.stdlib_module_names - {"__main__"}:
        return "standard"
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return "installed" if "site-packages" in file or "dist-packages" in file else "user"


def source_digest(thing: Any) -> str | None:
    """Digest of the code that defines a class or function.

    That is the whole file, for what stands beside it matters too; of code without a file (a
    notebook's, ``exec``) its compiled form. None for what was not written in Python.
    """
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        file = None
    try:
        text = None if file is None else Path(file).read_bytes()
    except OSError:
        text = None
    # Line ends differ between checkouts of the same commit.
    return compiled_digest(thing) if text is None else short_digest(text.replace(b"\r\n", b"\n"))


def compiled_digest(thing: Any) -> str | None:
    """Digest of the compiled form of a function, or of all functions of a class."""
    code = getattr(thing, "__code__", None)
    if isinstance(code, types.CodeType):
        return compiled(code)
    members = vars(thing).items() if inspect.isclass(thing) else ()
    found = {
        name: compiled_digest(member)
        for name, member in members
        if isinstance(getattr(member, "__code__", None), types.CodeType)
    }
    return short_digest(json.dumps(found, sort_keys=True).encode()) if found else None


def compiled(code: types.CodeType) -> str:
    """Digest of compiled code, wherever it stands in its file."""
    return short_digest(repr(_code(code)).encode("utf-8", "backslashreplace"))


def _code(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _code(one) if isinstance(one, types.CodeType) else _constant(one) for one in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constant(value: object) -> str:
    # The order in which a set shows its elements differs from process to process.
    if isinstance(value, frozenset):
        return f"{{{sorted(map(repr, cast('frozenset[object]', value)))}}}"
    return repr(value)


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


# --- whose a file is, and on whose behalf something happens

Whose = Literal["project", "ragbench", "engine", "installed", "standard"]
"""The user's; ragbench's, of it the part that runs stages; an installed package's; Python's."""

_RAGBENCH = str(Path(__file__).parents[1]) + os.sep
_LEDGER = os.path.dirname(__file__)  # noqa: PTH120
_WATCHING = tuple(os.path.join(_LEDGER, f"{name}.py") for name in ("watch", "source"))  # noqa: PTH118
_ENGINE = tuple(f"{_RAGBENCH}{name}{os.sep}" for name in ("gate", "stages", "verbs", "views"))
_STANDARD = tuple(
    f"{place}{os.sep}"
    for found in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")),
        *(os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)),  # noqa: PTH118
    )
    for place in (found, os.path.realpath(found))
)


@lru_cache(maxsize=100_000)
def whose(file: str) -> Whose:
    if file.startswith(_RAGBENCH):
        return "engine" if file.startswith(_ENGINE) else "ragbench"
    if f"{os.sep}ragbench_cli{os.sep}" in file:
        return "engine"
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return "installed"
    return "standard" if file.startswith(("<frozen", *_STANDARD)) else "project"


def file_of(module: ModuleType | None) -> str:
    """The source of a user's module; empty for all others, and where there is none."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return ""
    path = os.path.abspath(file)  # noqa: PTH100  # for each module that is loaded
    return path if whose(path) == "project" else ""


def is_users(*, leaving_out: Collection[str] = ()) -> bool:
    """Whether the user's code has a part in what happens.

    It has when it stands between here and the part of ragbench that runs stages; and when nobody
    of ragbench is there, as in threads that a library of the user's started. Packages that are
    left out, by name, do what they do for themselves.
    """
    own = False
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _WATCHING:
            frame = frame.f_back
            continue
        if file.startswith(_LEDGER):
            return False
        module: str = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in leaving_out:
            return False
        if file.startswith("<") and not file.startswith("<frozen"):
            # Made by exec: by a dataclass, or typed in a notebook.
            file = getattr(sys.modules.get(module), "__file__", None) or "<typed>"
        kind = whose(file)
        if kind == "project":
            return True
        if kind == "engine":
            return False
        own = own or kind == "ragbench"
        frame = frame.f_back
    return not own
