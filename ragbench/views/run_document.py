"""A run's report as a document; its page draws the first sections itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.core.attribution import Cause
from ragbench.core.matched import GoldCause
from ragbench.core.report import JudgeReport, Report, Summary
from ragbench.core.validation import ValidationTable
from ragbench.views.document import Document, Section
from ragbench.views.run_words import (
    OPERATOR_COLUMNS,
    VERDICT_COLUMNS,
    causes_section,
    interval_text,
    judge_remarks,
    number_text,
    operator_remarks,
    operator_rows,
    quality_text,
    stage_counts,
    verdict_rows,
    why_not_measured,
)

_SLICED = 8
"""Metrics that the table of slices has a column for."""
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def run_document(report: Report) -> Document:
    dataset, notes = report.manifest["dataset"], list(report.notes)
    cases = "1 case" if dataset["cases"] == 1 else f"{dataset['cases']:,} cases"
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


def detail_sections(report: Report) -> Iterator[Section]:
    """What stands below the metrics and the causes, on the page too."""
    if report.gold:
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
    yield _slices(report)
    failures = report.failures[:100]
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
            for group in failures
        ],
        most=_LONGEST_TABLE,
    )
    yield _origin(report.manifest)


def _metrics(summaries: Sequence[Summary]) -> Iterator[Section]:
    # Only a judge that has to quote can leave a cell unproved.
    unproved = ("unproved",) if any(summary.unproved for summary in summaries) else ()
    counts = ("abstained", "skipped", "failed", *unproved)
    yield Section(
        title="Metrics",
        columns=("metric", "group", "score", "95% interval", "measured", *counts),
        rows=[
            (
                summary.metric.name,
                summary.metric.definition.group.value,
                number_text(summary.score),
                interval_text(summary.interval),
                f"{summary.measured:,} of {summary.total:,}",
                *(f"{count:,}" if (count := getattr(summary, name)) else "-" for name in counts),
            )
            for summary in summaries
            if summary.measured
        ],
    )
    yield Section(
        title="Not measured",
        columns=("metric", "why", "cases"),
        rows=[
            ("" if position else ", ".join(names), reason, f"{count:,}" if count else "-")
            for names, reasons in why_not_measured(summaries)
            for position, (reason, count) in enumerate(reasons)
        ],
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
                f"{line.answers:,}",
                f"{line.prompt_tokens:,}",
                f"{line.completion_tokens:,}",
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
