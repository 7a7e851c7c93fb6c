"""The figures that a gate holds where nobody names any: retrieval, right, answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ragbench.core.case_table import Cells
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import JUDGED_RIGHT
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import main_of_group
from ragbench.plugins import Floats, np

RIGHT = "right"
"""Of all cases, how far each is right: declined or failed where there is an answer, it is not."""
ANSWERED = "answered"
"""Of the cases that have an answer, whether each was answered."""
DERIVED = (RIGHT, ANSWERED)
"""Made of the metrics of a run, by the gate."""

_CORRECT = "answer_correct"
_DECLINING = "abstention_accuracy"
_RATE = "answer_rate"
_OF_ANSWER = (*JUDGED_RIGHT, _CORRECT, "token_f1", "exact_match", RIGHT)
"""Who holds one of these says how much the answers may lose."""
_OF_REFUSAL = (ANSWERED, _RATE)
_TELLING = (_CORRECT, "token_f1", "exact_match", _RATE)
"""Metrics whose cells tell whether a case was answered, declined, or failed."""
SOURCES = {RIGHT: (_CORRECT, _DECLINING), ANSWERED: (*_TELLING, _DECLINING)}
"""What has to be measured for a figure, as far as the run has it."""

Derive = Callable[[Cell | None, Cell | None], float | None]
"""A case's cell, and that of whether declining is right, to its value; None: it does not apply."""


def with_figures(run: RunScores, baseline: RunScores | None) -> tuple[RunScores, RunScores | None]:
    """The runs with the figures that a gate makes of their metrics, by one rule in both."""
    if baseline is None:
        (run,) = _with_figures([run])
        return run, None
    run, baseline = _with_figures([run, baseline])
    return run, baseline


def with_both_figures(run: RunScores, baseline: RunScores) -> tuple[RunScores, RunScores]:
    run, baseline = _with_figures([run, baseline])
    return run, baseline


def _with_figures(runs: list[RunScores]) -> list[RunScores]:
    if any(_count(run, _CORRECT) for run in runs):
        runs = [_with_figure(run, RIGHT, _CORRECT, _right) for run in runs]
    telling = _telling_metric(runs)
    if telling is not None:
        derive = _answered_by_rate if telling == _RATE else _answered
        return [_with_figure(run, ANSWERED, telling, derive) for run in runs]
    if all(_has_answers(run) for run in runs):
        return [_with_answered_by_stages(run) for run in runs]
    return runs


def figures_of(
    run: RunScores, baseline: RunScores | None, held: Sequence[MetricColumn]
) -> Iterator[MetricColumn]:
    """What a gate holds besides what somebody named.

    A metric that is held already takes the place of the figure that says the same.

    Args:
        held: metrics of which somebody says how much they may lose.
    """
    held_names = {column.name for column in held}
    measured = {column.name: column for column in run.metrics if is_measured(column, baseline)}
    own = [column for name, column in measured.items() if name not in DERIVED]

    retrieval = main_of_group("retriever", own)
    if retrieval is not None and not any(column.group == "retriever" for column in held):
        yield retrieval

    answer = main_of_group("generator", own)
    right = measured.get(RIGHT)
    is_right = (
        right is not None
        and answer is not None
        and answer.name == _CORRECT
        and not run.has_labels  # people label the metric, and not what the gate makes of it
    )
    if is_right:
        answer = right
    is_held = not held_names.isdisjoint(_OF_ANSWER)
    if answer is not None and not is_held and answer.name not in held_names:
        yield answer

    # Whether declining is right is a part of `right`.
    declining = measured.get(_DECLINING)
    if declining is not None and answer is not right and _DECLINING not in held_names:
        yield declining

    answered = measured.get(ANSWERED)
    if answered is not None and held_names.isdisjoint(_OF_REFUSAL):
        yield answered


def sources_of(names: Iterable[str], run: RunScores) -> list[str]:
    """What has to be measured for some metrics and figures, each once."""
    needed: dict[str, None] = {}
    for name in names:
        needed |= dict.fromkeys(SOURCES.get(name, (name,)))
    return [name for name in needed if run.column(name) is not None]


def is_measured(column: MetricColumn, baseline: RunScores | None) -> bool:
    """Whether a metric has a figure in the run or in the baseline."""
    if column.score is not None:
        return True
    earlier = None if baseline is None else baseline.column(column.name)
    return earlier is not None and earlier.score is not None


