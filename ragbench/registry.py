"""Names of implementations, resolved late.

A registry maps a name to ``"module:attribute"``. Nothing is imported before it is asked for,
so that a command pays only for what it uses. Other packages add names through entry points in
the group ``ragbench.<kind>``, for example::

    [project.entry-points."ragbench.formats"]
    mylog = "my_package.mylog:read"
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from ragbench.errors import ConfigError

__all__ = ["Registry", "load_attribute"]


def load_attribute(target: str) -> Any:
    """Imports ``"package.module:attribute"`` (dots may follow the colon).

    Raises:
        ConfigError: the text has no colon, or the module has no such attribute.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{target}' is not of the form package.module:attribute")
    value: Any = importlib.import_module(module_name)
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError as error:
            raise ConfigError(f"module '{module_name}' has no attribute '{path}'") from error
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """Implementations of one kind of thing, by name."""

    kind: str
    """What is registered, in the plural and as entry-point groups spell it: ``"formats"``."""
    builtin: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name to ``"module:attribute"`` of what ragbench brings itself."""

    def targets(self) -> dict[str, str]:
        """All names with their targets, built in ones first; a built in name wins."""
        found = dict(self.builtin)
        for point in sorted(entry_points(group=f"ragbench.{self.kind}"), key=lambda p: p.name):
            found.setdefault(point.name, point.value)
        return found

    def load(self, name: str) -> Any:
        """Imports and returns what is registered under a name.

        Raises:
            ConfigError: no such name; the message lists those that exist.
        """
        target = self.builtin.get(name)
        if target is None:
            targets = self.targets()
            if name not in targets:
                raise ConfigError(self._unknown(name, sorted(targets)))
            target = targets[name]
        return load_attribute(target)

    def _unknown(self, name: str, known: list[str]) -> str:
        close = get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        return f"unknown name '{name}' among {self.kind}.{hint} Known: {', '.join(known)}"
