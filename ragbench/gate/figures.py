"""The figures that a gate holds where nobody names any: retrieval, right, answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ragbench.core.case_table import Cells
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import JUDGED_RIGHT
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import main_of_group
from ragbench.gate.words import worded
from ragbench.plugins import Floats, np

RIGHT = "right"
"""Of all cases, how far each is right: declined or failed where there is an answer, it is not."""
ANSWERED = "answered"
"""Of the cases that have an answer, whether each was answered."""
MEASURED = "measured: "
"""Before the name of a metric: the share of cases that it is measured on."""
ERROR_RATE = "error rate"
"""The check of how many cases failed."""
DERIVED = (RIGHT, ANSWERED)
"""Made of the metrics of a run, by the gate."""

_CORRECTNESS = "answer_correct"
"""Whether an answer is right, as a judge or a reference says."""
_DECLINING = "abstention_accuracy"
"""Whether it was right to decline, or to answer."""
_ANSWER_RATE = "answer_rate"
"""Whether a case was answered, measured by itself."""
_ANSWER_METRICS = (*JUDGED_RIGHT, _CORRECTNESS, "token_f1", "exact_match", RIGHT)
"""Who holds one of these says how much the answers may lose."""
_REFUSAL_METRICS = (ANSWERED, _ANSWER_RATE)
"""Who holds one of these says how many refusals there may be."""
_METRICS_THAT_TELL_ANSWERED = (_CORRECTNESS, "token_f1", "exact_match", _ANSWER_RATE)
"""Metrics whose cells tell whether a case was answered, declined, or failed. Of two that tell it of
as many cases, the first one counts."""
SOURCES = {RIGHT: (_CORRECTNESS, _DECLINING), ANSWERED: (*_METRICS_THAT_TELL_ANSWERED, _DECLINING)}
"""What has to be measured for a figure, as far as the run has it."""

Derive = Callable[[Cell | None, Cell | None], float | None]
"""Two cells of a case to a figure's value of it; None where the figure does not apply to the case.

