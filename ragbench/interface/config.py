"""The configuration that a RAG is built with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

__all__ = ["RAGConfig"]


# Neither frozen nor keyword-only: users' dataclasses written against the old interface inherit it.
@dataclass
class RAGConfig:
    """``top_k`` and whatever else the system wants.

    Subclass it as a dataclass for typed settings, or put them into ``settings``.

    Example:
        >>> RAGConfig(top_k=3, settings={"index": "docs-v2"}).settings["index"]
        'docs-v2'
    """

    top_k: int = 5
    """How many contexts to retrieve when a call does not say."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """The system's own settings."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Builds a configuration: known fields by name, everything else into ``settings``."""
        known = {item.name for item in fields(cls)}
        arguments = {key: value for key, value in values.items() if key in known}
        rest = {key: value for key, value in values.items() if key not in known}
        if rest:
            arguments["settings"] = {**arguments.get("settings", {}), **rest}
        return cls(**arguments)
