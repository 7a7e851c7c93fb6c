"""How a report looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench_cli.blocks import bare_table, paragraph, print_block, styled
from ragbench_cli.console import data_console

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.records.reports import FailureGroup, Report
    from ragbench.records.summaries import Summary
    from ragbench.records.validation_tables import ValidationTable

__all__ = ["print_report"]

_KINDS = 8
"""How many types of error are spelled out."""

_NAMES = 24
"""Columns that the names of metrics are not folded below."""

_LONGEST = 200
"""Letters of an error's message that are shown; report.json has the rest."""


def print_report(report: Report) -> None:
    """Prints a report to standard output."""
    console = data_console()
    for block in _blocks(report, console):
        print_block(console, block)


def _blocks(report: Report, console: Console) -> Iterator[RenderableType]:
    yield from _head(report)
    shown = [summary for summary in report.summaries if not _is_latency(summary)]
    measured = [summary for summary in shown if summary.measured]
    if measured:
        yield ""
        yield _metrics(measured, console)
    if report.validation is not None:
        yield from _validation(report.validation)
    yield from paragraph("not measured", _unmeasured(shown))
    yield from paragraph("failed", _failures(report))
    if report.latencies:
        yield ""
        yield _latencies(report)
    yield from paragraph("notes", ((note, "") for note in report.notes))


def _head(report: Report) -> Iterator[RenderableType]:
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    cases = f"{dataset['cases']:,} cases" if dataset["cases"] != 1 else "1 case"
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")
    width = max(len(stage.stage) for stage in report.stages) + 2
    for stage in report.stages:
        done = "answered" if stage.stage == "generate" else "done"
        counts = (
            (stage.measured, done, ""),
            (stage.abstained, "abstained", ""),
            (stage.skipped, "skipped", ""),
            (stage.failed, "failed", "red"),
        )
        told = [(f"{count:,} {word}", style) for count, word, style in counts if count]
        yield styled(f"{stage.stage:<{width}}", *_joined(told))


def _metrics(summaries: Sequence[Summary], console: Console) -> Table:
    """The metrics that have a figure, a section a group; columns without a count are left out.

    In a narrow terminal the columns move together, then those go that can best be missed, so that
    names stay readable.
    """
    from rich.measure import Measurement

    counts = ("abstained", "skipped", "failed")
    columns = ["95% interval", *(n for n in counts if any(getattr(s, n) for s in summaries))]
    table = _metrics_table(summaries, columns, gap=2)
    longest = max(len(summary.metric.name) for summary in summaries) + 2
    spare = max(0, longest - _NAMES)  # what may be folded
    for missed in ("", "skipped", "abstained", "95% interval", "failed"):
        if Measurement.get(console, _unbound(console), table).maximum - spare <= console.width:
            break
        columns = [column for column in columns if column != missed]
        table = _metrics_table(summaries, columns, gap=1)
    return table


def _unbound(console: Console) -> ConsoleOptions:
    return console.options.update_width(10_000)


def _metrics_table(summaries: Sequence[Summary], columns: Sequence[str], *, gap: int) -> Table:
    before = [column for column in columns if column == "95% interval"]
    counts = [column for column in columns if column not in before]
    total = summaries[0].total
    table = bare_table("metric", "score", *before, f"n of {total:,}", *counts, gap=gap)
    for group in dict.fromkeys(summary.metric.definition.group for summary in summaries):
        table.add_row(styled((group.value, "dim")))
        for summary in summaries:
            if summary.metric.definition.group is group:
                table.add_row(*_row(summary, columns, counts))
    return table


def _row(summary: Summary, columns: Sequence[str], counts: Sequence[str]) -> Iterator[Text]:
    unit = summary.metric.definition.unit
    yield styled(f"  {summary.metric.name}")
    yield styled((_number(summary.score, unit), "bold"))
    if "95% interval" in columns:
        interval = summary.interval
        ends = () if interval is None else (interval.low, interval.high)
        yield styled(" .. ".join(_number(end, unit) for end in ends) or "-")
    yield styled(f"{summary.measured:,}")
    for name in counts:
        count: int = getattr(summary, name)
        yield styled((f"{count:,}", "red" if name == "failed" else "")) if count else styled("-")


def _validation(table: ValidationTable) -> Iterator[RenderableType]:
    """Verdicts on what was retrieved, by what the system made of it."""
    quality = ", ".join(f"{name} {count:,}" for name, count in table.quality.items())
    yield ""
    found = bare_table("answer in the chunks", "the system", "cases", "rate", "95% interval")
    for cell in table.matrix:
        low, high = cell.rate.low, cell.rate.high
        found.add_row(
            styled(f"  {'yes' if cell.answer_present else 'not shown'}"),
            styled("answered" if cell.answered else "abstained"),
            styled(f"{cell.rate.count:,}"),
            styled((_number(cell.rate.share, ""), "bold")),
            styled("-" if low is None or high is None else f"{low:.3f} .. {high:.3f}"),
        )
    yield found
    yield styled(
        f"  by {table.validator}, which says yes only where it is sure; quality: {quality}"
    )
    if table.unmatched:
        yield styled(f"  {table.unmatched:,} cases with a verdict have no answer, no abstention")


def _is_latency(summary: Summary) -> bool:
    """Whether the table of times says it already."""
    definition = summary.metric.definition
    return definition.unit == "s" and not definition.deterministic


def _unmeasured(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    """Metrics without a single figure, those with the same main reason together."""
    by_reason: dict[str, list[str]] = {}
    for summary in summaries:
        if not summary.measured:
            reason = summary.reasons[0][0] if summary.reasons else "no case"
            by_reason.setdefault(reason, []).append(summary.metric.name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)}: {reason}", ""


def _failures(report: Report) -> Iterator[tuple[str, str]]:
    """A line for each type of error at each stage; the message of the most frequent kind."""
    kinds: dict[tuple[str, str], list[FailureGroup]] = {}
    for group in report.failures:
        kinds.setdefault((group.stage, group.type), []).append(group)
    for (stage, error), groups in list(kinds.items())[:_KINDS]:
        count = sum(group.count for group in groups)
        message = _cut(f"{error}: {groups[0].message}")
        others = f", {len(groups) - 1:,} more messages" if len(groups) > 1 else ""
        examples = [example for group in groups for example in group.examples][:3]
        text = f"{stage}, {_cases(count)}: {message} (as in {', '.join(examples)}{others})"
        yield text, "red"
    if len(kinds) > _KINDS:
        yield f"and {len(kinds) - _KINDS:,} more types of error: see report.json", "red"


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _latencies(report: Report) -> Table:
    table = bare_table("time a case", "n", "mean", "p50", "p95", "longest")
    for latency in report.latencies:
        times = (latency.mean, latency.p50, latency.p95, latency.longest)
        row = (f"  {latency.stage}", f"{latency.count:,}", *map(_seconds, times))
        table.add_row(*(styled(cell) for cell in row))
    return table


def _joined(parts: Sequence[tuple[str, str]]) -> Iterator[str | tuple[str, str]]:
    for position, part in enumerate(parts):
        if position:
            yield ", "
        yield part


def _cases(count: int) -> str:
    return f"{count:,} case" if count == 1 else f"{count:,} cases"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s":
        return _seconds(value)
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _seconds(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"
