"""Units: what a word beside a number counts, and how much of it.

The words are in ``units.toml`` and ``amounts.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from ragbench.text.tables import table


class Unit(NamedTuple):
    """A unit of measure, or a currency."""

    dimension: str
    """``time``, ``length/time``, ``usd``: units of one dimension compare."""
    size: float
    """In the base unit of the dimension."""
    zero: float = 0.0
    """Where its scale begins, in the base unit: of degrees Celsius at 273.15 kelvin."""

    def per(self, other: Unit) -> Unit:
        """The unit of so much in each of another: km/h."""
        return Unit(f"{self.dimension}/{other.dimension}", self.size / other.size)

    def to_the_power(self, exponent: int) -> Unit:
        """Its square or cube: m²."""
        return Unit(f"{self.dimension}^{exponent}", self.size**exponent)


@cache
def units_by_word() -> Mapping[str, Unit]:
    """The units by their words: symbols in their case, words in small letters."""
    units: dict[str, Unit] = {}
    for dimension, rows in table("ragbench.text", "units").items():
        for unit, words in _rows(dimension, rows):
            units.update(dict.fromkeys(words.split(" | "), unit))
    amounts = table("ragbench.text", "amounts")
    for dimension, rows in amounts["units"].items():
        for unit, words in _rows(dimension, rows):
            units.update(dict.fromkeys(words.split(), unit))
    for dimension, rows in amounts["phrases"].items():
        for unit, words in _rows(dimension, rows):
            units[words] = unit
    # A symbol in small letters, as most people write "mb", where no other symbol is that.
    for word, unit in list(units.items()):
        units.setdefault(word.lower(), unit)
    return units


def _rows(dimension: str, rows: Iterable[str]) -> Iterable[tuple[Unit, str]]:
    """The units of rows such as ``1000 km | kilometre``, with their words."""
    for row in rows:
        size, words = row.split(" ", 1)
        size, _, zero = size.partition("/")
        yield Unit(dimension, float(size), float(zero or 0)), words
