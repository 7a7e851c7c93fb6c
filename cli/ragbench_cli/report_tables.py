"""The report of a run in a terminal: one screen after an evaluation, all of it on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.attribution import LOSSES
from ragbench.safe_text import counted, shown_line
from ragbench.views import run_document
from ragbench.views.document import number_text
from ragbench.views.labels import CORRECTED_COLUMNS, corrected_rows
from ragbench.views.metric_table import headings_without_room, metric_cell, metric_columns
from ragbench.views.report import sharing_remark
from ragbench_cli.output import Blocks, Cell, draw, fitted_table, paragraph, styled, table

if TYPE_CHECKING:
    from rich.table import Table

    from ragbench.core.attribution import CauseCount
    from ragbench.core.comparison import ComparedRun
    from ragbench.core.gate_result import JudgedRun
    from ragbench.core.report import Correction, FailureGroup, Latency, Report, Summary

_STYLES = {"failed": "red", "unproved": "red", "reused": "dim", "recorded": "dim"}
_NAMES = 24
"""Columns that the names of metrics are not folded below."""
_KINDS = 8
"""Types of errors that are named."""
_LONGEST = 200
"""Letters of an error's message that are shown; report.json has the rest."""


def print_report(report: Report, *, is_full: bool) -> None:
    """Prints a run's report; unless in full, what was asked for and what went wrong."""
    draw(_blocks(report, is_full=is_full))


def _blocks(report: Report, *, is_full: bool) -> Blocks:
    notes = [note for note in report.notes if is_full or note not in report.asides]
    yield from _head(report, notes, is_full=is_full)
    measured = [one for one in report.summaries if one.measured]
    rows = measured if is_full else run_document.headline_metrics(report)
    times = [one for one in rows if one.metric.definition.unit == "s"]
    if is_full and report.latencies:  # which have a table of their own
        rows = [one for one in rows if one not in times]
    remark = sharing_remark(report.latencies) if times or is_full else None
    if rows:
        yield ""
        yield _metrics(rows)
        if remark and not is_full:
            yield f"  {remark}"
    yield from _middle(report)
    if (is_full or not run_document.has_default_metrics(report)) and (
        text := run_document.unmeasured_text(report)
    ):
        yield from paragraph("not measured", [text])
    if report.failures:
        yield from paragraph("failed", _failures(report.failures))
    if report.judging is not None:
        yield from paragraph("judge", run_document.judge_remarks(report.judging))
    if is_full and report.latencies:
        yield ""
        yield _latencies(report.latencies)
        if remark:
            yield f"  {remark}"
    if is_full and (reused := run_document.reused_text(report)):
        notes.insert(0, f"{reused} Nothing that they came from has changed; --fresh asks again.")
    yield from paragraph("notes", notes)


def _middle(report: Report) -> Blocks:
    """What people, operators, causes and a validator say, where there are any."""
    if report.corrections:
        yield from corrected_blocks(report.corrections)
    if report.operators is not None:
        yield ""
        operators = [
            (f"  {name}", *cells) for name, *cells in run_document.operator_rows(report.operators)
        ]
        missed = ("moved", "added", "rewrote", "up", "down", "chunks")
        yield fitted_table(run_document.OPERATOR_COLUMNS, operators, missed=missed)
        yield from paragraph("operators", run_document.operator_remarks(report.operators))
    if report.causes:
        yield ""
        yield styled((run_document.right_text(report.right), "bold"))
        yield causes_table(report.causes)
    if (found := report.validation) is not None:
        yield ""
        yield table(
            run_document.VERDICT_COLUMNS[:-1],
            ((f"  {a}", *more) for a, *more, _ in run_document.verdict_rows(found)),
        )
        yield f"  by {found.validator}, which says yes only where it is sure."
        yield f"  {run_document.quality_text(found)}"
        if found.unmatched:
            yield f"  {found.unmatched:,} cases with a verdict have no answer, no abstention"


