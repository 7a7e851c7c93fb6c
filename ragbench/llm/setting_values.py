"""Values of settings, from an option, a YAML file or the environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ragbench.errors import ConfigError

__all__ = ["NOT_SENT", "amount", "fraction", "json_fields", "one_of", "text", "whole"]

NOT_SENT = "none"
"""The value of a setting that shall have none."""


def text(value: object, origin: str) -> str:
    """A text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ConfigError(f"{origin} must be a text, not {value!r}")


def whole(value: object, origin: str) -> int:
    """An integer of at least 0."""
    try:
        number = int(str(value)) if not isinstance(value, bool) else -1
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"{origin} must be a whole number of at least 0, not {value!r}")
    return number


def fraction(value: object, origin: str) -> float:
    """A number of at least 0."""
    return float(amount(value, origin))


def amount(value: object, origin: str) -> Decimal:
    """An exact number of at least 0."""
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal(-1)
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or number < 0:
        raise ConfigError(f"{origin} must be a number of at least 0, not {value!r}")
    return number


def json_fields(value: object, origin: str) -> dict[str, Any]:
    """A mapping, or a text that is a JSON object."""
    if isinstance(value, str):
        try:
            value = cast("object", json.loads(value))
        except ValueError as error:
            raise ConfigError(f"{origin} is no JSON: {error}") from None
    if isinstance(value, dict) and all(isinstance(key, str) for key in cast("Any", value)):
        return cast("dict[str, Any]", value)
    raise ConfigError(f'{origin} must be an object such as {{"top_p": 0.9}}')


def one_of(choices: Sequence[str]) -> Callable[[object, str], str]:
    """Reads one of several texts."""

    def read(value: object, origin: str) -> str:
        if value not in choices:
            raise ConfigError(f"{origin} must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return read
