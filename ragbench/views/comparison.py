"""A comparison in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.comparison import (
    CaseDifference,
    Comparison,
    Difference,
    Flip,
    IdChange,
    RunPair,
)
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.safe_text import shown_line
from ragbench.views.gate import number_text

_IDS = 5
"""How many ids of a kind are named."""
_LONGEST = 200
"""Letters of a response, a question or a reason that are shown."""
_LONGEST_ID = 60


def kinds_text(pair: RunPair) -> str:
    """How many cases pass in one of the runs and fail in the other."""
    kinds = [f"{pair.newly_failing:,} newly failing", f"{pair.newly_fixed:,} newly fixed"]
    if pair.mixed:
        kinds.insert(1, f"{pair.mixed:,} both")
    return ", ".join(kinds)


def counts_text(pair: RunPair) -> str:
    """How many cases differ."""
    parts = [kinds_text(pair)]
    if pair.other_ids is not None:
        parts.append(f"{pair.other_ids:,} with other retrieved ids")
    if pair.other_response is not None:
        parts.append(f"{pair.other_response:,} with another response")
    return f"{'; '.join(parts)}, of {pair.cases:,}"


def flip_text(flip: Flip) -> str:
    """One respect in which a case changed."""
    old = _state(flip.before, flip.before_status)
    text = f"{shown_line(flip.subject)} {old} -> {_state(flip.after, flip.after_status)}"
    return f"{text} ({shown_line(flip.reason, longest=_LONGEST)})" if flip.reason else text


def ids_text(change: IdChange | None) -> str:
    """What became of the retrieved ids; ranks stand in brackets."""
    if change is None:
        return "unknown"
    if change.is_none:
        return "the same"
    kinds = {
        "lost": [(id_, str(rank)) for id_, rank in change.lost],
        "gained": [(id_, str(rank)) for id_, rank in change.gained],
        "moved": [(id_, f"{old} -> {new}") for id_, old, new in change.moved],
    }
    named = {
        kind: [f"{shown_line(id_, longest=_LONGEST_ID)} ({ranks})" for id_, ranks in found]
        for kind, found in kinds.items()
    }
    return "; ".join(f"{kind} {_as_line(names, _IDS)}" for kind, names in named.items() if names)


def response_text(response: str | None, generated: Status | None) -> str:
    """A response in quotes, or how generation ended."""
    if response is None:
        return "failed" if generated is Status.FAILED else "none"
    text = f'"{shown_line(response, longest=_LONGEST)}"'
    return f"{text} (abstained)" if generated is Status.ABSTAINED else text


def what_changed(case: CaseDifference) -> Iterator[tuple[str, str]]:
    """What a reader wants to know of a case: a label and a line each."""
    if case.query is not None:
        yield "", shown_line(case.query, longest=_LONGEST)
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
    least = max(found.resolution, 0.001)
    return f"<{least:.3f}" if p_value < least or p_value <= found.resolution else f"{p_value:.3f}"


_NAMED = 4
"""How many metrics of a kind a result names."""


def result_lines(comparison: Comparison) -> Iterator[str]:
    """What is beyond chance of each run against the first one."""
    first = comparison.runs[0].mark
    alike: list[str] = []
    for run in comparison.runs[1:]:
        ways: dict[str, list[str]] = {"worse": [], "better": [], "different": []}
        for metric in comparison.metrics:
            for one in metric.differences:
                if (one.first, one.second) == (first, run.mark) and one.is_significant:
                    change = number_text(one.difference, metric.unit, sign=True)
                    name = f"{shown_line(metric.name)} ({change})"
                    is_up = (one.difference or 0.0) > 0.0
                    way = "better" if is_up is (metric.direction is Direction.HIGHER) else "worse"
                    ways["different" if metric.direction is Direction.NEITHER else way].append(name)
        found = [f"{way} on {_as_line(names)}" for way, names in ways.items() if names]
        if found:
            yield f"{run.mark} against {first}: {'; '.join(found)}"
        else:
            alike.append(run.mark)
    if alike:
        tested = sum(bool(metric.differences) for metric in comparison.metrics)
        metrics = "1 metric" if tested == 1 else f"{tested:,} metrics"
        yield f"{', '.join(alike)} against {first}: no difference beyond chance in {metrics}"


def _as_line(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def family_text(comparison: Comparison) -> str:
    """How the p-values and the marks are to be read."""
    settings = comparison.settings
    sides = {metric.direction for metric in comparison.metrics if metric.differences}
    or_larger = " (or larger, where neither side is better)" if Direction.NEITHER in sides else ""
    tests = settings["family"]
    corrected = f", corrected (jointly) for {tests} tests" if tests not in (0, 1) else ""
    return (
        f"p: two-sided, by flipping signs of clusters{corrected}. ^ names a run "
        f"that this one is better than{or_larger} at level {settings['alpha']:g}. Intervals: "
        f"{settings['confidence']:.0%}, each for itself."
    )


def _state(value: float | None, status: Status) -> str:
    return number_text(value) if value is not None else status.value
