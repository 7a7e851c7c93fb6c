"""Which metrics of a run stand in its table, and what is said of the others in a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragbench.core.report import Report, Summary
from ragbench.metrics.registry import default_metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownMetrics:
    """A run's metrics in a table and a line."""

    rows: tuple[Summary, ...]
    """Those that have a figure and say something that no other does."""
    repeated: str | None
    """Those that only repeat another one, or say nothing about this data, with their figures; None
    without any."""
    unmeasured: str | None
    """Those without a figure, with each reason and its count; None without any."""


def shown_metrics(report: Report, *, timed: bool) -> ShownMetrics:
    """What a table of a run's metrics shows.

    A metric is folded only in a run with the default ones: whoever names metrics wants to see them.
    """
    known = [one for one in report.summaries if timed or one.metric.definition.deterministic]
    measured = [one for one in known if one.measured]
    by_name = {one.metric.name: one for one in measured}
    usual = {metric.name for metric in default_metrics()}
    folded: dict[str, str] = {}
    if usual <= {metric.name for metric in report.metrics}:
        folded = {name: why for name, why in _repeated(by_name) if name in usual}
    repeated = [f"{name} {by_name[name].score:.3f} ({why})" for name, why in folded.items()]
    nothing = why_not_measured(one for one in known if not one.measured)
    return ShownMetrics(
        rows=tuple(one for one in measured if one.metric.name not in folded),
        repeated=", ".join(repeated) or None,
        unmeasured="; ".join(f"{', '.join(names)}: {_told(why)}" for names, why in nothing) or None,
    )


def _told(reasons: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{reason} ({count:,})" if count else reason for reason, count in reasons)


def _repeated(by_name: Mapping[str, Summary]) -> Iterator[tuple[str, str]]:
    """Metrics that say nothing beside another one, and why not."""
    for name, one in by_name.items():
        base, _, cutoff = name.partition("@")
        if base in ("hit_rate", "precision"):
            recall = by_name.get(f"recall@{cutoff}")
            share = 1 if base == "hit_rate" else int(cutoff)
            if recall is not None and _is_share(one, recall, share):
                part = "" if share == 1 else f" / {share}"
                yield name, f"= recall@{cutoff}{part}"
        elif base == "exact_match" and one.score == 0:
            near = by_name.get("token_f1")
            if near is not None and near.score:
                yield name, "no answer equals a reference"
        elif base == "abstention_accuracy":
            rate = by_name.get("answer_rate")
            if rate is not None and _is_share(one, rate, 1):
                yield name, "= answer_rate"


def _is_share(one: Summary, other: Summary, parts: int) -> bool:
    """Whether a metric is another one, or a part of it, in every case.

    None of those that are asked about is ever less than that in any case, so that equal means are
    equal values.
    """
    if one.measured != other.measured or one.score is None or other.score is None:
        return False
    return math.isclose(one.score * parts, other.score, rel_tol=1e-9)


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
