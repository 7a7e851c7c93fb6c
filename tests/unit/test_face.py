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
    body = ast.parse(FACE.read_text("utf-8")).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    return {str(name.asname): str(node.module) for node in imports for name in node.names}


def test_every_public_name_is_where_type_checkers_look_for_it() -> None:
    assert sorted(declared()) == sorted(PUBLIC)
    for name, module in declared().items():
        assert getattr(ragbench, name) is getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_a_panel_of_the_help_and_in_one_alone() -> None:
    stub = FACE.read_text("utf-8")
    assert re.findall(r"^# Panel: (.+)$", stub, re.MULTILINE) == [str(p) for p in CommandPanel]
    preface, _, panels = stub.partition("# Panel: ")
    assert "import " not in preface
    names = re.findall(r"^from .+ import \w+ as (\w+)$", panels, re.MULTILINE)
    assert sorted(names) == sorted(PUBLIC)


def test_the_page_of_the_face_lists_every_name_once() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(PUBLIC)


def documents() -> list[Path]:
    guides = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "datasets").rglob("*.md")]
    folder = ROOT / "cli" / "ragbench_cli" / "templates"
    templates = [path for path in folder.iterdir() if path.is_file()]
    return sorted([ROOT / "README.md", *guides, *templates])


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_what_users_read_imports_from_the_face_alone(path: Path) -> None:
    text = path.read_text("utf-8")
    pattern = r"^\s*(?:from|import) ragbench\.(?!prepare\b|records\b).*$"
    deep = re.findall(pattern, text, re.MULTILINE)
    assert deep == []
    named = re.findall(r"^\s*from ragbench import \(?([\w\s,]+?)\)?$", text, re.MULTILINE)
    for name in re.findall(r"\w+", " ".join(named)):
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
    for statement in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for line in statement.body:
                if isinstance(line, ast.ImportFrom):
                    imported = importlib.import_module(str(line.module))
                    names |= {alias.name: getattr(imported, alias.name) for alias in line.names}
    return names


def hints(thing: Any) -> dict[str, Any]:
    return get_type_hints(thing, localns=names_for_type_checkers(thing.__module__))


def placed_types(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Where a type stands in a function, or in the fields and methods of a class, and the type."""
    if not isinstance(thing, type):
        if inspect.isfunction(thing):
            yield from ((f"{name}({key})", hint) for key, hint in hints(thing).items())
        return
    yield from ((f"{name}.{key}", hint) for key, hint in hints(thing).items() if key[0] != "_")
    for key, member in inspect.getmembers_static(thing):
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        function = function or getattr(member, "__func__", member)
        is_public = key[0] != "_" or key in ("__init__", "__iter__", "__getitem__")
        is_ours = str(getattr(function, "__module__", "")).startswith("ragbench.")
        if is_public and is_ours and inspect.isfunction(function):
            yield from placed_types(f"{name}.{key}", function)


def types_in(hint: Any) -> Iterator[type]:
    """The classes of ragbench in an annotation, such as ``Chunk`` in ``list[Chunk] | None``."""
    if isinstance(hint, type) and hint.__module__.startswith("ragbench."):
        yield hint
    for inner in get_args(hint):
        for part in inner if isinstance(inner, list) else [inner]:
            yield from types_in(part)
    origin = get_origin(hint)
    if isinstance(origin, type):
        yield from types_in(origin)


def exported() -> dict[str, Any]:
    """Every public name with its value, the records and errors among them."""
    names = {name: getattr(ragbench, name) for name in PUBLIC}
    for module in ("ragbench.records", "ragbench.errors"):
        names |= {
            name: value
            for name, value in vars(importlib.import_module(module)).items()
            if name[0] != "_" and isinstance(value, type)
        }
    return names


def is_public(name: str) -> bool:
    """Whether a name of a module is for others; pytest adds some that are no identifiers."""
    return name.isidentifier() and name[0] != "_"


def test_every_type_in_a_public_annotation_is_public_and_every_record_in_one() -> None:
    public = exported()
    ids = {id(value) for value in public.values()}
    used: set[int] = set()
    missing: dict[str, str] = {}
    for name, thing in public.items():
        if name in HANDLES:
            continue
        for place, hint in placed_types(name, thing):
            for kind in types_in(hint):
                used.add(id(kind))
                if id(kind) not in ids:
                    missing[f"{kind.__module__}.{kind.__qualname__}"] = place

    assert missing == {}, "export them in ragbench/__init__.pyi or ragbench/records.py"
    records = vars(importlib.import_module("ragbench.records"))
    unused = [name for name, value in records.items() if is_public(name) and id(value) not in used]
    assert unused == []


def test_the_page_of_the_face_lists_every_record() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8").partition("## Records")[2]
    names = filter(is_public, vars(importlib.import_module("ragbench.records")))
    assert sorted(re.findall(r"`(\w+)`", page)) == sorted(names)


def test_a_reranker_has_the_specification_s_name_too() -> None:
    assert ragbench.IReranker is ragbench.Reranker


def test_the_changelog_says_each_outcome_once() -> None:
    """A merge that keeps both sides doubles lines without a conflict."""
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    outcomes = [line for line in lines if line.startswith(("- ", "# ", "## "))]
    assert [line for line in outcomes if outcomes.count(line) > 1] == []
