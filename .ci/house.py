"""How large the house is, how far a question walks through it, and who imports whom.

``make house`` prints the figures of ``house.toml`` as they are now and writes down what became
better; ``tests/unit/test_house.py`` holds them. What became worse is written only with the words of
the issue that grants it: ``make house WHY="..."``.

For circles every import statement of ragbench and ragbench_cli counts, also one inside a function
or for type checkers only; for the longest chain those that run when a module is imported. A name
that a package's ``__init__`` passes on counts for the module that it comes from. Modules that are
loaded by name (registries, the public face, the commands) do not count.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "ragbench", ROOT / "cli" / "ragbench_cli")
FACE = "ragbench"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(kw_only=True)
class House:
    """The modules of the project, and which imports which."""

    trees: dict[str, ast.Module] = field(default_factory=dict[str, ast.Module])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    loads: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    """Of its imports those that happen when a module is imported itself."""

    @property
    def circle(self) -> list[str]:
        """Modules that import each other in a circle; empty when none do."""
        try:
            TopologicalSorter(self.imports).prepare()
        except CycleError as error:
            return [str(name) for name in error.args[1]]
        return []

    @property
    def chain(self) -> list[str]:
        """The longest chain of modules of which each loads the next when it is imported."""
        longest: dict[str, list[str]] = {}
        for name in TopologicalSorter(self.loads).static_order():
            below = [longest[other] for other in sorted(self.loads.get(name, ()))]
            longest[name] = [name, *max(below, key=len, default=[])]
        return max(longest.values(), key=len)

    @property
    def functions(self) -> list[int]:
        """The length of each function in lines, signature and docstring included."""
        found = (node for tree in self.trees.values() for node in ast.walk(tree))
        return sorted(
            (node.end_lineno or 0) - node.lineno + 1 for node in found if isinstance(node, Function)
        )


def house() -> House:
    """Reads the project."""
    found = House()
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            text = path.read_text("utf-8")
            found.trees[name] = ast.parse(text)
            found.lines[name] = text.count("\n")
    passed_on = {name: _imported(tree) for name, tree in found.trees.items()}
    for name, tree in found.trees.items():
        if name == FACE:  # loads by name; what it imports is for type checkers
            continue
        at_import = _imported(ast.Module([*filter(_is_executed, tree.body)], []))
        for kept, imported in ((found.imports, _imported(tree)), (found.loads, at_import)):
            for module, symbol in imported.values():
                target = _home(module, symbol, found.trees, passed_on)
                if target is not None and target != name:
                    kept[name].add(target)
    return found


def _is_executed(node: ast.stmt) -> bool:
    """Whether importing a module runs a statement, as far as imports in it go."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return False
    return not isinstance(node, Function | ast.ClassDef)


Imported = dict[str, tuple[str, str | None]]


def _imported(tree: ast.Module) -> Imported:
    """Each imported name with its module and what it is called there; None for a whole module."""
    found: Imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name: (a.name, None) for a in node.names}
    return {key: place for key, place in found.items() if place[0].startswith("ragbench")}


def _home(
    module: str, symbol: str | None, known: dict[str, ast.Module], passed_on: dict[str, Imported]
) -> str | None:
    """The module that an import ends at."""
    if symbol is not None and f"{module}.{symbol}" in known:
        return f"{module}.{symbol}"
    if symbol in passed_on.get(module, {}):
        return _home(*passed_on[module][symbol], known, passed_on)
    return module if module in known else None


# --- the figures that only fall

