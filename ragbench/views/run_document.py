"""A run's report as a document, and what terminal, Markdown and page say alike of it.

The page draws the first sections itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ragbench.core.attribution import LOSSES, Cause, CauseCount, CauseFlow, RightShare
from ragbench.core.biography import OperatorTable
from ragbench.core.matched import GoldCause
from ragbench.core.report import JudgeReport, Report, StageCount, Summary
from ragbench.core.roles import FieldRole
from ragbench.core.unfulfilled import Unfulfilled, unfulfilled
from ragbench.core.validation import ValidationTable
from ragbench.metrics.registry import DEFAULT
from ragbench.safe_text import as_line, counted, shown_line
from ragbench.stats.mean import proportion_interval
from ragbench.views.document import Document, Section, number_text, range_text
from ragbench.views.labels import corrected_section
from ragbench.views.metric_table import metric_cell, metric_columns
from ragbench.views.roles import roles_section

_SLICED = 8
"""Metrics that the table of slices has a column for."""
_LONGEST_ID, _LONGEST_SENTENCE = 100, 200
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def run_document(report: Report) -> Document:
    dataset, notes = report.manifest["dataset"], list(report.notes)
    cases = counted(dataset["cases"], "case")
    if dataset["sample"] is not None:
        cases += f", drawn at random (seed {dataset['seed']})"
    elif dataset["limit"] is not None:
        cases += f", the first {dataset['limit']}"
    counts = [(stage.stage, stage_counts(stage)) for stage in report.stages]
    lines = [f"{name}: {', '.join(f'{n:,} {word}' for n, word in found)}" for name, found in counts]
    wrong = [] if report.is_comparable else [f"Not comparable: {notes.pop(0)}"]
    return Document(
        kind="ragbench evaluation",
        title=f"{report.manifest['rag']['name']} on {dataset['name']}",
        headline=headline(report),
        sections=(
            Section(title="Cases", lines=[*wrong, cases, *lines]),
            *_metrics([one for one in report.summaries if one.metric.definition.deterministic]),
            causes_section(report.causes),
            unfulfilled_section(unfulfilled(report, most=_LONGEST_TABLE)),
            *detail_sections(report),
        ),
        notes=notes,
    )


def headline(report: Report) -> str:
    """How many are right, and as what most of the others are lost."""
    total = sum(count.cases for count in report.causes)
    if not total:
        return "No case."
    text, losses = right_text(report.right), [one for one in report.causes if one.cause in LOSSES]
    if not losses:
        return text
    worst = max(losses, key=lambda count: count.cases)
    lost = sum(count.cases for count in losses)
    most = "most" if 2 * worst.cases > lost else "the largest group"
    share = f"{worst.cases:,} ({worst.cases / total:.0%}{', estimated' * bool(worst.estimated)})"
    return f"{text} {lost:,} are lost, {most} as “{worst.cause.label}”: {share}."


def reused_text(report: Report) -> str:
    """What an earlier run gave, and which; empty where nothing was taken from one."""
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    since = (report.reused_from or "").replace("T", " ")[:16]
    return f"Reused from the run of {since}: {', '.join(counts)}." if counts else ""


def right_text(right: RightShare | None) -> str:
    """The share of right cases with its interval, and of how many it cannot be told."""
    if right is None:
        return "Of no case it is known whether it is right."
    text = f"Right: {right.share:.0%}"
    if right.low is not None and right.high is not None:
        text += f" ({right.low:.0%} to {right.high:.0%})"
    text += f" of {counted(right.known, 'case')}"
    if right.by_words:
        text += ", estimated by words"
    if right.untold:
        text += f"; {right.untold / right.total:.0%} cannot be told"
    return f"{text}."


def detail_sections(report: Report) -> Iterator[Section]:
    """What stands below the metrics and the causes, on the page too."""
    if report.corrections:
        yield corrected_section(report.corrections)
    total = sum(report.gold.values())
    yield Section(
        title="Where the gold was",
        columns=("the gold is", "cases", "share"),
        rows=[(_CAUSES[at], f"{n:,}", number_text(n / total)) for at, n in report.gold.items()],
        hint="Of each case the gold context that came nearest to generation.",
    )
    if report.operators is not None:
        yield Section(
            title="Post-retrieval",
            lines=list(operator_remarks(report.operators)),
            columns=OPERATOR_COLUMNS,
            rows=list(operator_rows(report.operators)),
        )
    if report.validation is not None:
        yield _validation(report.validation)
    if report.judging is not None:
        yield from _judging(report.judging)
    if any(summary.slices for summary in report.summaries):
        yield _slices(report)
    yield Section(
        title="Failures",
        columns=("stage", "error", "cases", "for example"),
        rows=[
            (
                group.stage,
                f"{group.type}: {group.message}"[:1000],
                f"{group.count:,}",
                ", ".join(group.examples[:3]),
            )
            for group in report.failures[:100]
        ],
        most=_LONGEST_TABLE,
    )
    yield roles_section(_roles(report.manifest))
    yield _origin(report.manifest)


def _metrics(summaries: Sequence[Summary]) -> Iterator[Section]:
    columns = metric_columns("markdown", summaries)
    rows: list[Sequence[object]] = []
    for summary in summaries:
        if not summary.measured:
            continue
        row: list[str] = []
        for column in columns:
            cell = metric_cell(column, summary)
            row.append(f"{cell} of {summary.total:,}" if column.is_of_total else cell)
        rows.append(row)
    headings = [column.heading for column in columns]
    yield Section(title="Metrics", columns=headings, rows=rows)

    reason_rows: list[Sequence[object]] = []
    for names, reasons in why_not_measured(summaries):
        metrics = ", ".join(names)
        for reason, count in reasons:
            reason_rows.append((metrics, reason, f"{count:,}" if count else "-"))
            metrics = ""  # they stand in the first of their rows alone
    yield Section(title="Not measured", columns=("metric", "why", "cases"), rows=reason_rows)


def unfulfilled_section(found: Unfulfilled | None) -> Section:
    """The expectations that do not hold, by case."""
    title = "Expectations that do not hold"
    if found is None or not found.total:
        return Section(title=title)
    rows: list[Sequence[object]] = []
    for case in found.cases:
        for sentence in case.sentences:
            id = shown_line(case.id, longest=_LONGEST_ID)
            rows.append((id, shown_line(sentence, longest=_LONGEST_SENTENCE)))
    line = f"In {counted(found.total, 'case')}"
    if found.total > len(found.cases):
        line += f", of which the worst {len(found.cases):,} are listed"
    return Section(
        title=title,
        lines=[f"{line}. The answers: ragbench explain RUN CASE"],
        columns=("case", "does not hold"),
        rows=rows,
        most=_LONGEST_TABLE,
    )


_CAUSES = {
    GoldCause.RETRIEVED: "retrieved",
    GoldCause.RANKED_LOWER: "found by the same search, at a later rank than were retrieved",
    GoldCause.LOST_BY_THRESHOLD: "below the score threshold",
    GoldCause.LOST_BY_INDEX: "found by an exact search, missed by the store's index",
    GoldCause.LOST_BY_FILTER: "in the collection, excluded by the filter",
    GoldCause.NOT_RANKED: "in the collection, ranked too low to be looked at",
    GoldCause.CUT: "cut: parts of it are in several chunks, none holds it whole",
    GoldCause.NOT_INDEXED: "not in the collection",
    GoldCause.UNKNOWN: "unknown: the collection cannot be asked for it",
}


def _validation(table: ValidationTable) -> Section:
    shown = f"{table.answer_present.count:,} ({number_text(table.answer_present.share)})"
    lines = [
        f"By {table.validator}: the answer is shown to be in the chunks of {shown} of "
        f"{table.verdicts:,} cases. {quality_text(table)}"
    ]
    if table.unmatched:
        lines.append(f"{table.unmatched:,} cases with a verdict have no answer and no abstention.")
    rows = list(verdict_rows(table))
    return Section(title="Validation", lines=lines, columns=VERDICT_COLUMNS, rows=rows)


def _judging(judging: JudgeReport) -> Iterator[Section]:
    """What the answers took that the judged scores rest on, and how far repeated ones agree."""
    judge, currency = judging.judge, f" ({judging.currency})" if judging.currency else ""
    models = (("judge", judge["chat"]), ("embeddings", judge["embeddings"]))
    yield Section(
        title="Judging",
        lines=[
            *(f"{what}: {one['model']} at {one['base_url']}" for what, one in models if one),
            f"price: {judging.price_origin or 'unknown'}",
            f"fingerprint {judge['fingerprint']}",
            *judge_remarks(judging),
        ],
        columns=("metric", "answers", "tokens in", "tokens out", f"cost{currency}"),
        rows=[
            (
                line.metric,
                *(f"{n:,}" for n in (line.answers, line.prompt_tokens, line.completion_tokens)),
                "unknown" if line.cost is None else f"{line.cost:.4f}",
            )
            for line in judging.lines
        ],
    )
    yield Section(
        title=f"Judgements repeated {judge['repeats']} times",
        columns=(
            *("metric", "cases", "deviation within a case", "cases that changed"),
            "error of the mean",
        ),
        rows=[
            (
                line.metric,
                f"{one.cases:,}",
                f"{one.deviation:.3f}",
                f"{one.changed:,}",
                f"{one.error:.4f}",
            )
            for line in judging.lines
            if (one := line.steadiness) is not None
        ],
    )


def _slices(report: Report) -> Section:
    known = (one for one in report.summaries if one.metric.definition.deterministic)
    chosen = [one for one in known if any(part.measured for part in one.slices)][:_SLICED]
    # Every summary has the same slices in the same order.
    rows = [
        (
            f"{parts[0].by}: {parts[0].value}",
            f"{parts[0].total:,}",
            *(
                number_text(part.score)
                + (f" ({at.low:.2f} .. {at.high:.2f})" if (at := part.interval) else "")
                for part in parts
            ),
        )
        for parts in zip(*(summary.slices for summary in chosen), strict=True)
    ]
    return Section(
        title="Slices",
        columns=("slice", "cases", *(summary.metric.name for summary in chosen)),
        rows=rows,
        most=_LONGEST_TABLE,
        folded=f"{len(rows):,} slices by tag and language",
        hint="In brackets the 95% interval of that slice alone: among many slices some stand out "
        "by chance. report.json holds all of them, and how many cases were measured.",
    )


def _roles(manifest: Mapping[str, Any]) -> list[FieldRole]:
    """Those of a run; an older run has none."""
    return [msgspec.convert(role, FieldRole) for role in manifest.get("roles", ())]


def _origin(manifest: Mapping[str, Any]) -> Section:
    dataset, git = manifest["dataset"], manifest["git"]
    lines = [f"dataset: {dataset['source'] or dataset['name']}"]
    lines += [f"fingerprint of {part}: {mark}" for part, mark in manifest["fingerprints"].items()]
    if git is not None:
        changes = " with uncommitted changes" if git["dirty"] else ""
        lines.append(f"commit: {git['commit']}{changes}")
    versions = ", ".join(f"{name} {version}" for name, version in manifest["packages"].items())
    lines.append(f"packages: {versions}")
    return Section(title="Origin", lines=lines, folded="Dataset, fingerprints, versions")


_HEADLINE = (*("answer_correct", "recall@5", "nDCG@10", "end_to_end_f1", "abstention_recall"),)
"""Of the default metrics, those that a short screen shows."""
_ALARMS = ("numbers_supported", "citation_validity", "citation_attribution")
"""Those that it shows where something is wrong."""


def has_default_metrics(report: Report) -> bool:
    """Whether nobody named metrics, or the default ones with others."""
    names = {metric.name for metric in report.metrics}
    return names.issuperset(DEFAULT)


def headline_metrics(report: Report) -> list[Summary]:
    """Those with a figure that somebody named; of the default ones the most telling."""
    rest: set[str] = set()
    if has_default_metrics(report):
        rest = {*DEFAULT}.difference(_HEADLINE)
    alarming = {
        one.metric.name for one in report.summaries if one.score is not None and one.score < 1
    }
    rest -= alarming.intersection(_ALARMS)
    return [one for one in report.summaries if one.measured and one.metric.name not in rest]


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
        if (known := count.reliability) is not None:
            notes.append(f"by words, right in {known.held / known.of:.0%}")
        if count.stages and count.cause in (Cause.DROPPED, Cause.FAILED):
            named = [f"{shown_line(name, longest=60)} {n:,}" for name, n in count.stages]
            notes.insert(0, as_line(named, _STAGES))
        note = "; ".join(notes)
        found.append(Fall(count.cause, count.cases, left, count.cases / total, note))
    return tuple(found)


def causes_section(causes: Sequence[CauseCount]) -> Section:
    rows = [
        (fall.cause.label, f"{fall.cases:,}", f"{fall.share:.0%}", f"{fall.left:,}", fall.note)
        for fall in waterfall(causes)
    ]
    columns = ("what became of the cases", "cases", "share", "left", "by")
    return Section(title="Where the answers were lost", columns=columns, rows=rows)


def flow_text(flow: CauseFlow) -> str:
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def judge_remarks(judging: JudgeReport) -> Iterator[str]:
    """What a reader must know of a run's judges: proofs, agreement, what it is wrong about."""
    for line in judging.lines:
        if line.fabricated_quotes:
            yield (
                f"{line.metric}: {line.fabricated_quotes:,} of {line.quotes:,} quotes of the judge "
                f"stand in no context ({line.fabricated_quotes / line.quotes:.1%})"
            )
        if line.unproved_sentences:
            yield (
                f"{line.metric}: of {line.sentences:,} sentences that the judge calls supported, "
                f"{line.unproved_sentences:,} are unproved and in no score: no quote says the same"
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


OPERATOR_COLUMNS = (
    "operator", "acted", "chunks", "dropped", "moved", "rewrote", "added", "gold", "lost", "up",
    "down",
)  # fmt: skip
"""Cases in which it changed something; chunks that it was given, dropped, moved, rewrote, added;
gold contexts that it was given, lost, and moved up and down."""
_NOTES = 3


_OPERATOR_COUNTS = (
    "given", "dropped", "moved", "rewritten", "added", "gold_given", "gold_lost", "gold_up",
    "gold_down",
)  # fmt: skip


def operator_rows(table: OperatorTable) -> Iterator[tuple[str, ...]]:
    for one in table.operators:
        counts = (getattr(one, name) for name in _OPERATOR_COUNTS)
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
        yield (
            "yes" if cell.answer_present else "not shown",
            "answered" if cell.answered else "abstained",
            f"{cell.rate.count:,} of {cell.rate.total:,}",
            number_text(cell.rate.share),
            range_text(cell.rate),
            cell.meaning,
        )


def quality_text(table: ValidationTable) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in table.quality.items())
    return f"Retrieval quality: {counts}."


_ENDS = ("abstained", "skipped", "failed", "reused", "recorded")


def stage_counts(stage: StageCount) -> list[tuple[int, str]]:
    """How a stage ended, and where from its outcomes are; what there is of it."""
    done = "answered" if stage.stage == "generate" else "done"
    words = {"measured": done} | {name: name for name in _ENDS}
    return [(count, word) for name, word in words.items() if (count := getattr(stage, name))]
