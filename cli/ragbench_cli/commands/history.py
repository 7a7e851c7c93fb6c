"""``ragbench history``: what became of each metric over the merges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument
from ragbench_cli.output import Blocks, Cell, can_show, draw, paragraph, show, styled, table

if TYPE_CHECKING:
    from rich.table import Table

    from ragbench.core.history import History, MetricHistory


def command(
    baseline: Annotated[Path, argument("BASELINE", help="A baseline file.")] = Path(
        "ragbench-baseline.json"
    ),
    json: JsonOption = False,
) -> None:
    """Show how each metric changed on the main branch.

    Reads the history that ragbench baseline add keeps. A fall of a main metric is marked if the
    test of all merges shows it, however often you look; the gate fails on the same.

    \b
    Examples:
      ragbench history
      ragbench history baselines/pellorin.json --json
    """
    from ragbench.gate.baseline_file import read_baseline
    from ragbench.gate.history import history_of
    from ragbench.views.history import history_object

    history = history_of(read_baseline(baseline))
    show(history_object(history), lambda: draw(_history_blocks(history)), json=json)


def _history_blocks(history: History) -> Blocks:
    """The blocks of the screen of ``ragbench history``.

    They are the table of metrics, what fell, and notes.
    """
    from ragbench.views.history import fall_line, people_lines, remarks, span_text

    span = span_text([run.date for run in history.runs])
    runs = counted(len(history.runs), "run")
    yield styled((history.rag, "bold"), f" on {history.dataset}: {runs} of main{span}")
    yield ""
    yield _history_table(history)
    falls: list[Cell] = []
    unmeasured: list[str] = []
    for metric in history.metrics:
        if metric.fall is not None:
            falls.append((fall_line(metric.metric, metric.fall), "red"))
        # A metric without a figure in any run has no row in the table, and is named below it.
        if not _is_measured(metric):
            unmeasured.append(metric.metric)
    yield from paragraph("fell", falls)
    is_lower = any(run.aside for run in history.runs)
    # Of too few runs the test says nothing yet.
    if not falls and not is_lower and history.followed >= history.least:
        yield ""
        yield "No fall is shown: runs of one system differ as much."
    if unmeasured:
        yield from paragraph("never measured", [", ".join(unmeasured)])
    yield from paragraph("corrected by labels of people", people_lines(history))
    yield from paragraph("notes", remarks(history))


_FIGURES_WIDTH = 3 * 9
"""Columns of the terminal for first, last and change, nine for each with the gap."""
_REST_WIDTH = 10
"""Columns for further gaps and for "worse"."""
_LEAST_WIDTH = 10
"""Bars that are shown however narrow the terminal is."""


def _history_table(history: History) -> Table:
    """The table of ``ragbench history``.

    It has per metric the first and last mean, the change, and a line of all runs. First, last and
    change are of the runs since the last break: only their cases are comparable. The line goes on
    before it, so that a reader sees where it was.
    """
    from ragbench.views.history import sparkline

    metrics = [metric for metric in history.metrics if _is_measured(metric)]
    longest_name = max((len(metric.metric) for metric in metrics), default=0)
    # The drawing of all runs gets the width that the other columns leave of the screen.
    width = console.data_console().width - longest_name - _FIGURES_WIDTH - _REST_WIDTH
    break_places = [history_break.at for history_break in history.breaks]
    rows: list[Sequence[Cell]] = []
    for metric in metrics:
        # Runs without a value of this metric are left out: the first that has one is "first".
        figures = [figure for figure in metric.figures[history.start :] if figure is not None]
        oldest = "-"
        newest = "-"
        change = "-"
        if figures:
            oldest = f"{figures[0]:.3f}"
            newest = f"{figures[-1]:.3f}"
        if len(figures) > 1:
            change = f"{figures[-1] - figures[0]:+.3f}"
        mark = ""
        if metric.fall:
            mark = "worse"
        line = sparkline(
            metric.figures,
            scale=metric.scale,
            breaks=break_places,
            width=max(_LEAST_WIDTH, width),
            # Terminals without these signs get digits.
            plain=not can_show("▁"),
        )
        rows.append((metric.metric, oldest, newest, change, (mark, "red"), line))
    history_table = table(("metric", "first", "last", "change", "", "runs"), rows)
    # `table` puts all columns but the first to the right; a line is read from the left.
    history_table.columns[-1].justify = "left"
    return history_table


def _is_measured(metric: MetricHistory) -> bool:
    """Whether any run of the history has a figure of the metric.

    The other metrics are named below the table.
    """
    return any(figure is not None for figure in metric.figures)
