"""The one way in to ragas: its import made to work, its telemetry off, its warnings quiet."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from types import ModuleType

from ragbench.extras import require

__all__ = ["import_ragas"]

_TRACKING = "RAGAS_DO_NOT_TRACK"
_VERTEXAI = "langchain_community.chat_models.vertexai"


def import_ragas() -> ModuleType:
    """Imports ragas; takes seconds the first time.

    ragas sends usage data unless ``RAGAS_DO_NOT_TRACK`` is ``true`` (no other value counts) before
    its first use. It is set here, unless the user has set it to anything.

    Returns:
        The module ``ragas``.

    Raises:
        MissingExtraError: ragas is not installed.
    """
    os.environ.setdefault(_TRACKING, "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if "ragas" not in sys.modules:
            _seed_vertexai()
        return require("ragas", extra="ragas")


def _seed_vertexai() -> None:
    """Stands in for a module that ragas imports and langchain-community 0.4.2 removed.

    ragas only asks whether a model is an instance of its class, which then is never the case.
    """
    try:
        importlib.import_module(_VERTEXAI)
    except ModuleNotFoundError as error:
        # Another name: langchain-community as a whole is missing, and then ragas is as well.
        if error.name == _VERTEXAI:
            stub = ModuleType(_VERTEXAI, "Stands in for a module that ragas expects.")
            stub.__dict__["ChatVertexAI"] = type("ChatVertexAI", (), {})
            sys.modules[_VERTEXAI] = stub
