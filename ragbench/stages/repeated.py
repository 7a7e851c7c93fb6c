"""The cells of a run that was asked several times: their means, and the system's own noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Repeats
from ragbench.safe_text import as_line
from ragbench.stats.mean import variance_components

_LITTLE = 0.1
"""Share of the variance at which noise is little."""
_NAMED = 10
"""How many unstable cases are named."""
_LONG = 0.02
"""Seconds: what takes less is no model."""
_KEPT = 0.05
"""Share of the first time's seconds in which no model answers again."""

RepeatCells = Mapping[str, tuple[bytes, tuple[Cell, ...]]]
"""Of one repeat: the digest and the cells of each case, by id."""


def averaged(cells: Sequence[Cell], asked: Sequence[Repeats | None]) -> tuple[Cell, ...]:
    """Each cell as the mean of its repeats; as it is where none was measured."""
    if not asked:
        return tuple(cells)
    return tuple(
        cell
        if repeats is None or repeats.values.count(None) == len(repeats.cells)
        else repeats.mean
        for cell, repeats in zip(cells, asked, strict=True)
    )


class Repeated:
    """Averages the cases of a run as they come."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        later: Sequence[RepeatCells],
        seconds: Mapping[str, Sequence[float]],
    ) -> None:
        """``seconds``: how long each stage took a case when it was asked again."""
        self._metrics = tuple(metrics)
        self._later = tuple(later)
        self._seconds = seconds
        self._values: dict[str, dict[str, list[float]]] = {}

    def cells(self, case: str, digest: bytes, cells: Sequence[Cell]) -> tuple[Repeats | None, ...]:
        """What each cell of a case is the mean of; empty where it was asked once.

        A metric whose figure is no mean over cases keeps the first time's: of its values, a mean
        need not be one.
        """
        others = [repeat.get(case, (b"", ())) for repeat in self._later]
        if not others:
            return ()
        return tuple(
            None
            if metric.definition.aggregate
            else Repeats(
                cells=(cell, *(found[at] if of == digest else None for of, found in others))
            )
            for at, (metric, cell) in enumerate(zip(self._metrics, cells, strict=True))
        )

    def add(self, case: str, digest: bytes, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """Counts a case, and gives its means; see `cells`."""
        asked = self.cells(case, digest, cells)
        for metric, repeats in zip(self._metrics, asked, strict=False):
            if repeats is not None:
                known = [value for value in repeats.values if value is not None]
                self._values.setdefault(metric.name, {})[case] = known
        return averaged(cells, asked)

    def notes(self, first: Mapping[str, Sequence[float]]) -> Iterator[str]:
        """How often cases were asked, and how much of the variance is the system's own noise.

        Args:
            first: the seconds of each stage when it was asked the first time.
        """
        if not self._later:
            return
        yield (
            f"Each case was asked {len(self._later) + 1} times; scores are the means of a case. "
            "Answers, chunks, causes and times are those of the first time."
        )
        notes: dict[str, list[str]] = {}
        for metric in self._metrics:
            parts = variance_components(self._values.get(metric.name, {}))
            share, whole = parts.share_within, parts.once
            if share is None or whole is None or not metric.definition.deterministic:
                continue
            once = (parts.within or 0.0) / whole if whole else 0.0
            enough = parts.repeats_for(_LITTLE) if share > _LITTLE else None
            advice = "" if enough is None else f"; with {enough:,} repeats it would be a tenth"
            noise = (
                f"{once:.0%} of the variance of a score is the system's own noise, "
                f"{share:.0%} of that of a case's mean{advice}."
            )
            notes.setdefault(noise, []).append(metric.name)
        yield from (f"{', '.join(names)}: {noise}" for noise, names in notes.items())
        # The cases that had two values of a metric that gives the same for the same answer.
        repeatable = [metric.name for metric in self._metrics if metric.definition.deterministic]
        values = [pair for name in repeatable for pair in self._values.get(name, {}).items()]
        if unstable := list(dict.fromkeys(case for case, found in values if len({*found}) > 1)):
            yield f"Unstable, scored differently each time: {as_line(unstable, _NAMED)}."
            return
        for stage, again in self._seconds.items():
            took = statistics.median(first.get(stage) or (0.0,))
            if again and took >= _LONG and statistics.median(again) < _KEPT * took:
                yield (
                    f"Asked again, {stage} took next to no time, and every score is the same: "
                    "where the system keeps its answers, repeats say nothing of its noise. Turn "
                    "its cache off."
                )
