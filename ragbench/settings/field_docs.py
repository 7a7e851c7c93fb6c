"""What stands below the fields of a class in its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise

__all__ = ["field_docs"]


def field_docs(target: type) -> dict[str, str]:
    """The text below each field, in one line; also of classes that it inherits from."""
    found: dict[str, str] = {}
    for owner in reversed(target.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError, SyntaxError):  # written elsewhere than in a file
            continue
        body = getattr(tree.body[0], "body", [])
        for field, text in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = " ".join(text.value.value.split())
    return found
