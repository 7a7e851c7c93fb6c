"""How a report looks in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench_cli.console import data_console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ragbench.records.reports import Report
    from ragbench.records.summaries import Summary

__all__ = ["print_report"]


def print_report(report: Report) -> None:
    """Prints a report's tables to standard output."""
    console = data_console()
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    console.print(f"[bold]{dataset['name']}[/]: {dataset['cases']:,} cases, {rag['name']}")
    for table in _tables(report):
        console.print(table)
    for note in report.notes:
        console.print(f"Note: {note}", style="yellow")


def _tables(report: Report) -> list[RenderableType]:
    tables: list[RenderableType] = [_metrics(report)]
    if report.failures:
        tables.append(_failures(report))
    if report.latencies:
        tables.append(_latencies(report))
    return tables


def _metrics(report: Report) -> Table:
    table = _table(
        "metric", "", "score", "95% interval", "n of N", "abstained", "skipped", "failed"
    )
    group = ""
    for summary in report.summaries:
        definition = summary.metric.definition
        if definition.group.value != group and group:
            table.add_section()
        group = definition.group.value
        table.add_row(
            summary.metric.name,
            group,
            _number(summary.score),
            _interval(summary),
            f"{summary.measured:,} of {summary.total:,}",
            _count(summary.abstained),
            _count(summary.skipped),
            _count(summary.failed, "red"),
        )
    return table


def _failures(report: Report) -> Table:
    table = _table("failed in", "error", "cases", "for example")
    for group in report.failures[:10]:
        message = " ".join(f"{group.type}: {group.message}".split())
        table.add_row(group.stage, message[:200], f"{group.count:,}", ", ".join(group.examples[:2]))
    if len(report.failures) > 10:
        table.add_row("", f"... and {len(report.failures) - 10} more kinds", "", "")
    return table


def _latencies(report: Report) -> Table:
    table = _table("stage", "calls", "mean", "p50", "p95", "longest")
    for latency in report.latencies:
        times = (latency.mean, latency.p50, latency.p95, latency.longest)
        table.add_row(latency.stage, f"{latency.count:,}", *(_seconds(time) for time in times))
    return table


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        is_text = column in ("", "error", "for example") or position == 0
        table.add_column(column, justify="left" if is_text else "right")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(summary: Summary) -> str:
    if summary.interval is None:
        return "-"
    return f"{summary.interval.low:.3f} .. {summary.interval.high:.3f}"


def _count(count: int, style: str = "") -> str:
    text = f"{count:,}" if count else "-"
    return f"[{style}]{text}[/]" if style and count else text


def _seconds(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"
