"""The words of amounts and dates, from ``amounts.toml``, as they are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ragbench.core.record import Record
from ragbench.text.tables import table
from ragbench.text.units import Unit, units_by_word

EVERY = ("every", "each", "alle", "cada")
"""Words before a time, in which something happens once: every six months."""
NOON_AND_MIDNIGHT = {"noon": 720, "midnight": 0}
"""Times of day with a word, in minutes since midnight."""
HALVES_OF_DAY = ("am", "pm")
"""Words behind an hour that say in which half of the day it is."""
O_CLOCK = ("uhr", "oclock")
"""Words behind a number that is an hour."""


class AmountWords(Record):
    """The words of all languages, in small letters and without accents."""

    months: Mapping[str, int]
    """The number of the month: 1 to 12."""
    month_names: Sequence[str]
    """The English name of each month, by which months in all languages compare."""
    ambiguous_months: frozenset[str]
    """Names of months that are other words, too: may, march."""
    numbers: Mapping[str, float]
    ordinals: Mapping[str, float]
    scales: Mapping[str, float]
    """Words behind a number that multiply it: million."""
    short_scales: Mapping[str, float]
    """Letters that are a scale right behind a number: £50m."""
    units: Mapping[str, Unit]
    currencies: frozenset[str]
    between: frozenset[str]
    """Words between a number and its unit: "ten calendar days"."""
    working: frozenset[str]
    """Words before days and hours of work, which are other days and hours."""
    bounds: Mapping[tuple[str, ...], str]
    """The words before a number, and how they bound it: "no more than" is ``most``."""
    ends_of_bounds: frozenset[str]
    """The last word of each bound: without it before a number no bound is looked for."""
    fractions: Mapping[str, float]
    times: Mapping[str, float]
    """How often: twice."""
    rates: Mapping[str, float]
    """The seconds from one time to the next: of "weekly" 604,800."""
    each: frozenset[str]
    """Words between how often something happens and in which time: twice *a* year."""
    typed: frozenset[str]
    """The words of a text that names amounts and dates, and nothing else."""
    naming: frozenset[str]
    """The words of which a text without digits must hold one to name anything."""
    special: frozenset[str]
    """The same, and words that begin an amount beside another: an hour."""


@cache
def amount_words() -> AmountWords:
    """The words of amounts and dates in all languages, as tables to look a word up in.

    Read once from ``amounts.toml`` and ``units.toml``: every answer of every case is read with
    them.
    """
    entries = table("ragbench.text", "amounts")
    spoken = entries["spoken"]
    numbers = _values_by_word(entries["numbers"])
    ordinals = _values_by_word(entries["ordinals"])
    scales = _values_by_word(entries["scales"])
    fractions = _values_by_word(spoken["fractions"])
    times = _values_by_word(spoken["times"])
    rates = _values_by_word(spoken["rates"])
    month_names = [row.split()[0] for row in entries["months"]]
    bounds = _bounds_by_words(entries["bounds"])
    units = units_by_word()
    working = frozenset(entries["working"].split())
    # Words beside which a text may still be one of amounts alone: see `Wording.is_typed`.
    typed = {"times", "per", "and", "i", *EVERY[:2], *NOON_AND_MIDNIGHT, *HALVES_OF_DAY, *O_CLOCK}
    typed.update(month_names, numbers, scales, fractions, times, rates, working)
    typed.update(entries["filling"].split())
    # Units of several words ("square metres") give each of their words.
    for phrase in units:
        typed.update(phrase.lower().split())
    months: dict[str, int] = {}
    # Any of these words may begin an amount: a text with none of them need not be read piece by
    # piece.
    naming = {*numbers, *ordinals, *fractions, *times, *rates, *EVERY, *NOON_AND_MIDNIGHT}
    for month, row in enumerate(entries["months"], start=1):
        for word in row.split():
            naming.add(word)
            # "sept" is September in one language and seven in another: the number counts.
            if word not in numbers:
                months[word] = month
    return AmountWords(
        months=months,
        month_names=month_names,
        ambiguous_months=frozenset(entries["ambiguous_months"].split()),
        numbers=numbers,
        ordinals=ordinals,
        scales=scales,
        short_scales=_values_by_word(entries["short_scales"]),
        units=units,
        currencies=frozenset(entries["currencies"].split()),
        between=frozenset(entries["between"].split()),
        working=working,
        bounds=bounds,
        # Looked up before the phrase: most words end none.
        ends_of_bounds=frozenset(words[-1] for words in bounds),
        fractions=fractions,
        times=times,
        rates=rates,
        each=frozenset(spoken["each"].split()),
        typed=frozenset(typed),
        naming=frozenset(naming),
        # The articles are read only before a unit, so they name nothing themselves.
        special=frozenset(naming | {"a", "an"}),
    )


def _values_by_word(rows: Iterable[str]) -> dict[str, float]:
    """The words of rows that begin with a number, each with its row's number: "2 two zwei".

    All languages are in one table: a text may mix them.

    Args:
        rows: of ``amounts.toml``.
    """
    values: dict[str, float] = {}
    for row in rows:
        value, *words = row.split()
        # A word in two rows has the number of the last one.
        for word in words:
            values[word] = float(value)
    return values


def _bounds_by_words(entries: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """The bound that a phrase sets, by the phrase's words: ``("at", "least")`` is ``least``.

    By tuples of words the phrase before a number is looked up without joining texts.

    Args:
        entries: of ``amounts.toml``, the phrases of each bound.
    """
    bounds: dict[tuple[str, ...], str] = {}
    for bound, phrases in entries.items():
        for phrase in phrases:
            bounds[tuple(phrase.split())] = bound
    return bounds
