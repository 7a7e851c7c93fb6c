"""The report of a run in a terminal: one screen after an evaluation, all of it on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.safe_text import counted, shown_line
from ragbench.views.labels import CORRECTED_COLUMNS, corrected_rows
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
    right_text,
    stage_counts,
    unmeasured_text,
    verdict_rows,
)
from ragbench_cli.console import data_console
from ragbench_cli.tables import causes_table, draw, fitted_table, paragraph, styled, table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from ragbench.core.biography import OperatorTable
    from ragbench.core.report import Correction, FailureGroup, Report, Summary
    from ragbench.core.validation import ValidationTable
    from ragbench_cli.tables import Cell

_BAD = ("failed", "unproved")

_NAMES = 24
"""Columns that the names of metrics are not folded below."""


def print_report(report: Report, *, is_full: bool) -> None:
    """Prints a run's report; unless in full, what was asked for and what went wrong."""
    console = data_console()
    draw(console, _blocks(report, console, is_full=is_full))


def _blocks(report: Report, console: Console, *, is_full: bool) -> Iterator[RenderableType]:
    notes = [note for note in report.notes if is_full or note not in report.asides]
    yield from _head(report, notes, is_full=is_full)
    rows = measured_metrics(report) if is_full else headline_metrics(report)
    times = [one for one in rows if _is_latency(one)]
    if is_full:  # which has a table of them
        rows = [one for one in rows if one not in times]
    remark = sharing_remark(report.latencies) if times or is_full else None
    if rows:
        yield ""
        yield _metrics(rows, console)
        if remark and not is_full:
            yield f"  {remark}"
    if report.corrections:
        yield from corrected_blocks(report.corrections, console)
    yield from _middle(report, console, says_unmeasured=is_full or not has_default_metrics(report))
    if is_full and report.latencies:
        yield ""
        yield _latencies(report)
        if remark:
            yield f"  {remark}"
    yield from paragraph("notes", (*(_reuse(report) if is_full else ()), *notes))


def _head(report: Report, notes: list[str], *, is_full: bool) -> Iterator[RenderableType]:
    """What was evaluated, and how each stage ended: in short, where it is not as expected.

    Why retrieval could not be compared with the gold is the first note, which it takes out.
    """
    if not report.is_comparable:
        yield styled((f"not comparable: {notes.pop(0)}", "red"))
        yield ""
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    cases = counted(dataset["cases"], "case")
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")
    shown = [(stage.stage, stage_counts(stage)) for stage in report.stages]
    if not is_full:
        shown = [
            one for one in shown if one[0] != "retrieve" or [word for _, word in one[1]] != ["done"]
        ]
    width = max((len(name) for name, _ in shown), default=0) + 2
    styles = {"failed": "red", "reused": "dim", "recorded": "dim"}
    for name, counts in shown:
        parts: list[Cell] = [f"{name:<{width}}"]
        for at, (count, word) in enumerate(counts):
            parts += [", "] if at else []
            parts.append((f"{count:,} {word}", styles.get(word, "")))
        yield styled(*parts)


def corrected_blocks(
    corrections: Sequence[Correction], console: Console
) -> Iterator[RenderableType]:
    """A judge's figures beside what people say, where they are labelled."""
    rows = [*corrected_rows(corrections)]
    yield ""
    yield "corrected by labels of people"
    yield fitted_table(console, CORRECTED_COLUMNS, rows, missed=("r",))


def _middle(report: Report, console: Console, *, says_unmeasured: bool) -> Iterator[RenderableType]:
    if report.operators is not None:
        yield ""
        yield from operator_blocks(report.operators, console)
    if report.causes:
        yield ""
        yield styled((right_text(report.right), "bold"))
        yield causes_table(report.causes)
    if report.validation is not None:
        yield from _validation(report.validation)
    if says_unmeasured and (text := unmeasured_text(report)):
        yield from paragraph("not measured", [text])
    if report.failures:
        yield from paragraph("failed", _failures(report))
    if report.judging is not None:
        yield from paragraph("judge", judge_remarks(report.judging))


