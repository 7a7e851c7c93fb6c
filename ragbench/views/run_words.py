"""What terminal, Markdown and page say alike of a run: metrics, causes, judges, operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragbench.core.attribution import Cause, CauseCount, CauseFlow
from ragbench.core.biography import OperatorTable
from ragbench.core.report import (
    Interval,
    JudgeLine,
    JudgeReport,
    Report,
    StageCount,
    Summary,
)
from ragbench.core.validation import ValidationTable
from ragbench.metrics.registry import default_metrics
from ragbench.safe_text import counted, shown_line
from ragbench.stats.mean import proportion_interval
from ragbench.views.document import Section

_HEADLINE = (
    *("recall@5", "nDCG@10", "answer_correct", "token_f1"),
    *("end_to_end_f1", "abstention_recall"),
)
"""Of the default metrics, those that a short screen shows."""


def measured_metrics(report: Report) -> list[Summary]:
    """The metrics that have a figure."""
    return [one for one in report.summaries if one.measured]


def has_default_metrics(report: Report) -> bool:
    """Whether nobody named metrics, or the default ones with others."""
    names = {metric.name for metric in report.metrics}
    return all(metric.name in names for metric in default_metrics())


def headline_metrics(report: Report) -> list[Summary]:
    """Those with a figure that somebody named; of the default ones the most telling."""
    rest: set[str] = set()
    if has_default_metrics(report):
        rest = {metric.name for metric in default_metrics()}.difference(_HEADLINE)
    return [one for one in measured_metrics(report) if one.metric.name not in rest]


def unmeasured_text(report: Report) -> str | None:
    """The metrics without a figure, each reason with its count; None without any."""
    groups = [
        (names, [f"{why} ({count:,})" if count else why for why, count in reasons])
        for names, reasons in why_not_measured(one for one in report.summaries if not one.measured)
    ]
    return "; ".join(f"{', '.join(names)}: {', '.join(why)}" for names, why in groups) or None


def why_not_measured(
    summaries: Iterable[Summary],
) -> list[tuple[tuple[str, ...], tuple[tuple[str, int], ...]]]:
    """Metrics that lack a value for some case, those with the same reasons together."""
    found: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for summary in summaries:
        if summary.measured < summary.total or not summary.total:
            reasons = summary.reasons or (("no case", 0),)
            found.setdefault(reasons, []).append(summary.metric.name)
    return [(tuple(names), reasons) for reasons, names in found.items()]


_STAGES = 3


class Fall(NamedTuple):
    """One step of the waterfall."""

    cause: Cause
    cases: int
    left: int
    """Cases that are left after it."""
    share: float
    """Of all cases."""
    note: str
    """By which operator, and how many are estimates; empty when there is nothing to say."""


def waterfall(causes: Sequence[CauseCount]) -> tuple[Fall, ...]:
    """The causes in order, with what each leaves of the cases."""
    total = left = sum(count.cases for count in causes)
    found: list[Fall] = []
    for count in causes:
        left -= count.cases
        notes = [f"{count.estimated:,} estimated"] if count.estimated else []
        if count.stages and count.cause in (Cause.DROPPED, Cause.FAILED):
            rest = len(count.stages) - _STAGES
            named = [f"{shown_line(name, longest=60)} {n:,}" for name, n in count.stages[:_STAGES]]
            notes.insert(0, ", ".join(named) + (f" and {rest} more" if rest > 0 else ""))
        note = "; ".join(notes)
        found.append(Fall(count.cause, count.cases, left, count.cases / total, note))
    return tuple(found)


def causes_section(causes: Sequence[CauseCount]) -> Section:
    rows = [
        (fall.cause.label, f"{fall.cases:,}", f"{fall.share:.0%}", f"{fall.left:,}", fall.note)
        for fall in (waterfall(causes) if causes else ())
    ]
    columns = ("what became of the cases", "cases", "share", "left", "by")
    return Section(title="Where the answers were lost", columns=columns, rows=rows)


def flow_text(flow: CauseFlow) -> str:
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def judge_remarks(judging: JudgeReport) -> Iterator[str]:
    """What a reader must know of a run's judges: proofs, agreement, what it is wrong about."""
    for line in judging.lines:
        yield from _of(line)
    for metric in dict.fromkeys(line.metric for line in judging.canaries):
        lines = [line for line in judging.canaries if line.metric == metric]
        judged, wrong = sum(line.judged for line in lines), sum(line.wrong for line in lines)
        if not judged:
            yield f"{metric}: no canary got a verdict"
            continue
        low, high = proportion_interval(wrong, judged)
        kinds = ", ".join(f"{line.kind} {line.wrong:,} of {line.judged:,}" for line in lines)
        yield (
            f"{metric}: the judge is wrong about {wrong:,} of {judged:,} canaries "
            f"({wrong / judged:.1%}, {low:.1%} .. {high:.1%}): {kinds}"
        )


