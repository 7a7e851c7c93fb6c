"""The report of a run in a terminal: one screen after an evaluation, all of it on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from ragbench.views.report import sharing_remark
from ragbench.views.run_document import (
    OPERATOR_COLUMNS,
    VERDICT_COLUMNS,
    has_default_metrics,
    headline_metrics,
    judge_remarks,
    measured_metrics,
    operator_remarks,
    operator_rows,
    quality_text,
    stage_counts,
    unmeasured_text,
    verdict_rows,
)
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, causes_table, paragraph, print_block, styled

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.core.biography import OperatorTable
    from ragbench.core.report import FailureGroup, Report, StageCount, Summary
    from ragbench.core.validation import ValidationTable

_BAD = ("failed", "unproved")

_NAMES = 24
"""Columns that the names of metrics are not folded below."""


def print_report(report: Report, *, is_full: bool) -> None:
    """Prints a run's report; unless in full, what was asked for and what went wrong."""
    console = data_console()
    blocks = _full(report, console) if is_full else _screen(report, console)
    for block in blocks:
        print_block(console, block)


def _screen(report: Report, console: Console) -> Iterator[RenderableType]:
    notes = [note for note in report.notes if note not in report.asides]
    yield from _not_comparable(report, notes)
    yield from _head(report, [stage for stage in report.stages if not _is_plain(stage)])
    rows = headline_metrics(report)
    if rows:
        yield ""
        yield _metrics(rows, console)
        if any(_is_latency(row) for row in rows) and (remark := sharing_remark(report.latencies)):
            yield f"  {remark}"
    yield from _middle(report, console)
    if not has_default_metrics(report):
        yield from paragraph("not measured", _lines(unmeasured_text(report)))
    yield from _problems(report)
    yield from paragraph("notes", ((note, "") for note in notes))


def _full(report: Report, console: Console) -> Iterator[RenderableType]:
    notes = list(report.notes)
    yield from _not_comparable(report, notes)
    yield from _head(report, report.stages)
    measured = measured_metrics(report)
    rows = [summary for summary in measured if not _is_latency(summary)]
    if rows:
        yield ""
        yield _metrics(rows, console)
    yield from _middle(report, console)
    yield from paragraph("not measured", _lines(unmeasured_text(report)))
    yield from _problems(report)
    if report.latencies:
        yield ""
        yield _latencies(report)
        if remark := sharing_remark(report.latencies):
            yield f"  {remark}"
    yield from paragraph("notes", ((note, "") for note in (*_reuse(report), *notes)))


def _not_comparable(report: Report, notes: list[str]) -> Iterator[RenderableType]:
    """Why retrieval could not be compared with the gold: the first note, which it takes out."""
    if not report.is_comparable:
        yield styled((f"not comparable: {notes.pop(0)}", "red"))
        yield ""


def _middle(report: Report, console: Console) -> Iterator[RenderableType]:
    if report.operators is not None:
        yield ""
        yield from operator_blocks(report.operators, console)
    if report.causes:
        yield ""
        yield causes_table(report.causes)
    if report.validation is not None:
        yield from _validation(report.validation)


def _problems(report: Report) -> Iterator[RenderableType]:
    yield from paragraph("failed", _failures(report))
    if report.judging is not None:
        yield from paragraph("judge", ((text, "") for text in judge_remarks(report.judging)))


def _head(report: Report, stages: Sequence[StageCount]) -> Iterator[RenderableType]:
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    cases = _cases(dataset["cases"])
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")
    width = max((len(stage.stage) for stage in stages), default=0) + 2
    for stage in stages:
        yield styled(f"{stage.stage:<{width}}", *_joined(_counts(stage)))


def _is_plain(stage: StageCount) -> bool:
    return stage.stage == "retrieve" and bool(stage.measured) and len(_counts(stage)) == 1


def _counts(stage: StageCount) -> list[tuple[str, str]]:
    styles = {"failed": "red", "reused": "dim", "recorded": "dim"}
    return [(f"{count:,} {word}", styles.get(word, "")) for count, word in stage_counts(stage)]


def _reuse(report: Report) -> Iterator[str]:
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if counts:
        since = (report.reused_from or "").replace("T", " ")[:16]
        yield (
            f"Reused from the run of {since}: {', '.join(counts)}. Nothing that they came from has "
            "changed; --fresh asks again."
        )


def _metrics(summaries: Sequence[Summary], console: Console) -> Table:
    """The metrics that have a figure; columns that hold nothing are left out.

    In a narrow terminal the columns move together, then those go that can best be missed, so that
    names stay readable.
    """
    from rich.measure import Measurement

    counts = ("abstained", "skipped", "failed", "unproved")
    columns = [name for name in counts if any(getattr(one, name) for one in summaries)]
    if any(one.interval for one in summaries):
        columns.insert(0, "95% interval")
    table = _metrics_table(summaries, columns, gap=2)
    longest = max(len(summary.metric.name) for summary in summaries)
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
    for summary in summaries:
        table.add_row(*_row(summary, columns, counts))
    return table


def _row(summary: Summary, columns: Sequence[str], counts: Sequence[str]) -> Iterator[Text]:
    unit = summary.metric.definition.unit
    yield styled(summary.metric.name)
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


def _validation(table: ValidationTable) -> Iterator[RenderableType]:
    yield ""
    found = bare_table(*VERDICT_COLUMNS[:-1])
    for shown, *cells, _ in verdict_rows(table):
        found.add_row(styled(f"  {shown}"), *map(styled, cells))
    yield found
    yield styled(f"  by {table.validator}, which says yes only where it is sure.")
    yield styled(f"  {quality_text(table)}")
    if table.unmatched:
        yield styled(f"  {table.unmatched:,} cases with a verdict have no answer, no abstention")


def _is_latency(summary: Summary) -> bool:
    definition = summary.metric.definition
    return definition.unit == "s" and not definition.deterministic


def _lines(text: str | None) -> Iterator[tuple[str, str]]:
    if text is not None:
        yield text, ""


_KINDS = 8


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
