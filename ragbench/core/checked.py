"""Settings whose types name a range."""

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


_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


class Checked:
    """Settings whose types say in what range they lie: refused out of it, however they are made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        kind: Any = type(self)
        refuse(*(_problem(name, getattr(self, name), hint) for name, hint in _hints(kind)))


def refuse(*problems: str | None) -> None:
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ConfigError("\n".join(found))


@cache
def _hints(kind: Any) -> Sequence[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(one.name, hints[one.name]) for one in dataclasses.fields(kind) if one.init]


def _problem(name: str, value: Any, hint: Any) -> str | None:
    """What is wrong with the range of a value; its type is looked at where settings are read."""
    given = float(value) if isinstance(value, float) else value  # also one of numpy's
    if isinstance(given, float) and not math.isfinite(given):
        return f"{name} must be a finite number, not {value!r}"
    try:
        msgspec.convert(given, hint)
    except msgspec.ValidationError as error:
        message = str(error)
    except TypeError:  # a service or a model
        return None
    else:
        return None
    if "of length" in message or "regex" in message:
        return f"{name} must not be empty"
    if "enum" in message:
        return f"{name} must be one of {', '.join(map(str, get_args(hint) or hint))}, not {value!r}"
    if bound := re.match(r"Expected `\w+` ([<>]=?) (\S+)", message):
        return f"{name} must be {_BOUNDS[bound[1]]} {float(bound[2]):g}, not {value!r}"
    return None if ", got " in message else f"{name}: {message}, not {value!r}"
