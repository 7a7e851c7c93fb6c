"""What became of the cases: the waterfall of causes and their flow, as lines and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragbench.core.attribution import Cause, CauseCount, CauseFlow
from ragbench.safe_text import markdown_table, markdown_text, shown_line

_STAGES = 3
"""How many operators are named for a cause."""
_FLOWS = 10
"""How many ways from cause to cause are listed."""


class Fall(NamedTuple):
    """One step of the waterfall."""

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
    total = sum(count.cases for count in causes)
    left = total
    found: list[Fall] = []
    for count in causes:
        left -= count.cases
        found.append(Fall(count.cause, count.cases, left, count.cases / total, _note(count)))
    return tuple(found)


def _note(count: CauseCount) -> str:
    parts: list[str] = []
    if count.cause in (Cause.DROPPED, Cause.FAILED):
        named = [f"{shown_line(name, longest=60)} {n:,}" for name, n in count.stages[:_STAGES]]
        rest = len(count.stages) - _STAGES
        parts.append(", ".join(named) + (f" and {rest} more" if rest > 0 else ""))
    if count.estimated:
        parts.append(f"{count.estimated:,} estimated")
    return "; ".join(part for part in parts if part)


def causes_markdown(causes: Sequence[CauseCount]) -> Iterator[str]:
    """The waterfall as lines of Markdown; nothing without a cause."""
    if not causes:
        return
    yield from markdown_table(
        ("what became of the cases", "cases", "share", "left", ""),
        (
            (
                fall.cause.label,
                f"{fall.cases:,}",
                f"{fall.share:.0%}",
                f"{fall.left:,}",
                markdown_text(fall.note),
            )
            for fall in waterfall(causes)
        ),
    )


def flow_text(flow: CauseFlow) -> str:
    """How many cases went from one cause to another."""
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def flows_markdown(flows: Sequence[CauseFlow]) -> Iterator[str]:
    """Where the cases went that have another cause now, as lines of Markdown."""
    moved = [flow for flow in flows if flow.before is not flow.after]
    if not moved:
        return
    several = len({flow.second for flow in flows}) > 1
    yield from markdown_table(
        ("before", "after", "cases", *(["run"] if several else [])),
        (
            (
                flow.before.label,
                flow.after.label,
                f"{flow.cases:,}",
                *([flow.second] if several else []),
            )
            for flow in moved[:_FLOWS]
        ),
    )
    if len(moved) > _FLOWS:
        yield ""
        yield f"... and {len(moved) - _FLOWS} more ways."
