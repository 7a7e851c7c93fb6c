"""One pipeline file, and what was found wrong with it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.data.yaml_file import Place, YamlFile
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.pipeline.own import is_own
from ragbench.registry import Registry
from ragbench.settings.from_settings import Makers, from_settings
from ragbench.settings.spoken_of import spoken_of

__all__ = ["Chosen", "Reading"]

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Which implementation of a stage a file chooses, with what settings."""

    name: str
    """The registered name, or that of a user's class."""
    settings: Mapping[str, Any]
    """Without the name."""
    place: Place
    own: bool
    """Whether it is a user's class."""
    target: Any = None
    """What is registered; None for a user's class."""


@dataclass(kw_only=True, slots=True)
class Reading:
    """Reads a file; what is wrong is noted, never raised, until `finish`."""

    file: YamlFile
    folder: Path
    """Where relative paths, files and modules are looked for."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def wrong(self, place: Place, message: str) -> None:
        """Notes a problem, or one for each line of a message."""
        self.problems.extend(self.file.problem(place, line) for line in message.splitlines())

    def finish(self) -> None:
        """Refuses the file when anything was wrong.

        Raises:
            DataError: something was.
        """
        if self.problems:
            found = dict.fromkeys(self.problems)  # a model that is wrong is told once
            raise DataError(sorted(found, key=lambda problem: problem.line or 0))

    def at(self, place: Place) -> Any:
        """The value at a place; None when there is nothing."""
        value = self.file.value
        for part in place:
            if isinstance(value, Mapping):
                value = cast("Mapping[Any, Any]", value).get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = cast("list[Any]", value)[part]
            else:
                return None
        return value

    def mapping(self, place: Place) -> dict[str, Any]:
        """The mapping at a place; empty when there is nothing, or something else."""
        value = self.at(place)
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {str(key): item for key, item in entries}
        if value is not None:
            self.wrong(place, f"expected 'name: value' entries, found {shown(value)}")
        return {}

    def items(self, place: Place, value: object) -> list[Any]:
        """The list at a place; empty when there is nothing, or something else."""
        if value is not None and not isinstance(value, list):
            self.wrong(place, f"expected a list, found {shown(value)}")
            return []
        return cast("list[Any]", value or [])

    def chosen(
        self, place: Place, registry: Registry, what: str, default: str | None = None
    ) -> Chosen | None:
        """The implementation that a name, or a mapping with a ``type``, chooses.

        Args:
            place: where it stands.
            registry: what can be chosen besides users' classes.
            what: what is chosen, for messages.
            default: what is chosen when there is no name.

        Returns:
            None, and a problem, when there is no such thing.
        """
        value = self.at(place)
        settings = {} if isinstance(value, str) else self.mapping(place)
        name = value if isinstance(value, str) else settings.pop("type", default)
        at = (*place, "type") if isinstance(value, Mapping) and "type" in value else place
        known = list(registry.targets())
        if value is not None and not isinstance(value, (str, Mapping)):
            return None
        if name is None:
            self.wrong(place, f"{what} needs a 'type'. Known: {', '.join(known)}")
            return None
        if is_own(name):
            return Chosen(name=str(name), settings=settings, place=place, own=True)
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            meant = f" Did you mean '{close[0]}'?" if close else ""
            self.wrong(
                at,
                f"unknown type {shown(name)} of {what}.{meant} Known: {', '.join(known)}, or a "
                "class of your own such as my_module:Class or file.py:Class",
            )
            return None
        target = registry.load(str(name))
        return Chosen(name=str(name), settings=settings, place=place, own=False, target=target)

    def from_settings(
        self,
        target: Any,
        settings: Mapping[str, Any],
        place: Place,
        where: str,
        made: Makers | None = None,
    ) -> Any:
        """`ragbench.settings.from_settings`; None, and problems, where it raises."""
        try:
            return from_settings(target, settings, where=where, made=made)
        except (ConfigError, MissingExtraError) as error:
            self.problems.extend(spoken_of(self.file, place, settings, str(error)))
            return None

    def trying(self, chosen: Chosen, make: Callable[[], ValueT]) -> ValueT | None:
        """What a user's class gives; None, and a problem, where that raises."""
        try:
            return make()
        except (ConfigError, MissingExtraError) as error:
            self.wrong(chosen.place, str(error))
            return None


def shown(value: object) -> str:
    """A value as a message names it, not too long."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return f"{text[:60]} ..." if len(text) > 60 else text
