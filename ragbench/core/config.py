"""The configuration that a RAG is built with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ragbench.errors import ConfigError


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
    # Keyword-only, so that the second positional argument of a subclass is its own first field.
    settings: dict[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    """The system's own settings."""

    def get(self, name: str, default: Any = None) -> Any:
        """A setting by its name, as code written for a dictionary reads it.

        Args:
            name: a field of this class, or a key of ``settings``.
            default: what is returned where there is neither.
        """
        if name != "settings" and name in (each.name for each in fields(self)):
            return getattr(self, name)
        return self.settings.get(name, default)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Builds a configuration: what the constructor takes by name, the rest into ``settings``.

        Raises:
            ConfigError: there is a rest, and the constructor takes no ``settings``.
        """
        parameters = inspect.signature(cls).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return cls(**values)
        names = {p.name for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
        arguments = {key: value for key, value in values.items() if key in names}
        rest = {key: value for key, value in values.items() if key not in names}
        if rest and "settings" not in names:
            raise ConfigError(
                f"{cls.__name__} takes no {', '.join(sorted(rest))}; "
                f"it takes {', '.join(sorted(names)) or 'nothing'}"
            )
        if rest:
            arguments["settings"] = {**arguments.get("settings", {}), **rest}
        return cls(**arguments)


class OwnConfig:
    """Gives an object a default configuration of its own when no ``__init__`` gave it one.

    Old subclasses need not call ``super().__init__()``, and an instance must not share its
    configuration with all others.
    """

    def __get__(self, rag: object | None, owner: type) -> RAGConfig:
        """Makes the configuration at the first access; later ones find it in the instance."""
        if rag is None:
            # A dataclass with a field `config` would take anything else for the field's default.
            raise AttributeError(f"'config' belongs to instances of {owner.__name__}")
        config = RAGConfig()
        vars(rag)["config"] = config
        return config
