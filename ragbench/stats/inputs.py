"""What the statistics refuse: numbers that would make every result below meaningless."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ragbench.errors import ConfigError, InputError

__all__ = ["LARGEST", "check_finite", "check_share"]

LARGEST = 1e100
"""Largest size of a value; squares and sums of such values still fit a float."""


def check_finite(values: Iterable[float], *, what: str = "value") -> None:
    """Refuses NaN, infinities and sizes above :data:`LARGEST`.

    Args:
        values: the numbers.
        what: what one of them is called in the message.

    Raises:
        InputError: one of them cannot be computed with; names the first and its position.
    """
    for position, value in enumerate(values):
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise InputError(
                f"{what} {position} is {value}: statistics need finite numbers of a size up to "
                f"{LARGEST:g}. Leave out what was not measured instead of giving it a number."
            )


def check_share(value: float, *, name: str) -> None:
    """Refuses what is not strictly between 0 and 1.

    Raises:
        ConfigError: ``value`` is outside; names it.
    """
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{name} is {value}: it must lie between 0 and 1, both excluded")
