"""Units: what a word beside a number counts, and how much of it.

The words are in ``units.toml`` and ``amounts.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        """The unit of so much in each of another unit: km/h is kilometres per hour.

        Such units are not listed: any two of the tables may be combined. A speed compares with a
        speed whatever its two units are.
        """
        dimension = f"{self.dimension}/{other.dimension}"
        return Unit(dimension, self.size / other.size)

    def to_the_power(self, exponent: int) -> Unit:
        """The square or cube of a unit: m² of metre.

        Such units are not listed: any of the tables may have a power. An area compares with an area
        whatever its unit is.
        """
        return Unit(f"{self.dimension}^{exponent}", self.size**exponent)


@cache
def units_by_word() -> Mapping[str, Unit]:
    """All units by their words: symbols in their case, words in small letters.

    Each later table may give a word of an earlier one another unit: everyday words come last.
    """
    units: dict[str, Unit] = {}
    # Units of science, whose names may be several words: they are parted by bars.
    for unit, names in _units_of_rows(table("ragbench.text", "units")):
        for name in names.split(" | "):
            units[name] = unit
    amounts = table("ragbench.text", "amounts")
    for unit, names in _units_of_rows(amounts["units"]):
        for name in names.split():
            units[name] = unit
    for unit, phrase in _units_of_rows(amounts["phrases"]):
        units[phrase] = unit
    # Most people write a symbol in small letters, as "mb", where no other symbol is that.
    for word, unit in list(units.items()):
        units.setdefault(word.lower(), unit)
    return units


def _units_of_rows(
    rows_by_dimension: Mapping[str, Sequence[str]],
) -> Iterator[tuple[Unit, str]]:
    """The unit of each row of a table, and its names, still in one text: ``1000 km | kilometre``.

    A size may have the zero of its scale behind it: ``1/273.15 degrees celsius``.

    Args:
        rows_by_dimension: of ``units.toml`` or ``amounts.toml``.
    """
    for dimension, rows in rows_by_dimension.items():
        for row in rows:
            # Names may hold blanks: only the first one parts.
            measure, names = row.split(" ", 1)
            size, _, zero = measure.partition("/")
            unit = Unit(dimension, float(size))
            if zero:
                unit = unit._replace(zero=float(zero))
            yield unit, names
