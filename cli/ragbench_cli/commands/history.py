"""``ragbench history``: what became of each metric over the merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from ragbench.core.history import History, MetricHistory
    from ragbench_cli.tables import Cell

_STYLES = {"worse": "red", "better": "green", "other": "yellow", "": ""}


def command(
    baseline: Annotated[Path, argument("BASELINE", help="A baseline file.")] = Path(
        "ragbench-baseline.json"
    ),
    json: JsonOption = False,
) -> None:
    """Show how each metric changed on the main branch.

    Reads the history that ragbench baseline add keeps. A change is marked only if a test shows it:
    the runs could not have come in any order, over all metrics together. Slow declines that no
    single merge shows are seen here.

    \b
    Examples:
      ragbench history
      ragbench history baselines/pellorin.json --json
    """
    from ragbench.gate.baseline_file import read_baseline
    from ragbench.gate.history import history_of
    from ragbench.views.history import history_object

    history = history_of(read_baseline(baseline))
    if json:
        console.print_json(history_object(history))
        return
    from ragbench_cli.tables import draw

    page = console.data_console()
    draw(page, _blocks(history, page))


def _blocks(history: History, page: Console) -> Iterator[RenderableType]:
    from ragbench.views.history import change_line, remarks
    from ragbench_cli.tables import paragraph, styled

    count = len(history.runs)
    dates = [run.date[:10] for run in history.runs if run.date]
    days = list(dict.fromkeys([dates[0], dates[-1]])) if dates else []
    span = f", {' to '.join(days)}" if days else ""
    runs = "1 run" if count == 1 else f"{count} runs"
    yield styled((history.rag, "bold"), f" on {history.dataset}: {runs} of main{span}")
    yield ""
    yield _table(history, page)
    changed = [metric for metric in history.metrics if metric.is_changed]
    lines = ((change_line(metric, history), _STYLES[metric.way]) for metric in changed)
    yield from paragraph("changed", lines)
    if not changed and history.is_long_enough:
        yield ""
        yield "No change is shown: runs of one system differ as much."
    silent = ", ".join(metric.metric for metric in history.metrics if not _is_measured(metric))
    yield from paragraph("never measured", [silent] if silent else [])
    yield from paragraph("notes", remarks(history))


def _table(history: History, page: Console) -> Table:
    from ragbench.views.history import sparkline
    from ragbench_cli.tables import can_show, table

    shown = [metric for metric in history.metrics if _is_measured(metric)]
    longest = max((len(metric.metric) for metric in shown), default=0)
    rows: list[Sequence[Cell]] = []
    for metric in shown:
        since = [figure for figure in metric.figures[history.start :] if figure is not None]
        line = sparkline(
            metric.figures,
            scale=metric.scale,
            breaks=[one.at for one in history.breaks],
            width=max(10, page.width - longest - 3 * 9 - 10),
            plain=not can_show(page, "▁"),
        )
        rows.append(
            (
                metric.metric,
                f"{since[0]:.3f}" if since else "-",
                f"{since[-1]:.3f}" if since else "-",
                f"{since[-1] - since[0]:+.3f}" if len(since) > 1 else "-",
                (metric.way, _STYLES[metric.way]),
                line,
            )
        )
    found = table(("metric", "first", "last", "change", "", "runs"), rows)
    found.columns[-1].justify = "left"
    return found


def _is_measured(metric: MetricHistory) -> bool:
    return any(figure is not None for figure in metric.figures)
