"""The report of a run in a terminal: one screen after an evaluation, all of it on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
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
    from ragbench.core.biography import OperatorTable
    from ragbench.core.comparison import ComparedRun
    from ragbench.core.gate_result import JudgedRun
    from ragbench.core.report import Correction, FailureGroup, Latency, Report, Summary
    from ragbench.core.validation import ValidationTable

_STYLES = {"failed": "red", "unproved": "red", "reused": "dim", "recorded": "dim"}
"""The styles of counts, by how cases ended; in the table of metrics, of the columns of counts."""
_EXPECTED = {"retrieve": {"done", "recorded"}, "generate": {"answered", "abstained", "recorded"}}
"""How a stage ends in the ordinary case: a short screen leaves it out, for the sentence on the
answers counts the rest."""
_NAME_WIDTH = 24
"""Columns that the names of metrics are not folded below."""
_MOST_ERROR_TYPES = 8
"""Types of errors that are named."""
_MOST_EXAMPLES = 3
"""Cases that are named for each type of error."""
_LONGEST_MESSAGE = 200
"""Letters of an error's message that are shown; report.json has the rest."""
_LONGEST_QUESTION = 60
"""Letters of the question of a case that failed."""


def print_report(report: Report, *, is_full: bool) -> None:
    """Prints a run's report on standard output.

    Files of the report hold the same figures.

    Args:
        is_full: all of it, for ``ragbench report``. Else one screen, for the end of an
            evaluation: what was asked for, and what went wrong.
    """
    draw(_report_blocks(report, is_full=is_full))


def _report_blocks(report: Report, *, is_full: bool) -> Blocks:
    """The blocks of a report on a screen: stages, metrics, causes, failures.

    In full the notes are among them. Notes explain figures and ask for nothing, so that a short
    screen does without them. All that a user must act on (failures, a judge that is not to be
    relied on) is in both forms.
    """
    notes = list(report.notes)
    yield from _head_blocks(report, notes, is_full=is_full)
    yield from _metric_blocks(report, is_full=is_full)
    yield from _loss_blocks(report, is_full=is_full)
    # In short, a metric without a value is worth a line only where the user asked for it.
    if is_full or not run_document.has_default_metrics(report):
        unmeasured = run_document.unmeasured_text(report)
        if unmeasured:
            yield from paragraph("not measured", [unmeasured])
    if report.failures:
        yield from paragraph("failed", _failure_lines(report.failures))
    if report.judging is not None:
        yield from paragraph("judge", run_document.judge_remarks(report.judging))
    if is_full:
        yield from _latency_blocks(report)
        reused = run_document.reused_text(report)
        if reused:
            reason = "Nothing that they came from has changed; --fresh asks again."
            # Above the other notes: reused outcomes explain why a run was quick.
            notes.insert(0, f"{reused} {reason}")
        yield from paragraph("notes", notes)


def _metric_blocks(report: Report, *, is_full: bool) -> Blocks:
    """The table of metrics on a screen; in short with the times, which else have their own table.

    A time per case that was measured over a call of several cases gets a remark in either form:
    it is no latency of a single question.
    """
    if is_full:
        summaries = [summary for summary in report.summaries if summary.measured]
    else:
        summaries = list(run_document.headline_metrics(report))
    times = [summary for summary in summaries if summary.metric.definition.unit == "s"]
    # In full, `_latency_blocks` shows the times.
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
    """The table of how long a case took in each stage, where any time was measured.

    Where cases shared calls, a remark says why there are no percentiles.
    """
    if not report.latencies:
        return
    yield ""
    yield _latency_table(report.latencies)
    remark = sharing_remark(report.latencies)
    if remark:
        yield f"  {remark}"


