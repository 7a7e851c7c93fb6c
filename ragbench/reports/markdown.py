"""report.md: the report for people, without durations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ragbench.records.reports import Report
from ragbench.records.summaries import Summary

__all__ = ["markdown_report"]

_SLICED = 8
"""How many metrics the table of slices has at most: more do not fit a page."""
_LONGEST_TABLE = 50
"""How many rows a table has at most that grows with the data."""


def markdown_report(report: Report) -> Iterator[bytes]:
    """The report in pieces."""
    for section in (_title, _metrics, _slices, _failures, _origin):
        lines = list(section(report))
        if lines:
            yield ("\n".join(lines) + "\n\n").encode()


def _title(report: Report) -> Iterator[str]:
    dataset, rag = report.manifest["dataset"], report.manifest["rag"]
    yield f"# {_text(rag['name'])} on {_text(dataset['name'])}"
    yield ""
    cases = "1 case" if dataset["cases"] == 1 else f"{dataset['cases']:,} cases"
    yield f"{cases}{_drawn(dataset)}."
    for stage in report.stages:
        counts = (
            (stage.measured, "answered" if stage.stage == "generate" else "done"),
            (stage.abstained, "abstained"),
            (stage.skipped, "skipped"),
            (stage.failed, "failed"),
        )
        told = ", ".join(f"{count:,} {word}" for count, word in counts if count)
        yield f"- {stage.stage}: {told}"
    for note in report.notes:
        yield ""
        yield f"> {_text(note)}"


def _drawn(dataset: dict[str, object]) -> str:
    if dataset["sample"] is not None:
        return f", drawn at random (seed {dataset['seed']})"
    return f", the first {dataset['limit']}" if dataset["limit"] is not None else ""


def _metrics(report: Report) -> Iterator[str]:
    yield "## Metrics"
    yield ""
    yield from _table(
        ("metric", "group", "score", "95% interval", "measured", "abstained", "skipped", "failed"),
        (
            (
                f"`{summary.metric.name}`",
                summary.metric.definition.group.value,
                _number(summary.score),
                _interval(summary),
                f"{summary.measured:,} of {summary.total:,}",
                _count(summary.abstained),
                _count(summary.skipped),
                _count(summary.failed),
            )
            for summary in report.summaries
            if summary.metric.definition.deterministic
        ),
    )


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
    yield from _table(
        ("slice", "cases", *(f"`{summary.metric.name}`" for summary in chosen)),
        (
            (
                f"{pieces[0].by}: {_text(pieces[0].value)}",
                f"{pieces[0].total:,}",
                *(_number(piece.score) for piece in pieces),
            )
            for pieces in rows[:_LONGEST_TABLE]
        ),
    )
    yield from _rest(len(rows))


def _failures(report: Report) -> Iterator[str]:
    if not report.failures:
        return
    yield "## Failures"
    yield ""
    yield from _table(
        ("stage", "error", "cases", "for example"),
        (
            (
                group.stage,
                _text(f"{group.type}: {group.message}"[:300]),
                f"{group.count:,}",
                _text(", ".join(group.examples[:3])),
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
    yield f"- dataset: {_text(manifest['dataset']['source'] or manifest['dataset']['name'])},"
    yield f"  fingerprint `{manifest['fingerprints']['dataset']}`"
    yield f"- RAG: fingerprint `{manifest['fingerprints']['rag']}`"
    if manifest["git"] is not None:
        changed = " with uncommitted changes" if manifest["git"]["dirty"] else ""
        yield f"- commit: `{manifest['git']['commit']}`{changed}"
    versions = ", ".join(f"{name} {version}" for name, version in manifest["packages"].items())
    yield f"- packages: {versions}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _text(value: str) -> str:
    """A text of the user's that cannot break out of its place in the document."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", " ".join(value.split()))
    # Control characters reach a terminal that shows the file.
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", _code, escaped)


def _code(found: re.Match[str]) -> str:
    return f"\\\\u{ord(found[0]):04x}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(summary: Summary) -> str:
    found = summary.interval
    return "-" if found is None else f"{found.low:.3f} .. {found.high:.3f}"


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"
