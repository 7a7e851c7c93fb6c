"""The report of a run in a terminal: one screen after an evaluation, all of it on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.attribution import LOSSES
from ragbench.safe_text import counted, shown_line
from ragbench.views import run_document
from ragbench.views.answers import answers_text, share_hint
from ragbench.views.document import number_text
from ragbench.views.labels import CORRECTED_COLUMNS, corrected_rows
from ragbench.views.metric_table import headings_without_room, metric_cell, metric_columns
from ragbench.views.report import sharing_remark
from ragbench.views.words import words_lines
from ragbench_cli.output import Blocks, Cell, draw, fitted_table, paragraph, styled, table

if TYPE_CHECKING:
    from rich.table import Table

    from ragbench.core.attribution import CauseCount
    from ragbench.core.comparison import ComparedRun
    from ragbench.core.gate_result import JudgedRun
    from ragbench.core.report import Correction, FailureGroup, Latency, Report, Summary

_STYLES = {"failed": "red", "unproved": "red", "reused": "dim", "recorded": "dim"}
"""The styles of counts, by how cases ended; in the table of metrics, of the columns of counts."""
_EXPECTED = {"retrieve": {"done", "recorded"}, "generate": {"answered", "abstained", "recorded"}}
"""How a stage ends in the ordinary case: a short screen leaves it out, for the sentence on the
answers counts the rest."""
_NAME_WIDTH = 24
"""Columns that the names of metrics are not folded below."""
_ERROR_TYPES = 8
"""Types of errors that are named."""
_LONGEST = 200
"""Letters of an error's message that are shown; report.json has the rest."""
_LONGEST_QUESTION = 60
"""Letters of the question of a case that failed."""


def print_report(report: Report, *, is_full: bool) -> None:
    """Prints a run's report; unless in full, what was asked for and what went wrong."""
    draw(_blocks(report, is_full=is_full))


def _blocks(report: Report, *, is_full: bool) -> Blocks:
    """The report from top to bottom: stages, metrics, causes, failures; in full the notes, too."""
    notes = list(report.notes)
    yield from _head(report, notes, is_full=is_full)
    yield from _metric_blocks(report, is_full=is_full)
    yield from _middle(report, is_full=is_full)
    # In short, a metric without a value is worth a line only where the user asked for it.
    if is_full or not run_document.has_default_metrics(report):
        unmeasured = run_document.unmeasured_text(report)
        if unmeasured:
            yield from paragraph("not measured", [unmeasured])
    if report.failures:
        yield from paragraph("failed", _failures(report.failures))
    if report.judging is not None:
        yield from paragraph("judge", run_document.judge_remarks(report.judging))
    if is_full:
        yield from _latency_blocks(report)
        reused = run_document.reused_text(report)
        if reused:
            reason = "Nothing that they came from has changed; --fresh asks again."
            notes.insert(0, f"{reused} {reason}")
        yield from paragraph("notes", notes)


def _metric_blocks(report: Report, *, is_full: bool) -> Blocks:
    """The table of metrics; in short with the times, which else have a table of their own."""
    if is_full:
        summaries = [summary for summary in report.summaries if summary.measured]
    else:
        summaries = list(run_document.headline_metrics(report))
    times = [summary for summary in summaries if summary.metric.definition.unit == "s"]
    if is_full and report.latencies:
        summaries = [summary for summary in summaries if summary not in times]
    if not summaries:
        return
    if is_full:  # in short each line counts
        yield ""
    yield _metric_table(summaries)
    if times and not is_full:
        remark = sharing_remark(report.latencies)
        if remark:
            yield f"  {remark}"


def _latency_blocks(report: Report) -> Blocks:
    """The times of the stages, where any were measured."""
    if not report.latencies:
        return
    yield ""
    yield _latency_table(report.latencies)
    remark = sharing_remark(report.latencies)
    if remark:
        yield f"  {remark}"


def _middle(report: Report, *, is_full: bool) -> Blocks:
    """What people, operators, causes and a validator say, where there are any."""
    if report.corrections:
        yield from corrected_blocks(report.corrections)
    if report.operators is not None:
        operators: list[list[str]] = []
        for name, *cells in run_document.operator_rows(report.operators):
            operators.append([f"  {name}", *cells])
        missed = ("moved", "added", "rewrote", "up", "down", "chunks")
        yield ""
        yield fitted_table(run_document.OPERATOR_COLUMNS, operators, missed=missed)
        yield from paragraph("operators", run_document.operator_remarks(report.operators))
    if report.causes:
        yield ""
        hint = share_hint(report, with_command=is_full)
        sentence: list[Cell] = [(answers_text(report), "bold")]
        if hint:
            sentence.append((f" {hint}.", "dim"))
        yield styled(*sentence)
        yield causes_table(report.causes)
    validation = report.validation
    if validation is not None:
        verdicts: list[list[str]] = []
        # The last column is a drawing, for the page.
        for name, *cells, _ in run_document.verdict_rows(validation):
            verdicts.append([f"  {name}", *cells])
        yield ""
        yield table(run_document.VERDICT_COLUMNS[:-1], verdicts)
        yield f"  by {validation.validator}"
        for line in words_lines(validation.words, of_run=True):
            yield f"  {line}"
        yield f"  {run_document.quality_text(validation)}"
        if validation.unmatched:
            cases = counted(validation.unmatched, "case")
            yield f"  neither an answer nor an abstention, but a verdict: {cases}"


