"""A run's report as a document; its page draws the first sections itself."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.core.attribution import Cause
from ragbench.core.matched import GoldCause
from ragbench.core.report import Report, Slice
from ragbench.views.document import Document, Section
from ragbench.views.run_words import (
    OPERATOR_COLUMNS,
    VERDICT_COLUMNS,
    causes_section,
    failure_rows,
    interval_text,
    judge_facts,
    judge_remarks,
    judge_table,
    measured_metrics,
    number_text,
    operator_remarks,
    operator_rows,
    quality_text,
    sliced_metrics,
    stage_text,
    verdict_rows,
    why_not_measured,
)

_SLICED = 8
"""Metrics that the table of slices has a column for."""
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def run_document(report: Report) -> Document:
    manifest = report.manifest
    notes = list(report.notes)
    wrong = [] if report.is_comparable else [f"Not comparable: {notes.pop(0)}"]
    return Document(
        kind="ragbench evaluation",
        title=f"{manifest['rag']['name']} on {manifest['dataset']['name']}",
        headline=headline(report),
        sections=(
            Section(title="Cases", lines=[*wrong, _drawn(manifest["dataset"]), *_stages(report)]),
            _metrics(report),
            _not_measured(report),
            causes_section(report.causes),
            *detail_sections(report),
        ),
        notes=notes,
    )


def headline(report: Report) -> str:
    """How many are right, and as what most of the others are lost."""
    total = sum(count.cases for count in report.causes)
    if not total:
        return "No case."
    by_cause = {count.cause: count.cases for count in report.causes}
    right = by_cause.get(Cause.RIGHT, 0) + by_cause.get(Cause.RIGHT_WITHOUT, 0)
    losses = [count for count in report.causes if count.cause.is_loss]
    unknown = by_cause.get(Cause.SHOWN, 0) + by_cause.get(Cause.UNKNOWN, 0)
    text = f"{right:,} of {total:,} cases are right ({right / total:.0%})"
    text += f"; of {unknown:,} ({unknown / total:.0%}) it is not known." if unknown else "."
    if not losses:
        return text
    worst = max(losses, key=lambda count: count.cases)
    lost = sum(count.cases for count in losses)
    most = "most" if 2 * worst.cases > lost else "the largest group"
    share = f"{worst.cases:,} ({worst.cases / total:.0%}{', estimated' * bool(worst.estimated)})"
    return f"{text} {lost:,} are lost, {most} as “{worst.cause.label}”: {share}."


def detail_sections(report: Report) -> tuple[Section, ...]:
    """What stands below the metrics and the causes, on the page too."""
    return (
        _gold(report),
        _operators(report),
        _validation(report),
        _judging(report),
        _steadiness(report),
        _slices(report),
        _failures(report),
        _origin(report),
    )


def _stages(report: Report) -> Iterator[str]:
    for stage in report.stages:
        yield f"{stage.stage}: {stage_text(stage)}"


def _drawn(dataset: dict[str, object]) -> str:
    cases = "1 case" if dataset["cases"] == 1 else f"{dataset['cases']:,} cases"
    if dataset["sample"] is not None:
        return f"{cases}, drawn at random (seed {dataset['seed']})"
    return f"{cases}, the first {dataset['limit']}" if dataset["limit"] is not None else cases


def _metrics(report: Report) -> Section:
    # Only a judge that has to quote can leave a cell unproved.
    unproved = ("unproved",) if any(summary.unproved for summary in report.summaries) else ()
    counts = ("abstained", "skipped", "failed", *unproved)
    return Section(
        title="Metrics",
        columns=("metric", "group", "score", "95% interval", "measured", *counts),
        rows=[
            (
                summary.metric.name,
                summary.metric.definition.group.value,
                number_text(summary.score),
                interval_text(summary.interval),
                f"{summary.measured:,} of {summary.total:,}",
                *(_count(getattr(summary, name)) for name in counts),
            )
            for summary in measured_metrics(report, timed=False)
        ],
    )


def _not_measured(report: Report) -> Section:
    shown = [one for one in report.summaries if one.metric.definition.deterministic]
    rows = [
        ("" if position else ", ".join(names), reason, _count(count))
        for names, reasons in why_not_measured(shown)
        for position, (reason, count) in enumerate(reasons)
    ]
    return Section(title="Not measured", columns=("metric", "why", "cases"), rows=rows)


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


def _gold(report: Report) -> Section:
    gold = report.gold or {}
    total = sum(gold.values())
    return Section(
        title="Where the gold was",
        columns=("the gold is", "cases", "share"),
        rows=[(_CAUSES[at], f"{n:,}", number_text(n / total)) for at, n in gold.items()],
        hint="Of each case the gold context that came nearest to generation.",
    )


def _operators(report: Report) -> Section:
    table = report.operators
    return Section(
        title="Post-retrieval",
        lines=[] if table is None else list(operator_remarks(table)),
        columns=OPERATOR_COLUMNS,
        rows=[] if table is None else list(operator_rows(table)),
    )


def _validation(report: Report) -> Section:
    table = report.validation
    if table is None:
        return Section(title="Validation")
    shown = f"{table.answer_present.count:,} ({number_text(table.answer_present.share)})"
    lines = [
        f"By {table.validator}: the answer is shown to be in the chunks of {shown} of "
        f"{table.verdicts:,} cases. {quality_text(table)}"
    ]
    if table.unmatched:
        lines.append(f"{table.unmatched:,} cases with a verdict have no answer and no abstention.")
    rows = list(verdict_rows(table))
    return Section(title="Validation", lines=lines, columns=VERDICT_COLUMNS, rows=rows)


def _slices(report: Report) -> Section:
    chosen = sliced_metrics(report, _SLICED)
    # Every summary has the same slices in the same order.
    rows = [
        (f"{parts[0].by}: {parts[0].value}", f"{parts[0].total:,}", *map(_sliced, parts))
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


def _sliced(part: Slice) -> str:
    score, interval = number_text(part.score), part.interval
    return score if interval is None else f"{score} ({interval.low:.2f} .. {interval.high:.2f})"


def _judging(report: Report) -> Section:
    """What the answers took that the judged scores rest on, whenever they were paid for."""
    judging = report.judging
    if judging is None:
        return Section(title="Judging")
    columns, rows = judge_table(judging)
    lines = [f"{what}: {known}" for what, known in judge_facts(judging)]
    mark = f"fingerprint {judging.judge['fingerprint']}"
    remarks = judge_remarks(judging)
    return Section(title="Judging", lines=[*lines, mark, *remarks], columns=columns, rows=rows)


def _steadiness(report: Report) -> Section:
    """How far repeated judgings of a case agree; nothing where each was judged once."""
    lines = () if report.judging is None else report.judging.lines
    steady = [(line.metric, line.steadiness) for line in lines if line.steadiness]
    repeats = 1 if report.judging is None else report.judging.judge["repeats"]
    return Section(
        title=f"Judgements repeated {repeats} times",
        columns=(
            *("metric", "cases", "deviation within a case", "cases that changed"),
            "error of the mean",
        ),
        rows=[
            (
                metric,
                f"{one.cases:,}",
                f"{one.deviation:.3f}",
                f"{one.changed:,}",
                f"{one.error:.4f}",
            )
            for metric, one in steady
        ],
    )


def _failures(report: Report) -> Section:
    rows = list(failure_rows(report.failures[:100]))
    columns = ("stage", "error", "cases", "for example")
    return Section(title="Failures", columns=columns, rows=rows, most=_LONGEST_TABLE)


def _origin(report: Report) -> Section:
    manifest = report.manifest
    dataset, git = manifest["dataset"], manifest["git"]
    lines = [f"dataset: {dataset['source'] or dataset['name']}"]
    lines += [f"fingerprint of {part}: {mark}" for part, mark in manifest["fingerprints"].items()]
    if git is not None:
        lines.append(
            f"commit: {git['commit']}{' with uncommitted changes' if git['dirty'] else ''}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in manifest["packages"].items())
    lines.append(f"packages: {versions}")
    return Section(title="Origin", lines=lines, folded="Dataset, fingerprints, versions")


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"