def _loss_blocks(report: Report, *, is_full: bool) -> Blocks:
    """The middle of a report on a screen.

    It shows where the answers were lost, by labels, operators and causes. Together they are the
    answer to "where were the answers lost?", between the figures of a report, which say how many,
    and its failures.
    """
    if report.corrections:
        yield from corrected_blocks(report.corrections)
    if report.operators is not None:
        yield from _operator_blocks(report.operators)
    if report.causes:
        yield ""
        hint = share_hint(report, with_command=is_full)
        sentence: list[Cell] = [(answers_text(report), "bold")]
        if hint:
            sentence.append((f" {hint}.", "dim"))
        yield styled(*sentence)
        yield causes_table(report.causes)
    if report.validation is not None:
        yield from _validation_blocks(report.validation)


def _operator_blocks(operators: OperatorTable) -> Blocks:
    """The table of how each operator of post-retrieval treated chunks and gold, on a screen.

    Gold is the content that answers a question.

    In a narrow terminal the columns on chunks go first: what became of the gold is the result.
    """
    rows: list[list[str]] = []
    for name, *cells in run_document.operator_rows(operators):
        # Indented below the table's heading, as the operators are a part of the report.
        rows.append([f"  {name}", *cells])
    # Columns that a narrow screen leaves out, the first ones first; those on the gold always stay.
    missed = ("moved", "added", "rewrote", "up", "down", "chunks")
    yield ""
    yield fitted_table(run_document.OPERATOR_COLUMNS, rows, missed=missed)
    yield from paragraph("operators", run_document.operator_remarks(operators))


def _validation_blocks(validation: ValidationTable) -> Blocks:
    """The table of how often the system answered with and without evidence, by a validator.

    To answer without evidence is the failure that users of a RAG notice last.
    """
    rows: list[list[str]] = []
    # The last column is a drawing, for the page.
    for name, *cells, _ in run_document.verdict_rows(validation):
        rows.append([f"  {name}", *cells])
    yield ""
    yield table(run_document.VERDICT_COLUMNS[:-1], rows)
    # Figures of another validator do not compare, so its name is always shown.
    yield f"  by {validation.validator}"
    for line in words_lines(validation.words, of_run=True):
        yield f"  {line}"
    yield f"  {run_document.quality_text(validation)}"
    if validation.unmatched:
        cases = counted(validation.unmatched, "case")
        yield f"  neither an answer nor an abstention, but a verdict: {cases}"


def _head_blocks(report: Report, notes: list[str], *, is_full: bool) -> Blocks:
    """The head of a report on a screen: system and dataset, and how each stage ended.

    In short only stages that did not end as expected are shown.

    Args:
        notes: the notes of the report. Where retrieval could not be compared with the gold, the
            first says why, and is taken out.
    """
    if not report.is_comparable:
        reason = notes.pop(0)
        yield styled((f"not comparable: {reason}", "red"))
        yield ""
    dataset = report.manifest["dataset"]
    rag = report.manifest["rag"]
    cases = counted(dataset["cases"], "case")
    yield styled((rag["name"], "bold"), " on ", (dataset["name"], "bold"), f": {cases}")

    counts_by_stage: dict[str, list[tuple[int, str]]] = {}
    for stage in report.stages:
        counts = run_document.stage_counts(stage)
        expected = _EXPECTED.get(stage.stage, set[str]())
        words = {word for _, word in counts}
        # A stage with an unexpected word, such as "failed", is shown also in short.
        if is_full or not words or not words <= expected:
            counts_by_stage[stage.stage] = counts
    # The counts of all stages begin in one column.
    width = max((len(name) for name in counts_by_stage), default=0) + 2
    for name, counts in counts_by_stage.items():
        parts: list[Cell] = [f"{name:<{width}}"]
        for count, word in counts:
            if len(parts) > 1:
                parts.append(", ")
            style = _STYLES.get(word, "")
            parts.append((f"{count:,} {word}", style))
        yield styled(*parts)


def run_text(run: JudgedRun | ComparedRun) -> str:
    """A run's place, and what was run on what, in a line.

    A gate and a comparison begin with it, so that a reader sees which runs the figures are of.
    """
    cases = counted(run.cases, "case")
    description = f"{run.rag} on {run.dataset}, {cases}"
    if run.version:
        description += f", commit {run.version}"
    # A compared run is always a single one, and has no such field.
    averaged_runs = getattr(run, "runs", 1)
    if averaged_runs > 1:
        description += f", mean of {averaged_runs} runs"
    return f"{shown_line(run.source)}  ({shown_line(description)})"


