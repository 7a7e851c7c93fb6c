"""The one door to ragas, which needs care before it can be imported."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec
from types import ModuleType

from ragbench.extras import require

__all__ = ["import_ragas"]

_VERTEX_AI = "langchain_community.chat_models.vertexai"


def import_ragas(module: str = "ragas") -> ModuleType:
    """Imports ragas, or a module of it.

    - ragas reports usage over the network unless ``RAGAS_DO_NOT_TRACK`` is the word ``true``: it is
      set to that, unless the user has set it to anything.
    - ragas 0.4 imports a module that langchain-community 0.4.2 removed, and uses one name of it
      only to recognise its instances: where it is missing an empty class stands in.
    - Its deprecation warnings are about ragbench's choices, not the user's: they are not shown.

    Args:
        module: ``"ragas"`` or a module below it.

    Raises:
        MissingExtraError: ragas is not installed.
    """
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _stand_in_for_vertex_ai()
        return require(module, extra="ragas")


def _stand_in_for_vertex_ai() -> None:
    if _VERTEX_AI in sys.modules or find_spec("langchain_community") is None:
        return
    if find_spec(_VERTEX_AI) is None:
        stand_in = ModuleType(_VERTEX_AI)
        stand_in.__dict__["ChatVertexAI"] = type("ChatVertexAI", (), {})
        sys.modules[_VERTEX_AI] = stand_in
