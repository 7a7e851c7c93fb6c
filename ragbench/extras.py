"""Optional packages: imported late, and one error that holds the pip line."""

from __future__ import annotations

import importlib
from types import ModuleType

from ragbench.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, *, extra: str) -> ModuleType:
    """Imports an optional module.

    Args:
        module: import name, such as ``"sacrebleu"`` or ``"ragas.metrics"``.
        extra: the ragbench extra that installs it.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: the package is not installed. An import error that comes from
            inside an installed package is raised as it is: it is not a missing extra.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == package:
            raise MissingExtraError(package, extra) from error
        raise
