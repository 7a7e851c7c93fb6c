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
    show(history_object(history), lambda: draw(_blocks(history)), json=json)


def _blocks(history: History) -> Blocks:
    from ragbench.views.history import fall_line, people_lines, remarks, span_text

    span = span_text([run.date for run in history.runs])
    runs = counted(len(history.runs), "run")
    yield styled((history.rag, "bold"), f" on {history.dataset}: {runs} of main{span}")
    yield ""
    yield _table(history)
    falls = [(one.metric, one.fall) for one in history.metrics if one.fall is not None]
    yield from paragraph("fell", ((fall_line(*one), "red") for one in falls))
    is_lower = any(run.aside for run in history.runs)
    if not falls and not is_lower and history.followed >= history.least:
        yield ""
        yield "No fall is shown: runs of one system differ as much."
    silent = ", ".join(metric.metric for metric in history.metrics if not _is_measured(metric))
    yield from paragraph("never measured", [silent] if silent else [])
    yield from paragraph("corrected by labels of people", people_lines(history))
    yield from paragraph("notes", remarks(history))


def _table(history: History) -> Table:
    from ragbench.views.history import sparkline

    shown = [metric for metric in history.metrics if _is_measured(metric)]
    longest = max((len(metric.metric) for metric in shown), default=0)
    width = console.data_console().width - longest - 3 * 9 - 10
    rows: list[Sequence[Cell]] = []
    for metric in shown:
        since = [figure for figure in metric.figures[history.start :] if figure is not None]
        line = sparkline(
            metric.figures,
            scale=metric.scale,
            breaks=[one.at for one in history.breaks],
            width=max(10, width),
            plain=not can_show("▁"),
        )
        rows.append(
            (
                metric.metric,
                f"{since[0]:.3f}" if since else "-",
                f"{since[-1]:.3f}" if since else "-",
                f"{since[-1] - since[0]:+.3f}" if len(since) > 1 else "-",
                ("worse" if metric.fall else "", "red"),
                line,
            )
        )
    found = table(("metric", "first", "last", "change", "", "runs"), rows)
    found.columns[-1].justify = "left"
    return found


def _is_measured(metric: MetricHistory) -> bool:
    return any(figure is not None for figure in metric.figures)