def _of(line: JudgeLine) -> Iterator[str]:
    if line.fabricated_quotes:
        yield (
            f"{line.metric}: {line.fabricated_quotes:,} of {line.quotes:,} quotes of the judge "
            f"stand in no context ({line.fabricated_rate:.1%})"
        )
    if line.not_sent:
        names = ", ".join(line.not_sent)
        yield f"{line.metric}: the endpoint refuses {names}; the judge was asked without"
    for juror in line.jurors:
        score = "-" if juror.score is None else f"{juror.score:.3f}"
        unproved = f", {juror.unproved:,} unproved" if juror.unproved else ""
        yield f"{line.metric} by {juror.judge}: {score} over {juror.measured:,} cases{unproved}"
    for pair in line.pairs:
        if pair.same is None:
            continue
        kappa = "" if pair.kappa is None else f", kappa {pair.kappa:.2f}"
        yield (
            f"{line.metric}: {pair.first} and {pair.second} say the same of {pair.same:.0%} of "
            f"{pair.cases:,} cases{kappa}"
        )


OPERATOR_COLUMNS = (
    "operator", "acted", "chunks", "dropped", "moved", "rewrote", "added", "gold", "lost", "up",
    "down",
)  # fmt: skip
"""Cases in which it changed something; chunks that it was given, dropped, moved, rewrote, added;
gold contexts that it was given, lost, and moved up and down."""
_NOTES = 3


def operator_rows(table: OperatorTable) -> Iterator[tuple[str, ...]]:
    """A row an operator, under `OPERATOR_COLUMNS`."""
    for one in table.operators:
        counts = (
            *(one.given, one.dropped, one.moved, one.rewritten, one.added),
            *(one.gold_given, one.gold_lost, one.gold_up, one.gold_down),
        )
        shown = (f"{count:,}" if count else "-" for count in counts)
        yield (one.operator, f"{one.acted:,} of {one.cases:,}", *shown)


def operator_remarks(table: OperatorTable) -> Iterator[str]:
    """What a reader should know of the operators, a sentence each: the losses first."""
    for one in table.losers:
        lost, examples = counted(one.lost_for_good, "gold context"), ", ".join(one.examples[:3])
        yield f"{one.operator} lost {lost} that generation was not given (as in {examples})."
    if table.gold:
        missing = table.gold - table.found
        never = f" {counted(missing, 'gold context')} never found." if missing else ""
        found = counted(table.found, "gold context")
        yield f"Of {found} that were found, generation was given {table.kept:,}.{never}"
    for reason, cases in table.no_gold:
        yield f"Nothing is said of the gold of {cases:,} cases: {reason}."
    for one in table.operators:
        notes = one.notes[:_NOTES]
        if not one.acted:
            why = " ".join(f" It said: {note} ({cases:,} cases)." for note, cases in notes)
            yield f"{one.operator} did not act in any of {one.cases:,} cases.{why}"
        else:
            for note, cases in notes:
                yield f"{one.operator}: {note} ({cases:,} of {one.cases:,} cases)."


VERDICT_COLUMNS = (
    *("answer in the chunks", "the system", "cases", "rate", "95% interval", "that is"),
)


def verdict_rows(table: ValidationTable) -> Iterator[tuple[str, ...]]:
    """What the system made of what a validator found, under `VERDICT_COLUMNS`."""
    for cell in table.matrix:
        low, high = cell.rate.low, cell.rate.high
        yield (
            "yes" if cell.answer_present else "not shown",
            "answered" if cell.answered else "abstained",
            f"{cell.rate.count:,} of {cell.rate.total:,}",
            number_text(cell.rate.share),
            "-" if low is None or high is None else f"{low:.3f} .. {high:.3f}",
            cell.meaning,
        )


def quality_text(table: ValidationTable) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in table.quality.items())
    return f"Retrieval quality: {counts}."


def stage_counts(stage: StageCount) -> list[tuple[int, str]]:
    """How a stage ended, and where from its outcomes are; what there is of it."""
    counts = (
        (stage.measured, "answered" if stage.stage == "generate" else "done"),
        (stage.abstained, "abstained"),
        (stage.skipped, "skipped"),
        (stage.failed, "failed"),
        (stage.reused, "reused"),
        (stage.recorded, "recorded"),
    )
    return [(count, word) for count, word in counts if count]


def number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def interval_text(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.3f} .. {interval.high:.3f}"