def causes_table(causes: Sequence[CauseCount]) -> Table:
    """The table of where cases were lost, by cause in the order of the stages.

    The first large number is where to begin. Reports and ``ragbench explain`` print it.
    """
    rows: list[list[Cell]] = []
    for fall in run_document.waterfall(causes):
        style = ""
        if fall.cause in LOSSES:
            style = "red"
        count: Cell = (f"{fall.cases:,}", style)
        rows.append([f"  {fall.cause.label}", count, f"{fall.share:.0%}", fall.note])
    drawn = table(("what became of the cases", "cases", "share", ""), rows)
    drawn.columns[-1].justify = "left"  # a remark, and no number
    return drawn


def corrected_blocks(corrections: Sequence[Correction]) -> Blocks:
    """The table of a metric's figures beside those that labels of people make of them.

    Reports, gates and comparisons have this block: where it is, its figures are the ones to quote.
    """
    rows = list(corrected_rows(corrections))
    yield ""
    yield "corrected by labels of people"
    # r, how well metric and labels agree, goes first where room is short.
    yield fitted_table(CORRECTED_COLUMNS, rows, missed=("r",))


def _metric_table(summaries: Sequence[Summary]) -> Table:
    """The table of metrics on a screen, a row for each; names stay readable in a narrow terminal.

    How many cases there are is the same in all rows, and goes into the heading of the column.
    """
    columns = metric_columns("terminal", summaries)
    headings: list[str] = []
    # The total is the same for all metrics of a run.
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
            # A dash has no colour: red for no failure would alarm.
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


def _failure_lines(failures: Sequence[FailureGroup]) -> Iterator[tuple[str, str]]:
    """The red lines of a report: one for each type of error at each stage, with its first message.

    A report groups failures by their messages too, and these may differ in each case (an id, a
    time): a line for each message would hide the second type of error below the first.
    """
    groups_by_type: dict[tuple[str, str], list[FailureGroup]] = {}
    for group in failures:
        # By stage and type: the same error at two stages has two causes.
        groups_by_type.setdefault((group.stage, group.type), []).append(group)
    for (stage, error), groups in islice(groups_by_type.items(), _MOST_ERROR_TYPES):
        most_frequent = groups[0]  # the groups of a report are sorted by their cases
        count = sum(group.count for group in groups)
        message = shown_line(f"{error}: {most_frequent.message}", longest=_LONGEST_MESSAGE)
        if most_frequent.questions:
            question = shown_line(most_frequent.questions[0], longest=_LONGEST_QUESTION)
            examples = f"as in: {question}"
        else:
            examples = f"as in {', '.join(most_frequent.examples[:_MOST_EXAMPLES])}"
        # Failures of the type with other messages: only the most frequent message is shown.
        with_another_message = count - most_frequent.count
        if with_another_message:
            examples += f"; {with_another_message:,} of them with another message"
        cases = counted(count, "case")
        yield f"{stage}, {cases}: {message} ({examples})", "red"
    hidden_types = len(groups_by_type) - _MOST_ERROR_TYPES
    if hidden_types > 0:
        yield f"and {hidden_types:,} more types of error: see report.json", "red"


def _latency_table(latencies: Sequence[Latency]) -> Table:
    """The table of how long a case took in each stage that was timed, with mean and quantiles.

    Of cases that share a call only the mean is known.
    """
    figures: Sequence[str] = ("mean", "p50", "p95", "longest")
    # Of cases that share a call only the mean is known.
    if all(latency.sharing > 1 for latency in latencies):
        figures = ("mean",)
    rows: list[list[str]] = []
    for latency in latencies:
        row = [f"  {latency.stage}", f"{latency.count:,}"]
        for figure in figures:
            row.append(number_text(getattr(latency, figure), "s"))
        rows.append(row)
    return table(("time per case", "n", *figures), rows)
