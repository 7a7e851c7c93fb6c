"""Typed values out of a YAML mapping: each mistake is noted with its line, none is raised."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from ragbench.data.yaml_file import Place, YamlFile
from ragbench.errors import Problem

__all__ = ["Section"]

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A mapping of a file, by key."""

    file: YamlFile
    place: Place
    values: Mapping[str, object]
    problems: list[Problem]
    """Shared by all sections of the file."""

    @classmethod
    def of(
        cls, file: YamlFile, value: object, place: Place, problems: list[Problem]
    ) -> Section | None:
        """The mapping at a place; None, and a problem, when there is something else.

        Nothing behind a key is taken for a mapping without entries.
        """
        if value is not None and not isinstance(value, dict):
            problems.append(
                _problem(file, place, f"expected 'name: value' entries, found {_told(value)}")
            )
            return None
        entries = cast("Mapping[object, object]", value or {})
        values = {str(key): inner for key, inner in entries.items()}
        return cls(file=file, place=place, values=values, problems=problems)

    @property
    def name(self) -> str:
        """The last key on the way to it."""
        return str(self.place[-1]) if self.place else ""

    def note(self, message: str, *keys: str) -> None:
        """Notes a mistake in the section, or below one of its keys."""
        self.problems.append(_problem(self.file, (*self.place, *keys), message))

    def has(self, key: str) -> bool:
        """Whether something stands behind a key."""
        return self.values.get(key) is not None

    def inner(self, key: str) -> Section | None:
        """The mapping behind a key."""
        return Section.of(self.file, self.values.get(key), (*self.place, key), self.problems)

    def sections(self, key: str) -> Iterator[Section]:
        """The mappings in the mapping behind a key; none when it is not there."""
        around = self.inner(key)
        for name in () if around is None else around.values:
            found = None if around is None else around.inner(name)
            if found is not None:
                yield found

    def refuse_others(self, known: Sequence[str]) -> None:
        """Notes each key that is not known."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f". Did you mean '{near[0]}'?" if near else ""
                self.note(f"unknown key; known are {', '.join(known)}{meant}", key)

    def texts(self, key: str) -> Iterator[str]:
        """The texts of the list behind a key; none when it is not there."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            self.note(f"expected a list, found {_told(value)}", key)
            return
        for item in cast("list[object]", value or []):
            if isinstance(item, str) and item:
                yield item
            else:
                self.note(f"expected a text, found {_told(item)}", key)

    def names(self, key: str, known: Sequence[str]) -> tuple[str, ...] | None:
        """A list of known names; None when it is not there."""
        if not self.has(key):
            return None
        found = tuple(self.texts(key))
        for name in found:
            if name not in known:
                self.note(f"'{name}' is none of {', '.join(known)}", key)
        return found

    def text(self, key: str) -> str | None:
        """A text; None when it is not there."""
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        self.note(f"expected a text, found {_told(value)}", key)
        return None

    def flag(self, key: str) -> bool | None:
        """True or false; None when it is not there."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.note(f"expected true or false, found {_told(value)}", key)
        return None

    def choice(self, key: str, choices: type[ChoiceT]) -> ChoiceT | None:
        """One of the values of an enumeration; None when it is not there."""
        value = self.values.get(key)
        known = [choice.value for choice in choices]
        if value is None or value in known:
            return None if value is None else choices(value)
        self.note(f"expected one of {', '.join(known)}, found {_told(value)}", key)
        return None

    def whole_number(self, key: str, *, low: int) -> int | None:
        """A whole number from ``low`` on; None when it is not there."""
        number = self.number(key)
        if number is None:
            return None
        if number != int(number) or number < low:
            self.note(f"expected a whole number of at least {low}, found {number:g}", key)
            return None
        return int(number)

    def number(
        self,
        key: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        low_excluded: bool = False,
        high_excluded: bool = False,
    ) -> float | None:
        """A finite number within bounds; None when it is not there."""
        if not self.has(key):
            return None
        number = _number(self.values[key])
        if number is None:
            message = f"expected a number, found {_told(self.values[key])}"
        elif number < low or (low_excluded and number == low):
            bound = f"{'above' if low_excluded else 'at least'} {low:g}"
            message = f"{number:g} is too small: it must be {bound}"
        elif number > high or (high_excluded and number == high):
            bound = f"{'below' if high_excluded else 'at most'} {high:g}"
            message = f"{number:g} is too large: it must be {bound}"
        else:
            return number
        self.note(message, key)
        return None


def _problem(file: YamlFile, place: Place, message: str) -> Problem:
    """A problem that names its whole place: a key such as ``min`` stands below many metrics."""
    line = file.problem(place, message).line
    field = ".".join(map(str, place)) or None
    return Problem(path=file.path, line=line, field=field, message=message)


def _number(value: object) -> float | None:
    """A number as people write it: YAML 1.1 takes 1e-3 for a text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _told(value: object) -> str:
    """A value as a message names it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"'{value}'" if value not in ("", None) else "nothing"
