"""ragbench: what a RAG system retrieves, what it answers, and what that is worth.

Everything that users of the library need is importable from here, and loaded when it is first
used: ``from ragbench import RAGInterface, evaluate, read_cases``. Types that only stand in fields
and methods are in `ragbench.records`. A name in any other module may move without notice.
"""

from __future__ import annotations

from functools import cache


@cache
def _modules_of_names() -> dict[str, str]:
    """The module of each public name of ragbench, read from ``__init__.pyi``.

    Type checkers read that file, too, so that the two cannot differ.
    """
    # Only read when a name is first asked for: `import ragbench` must be quick.
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
    """A public name of ragbench, whose module is loaded at the first use of the name.

    So ``import ragbench``, and each command, waits only for what it uses. Python calls this for a
    name that the module does not have yet.
    """
    if name == "__all__":
        return sorted(_modules_of_names())
    if name not in _modules_of_names():
        raise AttributeError(f"module 'ragbench' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_modules_of_names()[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    """The names that completion offers for ``ragbench.``, those not loaded yet among them.

    Without it, a user would see only what was used before.
    """
    return sorted({*globals(), *_modules_of_names()})
