"""report.md: the report for people, without durations."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.core.matched import GoldCause
from ragbench.core.report import Report, Summary
from ragbench.core.validation import Share
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.run_words import (
    OPERATOR_COLUMNS,
    causes_markdown,
    judge_remarks,
    measured_metrics,
    operator_remarks,
    operator_rows,
    why_not_measured,
)

_SLICED = 8
"""How many metrics the table of slices has at most: more do not fit a page."""
_LONGEST_TABLE = 50
"""How many rows a table has at most that grows with the data."""


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


def _title(report: Report) -> Iterator[str]:
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    yield f"# {markdown_text(rag['name'])} on {markdown_text(dataset['name'])}"
    yield ""
    cases = "1 case" if dataset["cases"] == 1 else f"{dataset['cases']:,} cases"
    yield f"{cases}{_drawn(dataset)}."
    for stage in report.stages:
        counts = (
            (stage.measured, "answered" if stage.stage == "generate" else "done"),
            (stage.abstained, "abstained"),
            (stage.skipped, "skipped"),
            (stage.failed, "failed"),
            (stage.reused, "reused from an earlier run"),
            (stage.recorded, "recorded in the source"),
        )
        shown = ", ".join(f"{count:,} {word}" for count, word in counts if count)
        yield f"- {stage.stage}: {shown}"
    for position, note in enumerate(report.notes):
        mark = "**Not comparable.** " if position == 0 and not report.is_comparable else ""
        yield ""
        yield f"> {mark}{markdown_text(note)}"


def _drawn(dataset: dict[str, object]) -> str:
    if dataset["sample"] is not None:
        return f", drawn at random (seed {dataset['seed']})"
    return f", the first {dataset['limit']}" if dataset["limit"] is not None else ""


def _metrics(report: Report) -> Iterator[str]:
    yield "## Metrics"
    yield ""
    # Only a judge that has to quote can leave a cell unproved.
    unproved = ("unproved",) if any(summary.unproved for summary in report.summaries) else ()
    counts = ("abstained", "skipped", "failed", *unproved)
    yield from markdown_table(
        ("metric", "group", "score", "95% interval", "measured", *counts),
        (
            (
                f"`{summary.metric.name}`",
                summary.metric.definition.group.value,
                _number(summary.score),
                _interval(summary),
                f"{summary.measured:,} of {summary.total:,}",
                *(_count(getattr(summary, name)) for name in counts),
            )
            for summary in measured_metrics(report, timed=False)
        ),
    )


def _operators(report: Report) -> Iterator[str]:
    table = report.operators
    if table is None:
        return
    yield "## Post-retrieval"
    yield ""
    rows = ((f"`{name}`", *cells) for name, *cells in operator_rows(table))
    yield from markdown_table(OPERATOR_COLUMNS, rows)
    yield ""
    yield from (f"- {markdown_text(remark)}" for remark in operator_remarks(table))


def _causes(report: Report) -> Iterator[str]:
    lines = [*causes_markdown(report.causes)]
    if lines:
        yield "## Causes"
        yield ""
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
    if not report.gold:
        return
    total = sum(report.gold.values())
    yield "## Where the gold was"
    yield ""
    yield "Of each case the gold context that came nearest to generation."
    yield ""
    yield from markdown_table(
        ("the gold is", "cases", "share"),
        ((_CAUSES[cause], f"{n:,}", _number(n / total)) for cause, n in report.gold.items()),
    )


def _not_measured(report: Report) -> Iterator[str]:
    shown = [one for one in report.summaries if one.metric.definition.deterministic]
    groups = why_not_measured(shown)
    if not groups:
        return
    yield "## Not measured"
    yield ""
    yield from markdown_table(
        ("metric", "why", "cases"),
        (
            (
                ", ".join(f"`{name}`" for name in names) if first else "",
                markdown_text(reason, longest=300),
                _count(count),
            )
            for names, reasons in groups
            for first, (reason, count) in zip(
                (True, *[False] * len(reasons)), reasons, strict=False
            )
        ),
    )


def _validation(report: Report) -> Iterator[str]:
    table = report.validation
    if table is None:
        return
    yield "## Validation"
    yield ""
    yield (
        f"By `{table.validator}`: the answer is shown to be in the chunks of "
        f"{_rate(table.answer_present)} of {table.verdicts:,} cases. Retrieval quality: "
        + ", ".join(f"{name} {count:,}" for name, count in table.quality.items())
        + "."
    )
    yield ""
    yield from markdown_table(
        ("answer in the chunks", "the system", "cases", "rate", "95% interval", "that is"),
        (
            (
                "yes" if cell.answer_present else "not shown",
                "answered" if cell.answered else "abstained",
                f"{cell.rate.count:,} of {cell.rate.total:,}",
                _number(cell.rate.share),
                "-"
                if cell.rate.low is None or cell.rate.high is None
                else f"{cell.rate.low:.3f} .. {cell.rate.high:.3f}",
                cell.meaning,
            )
            for cell in table.matrix
        ),
    )
    if table.unmatched:
        yield ""
        yield f"{table.unmatched:,} cases with a verdict have no answer and no abstention."


def _rate(share: Share) -> str:
    return f"{share.count:,} ({_number(share.share)})"


def _slices(report: Report) -> Iterator[str]:
    chosen = [
        summary
        for summary in report.summaries
        if summary.metric.definition.deterministic and any(s.measured for s in summary.slices)
    ][:_SLICED]
    if not chosen:
        return
    # Every summary has the same slices in the same order.
    rows = list(zip(*(summary.slices for summary in chosen), strict=True))
    yield "## Slices"
    yield ""
    yield from markdown_table(
        ("slice", "cases", *(f"`{summary.metric.name}`" for summary in chosen)),
        (
            (
                f"{pieces[0].by}: {markdown_text(pieces[0].value)}",
                f"{pieces[0].total:,}",
                *(_number(piece.score) for piece in pieces),
            )
            for pieces in rows[:_LONGEST_TABLE]
        ),
    )
    yield from _rest(len(rows))


def _judging(report: Report) -> Iterator[str]:
    """What the answers took that the judged scores rest on, whenever they were paid for."""
    judging = report.judging
    if judging is None:
        return
    judge = judging.judge
    yield "## Judging"
    yield ""
    for what, known in (("judge", judge["chat"]), ("embeddings", judge["embeddings"])):
        if known is not None:
            yield f"- {what}: {markdown_text(known['model'])} at {markdown_text(known['base_url'])}"
    yield f"- fingerprint `{judge['fingerprint']}`"
    price = "not known" if judging.price_origin is None else markdown_text(judging.price_origin)
    yield f"- price: {price}"
    yield ""
    yield from markdown_table(
        ("metric", "answers", "tokens in", "tokens out", f"cost{_currency(judging.currency)}"),
        (
            (
                f"`{line.metric}`",
                f"{line.answers:,}",
                f"{line.prompt_tokens:,}",
                f"{line.completion_tokens:,}",
                "not known" if line.cost is None else f"{line.cost:.4f}",
            )
            for line in judging.lines
        ),
    )
    remarks = judge_remarks(judging)
    if remarks:
        yield ""
        yield from (f"- {markdown_text(remark)}" for remark in remarks)


def _steadiness(report: Report) -> Iterator[str]:
    """How far repeated judgings of a case agree; nothing where each was judged once."""
    lines = () if report.judging is None else report.judging.lines
    steady = [(line.metric, line.steadiness) for line in lines if line.steadiness]
    if report.judging is None or not steady:
        return
    yield f"Each case was judged {report.judging.judge['repeats']} times."
    yield ""
    columns = ("metric", "cases", "deviation within a case", "cases that changed")
    yield from markdown_table(
        (*columns, "error of the mean"),
        (
            (
                f"`{metric}`",
                f"{found.cases:,}",
                f"{found.deviation:.3f}",
                f"{found.changed:,}",
                f"{found.error:.4f}",
            )
            for metric, found in steady
        ),
    )


def _currency(currency: str | None) -> str:
    return "" if currency is None else f" ({currency})"


def _failures(report: Report) -> Iterator[str]:
    if not report.failures:
        return
    yield "## Failures"
    yield ""
    yield from markdown_table(
        ("stage", "error", "cases", "for example"),
        (
            (
                group.stage,
                markdown_text(f"{group.type}: {group.message}", longest=300),
                f"{group.count:,}",
                markdown_text(", ".join(group.examples[:3])),
            )
            for group in report.failures[:_LONGEST_TABLE]
        ),
    )
    yield from _rest(len(report.failures))


def _rest(rows: int) -> Iterator[str]:
    if rows > _LONGEST_TABLE:
        yield ""
        yield f"... and {rows - _LONGEST_TABLE:,} more, in report.json."


def _origin(report: Report) -> Iterator[str]:
    manifest = report.manifest
    yield "## Origin"
    yield ""
    dataset = manifest["dataset"]
    yield f"- dataset: {markdown_text(dataset['source'] or dataset['name'])},"
    yield f"  fingerprint `{dataset['fingerprint']}`"
    yield f"- RAG: fingerprint `{manifest['fingerprints']['rag']}`"
    if manifest["git"] is not None:
        changed = " with uncommitted changes" if manifest["git"]["dirty"] else ""
        yield f"- commit: `{manifest['git']['commit']}`{changed}"
    versions = ", ".join(f"{name} {version}" for name, version in manifest["packages"].items())
    yield f"- packages: {versions}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(summary: Summary) -> str:
    found = summary.interval
    return "-" if found is None else f"{found.low:.3f} .. {found.high:.3f}"


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"
