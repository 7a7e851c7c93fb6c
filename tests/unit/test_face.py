"""The public face: what ``from ragbench import ...`` offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

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
    deep = re.findall(r"^\s*(?:from|import) ragbench\.(?!prepare\b).*$", text, re.MULTILINE)
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


def test_the_changelog_says_each_outcome_once() -> None:
    """A merge that keeps both sides doubles lines without a conflict."""
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    outcomes = [line for line in lines if line.startswith(("- ", "# ", "## "))]
    assert [line for line in outcomes if outcomes.count(line) > 1] == []