WRITTEN = ROOT / ".ci" / "house.toml"
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- make house -->", "<!-- end -->"
MEANING = {
    "code": "lines of code of `ragbench` and `cli` (no docstrings, comments, blank lines)",
    "lines": "all lines of them",
    "modules": "modules",
    "test_lines": "lines of the tests (benchmarks aside)",
    "evaluate_functions": "functions that `evaluate()` of one case passes",
    "evaluate_files": "... in so many files",
    "eval_functions": "functions that `ragbench eval` of one case passes",
    "eval_files": "... in so many files",
    "validate_functions": "functions that `ragbench validate` of one line passes (`lexical`)",
    "validate_files": "... in so many files",
    "options": "options of all commands",
    "help_words": "words of the longest `--help`",
}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What the house measures, and its lines of code by package."""

    figures: Mapping[str, int]
    packages: Mapping[str, int]


def measured() -> Figures:
    """The figures of the checkout as it is."""
    packages: dict[str, int] = defaultdict(int)
    files = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
    for path in files:
        packages[_package(path)] += lines_of_code(path.read_text("utf-8"))
    tests = (ROOT / "tests").rglob("*.py")
    walks = [sys.executable, str(ROOT / ".ci" / "walks.py")]
    # The same environment everywhere: what depends on it would differ between machines.
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "COLUMNS": "100", "PYTHONHASHSEED": "0"}
    done = subprocess.run(walks, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"house: {' '.join(walks)} failed:\n{done.stderr}")
    figures = {
        "code": sum(packages.values()),
        "lines": sum(path.read_text("utf-8").count("\n") for path in files),
        "modules": len(files),
        "test_lines": sum(path.read_text("utf-8").count("\n") for path in tests),
    }
    return Figures(figures=figures | json.loads(done.stdout), packages=packages)


def lines_of_code(source: str) -> int:
    """The lines of a module that are neither blank, nor a comment, nor part of a docstring."""
    without: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            without.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in without and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.splitlines(), 1)
    )


def _package(path: Path) -> str:
    """The folder below `ragbench` that a module lies in; `ragbench` and the command line else."""
    if path.is_relative_to(PACKAGES[1]):
        return "ragbench_cli"
    parts = path.relative_to(PACKAGES[0]).parts
    return f"ragbench.{parts[0]}" if len(parts) > 1 else "ragbench"


def written() -> Figures:
    """The figures that `house.toml` holds."""
    content = tomllib.loads(WRITTEN.read_text("utf-8"))
    return Figures(figures=content["figures"], packages=content["code_by_package"])


def worse(now: Figures, before: Figures) -> list[str]:
    """A line for each figure that grew; code names the packages that grew most."""
    grown = {name: now.figures[name] - value for name, value in before.figures.items()}
    found = [
        f"{MEANING[name]}: {now.figures[name]:,}, {more:,} more than written down"
        for name, more in grown.items()
        if more > 0
    ]
    packages = sorted(
        ((size - before.packages.get(name, 0), name) for name, size in now.packages.items()),
        reverse=True,
    )
    most = [f"{name} +{more}" for more, name in packages[:3] if more > 0]
    return [*found, *([f"most grew: {', '.join(most)}"] if found and most else [])]


def table(figures: Mapping[str, int]) -> str:
    """The figures as docs/architecture.md shows them."""
    rows = [f"| {MEANING[name]} | {value:,} |" for name, value in figures.items()]
    return "\n".join([START, "| figure | now |", "|---|--:|", *rows, END])


def page_with(text: str, figures: Mapping[str, int]) -> str:
    """The page of the architecture with its table drawn anew."""
    head, rest = text.split(START)
    return head + table(figures) + rest.split(END)[1]


def write(now: Figures, why: str = "") -> None:
    """Writes the figures down, for the ratchet and for the page."""
    granted: list[str] = []
    if WRITTEN.exists():
        granted = tomllib.loads(WRITTEN.read_text("utf-8")).get("granted", [])
    granted = list(dict.fromkeys([*granted, *([why] if why else [])]))
    lines = [
        "# What the house may measure at most: make house writes it, test_house.py holds it.",
        "# Growth that an issue granted, in its words",
        "granted = [",
        *(f"    {json.dumps(words, ensure_ascii=False)}," for words in granted),
        "]",
        "",
        "[figures]",
        *(f"{name} = {value}" for name, value in now.figures.items()),
        "",
        "[code_by_package]",
        *(f'"{name}" = {size}' for name, size in sorted(now.packages.items())),
    ]
    WRITTEN.write_text("\n".join(lines) + "\n", "utf-8")
    PAGE.write_text(page_with(PAGE.read_text("utf-8"), now.figures), "utf-8")


def main() -> int:
    """Prints the figures; writes them unless some grew and nothing granted it."""
    why = " ".join(sys.argv[1:]).strip()
    now = measured()
    for name, value in now.figures.items():
        print(f"{value:>9,}  {MEANING[name]}")
    grown = worse(now, written()) if WRITTEN.exists() else []
    if grown and not why:
        print(*grown, 'Take away as much, or: make house WHY="the words that grant it"', sep="\n")
        return 1
    write(now, why)
    return 0


if __name__ == "__main__":
    sys.exit(main())