def _reuse(report: Report) -> Iterator[str]:
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if counts:
        since = (report.reused_from or "").replace("T", " ")[:16]
        yield (
            f"Reused from the run of {since}: {', '.join(counts)}. Nothing that they came from has "
            "changed; --fresh asks again."
        )


def _metrics(summaries: Sequence[Summary], console: Console) -> Table:
    """The metrics that have a figure; names stay readable in a narrow terminal."""
    counts = ("abstained", "skipped", "failed", "unproved")
    columns = ("metric", "score", "95% interval", f"n of {summaries[0].total:,}", *counts)
    rows: list[Sequence[Cell]] = []
    for one in summaries:
        unit, interval = one.metric.definition.unit, one.interval
        ends = () if interval is None else (interval.low, interval.high)
        numbers = [(name, getattr(one, name)) for name in counts]
        rows.append(
            (
                one.metric.name,
                (_number(one.score, unit), "bold"),
                " .. ".join(_number(end, unit) for end in ends) or "-",
                f"{one.measured:,}",
                *((f"{n:,}", "red" if name in _BAD else "") if n else "-" for name, n in numbers),
            )
        )
    return fitted_table(
        console,
        columns,
        rows,
        missed=("", "skipped", "abstained", "95% interval", "failed", "unproved"),
        sparse=True,
        spare=max(0, max(len(one.metric.name) for one in summaries) - _NAMES),
        gap=1,
    )


_MISSED_OF_OPERATORS = ("moved", "added", "rewrote", "up", "down", "chunks")
"""Columns that a narrow terminal goes without, in this order."""


def operator_blocks(found: OperatorTable, console: Console) -> Iterator[RenderableType]:
    """What the operators of post-retrieval did, and what they said."""
    rows = [(f"  {name}", *cells) for name, *cells in operator_rows(found)]
    yield fitted_table(console, OPERATOR_COLUMNS, rows, missed=_MISSED_OF_OPERATORS)
    yield from paragraph("operators", operator_remarks(found))


def _validation(found: ValidationTable) -> Iterator[RenderableType]:
    yield ""
    rows = ((f"  {shown}", *cells) for shown, *cells, _ in verdict_rows(found))
    yield table(VERDICT_COLUMNS[:-1], rows)
    yield styled(f"  by {found.validator}, which says yes only where it is sure.")
    yield styled(f"  {quality_text(found)}")
    if found.unmatched:
        yield styled(f"  {found.unmatched:,} cases with a verdict have no answer, no abstention")


def _is_latency(summary: Summary) -> bool:
    definition = summary.metric.definition
    return definition.unit == "s" and not definition.deterministic


_KINDS = 8


def _failures(report: Report) -> Iterator[tuple[str, str]]:
    """A line for each type of error at each stage; the message of the most frequent kind."""
    kinds: dict[tuple[str, str], list[FailureGroup]] = {}
    for group in report.failures:
        kinds.setdefault((group.stage, group.type), []).append(group)
    for (stage, error), groups in list(kinds.items())[:_KINDS]:
        count = sum(group.count for group in groups)
        message = shown_line(f"{error}: {groups[0].message}", longest=_LONGEST)
        others = f", {len(groups) - 1:,} more messages" if len(groups) > 1 else ""
        examples = [example for group in groups for example in group.examples][:3]
        text = f"{stage}, {counted(count, 'case')}: {message} (as in {', '.join(examples)}{others})"
        yield text, "red"
    if len(kinds) > _KINDS:
        yield f"and {len(kinds) - _KINDS:,} more types of error: see report.json", "red"


_LONGEST = 200
"""Letters of an error's message that are shown; report.json has the rest."""


def _latencies(report: Report) -> Table:
    some_alone = any(latency.sharing == 1 for latency in report.latencies)
    figures = ("p50", "p95", "longest") if some_alone else ()
    rows: list[list[str]] = []
    for one in report.latencies:
        times = (one.mean, *(getattr(one, figure) for figure in figures))
        cells = ("-" if time is None else _seconds(time) for time in times)
        rows.append([f"  {one.stage}", f"{one.count:,}", *cells])
    return table(("time per case", "n", "mean", *figures), rows)


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
