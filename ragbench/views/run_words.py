"""What terminal, Markdown and page say alike of a run: metrics, causes, judges, operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragbench.core.attribution import Cause, CauseCount, CauseFlow
from ragbench.core.biography import OperatorEffect, OperatorTable
from ragbench.core.report import (
    FailureGroup,
    Interval,
    JudgeLine,
    JudgeReport,
    Report,
    StageCount,
    Summary,
)
from ragbench.core.validation import ValidationTable
from ragbench.metrics.registry import default_metrics
from ragbench.safe_text import shown_line
from ragbench.stats.mean import proportion_interval
from ragbench.views.document import Section

_HEADLINE = (
    *("recall@5", "nDCG@10", "answer_correct", "token_f1"),
    *("end_to_end_f1", "abstention_recall"),
)
"""Of the default metrics, those that a short screen shows."""


def measured_metrics(report: Report, *, timed: bool) -> list[Summary]:
    """The metrics that have a figure."""
    known = (one for one in report.summaries if timed or one.metric.definition.deterministic)
    return [one for one in known if one.measured]


def has_default_metrics(report: Report) -> bool:
    """Whether nobody named metrics, or the default ones with others."""
    names = {metric.name for metric in report.metrics}
    return all(metric.name in names for metric in default_metrics())


def headline_metrics(report: Report) -> list[Summary]:
    """Those with a figure that somebody named; of the default ones the most telling."""
    rest: set[str] = set()
    if has_default_metrics(report):
        rest = {metric.name for metric in default_metrics()}.difference(_HEADLINE)
    return [one for one in measured_metrics(report, timed=True) if one.metric.name not in rest]


def unmeasured_text(report: Report, *, timed: bool) -> str | None:
    """The metrics without a figure, each reason with its count; None without any."""
    known = (one for one in report.summaries if timed or one.metric.definition.deterministic)
    groups = why_not_measured(one for one in known if not one.measured)
    return "; ".join(f"{', '.join(names)}: {_reasons(why)}" for names, why in groups) or None


def _reasons(reasons: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{reason} ({count:,})" if count else reason for reason, count in reasons)


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
_FLOWS = 10


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
    total = sum(count.cases for count in causes)
    left = total
    found: list[Fall] = []
    for count in causes:
        left -= count.cases
        found.append(Fall(count.cause, count.cases, left, count.cases / total, _note(count)))
    return tuple(found)


def _note(count: CauseCount) -> str:
    parts: list[str] = []
    if count.cause in (Cause.DROPPED, Cause.FAILED):
        named = [f"{shown_line(name, longest=60)} {n:,}" for name, n in count.stages[:_STAGES]]
        rest = len(count.stages) - _STAGES
        parts.append(", ".join(named) + (f" and {rest} more" if rest > 0 else ""))
    if count.estimated:
        parts.append(f"{count.estimated:,} estimated")
    return "; ".join(part for part in parts if part)


def causes_section(causes: Sequence[CauseCount]) -> Section:
    rows = [
        (fall.cause.label, f"{fall.cases:,}", f"{fall.share:.0%}", f"{fall.left:,}", fall.note)
        for fall in (waterfall(causes) if causes else ())
    ]
    columns = ("what became of the cases", "cases", "share", "left", "by")
    return Section(title="Where the answers were lost", columns=columns, rows=rows)


def flow_text(flow: CauseFlow) -> str:
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def judge_remarks(judging: JudgeReport) -> tuple[str, ...]:
    """What a reader must know of a run's judges: proofs, agreement, what it is wrong about."""
    remarks = [sentence for line in judging.lines for sentence in _of(line)]
    for metric in dict.fromkeys(line.metric for line in judging.canaries):
        remarks.append(_of_canaries(judging, metric))
    return tuple(remarks)


def _of_canaries(judging: JudgeReport, metric: str) -> str:
    lines = [line for line in judging.canaries if line.metric == metric]
    judged, wrong = sum(line.judged for line in lines), sum(line.wrong for line in lines)
    if not judged:
        return f"{metric}: no canary got a verdict"
    low, high = proportion_interval(wrong, judged)
    kinds = ", ".join(f"{line.kind} {line.wrong:,} of {line.judged:,}" for line in lines)
    return (
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
        examples = ", ".join(one.examples[:3])
        yield (
            f"{one.operator} lost {_golds(one.lost_for_good)} that generation was not given "
            f"(as in {examples})."
        )
    if table.gold:
        missing = table.gold - table.found
        never = f" {_golds(missing)} never found." if missing else ""
        yield (
            f"Of {_golds(table.found)} that were found, generation was given {table.kept:,}.{never}"
        )
    for reason, cases in table.no_gold:
        yield f"Nothing is said of the gold of {cases:,} cases: {reason}."
    for one in table.operators:
        if not one.acted:
            yield f"{one.operator} did not act in any of {one.cases:,} cases.{_why(one)}"
        else:
            for note, cases in one.notes[:_NOTES]:
                yield f"{one.operator}: {note} ({cases:,} of {one.cases:,} cases)."


def _why(effect: OperatorEffect) -> str:
    return " ".join(f" It said: {note} ({cases:,} cases)." for note, cases in effect.notes[:_NOTES])


def _golds(count: int) -> str:
    return "1 gold context" if count == 1 else f"{count:,} gold contexts"


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


def judge_facts(judging: JudgeReport) -> Iterator[tuple[str, str]]:
    """Who judged, and at what price."""
    judge = judging.judge
    for what, known in (("judge", judge["chat"]), ("embeddings", judge["embeddings"])):
        if known is not None:
            yield what, f"{known['model']} at {known['base_url']}"
    yield "price", judging.price_origin or "unknown"


def judge_table(judging: JudgeReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows: what each judged metric took."""
    currency = "" if judging.currency is None else f" ({judging.currency})"
    rows: list[tuple[str, ...]] = [
        (
            line.metric,
            f"{line.answers:,}",
            f"{line.prompt_tokens:,}",
            f"{line.completion_tokens:,}",
            "unknown" if line.cost is None else f"{line.cost:.4f}",
        )
        for line in judging.lines
    ]
    return ("metric", "answers", "tokens in", "tokens out", f"cost{currency}"), rows


def failure_rows(failures: Iterable[FailureGroup]) -> Iterator[tuple[str, ...]]:
    for group in failures:
        examples = ", ".join(group.examples[:3])
        yield group.stage, f"{group.type}: {group.message}"[:1000], f"{group.count:,}", examples


def sliced_metrics(report: Report, most: int) -> list[Summary]:
    """The metrics that a table of slices has a column for."""
    known = (one for one in report.summaries if one.metric.definition.deterministic)
    return [one for one in known if any(part.measured for part in one.slices)][:most]


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


def stage_text(stage: StageCount) -> str:
    return ", ".join(f"{count:,} {word}" for count, word in stage_counts(stage))


def number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def interval_text(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.3f} .. {interval.high:.3f}"
