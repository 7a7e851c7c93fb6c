"""What lies behind a gate's decision, as Markdown for a summary and a comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.against import Against
from ragbench.core.attribution import CauseCount
from ragbench.core.comparison import CaseDifference
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.comparison import counts_text, flip_text, ids_text, response_text
from ragbench.views.run_words import causes_markdown, flows_markdown

_CASES = 5
"""Cases that are shown; the page holds more."""
_LONGEST = 160


def story_markdown(causes: Sequence[CauseCount], against: Against | None) -> Iterator[str]:
    """The waterfall of the run, then how it differs from the baseline, case by case."""
    if causes:
        yield "#### Where the answers were lost"
        yield ""
        yield from causes_markdown(causes)
    if against is None:
        return
    moved = [*flows_markdown(against.flows)]
    if moved:
        yield ""
        yield "#### How causes changed"
        yield ""
        yield from moved
    if against.changed:
        yield ""
        yield "#### Cases that went another way"
        yield ""
        yield f"{counts_text(against.pair)} cases."
        yield ""
        yield from _changed(against.changed)


def _changed(changed: Sequence[CaseDifference]) -> Iterator[str]:
    yield from markdown_table(
        ("case", "question", "what changed", "answer before", "answer now", "retrieved"),
        map(_row, changed[:_CASES]),
    )
    if len(changed) > _CASES:
        yield ""
        yield f"... and {len(changed) - _CASES:,} more cases: the page shows them."


def _row(case: CaseDifference) -> Sequence[str]:
    tells_texts = bool(case.stages_before)
    before = response_text(case.response_before, case.stages_before.get("generate"))
    return (
        _short(case.id),
        _short(case.query or ""),
        _short(f"{case.kind.value}: {'; '.join(map(flip_text, case.flips))}"),
        _short(before) if tells_texts else "not kept",
        _short(response_text(case.response_after, case.stages_after.get("generate"))),
        "" if case.ids is None else _short(ids_text(case.ids)),
    )


def _short(text: str) -> str:
    return markdown_text(text, longest=_LONGEST)
