"""What stands above the cases of a run's page: waterfall, metrics, matrix, times, origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from ragbench.core.attribution import Answer, Cause
from ragbench.core.metric import Direction
from ragbench.core.report import Report, Slice, Summary
from ragbench.core.validation import ValidationTable
from ragbench.views.html import charts
from ragbench.views.report import sharing_remark
from ragbench.views.run_words import (
    failure_rows,
    judge_facts,
    judge_remarks,
    judge_table,
    measured_metrics,
    quality_text,
    sliced_metrics,
    unmeasured_text,
    verdict_rows,
    waterfall,
)

_SLICED = 8
"""Metrics that the table of slices has at most."""
_FAILURES = 100


def head_values(
    report: Report,
    values: Sequence[Sequence[float]],
    matrix: Counter[tuple[bool, Answer]],
    confidences: Sequence[tuple[float, bool]],
    *,
    bins: int,
) -> dict[str, Any]:
    manifest = report.manifest
    return {
        "rag": manifest["rag"]["name"],
        "dataset": manifest["dataset"]["name"],
        "headline": _headline(report),
        "notes": [*_reuse(report), *report.notes],
        "falls": fall_values(report),
        "total": manifest["dataset"]["cases"],
        "groups": _groups(report, measured_metrics(report, timed=True), values, bins),
        "unmeasured": unmeasured_text(report, timed=True),
        "names": [
            {"name": each.name, "lower": each.definition.direction is Direction.LOWER}
            for each in report.metrics
        ],
        "matrix": list(_matrix(matrix)),
        "verdicts": None if report.validation is None else _verdicts(report.validation),
        "calibration": _calibration(confidences),
        "calibrated": len(confidences),
        "times": list(_times(report)),
        "sharing": sharing_remark(report.latencies),
        "judging": _judging(report),
        "slices": _slices(report),
        "failures": list(failure_rows(report.failures[:_FAILURES])),
        "stages": list(_stages(report)),
        "origin": list(_origin(report)),
    }


def fall_values(report: Report) -> list[dict[str, Any]]:
    total = sum(count.cases for count in report.causes) or 1
    return [
        {
            "cause": fall.cause,
            "cases": fall.cases,
            "share": fall.share,
            "left": fall.left,
            "note": fall.note,
            "bar": charts.share_bar(
                fall.share,
                kind=fall.cause.value,
                before=1 - (fall.left + fall.cases) / total,
            ),
        }
        for fall in waterfall(report.causes)
    ]


def _headline(report: Report) -> str:
    total = sum(count.cases for count in report.causes)
    if not total:
        return "No case."
    by_cause = {count.cause: count.cases for count in report.causes}
    right = by_cause.get(Cause.RIGHT, 0) + by_cause.get(Cause.RIGHT_WITHOUT, 0)
    losses = [count for count in report.causes if count.cause.is_loss]
    text = f"{right:,} of {total:,} cases are right ({right / total:.0%})."
    if not losses:
        return text
    worst = max(losses, key=lambda count: count.cases)
    return (
        f"{text} Most are lost as “{worst.cause.label}”: {worst.cases:,} "
        f"({worst.cases / total:.0%})."
    )


def _reuse(report: Report) -> Iterator[str]:
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if counts:
        since = (report.reused_from or "").replace("T", " ")[:16]
        yield f"Reused from the run of {since}: {', '.join(counts)}."


def _groups(
    report: Report, shown: Sequence[Summary], values: Sequence[Sequence[float]], bins: int
) -> list[tuple[str, list[dict[str, Any]]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    names = {summary.metric.name for summary in shown}
    for summary, measured in zip(report.summaries, values, strict=True):
        if summary.metric.name not in names:
            continue
        group = summary.metric.definition.group.value
        rows.setdefault(group, []).append(_metric(summary, measured, bins))
    return list(rows.items())


def range_of(summary: Summary, measured: Sequence[float]) -> tuple[float, float]:
    """The axis of a metric: its own range, or that of its values where it has none."""
    definition = summary.metric.definition
    least = definition.low if definition.low is not None else min(measured, default=0.0)
    most = definition.high if definition.high is not None else max(measured, default=1.0)
    score = summary.score
    return (least, most) if score is None else (min(least, score), max(most, score))


def _metric(summary: Summary, measured: Sequence[float], bins: int) -> dict[str, Any]:
    definition, interval = summary.metric.definition, summary.interval
    least, most = range_of(summary, measured)
    low = None if interval is None else interval.low
    high = None if interval is None else interval.high
    counts = (
        (summary.abstained, "abstained"),
        (summary.skipped, "skipped"),
        (summary.failed, "failed"),
        (summary.unproved, "unproved"),
    )
    drawn = Markup("")
    if summary.score is not None:
        drawn = charts.forest(summary.score, low, high, least=least, most=most)
    return {
        "name": summary.metric.name,
        "lower": definition.direction is Direction.LOWER,
        "unit": definition.unit,
        "score": summary.score,
        "low": low,
        "high": high,
        "forest": drawn,
        "measured": summary.measured,
        "bars": _histogram(measured, least, most, bins),
        "rest": ", ".join(f"{count:,} {word}" for count, word in counts if count),
    }


def _histogram(values: Sequence[float], least: float, most: float, bins: int) -> Markup:
    if not values:
        return Markup("")
    counts = [0] * bins
    for value in values:
        share = 0.0 if most <= least else (value - least) / (most - least)
        counts[min(max(int(share * bins), 0), bins - 1)] += 1
    return charts.bars(counts, label=f"cases from {least:g} to {most:g}")


_ANSWERS = (Answer.RIGHT, Answer.WRONG, Answer.DECLINED, Answer.UNCHECKED, Answer.NONE)


def _matrix(matrix: Counter[tuple[bool, Answer]]) -> Iterator[list[str]]:
    for is_there, label in ((True, "there is an answer, or may be"), (False, "there is none")):
        yield [label, *(f"{matrix[is_there, answer]:,}" for answer in _ANSWERS)]


def _verdicts(table: ValidationTable) -> dict[str, Any]:
    return {
        "validator": table.validator,
        "rows": list(verdict_rows(table)),
        "said": quality_text(table),
    }


def _calibration(confidences: Sequence[tuple[float, bool]]) -> Markup | None:
    if len(confidences) < 10:
        return None
    bins: dict[int, list[tuple[float, bool]]] = {}
    for said, is_right in confidences:
        bins.setdefault(min(int(said * 10), 9), []).append((said, is_right))
    points = [
        (
            sum(said for said, _ in held) / len(held),
            sum(right for _, right in held) / len(held),
            len(held),
        )
        for _, held in sorted(bins.items())
    ]
    text = "; ".join(f"said {said:.2f}, right {right:.2f}, {n} cases" for said, right, n in points)
    return charts.calibration(points, label=f"Calibration: {text}")


def _times(report: Report) -> Iterator[list[str | Markup]]:
    most = max((latency.longest or latency.mean for latency in report.latencies), default=0.0)
    for latency in report.latencies:
        figures = (latency.mean, latency.p50, latency.p95, latency.longest)
        yield [
            latency.stage,
            charts.times(latency.mean, latency.p50, latency.p95, latency.longest, most=most),
            f"{latency.count:,}",
            *(_milliseconds(each) for each in figures),
        ]


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _judging(report: Report) -> dict[str, Any] | None:
    judging = report.judging
    if judging is None:
        return None
    columns, rows = judge_table(judging)
    return {
        "facts": list(judge_facts(judging)),
        "columns": columns,
        "rows": rows,
        "remarks": judge_remarks(judging),
    }


def _slices(report: Report) -> dict[str, Any] | None:
    chosen = sliced_metrics(report, _SLICED)
    if not chosen:
        return None
    rows = [
        [
            f"{parts[0].by}: {parts[0].value}",
            f"{parts[0].total:,}",
            *map(_sliced, parts),
        ]
        for parts in zip(*(summary.slices for summary in chosen), strict=True)
    ]
    return {
        "columns": ["Slice", "cases", *(summary.metric.name for summary in chosen)],
        "rows": rows,
        "hint": "Below each figure its 95% interval, of that slice alone: among many slices some "
        "stand out by chance. report.json holds how many cases were measured.",
    }


def _sliced(part: Slice) -> str | Markup:
    """A slice's figure, its interval below."""
    if part.score is None:
        return "–"
    if part.interval is None:
        return f"{part.score:.3f}"
    low, high = part.interval.low, part.interval.high
    return Markup("{}<br><small>{} – {}</small>").format(
        f"{part.score:.3f}", f"{low:.2f}", f"{high:.2f}"
    )


