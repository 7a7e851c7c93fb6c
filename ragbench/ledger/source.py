"""What code is: its name, and a digest of its source."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
import types
from collections.abc import Iterator
from itertools import filterfalse
from pathlib import Path
from typing import Any, cast


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
    owners = [owner for owner in cls.__mro__ if is_foreign(owner)]
    sources = {qualified_name(owner): source_digest(owner) for owner in owners}
    return {"class": qualified_name(cls), "sources": sources}


def is_foreign(cls: type) -> bool:
    """Whether a class is neither ragbench's nor the standard library's."""
    package = cls.__module__.partition(".")[0]
    return not is_own(package) and not is_standard(package)


def is_standard(package: str) -> bool:
    """Whether a module's first name is one of the standard library's."""
    return package == "builtins" or package in sys.stdlib_module_names - {"__main__"}


def is_installed(module: str) -> bool:
    """Whether a module comes from an installed package, and not from the user's project."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


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
