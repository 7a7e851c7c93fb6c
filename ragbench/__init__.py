"""ragbench: what a RAG system retrieves, what it answers, and what that is worth.

Everything that users of the library need is importable from here, and loaded when it is first
used: ``from ragbench import RAGInterface, evaluate, read_cases``. What is not named here may move.
"""

from __future__ import annotations

from functools import cache


@cache
def _places() -> dict[str, str]:
    """The module of each public name, as ``__init__.pyi`` has it for type checkers."""
    import ast
    from pkgutil import get_data

    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    """Loads a public name at its first use."""
    if name == "__all__":
        return sorted(_places())
    if name not in _places():
        raise AttributeError(f"module 'ragbench' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_places()[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_places()})