def _head(report: Report, notes: list[str], *, is_full: bool) -> Blocks:
    """What was evaluated, and how each stage ended: in short, where it is not as expected.

    Why retrieval could not be compared with the gold is the first note, which it takes out.
    """
    if not report.is_comparable:
        yield styled((f"not comparable: {notes.pop(0)}", "red"))
        yield ""
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    cases = counted(dataset["cases"], "case")
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")
    shown = [(stage.stage, run_document.stage_counts(stage)) for stage in report.stages]
    if not is_full:
        shown = [
            one for one in shown if one[0] != "retrieve" or [word for _, word in one[1]] != ["done"]
        ]
    width = max((len(name) for name, _ in shown), default=0) + 2
    for name, counts in shown:
        parts: list[Cell] = [f"{name:<{width}}"]
        for at, (count, word) in enumerate(counts):
            parts += [", "] if at else []
            parts.append((f"{count:,} {word}", _STYLES.get(word, "")))
        yield styled(*parts)


def run_text(run: JudgedRun | ComparedRun) -> str:
    """A run's place, and what it is, in a line."""
    commit = f", commit {run.version}" if run.version else ""
    several = getattr(run, "runs", 1)
    runs = f", mean of {several} runs" if several > 1 else ""
    what = f"{run.rag} on {run.dataset}, {run.cases:,} cases{commit}{runs}"
    return f"{shown_line(run.source)}  ({shown_line(what)})"


def causes_table(causes: Sequence[CauseCount]) -> Table:
    rows = (
        (
            f"  {fall.cause.label}",
            (f"{fall.cases:,}", "red" if fall.cause in LOSSES else ""),
            f"{fall.share:.0%}",
            fall.note,
        )
        for fall in run_document.waterfall(causes)
    )
    return table(("what became of the cases", "cases", "share", ""), rows)


def corrected_blocks(corrections: Sequence[Correction]) -> Blocks:
    """A judge's figures beside what people say, where they are labelled."""
    yield ""
    yield "corrected by labels of people"
    yield fitted_table(CORRECTED_COLUMNS, [*corrected_rows(corrections)], missed=("r",))


def _metrics(summaries: Sequence[Summary]) -> Table:
    """The metrics that have a figure; names stay readable in a narrow terminal."""
    columns = metric_columns("terminal", summaries)
    headings: list[str] = []
    for column in columns:
        if column.is_of_total:
            headings.append(f"n of {summaries[0].total:,}")
        else:
            headings.append(column.heading)
    rows: list[Sequence[Cell]] = []
    for summary in summaries:
        row: list[Cell] = []
        for column in columns:
            text = metric_cell(column, summary, unit=summary.metric.definition.unit)
            if column.heading == "score":
                row.append((text, "bold"))
            elif text == "-":
                row.append(text)
            else:
                row.append((text, _STYLES.get(column.heading, "")))
        rows.append(row)
    longest_name = max(len(summary.metric.name) for summary in summaries)
    return fitted_table(
        headings,
        rows,
        missed=("", *headings_without_room(columns)),  # before any column goes, the gaps do
        sparse=True,
        spare=max(0, longest_name - _NAMES),
        gap=1,
    )


def _failures(failures: Sequence[FailureGroup]) -> Iterator[tuple[str, str]]:
    """A line for each type of error at each stage; the message of the most frequent kind."""
    kinds: dict[tuple[str, str], list[FailureGroup]] = {}
    for group in failures:
        kinds.setdefault((group.stage, group.type), []).append(group)
    for (stage, error), groups in [*kinds.items()][:_KINDS]:
        count = sum(group.count for group in groups)
        message = shown_line(f"{error}: {groups[0].message}", longest=_LONGEST)
        more = count - groups[0].count
        others = f"; {more:,} of them with another message" if more else ""
        examples = ", ".join(groups[0].examples[:3])
        yield f"{stage}, {counted(count, 'case')}: {message} (as in {examples}{others})", "red"
    if len(kinds) > _KINDS:
        yield f"and {len(kinds) - _KINDS:,} more types of error: see report.json", "red"


def _latencies(latencies: Sequence[Latency]) -> Table:
    some_alone = any(latency.sharing == 1 for latency in latencies)
    figures = ("mean", "p50", "p95", "longest") if some_alone else ("mean",)
    return table(
        ("time per case", "n", *figures),
        (
            (
                f"  {one.stage}",
                f"{one.count:,}",
                *(number_text(getattr(one, f), "s") for f in figures),
            )
            for one in latencies
        ),
    )
