"""A table in a terminal; the report."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from ragbench.views.causes import waterfall
from ragbench.views.judging import judge_remarks
from ragbench.views.metrics_shown import shown_metrics
from ragbench.views.operators import OPERATOR_COLUMNS, operator_remarks, operator_rows
from ragbench.views.report import sharing_remark
from ragbench_cli.console import data_console

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.core.attribution import CauseCount
    from ragbench.core.biography import OperatorTable
    from ragbench.core.report import FailureGroup, Report, Summary
    from ragbench.core.validation import ValidationTable


def print_block(console: Console, block: RenderableType) -> None:
    """Prints without the spaces that rich pads lines with."""
    with console.capture() as captured:
        console.print(block)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def paragraph(title: str, lines: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    """A title and lines that hang below it, in a style each; nothing when there are no lines."""
    from rich.padding import Padding

    for position, (line, style) in enumerate(lines):
        if position == 0:
            yield ""
            yield styled((title, "dim"))
        yield Padding(styled((line, style)), (0, 0, 0, 2))


def bare_table(*columns: str, gap: int = 2) -> Table:
    """An empty table: the first column to the left and folded, the others to the right."""
    from rich.table import Table

    found = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for position, column in enumerate(columns):
        is_first = position == 0
        found.add_column(
            column,
            justify="left" if is_first else "right",
            no_wrap=not is_first,
            overflow="fold",
        )
    return found


def printable(line: str) -> str:
    """A text of the user's on one line, without letters that steer a terminal."""
    words = " ".join(line.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A text that is never read as markup: names and messages are the user's."""
    from rich.text import Text

    from ragbench.safe_text import shown_text

    # Escaped before it is laid out: its width is that of what is shown.
    safe = (shown_text(p) if isinstance(p, str) else (shown_text(p[0]), p[1]) for p in parts)
    return Text.assemble(*safe)


def entry(name: str, text: str, *, width: int = 24, indent: int = 2) -> str:
    """A line or more: a name too long for its column stands on a line of its own."""
    columns = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
    room = indent + width
    lines = textwrap.wrap(text, columns - room, break_on_hyphens=False)
    hanging = [f"{'':{room}}{line}" for line in lines]
    if len(name) >= width:
        listed = [f"{'':{indent}}{name}", *hanging]
    else:
        first = lines[0] if lines else ""
        listed = [f"{'':{indent}}{name:<{width}}{first}", *hanging[1:]]
    return "\n".join(line.rstrip() for line in listed)


_BAD = ("failed", "unproved")

_NAMES = 24
"""Columns that the names of metrics are not folded below."""


def print_report(report: Report) -> None:
    console = data_console()
    for block in _blocks(report, console):
        print_block(console, block)


def _blocks(report: Report, console: Console) -> Iterator[RenderableType]:
    notes = list(report.notes)
    if not report.is_comparable:
        yield styled((f"not comparable: {notes.pop(0)}", "red"))
        yield ""
    yield from _head(report)
    shown = shown_metrics(report, timed=True)
    rows = [summary for summary in shown.rows if not _is_latency(summary)]
    if rows:
        yield ""
        yield _metrics(rows, console)
    yield from paragraph("also measured", _lines(shown.repeated))
    if report.operators is not None:
        yield ""
        yield from operator_blocks(report.operators, console)
    if report.causes:
        yield ""
        yield causes_table(report.causes)
    if report.validation is not None:
        yield from _validation(report.validation)
    yield from paragraph("not measured", _lines(shown.unmeasured))
    yield from paragraph("failed", _failures(report))
    if report.judging is not None:
        yield from paragraph("judge", ((text, "") for text in judge_remarks(report.judging)))
    if report.latencies:
        yield ""
        yield _latencies(report)
        if remark := sharing_remark(report.latencies):
            yield f"  {remark}"
    yield from paragraph("notes", ((note, "") for note in (*_reuse(report), *notes)))


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
            (stage.reused, "reused", "dim"),
            (stage.recorded, "recorded", "dim"),
        )
        told = [(f"{count:,} {word}", style) for count, word, style in counts if count]
        yield styled(f"{stage.stage:<{width}}", *_joined(told))


def _reuse(report: Report) -> Iterator[str]:
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if counts:
        since = (report.reused_from or "").replace("T", " ")[:16]
        yield (
            f"Reused from the run of {since}: {', '.join(counts)}. Nothing that they came from has "
            "changed; --fresh asks again."
        )


def _metrics(summaries: Sequence[Summary], console: Console) -> Table:
    """The metrics that have a figure, a section a group; columns without a count are left out.

    In a narrow terminal the columns move together, then those go that can best be missed, so that
    names stay readable.
    """
    from rich.measure import Measurement

    counts = ("abstained", "skipped", "failed", "unproved")
    columns = ["95% interval", *(n for n in counts if any(getattr(s, n) for s in summaries))]
    table = _metrics_table(summaries, columns, gap=2)
    longest = max(len(summary.metric.name) for summary in summaries) + 2
    spare = max(0, longest - _NAMES)  # what may be folded
    for missed in ("", "skipped", "abstained", "95% interval", "failed", "unproved"):
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
        yield styled((f"{count:,}", "red" if name in _BAD else "")) if count else styled("-")


_MISSED_OF_OPERATORS = ("moved", "added", "rewrote", "up", "down", "chunks")
"""Columns that a narrow terminal goes without, in this order."""


def operator_blocks(table: OperatorTable, console: Console) -> Iterator[RenderableType]:
    """What the operators of post-retrieval did, and what they said."""
    from rich.measure import Measurement

    left_out: list[str] = []
    found = _operator_table(table, left_out)
    for missed in _MISSED_OF_OPERATORS:
        if Measurement.get(console, _unbound(console), found).maximum <= console.width:
            break
        left_out.append(missed)
        found = _operator_table(table, left_out)
    yield found
    yield from paragraph("operators", ((remark, "") for remark in operator_remarks(table)))


def _operator_table(table: OperatorTable, left_out: Sequence[str]) -> Table:
    shown = [name not in left_out for name in OPERATOR_COLUMNS]
    found = bare_table(*compress(OPERATOR_COLUMNS, shown))
    for name, *cells in operator_rows(table):
        found.add_row(*map(styled, compress((f"  {name}", *cells), shown)))
    return found


def causes_table(causes: Sequence[CauseCount]) -> Table:
    """The waterfall: what became of the cases."""
    found = bare_table("what became of the cases", "cases", "share", "left", "")
    for fall in waterfall(causes):
        style = "red" if fall.cause.is_loss else ""
        found.add_row(
            styled(f"  {fall.cause.label}"),
            styled((f"{fall.cases:,}", style)),
            styled(f"{fall.share:.0%}"),
            styled((f"{fall.left:,}", "dim")),
            styled(fall.note),
        )
    return found


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
    definition = summary.metric.definition
    return definition.unit == "s" and not definition.deterministic


def _lines(text: str | None) -> Iterator[tuple[str, str]]:
    if text is not None:
        yield text, ""


_KINDS = 8
"""How many types of error are spelled out."""


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


_LONGEST = 200
"""Letters of an error's message that are shown; report.json has the rest."""


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _latencies(report: Report) -> Table:
    some_alone = any(latency.sharing == 1 for latency in report.latencies)
    figures = ("p50", "p95", "longest") if some_alone else ()
    table = bare_table("time per case", "n", "mean", *figures)
    for latency in report.latencies:
        times = (latency.mean, *(getattr(latency, figure) for figure in figures))
        cells = ("-" if time is None else _seconds(time) for time in times)
        row = (f"  {latency.stage}", f"{latency.count:,}", *cells)
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
