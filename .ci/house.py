"""How large the house is, how dense its lines are, and who imports whom.

``make house`` prints the figures for whoever wants to look; nothing compares them. Circles and
chains of imports are held by ``tests/unit/test_layers.py``.

For circles every import statement of ragbench and ragbench_cli counts, also one inside a function
or for type checkers only; for the longest chain those that run when a module is imported. A name
that a package's ``__init__`` passes on counts for the module that it comes from. Modules that are
loaded by name (registries, the public face, the commands) do not count.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
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
        for kept, imported in ((found.imports, passed_on[name]), (found.loads, at_import)):
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
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name: (a.name, None) for a in node.names}
    return {key: place for key, place in found.items() if place[0].startswith("ragbench")}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node; expressions, which are most of a tree, hold no import."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, block, ()):
            yield statement
            yield from _statements(statement)


def _home(
    module: str, symbol: str | None, known: dict[str, ast.Module], passed_on: dict[str, Imported]
) -> str | None:
    """The module that an import ends at."""
    if symbol is not None and f"{module}.{symbol}" in known:
        return f"{module}.{symbol}"
    if symbol in passed_on.get(module, {}):
        return _home(*passed_on[module][symbol], known, passed_on)
    return module if module in known else None


# --- figures


def figures_of(folder: Path) -> dict[str, float]:
    """The size of the Python files below a folder, and how much a line of code holds."""
    sources = [path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))]
    code = sum(map(lines_of_code, sources))
    nodes = sum(map(nodes_of_code, sources))
    return {
        "modules": len(sources),
        "all lines": sum(source.count("\n") for source in sources),
        "lines of code": code,
        "statements and expressions": nodes,
        "of these per line of code": round(nodes / code, 2),
    }


def nodes_of_code(source: str) -> int:
    """The statements and expressions of a module: what a reader has to take in."""
    return sum(isinstance(node, ast.expr | ast.stmt) for node in ast.walk(ast.parse(source)))


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


def main() -> None:
    """Prints the figures of the library, the command line and the tests."""
    for folder in (*PACKAGES, ROOT / "tests"):
        print(folder.relative_to(ROOT))
        for name, value in figures_of(folder).items():
            print(f"{value:>12,}  {name}")


if __name__ == "__main__":
    main()
