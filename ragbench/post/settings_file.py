"""Settings out of a YAML file: every mistake with its line, all at once; users' own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.io.yaml_file import Place, YamlFile, spoken_of

ValueT = TypeVar("ValueT")


@dataclass(kw_only=True, slots=True)
class SettingsFile:
    """Reads a file; what is wrong is noted, never raised, until `finish`."""

    file: YamlFile
    folder: Path = Path()
    """Where relative paths, files and modules are looked for."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def wrong(self, place: Place, message: str) -> None:
        """Notes a problem, or one for each line of a message."""
        self.problems.extend(self.file.problem(place, line) for line in message.splitlines())

    def finish(self) -> None:
        """Refuses the file when anything was wrong."""
        if self.problems:
            found = dict.fromkeys(self.problems)  # a wrong model is reported once
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

    def mapping(self, place: Place, known: Sequence[str] | None = None) -> dict[str, Any]:
        """The mapping at a place, without keys that are not known; empty when there is none."""
        value = self.at(place)
        if not isinstance(value, Mapping):
            if value is not None:
                self.wrong(place, f"expected 'name: value' entries, found {shown(value)}")
            return {}
        found = {str(key): item for key, item in cast("Mapping[Any, Any]", value).items()}
        unknown = [] if known is None else [key for key in found if key not in known]
        for key in unknown:
            self.wrong((*place, key), f"unknown key.{listed_names(key, known or ())}")
        return {key: item for key, item in found.items() if key not in unknown}

    def items(self, place: Place) -> list[Any]:
        """The list at a place; empty, and a problem, when there is none."""
        value = self.at(place)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if value is None:
            self.wrong(place[:-1], f"the key '{place[-1]}' is missing")
        else:
            self.wrong(place, f"expected a list, found {shown(value)}")
        return []

    def built(self, place: Place, given: object, make: Callable[[], ValueT]) -> ValueT | None:
        """What can be made of the settings at a place; None, and problems, where that fails."""
        try:
            return make()
        except (ConfigError, MissingExtraError) as error:
            self.problems.extend(spoken_of(self.file, place, given, str(error)))
            return None


def shown(value: object) -> str:
    """A value as a message names it, not too long."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return f"{text[:60]} ..." if len(text) > 60 else text


def is_own(name: object) -> bool:
    """Whether a name is that of a user's class: ``package.module:Class`` or ``file.py:Class``."""
    return isinstance(name, str) and ":" in name


def listed_names(given: object, known: Sequence[str]) -> str:
    close = get_close_matches(str(given), known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(known)}"
