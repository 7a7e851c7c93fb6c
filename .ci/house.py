"""What the house looks like: modules, imports between them, the longest chain, sizes, docstrings.

Run from the root of the project::

    python .ci/house.py

Every import statement of ragbench and ragbench_cli counts, also one inside a function or for type
checkers only; a name that a package's ``__init__`` passes on counts for the module that it comes
from. Modules that are loaded by name (registries, the public face, the commands) do not count.
``tests/unit/test_layers.py`` holds the bars.
"""

from __future__ import annotations

import ast
import statistics
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
        """The longest chain of modules of which each imports the next."""
        longest: dict[str, list[str]] = {}
        for name in TopologicalSorter(self.imports).static_order():
            below = [longest[other] for other in sorted(self.imports.get(name, ()))]
            longest[name] = [name, *max(below, key=len, default=[])]
        return max(longest.values(), key=len)

    @property
    def functions(self) -> list[int]:
        """The length of each function in lines, signature and docstring included."""
        found = (node for tree in self.trees.values() for node in ast.walk(tree))
        return sorted(
            (node.end_lineno or 0) - node.lineno + 1 for node in found if isinstance(node, Function)
        )

    @property
    def undocumented(self) -> list[str]:
        """Public modules, classes, functions and methods without a docstring."""
        return [name for name, node in self._public() if ast.get_docstring(node) is None]

    @property
    def documented(self) -> float:
        """The share of public modules, classes, functions and methods with a docstring."""
        return 1 - len(self.undocumented) / len(list(self._public()))

    def _public(self) -> Iterator[tuple[str, ast.Module | ast.ClassDef | Function]]:
        for name, tree in self.trees.items():
            yield name, tree
            for node in tree.body:
                if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
                    continue
                yield f"{name}.{node.name}", node
                for inner in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(inner, Function) and not inner.name.startswith("_"):
                        yield f"{name}.{node.name}.{inner.name}", inner


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
        for module, symbol in _imported(tree).values():
            target = _home(module, symbol, found.trees, passed_on)
            if target is not None and target != name:
                found.imports[name].add(target)
    return found


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


def main() -> None:
    found = house()
    lengths = sorted(found.lines.values())
    functions = found.functions
    one = [n for n in found.trees if sum(n in imported for imported in found.imports.values()) == 1]
    print(f"modules          {len(found.trees)}")
    print(f"lines            {sum(lengths)}; a module: {_spread(lengths)}")
    print(f"imports          {sum(map(len, found.imports.values()))}")
    print(f"with 1 importer  {len(one)}; below 60 lines: {[n for n in one if found.lines[n] < 60]}")
    print(f"circle           {found.circle or 'none'}")
    print(f"longest chain    {len(found.chain)}: {' > '.join(found.chain)}")
    print(f"functions        {len(functions)}; lines: {_spread(functions)}")
    print(f"documented       {found.documented:.1%}; not: {', '.join(found.undocumented) or '-'}")


def _spread(values: list[int]) -> str:
    p95 = values[int(len(values) * 0.95)]
    return f"median {statistics.median(values):.0f}, p95 {p95}, longest {values[-1]}"


if __name__ == "__main__":
    main()
