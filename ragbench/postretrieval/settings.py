"""What is wrong with one setting of an operator: a sentence that begins with its name, or None."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["above", "at_least", "between", "finite", "not_empty", "one_of"]


def above(name: str, value: float, low: float) -> str | None:
    """A number that must be larger than a limit."""
    if isinstance(value, bool) or not value > low:  # also false for NaN
        return f"{name} must be above {low:g}, not {value!r}"
    return None if math.isfinite(value) else f"{name} must be a finite number, not {value!r}"


def at_least(name: str, value: float, low: float) -> str | None:
    """A number that must not be smaller than a limit."""
    if isinstance(value, bool) or not value >= low:  # also false for NaN
        return f"{name} must be at least {low:g}, not {value!r}"
    return None if math.isfinite(value) else f"{name} must be a finite number, not {value!r}"


def between(name: str, value: float, low: float, high: float) -> str | None:
    """A number that must lie in a range, its ends included."""
    if isinstance(value, bool) or not low <= value <= high:
        return f"{name} must lie between {low:g} and {high:g}, not {value!r}"
    return None


def finite(name: str, value: float) -> str | None:
    """A number that must be neither NaN nor infinite."""
    return None if math.isfinite(value) else f"{name} must be a finite number, not {value!r}"


def not_empty(name: str, value: Sequence[object]) -> str | None:
    """A text or a list that must hold something."""
    return None if value else f"{name} must not be empty"


def one_of(name: str, value: object, choices: Sequence[object]) -> str | None:
    """A value that must be one of a few."""
    if value in choices:
        return None
    return f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}"
