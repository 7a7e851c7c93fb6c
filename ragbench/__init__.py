"""ragbench: what a RAG system retrieves, what it answers, and what that is worth.

Everything that users of the library need is importable from here, and loaded when it is first
used: ``from ragbench import RAGInterface, evaluate, read_cases``. Types that only stand in fields
and methods are in `ragbench.records`. A name in any other module may move without notice.
"""

from __future__ import annotations

from functools import cache


@cache
def _modules() -> dict[str, str]:
    """The module of each public name, read from ``__init__.pyi``, which type checkers read, too."""
    import ast
    from pkgutil import get_data

    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")
    modules: dict[str, str] = {}
    for statement in stub.body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                modules[alias.name] = str(statement.module)
    return modules


def __getattr__(name: str) -> object:
    """Loads a public name at its first use."""
    if name == "__all__":
        return sorted(_modules())
    if name not in _modules():
        raise AttributeError(f"module 'ragbench' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_modules()[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