def _stages(report: Report) -> Iterator[list[str]]:
    for stage in report.stages:
        whole = stage.measured + stage.abstained + stage.skipped + stage.failed
        asked = whole - stage.reused - stage.recorded - stage.skipped
        counts = (
            stage.measured, stage.abstained, stage.skipped, stage.failed, max(asked, 0),
            stage.reused, stage.recorded,
        )  # fmt: skip
        yield [stage.stage, *(f"{count:,}" for count in counts)]


def _origin(report: Report) -> Iterator[tuple[str, str]]:
    manifest = report.manifest
    dataset = manifest["dataset"]
    yield "dataset", f"{dataset['source'] or dataset['name']}, {dataset['cases']:,} cases"
    if dataset["sample"] is not None:
        yield "sample", f"drawn at random, seed {dataset['seed']}"
    elif dataset["limit"] is not None:
        yield "limit", f"the first {dataset['limit']:,}"
    for part, fingerprint in manifest["fingerprints"].items():
        yield f"fingerprint of {part}", str(fingerprint)
    git = manifest["git"]
    if git is not None:
        yield "commit", f"{git['commit']}{' with uncommitted changes' if git['dirty'] else ''}"
    yield "packages", ", ".join(f"{name} {v}" for name, v in manifest["packages"].items())
