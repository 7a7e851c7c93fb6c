"""Embedders by name."""

from __future__ import annotations

from typing import Any, cast

from ragbench.embedders.base import Embedder
from ragbench.registry import Registry

__all__ = ["DEFAULT_EMBEDDER", "EMBEDDERS", "open_embedder"]

DEFAULT_EMBEDDER = "multilingual"

EMBEDDERS = Registry(
    kind="embedders",
    builtin={
        "multilingual": "ragbench.embedders.multilingual:from_name",
        "onnx": "ragbench.embedders.onnx:from_name",
        "openai": "ragbench.embedders.openai:from_name",
        "hashing": "ragbench.embedders.hashing:from_name",
    },
)
"""Name to a function ``(model, settings)``: what stands behind the colon, and the settings."""


def open_embedder(name: str = DEFAULT_EMBEDDER, **settings: Any) -> Embedder:
    """Makes an embedder; it loads its model or opens its connection when it is first used.

    Example:
        >>> open_embedder("hashing:64").dimension
        64

    Args:
        name: a registered name, and behind a colon the model where it takes one:
            ``"multilingual"``, ``"onnx:FOLDER"``, ``"openai:MODEL"``, ``"hashing:256"``.
        **settings: of that embedder, such as ``query_prefix="query: "``.

    Raises:
        ConfigError: no such name, or a setting is unknown or wrong.
        MissingExtraError: a package that it needs is not installed.
    """
    kind, _, model = name.partition(":")
    make = EMBEDDERS.load(kind)
    return cast("Embedder", make(model, settings))
