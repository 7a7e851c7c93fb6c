"""A report as Markdown: for pull requests, issues and wikis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragbench.core.matched import GoldCause
from ragbench.core.report import Report
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.run_words import (
    OPERATOR_COLUMNS,
    VERDICT_COLUMNS,
    causes_markdown,
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

_SLICED = 4
"""Metrics that the table of slices has a column for."""
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def markdown_report(report: Report) -> Iterator[bytes]:
    for section in (
        _title,
        _metrics,
        _not_measured,
        _causes,
        _gold,
        _operators,
        _validation,
        _slices,
        _judging,
        _steadiness,
        _failures,
        _origin,
    ):
        lines = list(section(report))
        if lines:
            yield ("\n".join(lines) + "\n\n").encode()


def _section(title: str, *before: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for line in before:
        yield line
        yield ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of foreign texts: none of their letters is markup."""
    safe = (tuple(markdown_text(cell, longest=300) for cell in row) for row in rows)
    yield from markdown_table(columns, safe)


def _list(lines: Iterable[str]) -> Iterator[str]:
    listed = [f"- {markdown_text(line)}" for line in lines]
    yield from ("", *listed) if listed else ()


def _title(report: Report) -> Iterator[str]:
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    yield f"# {markdown_text(rag['name'])} on {markdown_text(dataset['name'])}"
    yield ""
    cases = "1 case" if dataset["cases"] == 1 else f"{dataset['cases']:,} cases"
    yield f"{cases}{_drawn(dataset)}."
    yield from (f"- {stage.stage}: {stage_text(stage)}" for stage in report.stages)
    for position, note in enumerate(report.notes):
        mark = "**Not comparable.** " if position == 0 and not report.is_comparable else ""
        yield ""
        yield f"> {mark}{markdown_text(note)}"


def _drawn(dataset: dict[str, object]) -> str:
    if dataset["sample"] is not None:
        return f", drawn at random (seed {dataset['seed']})"
    return f", the first {dataset['limit']}" if dataset["limit"] is not None else ""


def _metrics(report: Report) -> Iterator[str]:
    # Only a judge that has to quote can leave a cell unproved.
    unproved = ("unproved",) if any(summary.unproved for summary in report.summaries) else ()
    counts = ("abstained", "skipped", "failed", *unproved)
    yield from _section("Metrics")
    yield from markdown_table(
        ("metric", "group", "score", "95% interval", "measured", *counts),
        (
            (
                f"`{summary.metric.name}`",
                summary.metric.definition.group.value,
                number_text(summary.score),
                interval_text(summary.interval),
                f"{summary.measured:,} of {summary.total:,}",
                *(_count(getattr(summary, name)) for name in counts),
            )
            for summary in measured_metrics(report, timed=False)
        ),
    )


def _not_measured(report: Report) -> Iterator[str]:
    shown = [one for one in report.summaries if one.metric.definition.deterministic]
    groups = why_not_measured(shown)
    if not groups:
        return
    yield from _section("Not measured")
    yield from markdown_table(
        ("metric", "why", "cases"),
        (
            (
                "" if position else ", ".join(f"`{name}`" for name in names),
                markdown_text(reason, longest=300),
                _count(count),
            )
            for names, reasons in groups
            for position, (reason, count) in enumerate(reasons)
        ),
    )


def _causes(report: Report) -> Iterator[str]:
    lines = [*causes_markdown(report.causes)]
    if lines:
        yield from _section("Causes")
        yield from lines


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


def _gold(report: Report) -> Iterator[str]:
    if report.gold:
        total = sum(report.gold.values())
        yield from _section(
            "Where the gold was", "Of each case the gold context that came nearest to generation."
        )
        rows = ((_CAUSES[at], f"{n:,}", number_text(n / total)) for at, n in report.gold.items())
        yield from _table(("the gold is", "cases", "share"), rows)


