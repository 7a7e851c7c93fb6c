"""The cells of a run that was asked several times: their means, and the system's own noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Repeats
from ragbench.safe_text import as_line
from ragbench.stats.mean import variance_components

_LITTLE = 0.1
"""Share of the variance at which noise is little: a note says how many repeats lead there."""
_MOST_NAMED = 10
"""How many unstable cases are named."""
_MODEL_SECONDS = 0.02
"""Seconds: a stage that takes less asks no model, and so has no answers that a cache would keep."""
_CACHE_SHARE = 0.05
"""Share of the first time's seconds in which no model answers again: a cache does."""

RepeatCells = Mapping[str, tuple[bytes, tuple[Cell, ...]]]
"""Of one repeat: the digest and the cells of each case, by id."""


def averaged(cells: Sequence[Cell], repeats: Sequence[Repeats | None]) -> tuple[Cell, ...]:
    """The cells (a metric's value each) of a case asked several times: the mean of each cell.

    A cell that was measured in no repeat stays as it is. Without repeats, all cells do.
    """
    if not repeats:
        return tuple(cells)
    means: list[Cell] = []
    for cell, cell_repeats in zip(cells, repeats, strict=True):
        # The first time's cell stays: it says why there is no value, such as "skipped".
        if cell_repeats is None or all(value is None for value in cell_repeats.values):
            means.append(cell)
        else:
            means.append(cell_repeats.mean)
    return tuple(means)


class Repeated:
    """Averages the cases of a run as they come, where each was asked several times."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        later: Sequence[RepeatCells],
        seconds: Mapping[str, Sequence[float]],
    ) -> None:
        """Takes the cells and times of all repeats but the first, whose cases are added one by one.

        Args:
            metrics: the run's metrics.
            later: for each later time that the system was asked, the cells of its cases.
            seconds: by stage, how long each case took that was asked again.
        """
        self._metrics = tuple(metrics)
        """The run's metrics, in the order of the cells of a case."""
        self._later = tuple(later)
        """The cells of each later time; empty where the system was asked once."""
        self._seconds = seconds
        """By stage, how long each case took that was asked again."""
        self._values: dict[str, dict[str, list[float]]] = {}
        """By metric and case: the values of all times at which the metric could be measured."""

    def cells(self, case: str, digest: bytes, cells: Sequence[Cell]) -> tuple[Repeats | None, ...]:
        """The values of all repeats for each cell (a metric's value) of a case; empty without any.

        A metric whose figure over the run is no mean over cases gets None, and keeps the first
        time's value: of such values, a mean need not be one.
        """
        if not self._later:
            return ()
        repeats: list[Repeats | None] = []
        # Cells of a case come in the order of the metrics.
        for position, (metric, cell) in enumerate(zip(self._metrics, cells, strict=True)):
            if metric.definition.aggregate:
                repeats.append(None)
                continue
            times: list[Cell | None] = [cell]
            for later in self._later:
                # A case that a later time did not reach has no cells: an empty digest equals none.
                later_digest, later_cells = later.get(case, (b"", ()))
                # A case that has changed meanwhile is not the same question.
                later_cell = None
                if later_digest == digest:
                    later_cell = later_cells[position]
                # One entry a time, None where it has no value of the same question: positions are
                # the times.
                times.append(later_cell)
            repeats.append(Repeats(cells=tuple(times)))
        return tuple(repeats)

    def add(self, case: str, digest: bytes, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """Counts a case of the first time, and returns its cells averaged over all repeats.

        The counted values show later how much of the variance is the system's own noise.
        """
        by_metric = self.cells(case, digest, cells)
        # Not strict: without repeats `by_metric` is empty, and nothing is counted.
        for metric, repeats in zip(self._metrics, by_metric, strict=False):
            if repeats is not None:
                values = [value for value in repeats.values if value is not None]
                self._values.setdefault(metric.name, {})[case] = values
        return averaged(cells, by_metric)

    def notes(self, first: Mapping[str, Sequence[float]]) -> Iterator[str]:
        """The report's notes on repeats: how often cases were asked, and the system's own noise.

        Also which cases are unstable, and whether a cache seems to have answered in place of the
        system: then the repeats show nothing.

        Args:
            first: by stage, the seconds of each case when the system was asked the first time.
        """
        # Of a run that asked once there is nothing to note.
        if not self._later:
            return
        yield (
            f"Each case was asked {len(self._later) + 1} times; scores are the means of a case. "
            "Answers, chunks, causes and times are those of the first time."
        )
        for noise, names in self._noise().items():
            yield f"{', '.join(names)}: {noise}"
        unstable = self._unstable_cases()
        if unstable:
            yield f"Unstable, scored differently each time: {as_line(unstable, _MOST_NAMED)}."
            # Where a score changes, the system did answer anew: no cache is to be looked for.
            return
        # Where every score is the same, the answers may have come from a cache.
        for stage, later_seconds in self._seconds.items():
            # The median: one slow first case, such as one that loads a model, shows nothing.
            first_median = statistics.median(first.get(stage) or (0.0,))
            if not later_seconds or first_median < _MODEL_SECONDS:
                continue
            if statistics.median(later_seconds) < _CACHE_SHARE * first_median:
                yield (
                    f"Asked again, {stage} took next to no time, and every score is the same: "
                    "where the system keeps its answers, repeats say nothing of its noise. Turn "
                    "its cache off."
                )

    def _noise(self) -> dict[str, list[str]]:
        """Sentences on how much of a score's variance is the system's noise, each with its metrics.

        Metrics with the same shares have one sentence together. A metric whose own value changes
        for the same answer is left out: its noise is not the system's.
        """
        sentences: dict[str, list[str]] = {}
        for metric in self._metrics:
            parts = variance_components(self._values.get(metric.name, {}))
            share = parts.share_within
            whole = parts.once
            # A metric that gives two values for one answer has noise of its own.
            # Without two values of some case there is no share.
            if share is None or whole is None or not metric.definition.deterministic:
                continue
            # Zero where no score varies at all.
            share_of_one = 0.0
            if whole:
                share_of_one = (parts.within or 0.0) / whole
            advice = ""
            if share > _LITTLE:
                enough = parts.repeats_for(_LITTLE)
                if enough is not None:
                    advice = f"; with {enough:,} repeats it would be a tenth"
            sentence = (
                f"{share_of_one:.0%} of the variance of a score is the system's own noise, "
                f"{share:.0%} of that of a case's mean{advice}."
            )
            sentences.setdefault(sentence, []).append(metric.name)
        return sentences

    def _unstable_cases(self) -> list[str]:
        """Ids of the cases with different values of a metric that always scores an answer the same.

        In these cases the system itself gave different answers, which its user can look at.
        """
        # A dict for its order: cases by metric, each once.
        cases: dict[str, None] = {}
        for metric in self._metrics:
            if metric.definition.deterministic:
                for case, values in self._values.get(metric.name, {}).items():
                    if len({*values}) > 1:
                        cases[case] = None
        return list(cases)
