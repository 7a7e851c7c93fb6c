"""Several tests at once: p-values that may be compared with the level as if each stood alone."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.errors import InputError

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that control the chance of *any* false alarm, however tests correlate.

    The k-th smallest of m p-values is multiplied by ``m - k + 1`` and raised to the largest one
    before it.

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".

    Args:
        p_values: between 0 and 1.

    Returns:
        Adjusted p-values in the order given, at most 1.

    Raises:
        InputError: a p-value is not between 0 and 1.
    """
    _check(p_values)
    count, running = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, position in enumerate(sorted(range(count), key=p_values.__getitem__)):
        running = max(running, min(1.0, (count - rank) * p_values[position]))
        adjusted[position] = running
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that control the expected *share* of false alarms among the alarms.

    The k-th smallest of m p-values is multiplied by ``m / k`` and lowered to the smallest one
    after it. Holds for independent and for positively dependent tests.

    Source: Benjamini & Hochberg 1995, "Controlling the False Discovery Rate"; dependence:
    Benjamini & Yekutieli 2001.

    Args:
        p_values: between 0 and 1.

    Returns:
        Adjusted p-values in the order given, at most 1.

    Raises:
        InputError: a p-value is not between 0 and 1.
    """
    _check(p_values)
    count, running = len(p_values), 1.0
    adjusted = [0.0] * count
    order = sorted(range(count), key=p_values.__getitem__)
    for rank in range(count, 0, -1):
        position = order[rank - 1]
        running = min(running, count / rank * p_values[position])
        adjusted[position] = running
    return tuple(adjusted)


def _check(p_values: Sequence[float]) -> None:
    for position, p_value in enumerate(p_values):
        if not 0.0 <= p_value <= 1.0:
            raise InputError(f"p-value {position} is {p_value}: it must lie between 0 and 1")