def _operators(report: Report) -> Iterator[str]:
    table = report.operators
    if table is not None:
        yield from _section("Post-retrieval")
        yield from _table(OPERATOR_COLUMNS, operator_rows(table))
        yield from _list(operator_remarks(table))


def _validation(report: Report) -> Iterator[str]:
    table = report.validation
    if table is None:
        return
    shown = f"{table.answer_present.count:,} ({number_text(table.answer_present.share)})"
    yield from _section(
        "Validation",
        f"By `{table.validator}`: the answer is shown to be in the chunks of {shown} of "
        f"{table.verdicts:,} cases. {quality_text(table)}",
    )
    yield from _table(VERDICT_COLUMNS, verdict_rows(table))
    if table.unmatched:
        yield ""
        yield f"{table.unmatched:,} cases with a verdict have no answer and no abstention."


def _slices(report: Report) -> Iterator[str]:
    chosen = sliced_metrics(report, _SLICED)
    if not chosen:
        return
    # Every summary has the same slices in the same order.
    rows = list(zip(*(summary.slices for summary in chosen), strict=True))
    yield from _section("Slices")
    yield from _table(
        ("slice", "cases", *(f"`{summary.metric.name}`" for summary in chosen)),
        (
            (
                f"{parts[0].by}: {parts[0].value}",
                f"{parts[0].total:,}",
                *(number_text(part.score) for part in parts),
            )
            for parts in rows[:_LONGEST_TABLE]
        ),
    )
    yield from _rest(len(rows))


def _judging(report: Report) -> Iterator[str]:
    """What the answers took that the judged scores rest on, whenever they were paid for."""
    judging = report.judging
    if judging is None:
        return
    yield "## Judging"
    yield from _list(f"{what}: {known}" for what, known in judge_facts(judging))
    yield f"- fingerprint `{judging.judge['fingerprint']}`"
    yield ""
    yield from _table(*judge_table(judging))
    yield from _list(judge_remarks(judging))


def _steadiness(report: Report) -> Iterator[str]:
    """How far repeated judgings of a case agree; nothing where each was judged once."""
    lines = () if report.judging is None else report.judging.lines
    steady = [(line.metric, line.steadiness) for line in lines if line.steadiness]
    if report.judging is None or not steady:
        return
    yield f"Each case was judged {report.judging.judge['repeats']} times."
    yield ""
    columns = ("metric", "cases", "deviation within a case", "cases that changed")
    yield from _table(
        (*columns, "error of the mean"),
        (
            (
                metric,
                f"{found.cases:,}",
                f"{found.deviation:.3f}",
                f"{found.changed:,}",
                f"{found.error:.4f}",
            )
            for metric, found in steady
        ),
    )


def _failures(report: Report) -> Iterator[str]:
    if report.failures:
        yield from _section("Failures")
        rows = failure_rows(report.failures[:_LONGEST_TABLE])
        yield from _table(("stage", "error", "cases", "for example"), rows)
        yield from _rest(len(report.failures))


def _rest(rows: int) -> Iterator[str]:
    if rows > _LONGEST_TABLE:
        yield ""
        yield f"... and {rows - _LONGEST_TABLE:,} more, in report.json."


def _origin(report: Report) -> Iterator[str]:
    manifest = report.manifest
    dataset = manifest["dataset"]
    yield from _section("Origin")
    yield f"- dataset: {markdown_text(dataset['source'] or dataset['name'])},"
    yield f"  fingerprint `{dataset['fingerprint']}`"
    yield f"- RAG: fingerprint `{manifest['fingerprints']['rag']}`"
    if manifest["git"] is not None:
        changed = " with uncommitted changes" if manifest["git"]["dirty"] else ""
        yield f"- commit: `{manifest['git']['commit']}`{changed}"
    versions = ", ".join(f"{name} {version}" for name, version in manifest["packages"].items())
    yield f"- packages: {versions}"


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"
