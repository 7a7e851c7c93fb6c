"""The shape of the project: who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.runs import ROOT, in_python

LIBRARY = ROOT / "ragbench"
CLI = ROOT / "cli" / "ragbench_cli"
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
SETTINGS: dict[str, Any] = tomllib.loads(PYPROJECT)["tool"]
TIDY_IMPORTS: dict[str, Any] = SETTINGS["ruff"]["lint"]["flake8-tidy-imports"]
HEAVY: list[str] = TIDY_IMPORTS["banned-module-level-imports"]
CONTRACTS: list[dict[str, Any]] = SETTINGS["importlinter"]["contracts"]
LAYERS: list[str] = next(
    contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"
)
"""From the highest to the lowest; a line may hold several packages."""


def modules_of(package: Path) -> list[str]:
    """The dotted names of a package's modules."""
    names = []
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        names.append(".".join(parts).removesuffix(".__init__"))
    return sorted(names)


def test_every_top_level_module_has_its_layer() -> None:
    with_layer = {name.strip(" ()") for layer in LAYERS for name in re.split(r"[|:]", layer)}
    existing = {name for name in modules_of(LIBRARY) if name.count(".") == 1}

    assert existing - with_layer == set(), "name it in the layers contract of pyproject.toml"
    assert "ragbench_cli" in with_layer


def test_the_library_is_barred_from_the_terminal() -> None:
    contract = contract_with("source_modules", ["ragbench"])

    assert set(contract["forbidden_modules"]) >= {"rich", "typer"}


def contract_with(key: str, modules: list[str]) -> dict[str, Any]:
    """The one contract that has these modules under a key."""
    (contract,) = [contract for contract in CONTRACTS if contract.get(key) == modules]
    return contract


def test_evaluating_packages_are_barred_from_the_search() -> None:
    """Named one by one: a new package among them would else go unnoticed."""
    contract = contract_with("forbidden_modules", ["ragbench.search"])

    barred = set(contract["source_modules"])
    above = next(layer for layer in LAYERS if "stages" in layer)
    beside = LAYERS[LAYERS.index("ragbench.search") + 1]
    for layer in (above, beside):
        assert barred >= {name.strip() for name in layer.split("|")}


@pytest.fixture(scope="module")
def house() -> Any:
    return runpy.run_path(str(ROOT / ".ci" / "house.py"))["house"]()


def test_no_modules_import_each_other_in_a_circle(house: Any) -> None:
    assert house.circle == []


def test_chains_of_imports_stay_short(house: Any) -> None:
    assert len(house.chain) <= 15, " > ".join(house.chain)


def imported_by(modules: list[str], watched: list[str]) -> list[str]:
    """The watched packages that are in sys.modules when the modules have been imported."""
    printed = in_python(f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & set({watched!r})))
""")
    return printed.stdout.split()


class Import(NamedTuple):
    """What importing every module of the library does."""

    packages: frozenset[str]
    """What is imported by then."""
    events: list[str]
    """Files that were opened, but those of code; connections, and programs that were started."""


@pytest.fixture(scope="module")
def library_import() -> Import:
    printed = in_python(f"""
import importlib, json, sys
sys.dont_write_bytecode = True  # Python's own files, which a fresh clone lacks
seen = []
def watch(event, arguments):
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc")):
        if "__pycache__" not in str(arguments[0]):
            seen.append(f"open {{arguments[0]}}")
    elif event.startswith(("socket.", "subprocess.", "os.system")):
        seen.append(event)
import typing_extensions
sys.addaudithook(watch)
for name in {modules_of(LIBRARY)!r}:
    importlib.import_module(name)
events = [*seen]
print(json.dumps([sorted({{name.partition(".")[0] for name in sys.modules}}), events]))
""")
    packages, events = json.loads(printed.stdout)
    return Import(frozenset(packages), events)


def test_importing_the_whole_library_imports_nothing_heavy(library_import: Import) -> None:
    assert library_import.packages >= {"ragbench"}
    assert library_import.packages.isdisjoint({*HEAVY, "typer", "rich"})


def test_importing_the_library_reads_no_file_and_opens_no_connection(
    library_import: Import,
) -> None:
    assert library_import.events == []


def test_importing_the_whole_command_line_imports_nothing_heavy() -> None:
    modules = [name for name in modules_of(CLI) if not name.endswith("__main__")]

    assert imported_by(modules, HEAVY) == []


def test_the_guard_sees_a_heavy_import() -> None:
    assert imported_by(["rapidfuzz"], HEAVY) == ["rapidfuzz"]


@pytest.mark.parametrize("package", [LIBRARY, CLI], ids=["library", "cli"])
def test_package_files_hold_no_logic(package: Path) -> None:
    logic = []
    for path in package.rglob("__init__.py"):
        if path.parent == LIBRARY:  # the face; see test_face.py
            continue
        for statement in ast.parse(path.read_text("utf-8")).body:
            if not is_import_text_or_all(statement):
                logic.append(f"{path.relative_to(ROOT)}:{statement.lineno}")

    assert logic == []


def is_import_text_or_all(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__"), *_]):
            return True
        case _:
            return False


@pytest.mark.parametrize("package", [LIBRARY, CLI], ids=["library", "cli"])
def test_modules_are_named_after_what_they_hold(package: Path) -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)$")

    for module in modules_of(package):
        for name in module.split("."):
            assert not vague.search(name), module


def test_the_data_folder_does_not_hide_the_package_of_the_same_name() -> None:
    assert list((ROOT / "datasets").rglob("*.py")) == []
    assert not (ROOT / "reports" / "__init__.py").exists()


def test_no_conftest_puts_the_root_on_the_path() -> None:
    assert not (ROOT / "conftest.py").exists()
    assert not (ROOT / "tests" / "__init__.py").exists()


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("ragbench/views/markdown.py", False),
        ("reports/README.md", False),
        ("reports/run/report.json", True),
        ("ragbench/io/jsonl.py", False),
        ("datasets/name/cases.jsonl", False),
        ("cli/x.egg-info/PKG-INFO", True),
    ],
)
def test_git_ignores_what_runs_write_and_nothing_of_the_project(path: str, ignored: bool) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(
        ["git", "-C", str(ROOT), "check-ignore", "--quiet", "--no-index", path], check=False
    )
    assert done.returncode == (0 if ignored else 1)