def _count(run: RunScores, name: str) -> int:
    """How many cases a metric says something of."""
    cells = run.cells(name)
    return int(((cells.states != 0) & ~cells.has(Status.SKIPPED)).sum())


def _telling_metric(runs: Sequence[RunScores]) -> str | None:
    """The metric of all runs that tells of the most cases whether they were answered."""
    best, most = None, 0
    for name in _TELLING:
        if any(run.column(name) is None for run in runs):
            continue
        count = sum(_count(run, name) for run in runs)
        if count > most:
            best, most = name, count
    return best


def _right(answer: Cell | None, declining: Cell | None) -> float | None:
    if declining is not None and declining.value == 0.0:
        return 0.0
    if answer is None or answer.status is Status.SKIPPED:
        return None
    if answer.status is Status.ABSTAINED:
        return float(declining is not None and declining.value == 1.0)
    return 0.0 if answer.status is Status.FAILED else answer.value


def _answered(answer: Cell | None, declining: Cell | None) -> float | None:
    if answer is None or answer.status is Status.SKIPPED:
        return None
    is_declined = answer.status is Status.ABSTAINED
    if declining is not None and declining.value == float(is_declined):
        return None  # there is no answer
    return float(answer.status is Status.MEASURED)


def _answered_by_rate(rate: Cell | None, declining: Cell | None) -> float | None:
    del declining  # the metric is skipped where there is no answer
    if rate is None or rate.status is Status.SKIPPED:
        return None
    return 0.0 if rate.status is Status.FAILED else rate.value


def _with_figure(run: RunScores, name: str, source: str, derive: Derive) -> RunScores:
    """The run with a figure that is derived from the cells of a metric."""
    column = run.column(source)
    if column is None or run.column(name) is not None:
        return run
    cells, declining = run.cells(source), run.cells(_DECLINING)
    values = np.full(len(run.cases), np.nan)
    repeats: dict[int, Repeats] = {}
    for place in range(len(run.cases)):
        if place in cells.repeats:
            repeats[place] = _repeated(cells.asked(place), declining.asked(place), derive)
            value = repeats[place].mean.value
        else:
            value = derive(cells[place], declining[place])
        values[place] = np.nan if value is None else value
    return _with_column(run, name, column.version, column.digest, values, repeats)


def _repeated(asked: Repeats, declining: Repeats, derive: Derive) -> Repeats:
    """What a figure gave each time that a case was asked."""
    refusals = declining.cells
    if len(refusals) != len(asked.cells):
        refusals = (None,) * len(asked.cells)
    cells: list[Cell | None] = []
    for cell, refusal in zip(asked.cells, refusals, strict=True):
        value = derive(cell, refusal)
        cells.append(None if value is None else Cell.measured(value))
    return Repeats(cells=tuple(cells))


def _has_answers(run: RunScores) -> bool:
    return any("generate" in stages for stages in run.table.fact("stages"))


def _with_answered_by_stages(run: RunScores) -> RunScores:
    """With whether each case was answered, by how its stages ended."""
    if run.column(ANSWERED) is not None:
        return run
    declining = run.cells(_DECLINING)
    values = np.full(len(run.cases), np.nan)
    for place, stages in enumerate(run.table.fact("stages")):
        status = stages.get("generate")
        if Status.FAILED in stages.values():
            status = Status.FAILED
        if status is not None:
            value = _answered(Cell(status=status), declining[place])
            values[place] = np.nan if value is None else value
    return _with_column(run, ANSWERED, 1, "", values, {})


def _with_column(
    run: RunScores,
    name: str,
    version: int,
    digest: str,
    values: Floats,
    repeats: dict[int, Repeats],
) -> RunScores:
    is_measured = ~np.isnan(values)
    states = np.where(is_measured, ord(Status.MEASURED.value[0]), 0).astype(np.uint8)
    measured = values[is_measured].tolist()
    column = MetricColumn(
        name=name,
        version=version,
        digest=digest,
        group="gate",
        direction=Direction.HIGHER,
        low=0.0,
        high=1.0,
        score=math.fsum(measured) / len(measured) if measured else None,
    )
    cells = replace(Cells.packed(values, states), repeats=repeats)
    table = replace(run.cases, cells={**run.cases.cells, name: cells})
    return replace(run, metrics=(*run.metrics, column), cases=table)
