"""A figure before and now, rounded together: what is printed adds up.

Rounded each for itself, .1236 and .1304 are printed as .124 and .130, and their change as +.007:
whoever subtracts gets .006, and trusts none of the three.
"""

from __future__ import annotations

from ragbench.core.record import Record


class Movement(Record):
    """Two figures and their change, to the same number of decimal places."""

    before: float
    now: float
    change: float
    """The rounded figure now minus the rounded figure before."""
    places: int


def movement(before: float, now: float, places: int, *, most_places: int | None = None) -> Movement:
    """Rounds two figures, and takes the difference of the rounded ones as their change.

    The printed change is then the difference of the two figures that are printed beside it.

    Args:
        most_places: up to so many places are added while the figures differ and would be printed
            alike; none when not given.
    """
    last = places if most_places is None else max(places, most_places)
    while places < last and before != now and round(before, places) == round(now, places):
        places += 1
    rounded_before = round(before, places)
    rounded_now = round(now, places)
    # Adding 0 turns a negative zero, which would be printed with its sign, into a zero.
    change = round(rounded_now - rounded_before, places) + 0.0
    return Movement(before=rounded_before, now=rounded_now, change=change, places=places)
