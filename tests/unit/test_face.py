"""The public face: what ``from ragbench import ...`` offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import ragbench
from ragbench_cli.main import CommandPanel
from tests.cli.runs import ROOT, in_python

FACE = ROOT / "ragbench" / "__init__.pyi"

PUBLIC: list[str] = getattr(ragbench, "__all__")  # noqa: B009


def declared() -> dict[str, str]:
    """Name to module, as type checkers see it."""
    modules: dict[str, str] = {}
    for statement in ast.parse(FACE.read_text("utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                modules[str(alias.asname)] = str(statement.module)
    return modules


def test_every_public_name_is_where_type_checkers_look_for_it() -> None:
    modules = declared()

    assert sorted(modules) == sorted(PUBLIC)
    for name, module in modules.items():
        original = getattr(importlib.import_module(module), name)
        assert getattr(ragbench, name) is original


def test_every_public_name_is_in_a_panel_of_the_help_and_in_one_alone() -> None:
    stub = FACE.read_text("utf-8")

    titles = re.findall(r"^# Panel: (.+)$", stub, re.MULTILINE)
    assert titles == [str(panel) for panel in CommandPanel]
    preface, _, panels = stub.partition("# Panel: ")
    assert "import " not in preface
    names = re.findall(r"^from .+ import \w+ as (\w+)$", panels, re.MULTILINE)
    assert sorted(names) == sorted(PUBLIC)


def test_the_page_of_the_face_lists_every_name_once() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")

    names = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)

    assert sorted(names) == sorted(PUBLIC)


def documents() -> list[Path]:
    """The pages, and the files that ``ragbench init`` writes."""
    guides = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "datasets").rglob("*.md")]
    folder = ROOT / "cli" / "ragbench_cli" / "templates"
    templates = [path for path in folder.iterdir() if path.is_file()]
    return sorted([ROOT / "README.md", *guides, *templates])


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_what_users_read_imports_from_the_face_alone(path: Path) -> None:
    text = path.read_text("utf-8")

    deep_import = r"^\s*(?:from|import) ragbench\.(?!prepare\b|records\b).*$"
    assert re.findall(deep_import, text, re.MULTILINE) == []

    face_import = r"^\s*from ragbench import \(?([\w\s,]+?)\)?$"
    for names in re.findall(face_import, text, re.MULTILINE):
        for name in re.findall(r"\w+", names):
            assert name in PUBLIC


def test_every_name_of_the_face_is_documented() -> None:
    for name in PUBLIC:
        assert inspect.getdoc(getattr(ragbench, name)), name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(ragbench, "nothing")  # noqa: B009


def test_importing_it_imports_nothing_else_of_the_library() -> None:
    code = "import sys, ragbench; print([m for m in sys.modules if m.startswith('ragbench.')])"
    assert in_python(code).stdout == "[]\n"


# --- annotations

HANDLES = {
    "Chat",
    "Collection",
    "EntrySource",
    "ForeignCollection",
    "Judging",
    "OpenDump",
    "OpenPipeline",
    "OwnCollection",
    "Problems",
    "Retriever",
    "RunScores",
    "ScoreStore",
    "Stages",
    "WritableDatabase",
}
"""What one function opens and another takes: their own insides are no part of the face."""


def names_for_type_checkers(module: str) -> dict[str, object]:
    """What a module imports under ``if TYPE_CHECKING``."""
    names: dict[str, object] = {}
    source = inspect.getsource(sys.modules[module])
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.If) or ast.unparse(statement.test) != "TYPE_CHECKING":
            continue
        for line in statement.body:
            if isinstance(line, ast.ImportFrom):
                imported = importlib.import_module(str(line.module))
                for alias in line.names:
                    names[alias.name] = getattr(imported, alias.name)
    return names


def hints(thing: Any) -> dict[str, Any]:
    return get_type_hints(thing, localns=names_for_type_checkers(thing.__module__))


def placed_types(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """The annotations of a function, or of a class's fields and methods, each with its place."""
    if isinstance(thing, type):
        yield from types_of_fields(name, thing)
        yield from types_of_methods(name, thing)
    elif inspect.isfunction(thing):
        for parameter, hint in hints(thing).items():
            yield f"{name}({parameter})", hint


def types_of_fields(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    for field, hint in hints(cls).items():
        if field[0] != "_":
            yield f"{name}.{field}", hint


def types_of_methods(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    for key, member in inspect.getmembers_static(cls):
        # A property, a cached property, a class or static method.
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        function = function or getattr(member, "__func__", member)
        is_called_by_others = key[0] != "_" or key in ("__init__", "__iter__", "__getitem__")
        is_ours = str(getattr(function, "__module__", "")).startswith("ragbench.")
        if is_called_by_others and is_ours and inspect.isfunction(function):
            yield from placed_types(f"{name}.{key}", function)


def types_in(hint: Any) -> Iterator[type]:
    """The classes of ragbench in an annotation, such as ``Chunk`` in ``list[Chunk] | None``."""
    if isinstance(hint, type) and hint.__module__.startswith("ragbench."):
        yield hint
    for argument in get_args(hint):
        # The parameters of a Callable are a list.
        parts = argument if isinstance(argument, list) else [argument]
        for part in parts:
            yield from types_in(part)
    origin = get_origin(hint)
    if isinstance(origin, type):
        yield from types_in(origin)


def exported() -> dict[str, Any]:
    """Every public name with its value, the records and errors among them."""
    names = {name: getattr(ragbench, name) for name in PUBLIC}
    for module in ("ragbench.records", "ragbench.errors"):
        for name, value in vars(importlib.import_module(module)).items():
            if name[0] != "_" and isinstance(value, type):
                names[name] = value
    return names


def is_public(name: str) -> bool:
    """Whether a name of a module is for others; pytest adds some that are no identifiers."""
    return name.isidentifier() and name[0] != "_"


def test_every_type_in_a_public_annotation_is_public_and_every_record_in_one() -> None:
    public = exported()
    public_ids = {id(value) for value in public.values()}
    used_ids: set[int] = set()
    missing: dict[str, str] = {}
    for name, thing in public.items():
        if name in HANDLES:
            continue
        for place, hint in placed_types(name, thing):
            for kind in types_in(hint):
                used_ids.add(id(kind))
                if id(kind) not in public_ids:
                    missing[f"{kind.__module__}.{kind.__qualname__}"] = place

    assert missing == {}, "export them in ragbench/__init__.pyi or ragbench/records.py"
    unused = []
    for name, value in vars(importlib.import_module("ragbench.records")).items():
        if is_public(name) and id(value) not in used_ids:
            unused.append(name)
    assert unused == []


def test_the_page_of_the_face_lists_every_record() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    _, _, section = page.partition("## Records")
    records = vars(importlib.import_module("ragbench.records"))

    listed = re.findall(r"`(\w+)`", section)

    assert sorted(listed) == sorted(filter(is_public, records))


def test_a_reranker_has_the_specification_s_name_too() -> None:
    assert ragbench.IReranker is ragbench.Reranker


def test_the_changelog_says_each_outcome_once() -> None:
    """A merge that keeps both sides doubles lines without a conflict."""
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    outcomes = [line for line in lines if line.startswith(("- ", "# ", "## "))]

    doubled = [line for line in outcomes if outcomes.count(line) > 1]

    assert doubled == []
