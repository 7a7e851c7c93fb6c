"""Amounts and dates, and whether two of them are the same, different or not comparable.

"two years" and "24 months", "€110" and "110 EUR", "1.5 million" and "1,500,000" are each the same.
They are read from texts in ``wording.py``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ragbench.text.units import Unit


class Agreement(Enum):
    """What a comparison says of two statements."""

    SAME = "the same"
    DIFFERENT = "different"
    UNCLEAR = "not comparable"
    """They are in units that do not compare, or too near each other to tell."""


TOLERANCES = {"time": 0.015, "length": 0.002, "mass": 0.002}
"""Between two units: a month is no exact number of days; miles and pounds are rounded."""
_APPROXIMATELY = 0.05
"""How far "about 400" reaches."""
_FLOAT_ERROR = 1e-6
"""How far two figures that are written alike may lie apart after they are converted."""
_WIDENED = 1 + 1e-9
"""Half a last digit is still within the rounding, in spite of errors of floating point."""
_LARGEST = 1e300
"""The largest value: products of larger ones are infinite, and equal each other."""


class Amount(NamedTuple):
    """A number with what it counts."""

    dimension: str
    """As `Unit.dimension`; empty for a number alone."""
    value: float
    """In the base unit."""
    number: float
    """As it is written."""
    place: float = 0.0
    """What its last digit counts: .1 of 4.2, 1e6 of "5 million"; 0 where it was not read."""
    step: float = 0.0
    """The same in the base unit."""
    bound: str = ""
    """``least``, ``more``, ``most``, ``less`` or ``about``; empty for the number itself."""

    def equals(self, other: Amount) -> bool:
        """Whether both amounts may be the same: a number alone equals whatever has that number.

        The yes or no of `compared`, which also knows what does not compare.
        """
        return self.compared(other) is Agreement.SAME

    def compared(self, other: Amount) -> Agreement:
        """Whether another amount is the same as this one, at the precision of the less exact one.

        "about 400" and "408", "4.2" and "4.23" are the same; 5 ml and 5 mg differ; 5 ml and 3 kg do
        not compare. This amount is the one that is expected: the reference's.
        """
        if not self.dimension or not other.dimension:
            # One of the two amounts has no unit: the figures are compared as they are written.
            agreement = self._compared_figures(
                other, self.number, other.number, self.place, other.place
            )
        elif self.dimension == other.dimension:
            agreement = self._compared_figures(
                other, self.value, other.value, self.step, other.step
            )
        elif self.number == other.number:
            return Agreement.DIFFERENT  # 5 ml for 5 mg
        else:
            return Agreement.UNCLEAR
        if agreement is Agreement.SAME and self._is_bounded_otherwise(other):
            return Agreement.DIFFERENT
        return agreement

    def _is_bounded_otherwise(self, other: Amount) -> bool:
        """Whether one amount is a lower bound and the other an upper one.

        "At least 5" and "at most 5" contradict each other. A number without a bound agrees with
        every bound: "5" may be short for "at least 5".
        """
        mine = _SIDES_OF_BOUNDS.get(self.bound)
        theirs = _SIDES_OF_BOUNDS.get(other.bound)
        if mine is None or theirs is None:
            return False
        return mine != theirs

    def _compared_figures(
        self, other: Amount, mine: float, theirs: float, my_step: float, their_step: float
    ) -> Agreement:
        """Whether the figures of both amounts are the same number, rounded as they are written.

        UNCLEAR where rounding may explain the difference, and need not. Another tolerance changes
        which answers count as wrong: raise the version of ``answer_correct`` with it.

        Args:
            mine: the value of this amount, or its number.
            theirs: the same of the other amount.
            my_step: what the last digit of ``mine`` counts.
            their_step: what that of ``theirs`` counts.
        """
        difference = abs(mine - theirs)
        tolerance = _FLOAT_ERROR * abs(mine)
        coarse_rounding = max(my_step, their_step) / 2 * _WIDENED
        fine_rounding = min(my_step, their_step) / 2 * _WIDENED
        rounding = coarse_rounding
        is_mine_coarser = my_step >= their_step
        coarser = self if is_mine_coarser else other
        # Any number is "2" when it is rounded enough: one digit is no rounding of several, unless
        # the reference gives decimals.
        has_one_digit = abs(coarser.number) < 10 * coarser.place
        has_reference_decimals = is_mine_coarser and self.place < 1
        if has_one_digit and not has_reference_decimals:
            if tolerance < difference <= coarse_rounding:
                return Agreement.UNCLEAR
            rounding = fine_rounding
        if "about" in (self.bound, other.bound):
            tolerance = _APPROXIMATELY * abs(mine)
        if self.dimension and self._unit_size != other._unit_size:
            tolerance = max(tolerance, TOLERANCES.get(self.dimension, 0.0) * abs(mine))
            # "90 minutes" could be rounded to "2 hours", and is not that: words cannot tell.
            if tolerance < difference <= rounding:
                return Agreement.UNCLEAR
        else:
            tolerance = max(tolerance, rounding)
        if difference <= tolerance:
            return Agreement.SAME
        has_decimals = 0 < min(self.place, other.place) < 1
        if has_decimals and difference <= 2 * rounding:
            return Agreement.UNCLEAR  # 4.2 for 4.26 may be cut off, not rounded
        return Agreement.DIFFERENT

    @property
    def _unit_size(self) -> float:
        """The size of the amount's unit in base units, as far as its last digit shows it.

        Whether two amounts are in one unit decides how near they must be: a conversion rounds.
        """
        if not self.place:
            return 1.0
        return float(f"{self.step / self.place:.9g}")  # 9 digits: without errors of division

    def times(self, factor: float) -> Amount:
        """The amount multiplied by a factor: 5 written under "in thousands" is 5,000.

        All four of its figures are multiplied, so that it compares at the same precision.
        """
        return self._replace(
            value=self.value * factor,
            number=self.number * factor,
            place=self.place * factor,
            step=self.step * factor,
        )


_SIDES_OF_BOUNDS = {"least": "low", "more": "low", "most": "high", "less": "high"}
"""Which side of a number each bound leaves open."""


def amount_in_unit(number: float, place: float, unit: Unit | None, bound: str = "") -> Amount:
    """A number in a unit; without a unit a number alone.

    Amounts of one dimension compare by their value, which is in the base unit: 24 months and 2
    years.

    Args:
        place: what the last digit of the number counts: .1 of 4.2.
    """
    if unit is None:
        return Amount("", number, number, place, place, bound)
    # Cut at `_LARGEST`: figures beyond it would be infinite, and equal to each other.
    value = min(number * unit.size, _LARGEST) + unit.zero
    # A step has no zero: a degree more is one kelvin more.
    step = place * unit.size
    return Amount(unit.dimension, value, number, place, step, bound)


def rate(count: float, seconds: float) -> Amount:
    """The amount of "so many times in so many seconds", as of "twice a week".

    Frequencies compare by it, whatever the words: weekly, once a week, 52 times a year.
    """
    frequency = count / seconds
    # A last digit of 2 %: months and years are no exact number of days.
    step = 0.02 * frequency
    return Amount("rate", value=frequency, number=frequency, place=0.0, step=step)


def year_as_amount(year: int) -> Amount:
    """The year of a date as a number alone, so that "12 May 1998" compares with "in 1998".

    It is exact to the year: 1998 and 1999 are different.
    """
    return Amount("", value=year, number=year, place=1.0, step=1.0)


class Date(NamedTuple):
    """A day, month or year, as far as it is named."""

    year: int | None
    month: int
    day: int | None

    def equals(self, other: Date) -> bool:
        """Whether two dates may be one: no part that both name (year, month, day) differs.

        "12 May" and "May 1998" may be one: an answer leaves out what the question says.
        """
        for mine, theirs in zip(self, other, strict=True):
            if mine is not None and theirs is not None and mine != theirs:
                return False
        return True

    def is_within(self, other: Date) -> bool:
        """Whether another date names all that this one does, as 12 May 1998 names May 1998.

        An answer that is more exact than the reference is right.
        """
        for mine, theirs in zip(self, other, strict=True):
            if mine is not None and mine != theirs:
                return False
        return True
