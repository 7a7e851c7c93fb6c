"""How the parts of a comparison are written, in whichever form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.records.cells import Status
from ragbench.records.comparisons import (
    CaseDifference,
    Comparison,
    Difference,
    Flip,
    IdChange,
    RunPair,
)
from ragbench.records.metrics import Direction
from ragbench.reports.plain_text import one_line
from ragbench.reports.verdict_text import number_text

__all__ = [
    "counts_text",
    "family_text",
    "flip_text",
    "ids_text",
    "p_text",
    "response_text",
    "span_text",
    "what_changed",
]

_IDS = 5
"""How many ids of a kind are named."""
_LONGEST = 200
"""Letters of a response, a question or a reason that are shown."""
_LONGEST_ID = 60


def counts_text(pair: RunPair) -> str:
    """How many cases differ."""
    told = [f"{pair.newly_failing:,} newly failing", f"{pair.newly_fixed:,} newly fixed"]
    if pair.mixed:
        told.insert(1, f"{pair.mixed:,} both")
    parts = [", ".join(told)]
    if pair.other_ids is not None:
        parts.append(f"{pair.other_ids:,} with other retrieved ids")
    if pair.other_response is not None:
        parts.append(f"{pair.other_response:,} with another response")
    return f"{'; '.join(parts)}, of {pair.cases:,}"


def flip_text(flip: Flip) -> str:
    """One respect in which a case changed."""
    old = _state(flip.before, flip.before_status)
    text = f"{one_line(flip.subject)} {old} -> {_state(flip.after, flip.after_status)}"
    return f"{text} ({one_line(flip.reason, longest=_LONGEST)})" if flip.reason else text


def ids_text(change: IdChange | None) -> str:
    """What became of the retrieved ids; ranks stand in brackets."""
    if change is None:
        return "unknown"
    if change.is_none:
        return "the same"
    lost = [f"{_id(id_)} ({rank})" for id_, rank in change.lost]
    gained = [f"{_id(id_)} ({rank})" for id_, rank in change.gained]
    moved = [f"{_id(id_)} ({old} -> {new})" for id_, old, new in change.moved]
    kinds = (("lost", lost), ("gained", gained), ("moved", moved))
    return "; ".join(f"{kind} {_listed(names)}" for kind, names in kinds if names)


def response_text(response: str | None, generated: Status | None) -> str:
    """A response in quotes, or how generation ended."""
    if response is None:
        return "failed" if generated is Status.FAILED else "none"
    text = f'"{one_line(response, longest=_LONGEST)}"'
    return f"{text} (abstained)" if generated is Status.ABSTAINED else text


def what_changed(case: CaseDifference) -> Iterator[tuple[str, str]]:
    """What a reader wants to know of a case: a label and a line each."""
    if case.query is not None:
        yield "", one_line(case.query, longest=_LONGEST)
    for flip in case.flips:
        yield "fails" if flip.newly_fails else "passes", flip_text(flip)
    if case.ids is not None:
        yield "ids", ids_text(case.ids)
    old = response_text(case.response_before, case.stages_before.get("generate"))
    new = response_text(case.response_after, case.stages_after.get("generate"))
    if (case.response_before, case.response_after) != (None, None) or old != new:
        if old == new and case.response_before == case.response_after:
            yield "answer", f"the same: {old}"
        else:
            yield case.first, old
            yield case.second, new


def p_text(found: Difference) -> str:
    """The corrected p-value; ``-`` where nothing could be tested."""
    if not found.cases:
        return "-"
    p_value = found.p_corrected
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def span_text(found: Difference, unit: str) -> str:
    """The interval of a difference."""
    if found.low is None or found.high is None:
        return "-"
    return " .. ".join(number_text(end, unit, sign=True) for end in (found.low, found.high))


def family_text(comparison: Comparison) -> str:
    """How the p-values and the marks are to be read."""
    settings = comparison.settings
    sides = {metric.direction for metric in comparison.metrics if metric.differences}
    or_larger = " (or larger, where neither side is better)" if Direction.NEITHER in sides else ""
    return (
        f"p: two-sided, by flipping signs of clusters, corrected (Holm) for {settings['family']} "
        f"tests. A raised letter names a run that this one is better than{or_larger} at level "
        f"{settings['alpha']:g}. Intervals: {settings['confidence']:.0%}, each for itself."
    )


def _state(value: float | None, status: Status) -> str:
    return number_text(value) if value is not None else status.value


def _id(id_: str) -> str:
    return one_line(id_, longest=_LONGEST_ID)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _IDS:,} more" if len(names) > _IDS else ""
    return f"{', '.join(names[:_IDS])}{rest}"