The first cell is that of the metric that the figure is made of. The second one is that of
`abstention_accuracy`: 1 where it was right of the system to decline, or to answer; else 0.
"""


def with_figures(run: RunScores, baseline: RunScores | None) -> tuple[RunScores, RunScores | None]:
    """The runs with the figures that a gate makes of their metrics, by one rule in both.

    These figures are `RIGHT` and `ANSWERED`: how far each case is right, and whether it was
    answered.

    A metric over answered cases alone would reward a system that declines the hard ones.
    """
    if baseline is not None:
        return with_both_figures(run, baseline)
    # Alone, the run decides by itself which metrics its figures are made of.
    (run,) = _with_figures([run])
    return run, None


def with_both_figures(run: RunScores, baseline: RunScores) -> tuple[RunScores, RunScores]:
    """A run and its baseline, both with the figures that a gate makes of their metrics.

    These figures are `RIGHT` and `ANSWERED`: how far each case is right, and whether it was
    answered.

    A metric over answered cases alone would reward a system that declines the hard ones.
    """
    run, baseline = _with_figures([run, baseline])
    return run, baseline


def _with_figures(runs: list[RunScores]) -> list[RunScores]:
    """The runs with `RIGHT` and `ANSWERED`, as far as all of them measured what these are made of.

    One rule for all runs: a figure that is made of other metrics in each could not be compared.
    """
    if any(_applicable_count(run, _CORRECTNESS) for run in runs):
        runs = [_with_figure(run, RIGHT, _CORRECTNESS, _right_value) for run in runs]
    metric = _telling_metric(runs)
    # The answer rate says by its value whether a case was answered; other metrics tell it by the
    # status of their cells.
    if metric == _ANSWER_RATE:
        return [_with_figure(run, ANSWERED, metric, _answered_value_by_rate) for run in runs]
    if metric is not None:
        return [_with_figure(run, ANSWERED, metric, _answered_value) for run in runs]
    # Without such a metric, the way in which the stages ended tells it, where both runs know that
    # (a baseline file does not).
    if all(_has_answers(run) for run in runs):
        return [_with_answered_by_stages(run) for run in runs]
    return runs


def figures_of(
    run: RunScores, baseline: RunScores | None, held: Sequence[MetricColumn]
) -> Iterator[MetricColumn]:
    """The metrics and figures that a gate holds besides those that the user demands.

    These are the main metric of retrieval, that of answers, and whether cases were answered, so
    that a gate without a configuration finds losses. Few, since each further test costs the others
    power. A metric that is held already takes the place of the figure that says the same.

    Args:
        held: metrics of which the user limits the loss.
    """
    names_held = {column.name for column in held}
    # Metrics that have no figure in either run would never be decided.
    measured = {column.name: column for column in run.metrics if is_measured(column, baseline)}
    # The gate's own figures are taken below, by name.
    metrics_of_run = [column for name, column in measured.items() if name not in DERIVED]

    retrieval = main_of_group("retriever", metrics_of_run)
    # One retrieval metric is enough: further ones would share its level.
    holds_retrieval = any(column.group == "retriever" for column in held)
    if retrieval is not None and not holds_retrieval:
        yield retrieval

    answer = main_of_group("generator", metrics_of_run)
    right = measured.get(RIGHT)
    # `right` says more than the correctness that it is made of. But people label the metric, and
    # not what the gate makes of it.
    is_correctness = answer is not None and answer.name == _CORRECTNESS
    if right is not None and is_correctness and not run.has_labels:
        answer = right
    holds_answer = not names_held.isdisjoint(_ANSWER_METRICS)
    if answer is not None and not holds_answer and answer.name not in names_held:
        yield answer

    # Whether declining is right is a part of `right`.
    declining = measured.get(_DECLINING)
    # Only where the figure of answers does not hold it already.
    if declining is not None and answer is not right and _DECLINING not in names_held:
        yield declining

    answered = measured.get(ANSWERED)
    if answered is not None and names_held.isdisjoint(_REFUSAL_METRICS):
        yield answered


def outweighed_refusals(checks: Sequence[GateCheck]) -> Iterator[GateCheck]:
    """The checks, where an open loss of answered cases is outweighed if the system is better.

    The system is better where a held metric or the correctness of its answers is shown to have
    risen, and `RIGHT`, in which each refusal counts as not right, has not fallen. Systems that
    improve answer other questions than before, and one in fifty of them would else get a warning.
    """
    # Two passes: the first finds out whether the system is better at all.
    right: Drop | None = None
    has_gain = False
    for check in checks:
        if check.kind is not CheckKind.DROP or check.drop is None:
            continue
        if check.subject == RIGHT:
            right = check.drop
        # A check that is shown and not judged proves no gain, except for correctness itself.
        is_held = check.outcome is not GateOutcome.NOT_JUDGED
        if is_held or check.subject == _CORRECTNESS:
            has_gain |= check.drop.is_gain
    is_better = has_gain and right is not None and right.loss <= 0.0
    for check in checks:
        # Only an open loss: one that is shown stays a failure.
        if is_better and check.is_open_drop and _counts_refusals(check):
            check = worded(replace(check, ground=Ground.OUTWEIGHED))
        yield check


def _counts_refusals(check: GateCheck) -> bool:
    """Whether a check's figure falls with each declined case, whatever its answer would have been.

    Only such a check can be outweighed by better answers.
    """
    if check.kind is CheckKind.COVERAGE:
        return check.subject.removeprefix(MEASURED) in _METRICS_THAT_TELL_ANSWERED
    return check.subject in (*_REFUSAL_METRICS, _DECLINING)


def sources_of(names: Iterable[str], run: RunScores) -> list[str]:
    """The metrics of the run that must be measured to compute some metrics and figures, each once.

    When cases are asked again, only these are measured. A metric is its own source.

    Args:
        names: of metrics, and of figures that the gate makes.
    """
    sources: dict[str, None] = {}
    for name in names:
        # A metric that is no figure of the gate's is its own source.
        for source in SOURCES.get(name, (name,)):
            sources[source] = None
    return [name for name in sources if run.column(name) is not None]


def is_measured(column: MetricColumn, baseline: RunScores | None) -> bool:
    """Whether a metric has a figure in the run or in the baseline.

    A metric without any figure would only give checks that can never be decided.
    """
    if column.score is not None:
        return True
    if baseline is None:
        return False
    baseline_column = baseline.column(column.name)
    return baseline_column is not None and baseline_column.score is not None


def _applicable_count(run: RunScores, name: str) -> int:
    """In how many cases of a run a metric applies: it has a cell there and was not skipped.

    A metric that applies to no case cannot tell whether cases were answered.
    """
    cells = run.cells(name)
    is_applicable = (cells.states != 0) & ~cells.has(Status.SKIPPED)
    return int(is_applicable.sum())


def _telling_metric(runs: Sequence[RunScores]) -> str | None:
    """The metric that tells, of the most cases of all runs, whether they were answered.

    One metric for all runs, so that `ANSWERED` compares; None where the runs have none in common.
    """
    best_name = None
    most_cases = 0
    for name in _METRICS_THAT_TELL_ANSWERED:
        if any(run.column(name) is None for run in runs):
            continue
        count = sum(_applicable_count(run, name) for run in runs)
        # More, and not as many: of equal ones the first counts.
        if count > most_cases:
            best_name = name
            most_cases = count
    return best_name


def _right_value(answer: Cell | None, declining: Cell | None) -> float | None:
    """How far a case is right, from 0 to 1; None where it has nothing to compare its answer with.

    To decline counts as 0 where the documents hold the answer: a system must not look better by
    declining.

    Args:
        answer: the case's cell of `answer_correct`: abstained where the system declined.
        declining: the case's cell of `abstention_accuracy`: 0 where the system answered what has no
            answer, or declined what has one.
    """
    # Declined what has an answer, or answered what has none: wrong, whatever the words.
    if declining is not None and declining.value == 0.0:
        return 0.0
    if answer is None or answer.status is Status.SKIPPED:
        return None
    if answer.status is Status.ABSTAINED:
        # To decline counts as right only where it is known to be.
        return float(declining is not None and declining.value == 1.0)
    if answer.status is Status.FAILED:
        return 0.0
    return answer.value


def _answered_value(answer: Cell | None, declining: Cell | None) -> float | None:
    """1 where a case was answered, 0 where it was declined or failed.

    None where that is no question: the documents hold no answer, or the metric does not apply. By
    this figure a gate sees a system that declines more, whose mean over the answered cases may even
    rise.

    Args:
        answer: the case's cell of a metric that compares answers. Only its status counts: measured
            where there was an answer, abstained where the system declined.
        declining: the case's cell of `abstention_accuracy`: 1 where it was right to decline or to
            answer as the system did, 0 where it was wrong.
    """
    if answer is None or answer.status is Status.SKIPPED:
        return None
    is_declined = answer.status is Status.ABSTAINED
    # Right to decline (1 and declined), or wrong to answer (0 and answered): either says that the
    # documents hold no answer to this case.
    if declining is not None and declining.value == float(is_declined):
        return None
    # Any other status is no answer: declined or failed.
    return float(answer.status is Status.MEASURED)


def _answered_value_by_rate(rate: Cell | None, declining: Cell | None) -> float | None:
    """1 where a case was answered, 0 where it was not, by its cell of `answer_rate`.

    None where the metric does not apply, as for cases whose answer no document holds.

    `_with_figures` takes it in place of `_answered_value` where `answer_rate` is the metric that
    tells of the most cases whether they were answered.

    Args:
        declining: not needed here, but every `Derive` takes it.
    """
    del declining  # needed for other metrics: this one is skipped where there is no answer
    if rate is None or rate.status is Status.SKIPPED:
        return None
    if rate.status is Status.FAILED:
        return 0.0
    return rate.value


def _with_figure(run: RunScores, name: str, source: str, derive: Derive) -> RunScores:
    """The run with one more figure of the gate's, derived case by case from a metric's cells.

    Unchanged where the run lacks the metric, or has the figure already.

    A cell is a metric's result for a case: a value, or why there is none.

    Args:
        name: of the figure.
        source: the metric's name.
        derive: makes the figure's value of a case.
    """
    column = run.column(source)
    if column is None or run.column(name) is not None:  # nothing to make it of, or made already
        return run
    cells = run.cells(source)
    declining = run.cells(_DECLINING)
    values = np.full(len(run.cases), np.nan)
    repeats: dict[int, Repeats] = {}
    for place in range(len(run.cases)):
        # Asked several times: the mean of the times is the case's value.
        if place in cells.repeats:
            cells_of_case = cells.asked(place).cells
            declining_cells = declining.asked(place).cells
            repeats[place] = _repeats_of_figure(cells_of_case, declining_cells, derive)
            value = repeats[place].mean.value
        else:
            value = derive(cells[place], declining[place])
        if value is not None:
            # With version and digest of its source: figures of two formulas do not compare.
            values[place] = value
    return _with_column(run, name, column.version, column.digest, values, repeats)


def _repeats_of_figure(
    cells: Sequence[Cell | None], declining: Sequence[Cell | None], derive: Derive
) -> Repeats:
    """A figure's values of a case that was asked several times, one for each time.

    The values are kept apart, not averaged, so that the noise between times counts in a test.

    Args:
        cells: of the metric that the figure is made of, one for each time.
        declining: of `abstention_accuracy`.
    """
    # For every time, or not at all.
    if len(declining) != len(cells):  # not measured as often: it says nothing
        declining = (None,) * len(cells)
    derived_cells: list[Cell | None] = []
    for cell, declining_cell in zip(cells, declining, strict=True):
        value = derive(cell, declining_cell)
        derived_cells.append(None if value is None else Cell.measured(value))
    return Repeats(cells=tuple(derived_cells))


def _has_answers(run: RunScores) -> bool:
    """Whether generation was a stage of the run, so that its stages say how each answer ended.

    Then the gate's figure of answered cases is made of the stages, where no metric gives it. A
    baseline file does not hold the stages of its cases: beside such a one there is no figure.
    """
    return any("generate" in stages for stages in run.table.fact("stages"))


def _with_answered_by_stages(run: RunScores) -> RunScores:
    """The run with `ANSWERED`, whether each case was answered, by how its stages ended.

    For runs that generated answers but measured no metric that tells how these ended.
    """
    if run.column(ANSWERED) is not None:
        return run
    declining = run.cells(_DECLINING)
    values = np.full(len(run.cases), np.nan)
    for place, stages in enumerate(run.table.fact("stages")):
        status = stages.get("generate")
        # Another stage's failure leaves no answer, whatever generation's status is.
        if Status.FAILED in stages.values():
            status = Status.FAILED
        if status is None:
            continue
        value = _answered_value(Cell(status=status), declining[place])
        if value is not None:
            values[place] = value
    return _with_column(run, ANSWERED, 1, "", values, {})


def _with_column(
    run: RunScores,
    name: str,
    version: int,
    digest: str,
    values: Floats,
    repeats: dict[int, Repeats],
) -> RunScores:
    """The run with a figure of the gate's as one more metric, beside those that it measured.

    Tests and tables then treat the figure like any metric, of a scale from 0 to 1.

    Args:
        version: of the metric that the figure is made of, like `digest`: runs whose figures are
            made in two ways do not compare.
        values: of each case; NaN where the metric does not apply.
        repeats: the value of each time, by the case's position, where it was asked several times.
    """
    has_value = ~np.isnan(values)
    # A cell's state is the first letter of its status; 0 stands for no cell.
    letter = ord(Status.MEASURED.value[0])
    states = np.where(has_value, letter, 0).astype(np.uint8)
    measured = values[has_value].tolist()
    mean = None
    if measured:
        mean = math.fsum(measured) / len(measured)
    column = MetricColumn(
        name=name,
        version=version,
        digest=digest,
        group="gate",
        direction=Direction.HIGHER,
        low=0.0,
        high=1.0,
        score=mean,
    )
    cells = replace(Cells.packed(values, states), repeats=repeats)
    # A mapping of its own: the run that was given stays as it is.
    cells_by_metric = {**run.cases.cells, name: cells}
    table = replace(run.cases, cells=cells_by_metric)
    return replace(run, metrics=(*run.metrics, column), cases=table)
