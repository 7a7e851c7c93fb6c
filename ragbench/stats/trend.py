"""Figures of one run after another: do they drift or step, or is it noise?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.stats.family import stepped_down

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEAST = 5
"""With fewer runs no order of them is rare enough to show anything."""
_ALL = 7
"""Up to as many runs every order is counted."""
_SIDE = 2
"""Runs on either side of a step at least: one run alone may be an outlier."""
_DIGITS = 12
"""Figures that differ by less are the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """What became of one figure over the runs."""

    p_value: float
    """Corrected for all figures, and for all shapes that were looked for; 1 without variation."""
    step: int | None
    """Position of the first run after the step that fits best; None where a straight line does."""
    before: float
    """Mean before the step, or the line's start."""
    after: float


def trends(
    series: Sequence[Sequence[float | None]],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[Trend | None, ...]:
    """Looks for a straight line and for a step in each series.

    The statistic of a series is its largest correlation, in absolute value, with a straight line
    and with a step at each place that leaves two runs on either side. If nothing changed, the runs
    could have come in any order: the order is drawn anew, in all series alike, and the largest
    statistic over the series counts, stepping down. So the chance that *any* series of an unchanged
    system is called changed is at most the level, however noisy runs are, and even where something
    shifts all cases of a run together.

    Source: multiple contrasts: Mukerjee, Robertson & Wright 1987; maximum over permutations:
    Westfall & Young 1993, "Resampling-Based Multiple Testing".

    None where fewer than `LEAST` runs have the figure.
    """
    import numpy as np

    able = [at for at, one in enumerate(series) if sum(f is not None for f in one) >= LEAST]
    found: list[Trend | None] = [None] * len(series)
    if not able:
        return tuple(found)
    length = len(series[able[0]])
    shapes = _shapes(length)
    values = np.array([_centred(series[place]) for place in able])
    norms = np.sqrt((values * values).sum(axis=1))
    norms[norms == 0.0] = math.inf  # nothing varies: no correlation
    observed = np.abs(values @ shapes.T) / norms[:, None]

    def strongest(orders: NDArray[np.int64]) -> Array:
        drawn = values[:, orders]  # series, draws, runs
        largest: Array = np.abs(drawn @ shapes.T).max(axis=2) / norms[:, None]
        return largest

    p_values = stepped_down(
        observed.max(axis=1),
        map(strongest, _orders(length, resamples, seed)),
        is_counted=length <= _ALL,
    ).corrected
    for place, shape, p_value in zip(able, observed.argmax(axis=1), p_values, strict=True):
        found[place] = _trend(series[place], int(shape), p_value)
    return tuple(found)


def _centred(figures: Sequence[float | None]) -> list[float]:
    """Less their mean; a run without the figure lies on it."""
    known = [figure for figure in figures if figure is not None]
    mean = math.fsum(known) / len(known)
    return [0.0 if figure is None else round(figure - mean, _DIGITS) for figure in figures]


def _shapes(length: int) -> Array:
    """Unit vectors without a mean: a line first, then the steps from left to right."""
    import numpy as np

    rows = [np.arange(length, dtype=np.float64)]
    for place in range(_SIDE, length - _SIDE + 1):
        rows.append((np.arange(length) >= place).astype(np.float64))
    shapes = np.array(rows)
    shapes -= shapes.mean(axis=1, keepdims=True)
    centred: Array = shapes / np.sqrt((shapes * shapes).sum(axis=1, keepdims=True))
    return centred


def _orders(length: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    import itertools

    import numpy as np

    if length <= _ALL:
        yield np.array(list(itertools.permutations(range(length))), dtype=np.int64)
        return
    source = np.random.PCG64([seed, length])
    block = 2000
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        raw = np.asarray(source.random_raw(count * length), dtype=np.uint64)
        yield np.argsort(raw.reshape(count, length), axis=1, kind="stable")


def _trend(figures: Sequence[float | None], shape: int, p_value: float) -> Trend:
    known = [(place, figure) for place, figure in enumerate(figures) if figure is not None]
    if shape == 0:
        mean = math.fsum(figure for _, figure in known) / len(known)
        centre = math.fsum(place for place, _ in known) / len(known)
        spread = math.fsum((place - centre) ** 2 for place, _ in known)
        slope = math.fsum((place - centre) * (figure - mean) for place, figure in known) / spread
        first, last = known[0][0], known[-1][0]
        ends = (mean + slope * (first - centre), mean + slope * (last - centre))
        return Trend(p_value=p_value, step=None, before=ends[0], after=ends[1])
    step = shape - 1 + _SIDE
    sides = [[f for place, f in known if (place >= step) is later] for later in (False, True)]
    means = [math.fsum(side) / len(side) if side else math.nan for side in sides]
    return Trend(p_value=p_value, step=step, before=means[0], after=means[1])
