"""Settings whose types have a range, such as ``top_k: Positive``, and the check of it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

from ragbench.errors import ConfigError

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Weight = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Filled = Annotated[str, Meta(min_length=1, pattern=r"\S")]
"""A text that is more than white space."""

_WORDS_OF_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


class Checked:
    """A base for records of settings: a value outside the range of its type is refused.

    The check runs however the settings are made: from a file, by an option, or in Python.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuses all values out of range with one error, a line each.

        Without this check, a wrong value would only show in the middle of a run. A class with a
        ``__post_init__`` of its own calls this one by name: ``super()`` fails in a dataclass with
        slots.
        """
        settings: Any = type(self)
        problems = [_problem(name, getattr(self, name), hint) for name, hint in _hints(settings)]
        refuse(*problems)


def refuse(*problems: str | None) -> None:
    """Raises one `ConfigError` with all of these problems, a line each; None is no problem.

    Where all are None, nothing is raised. One error for all shows users every mistake in their
    settings at once.
    """
    lines = [problem for problem in problems if problem is not None]
    if lines:
        raise ConfigError("\n".join(lines))


@cache
def _hints(settings: Any) -> Sequence[tuple[str, Any]]:
    """Name and type, with its range, of each field that a settings class takes when it is made.

    Fields that the class computes itself are not checked. Cached, as settings are made often.
    """
    hints = get_type_hints(settings, include_extras=True)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(settings) if field.init]


def _problem(name: str, value: Any, hint: Any) -> str | None:
    """A message about a setting's value out of the range of its type; None for one within.

    Whether the value is of the type at all is checked where settings are read.
    """
    number = value
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"{name} must be a finite number, not {value!r}"
        number = float(value)  # of NumPy's, which msgspec does not take, Python's own
    try:
        msgspec.convert(number, hint)
        return None
    except msgspec.ValidationError as error:
        message = str(error)
    except TypeError:  # msgspec cannot make the type: a service or a model
        return None

    # msgspec speaks of JSON and of regular expressions; these are messages for users.
    if "of length" in message or "regex" in message:
        return f"{name} must not be empty"
    if "enum" in message:
        # A Literal has its values as arguments, an enumeration is iterated over.
        names = ", ".join(map(str, get_args(hint) or hint))
        return f"{name} must be one of {names}, not {value!r}"
    bound = re.match(r"Expected `\w+` ([<>]=?) (\S+)", message)
    if bound is not None:
        return f"{name} must be {_WORDS_OF_BOUNDS[bound[1]]} {float(bound[2]):g}, not {value!r}"
    if ", got " in message:  # another type
        return None
    return f"{name}: {message}, not {value!r}"