def _head(report: Report, notes: list[str], *, is_full: bool) -> Blocks:
    """What was evaluated, and how each stage ended: in short, where it is not as expected.

    Args:
        notes: the notes of the report. Where retrieval could not be compared with the gold, the
            first says why, and is taken out.
    """
    if not report.is_comparable:
        yield styled((f"not comparable: {notes.pop(0)}", "red"))
        yield ""
    dataset = report.manifest["dataset"]
    rag = report.manifest["rag"]
    cases = counted(dataset["cases"], "case")
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")

    counts_by_stage = {stage.stage: run_document.stage_counts(stage) for stage in report.stages}
    if not is_full:
        for name, expected in _EXPECTED.items():
            words = {word for _, word in counts_by_stage.get(name, ())}
            if words and words <= expected:
                del counts_by_stage[name]
    width = max((len(name) for name in counts_by_stage), default=0) + 2
    for name, counts in counts_by_stage.items():
        parts: list[Cell] = [f"{name:<{width}}"]
        for count, word in counts:
            if len(parts) > 1:
                parts.append(", ")
            parts.append((f"{count:,} {word}", _STYLES.get(word, "")))
        yield styled(*parts)


def run_text(run: JudgedRun | ComparedRun) -> str:
    """A run's place, and what was run on what, in a line."""
    description = f"{run.rag} on {run.dataset}, {counted(run.cases, 'case')}"
    if run.version:
        description += f", commit {run.version}"
    averaged_runs = getattr(run, "runs", 1)
    if averaged_runs > 1:
        description += f", mean of {averaged_runs} runs"
    return f"{shown_line(run.source)}  ({shown_line(description)})"


def causes_table(causes: Sequence[CauseCount]) -> Table:
    """Where cases were lost, in the order of the stages."""
    rows: list[list[Cell]] = []
    for fall in run_document.waterfall(causes):
        style = "red" if fall.cause in LOSSES else ""
        rows.append(
            [f"  {fall.cause.label}", (f"{fall.cases:,}", style), f"{fall.share:.0%}", fall.note]
        )
    drawn = table(("what became of the cases", "cases", "share", ""), rows)
    drawn.columns[-1].justify = "left"  # a remark, and no number
    return drawn


def corrected_blocks(corrections: Sequence[Correction]) -> Blocks:
    """A metric's figures beside what people make of them, where they are labelled."""
    yield ""
    yield "corrected by labels of people"
    yield fitted_table(CORRECTED_COLUMNS, [*corrected_rows(corrections)], missed=("r",))


def _metric_table(summaries: Sequence[Summary]) -> Table:
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
        spare=max(0, longest_name - _NAME_WIDTH),
        gap=1,
    )


def _failures(failures: Sequence[FailureGroup]) -> Iterator[tuple[str, str]]:
    """A line for each type of error at each stage; the message of the most frequent kind."""
    groups_by_type: dict[tuple[str, str], list[FailureGroup]] = {}
    for group in failures:
        groups_by_type.setdefault((group.stage, group.type), []).append(group)
    for (stage, error), groups in list(groups_by_type.items())[:_ERROR_TYPES]:
        most_frequent = groups[0]
        count = sum(group.count for group in groups)
        message = shown_line(f"{error}: {most_frequent.message}", longest=_LONGEST)
        examples = f"as in {', '.join(most_frequent.examples[:3])}"
        if most_frequent.questions:
            question = shown_line(most_frequent.questions[0], longest=_LONGEST_QUESTION)
            examples = f"as in: {question}"
        if count > most_frequent.count:
            examples += f"; {count - most_frequent.count:,} of them with another message"
        yield f"{stage}, {counted(count, 'case')}: {message} ({examples})", "red"
    hidden_types = len(groups_by_type) - _ERROR_TYPES
    if hidden_types > 0:
        yield f"and {hidden_types:,} more types of error: see report.json", "red"


def _latency_table(latencies: Sequence[Latency]) -> Table:
    """A row for each stage that was timed."""
    # Of cases that share a call only the mean is known.
    is_any_alone = any(latency.sharing == 1 for latency in latencies)
    figures = ("mean", "p50", "p95", "longest") if is_any_alone else ("mean",)
    rows: list[list[str]] = []
    for latency in latencies:
        row = [f"  {latency.stage}", f"{latency.count:,}"]
        for figure in figures:
            row.append(number_text(getattr(latency, figure), "s"))
        rows.append(row)
    return table(("time per case", "n", *figures), rows)
