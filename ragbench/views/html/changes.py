"""Cases that went another way in a second run, and how causes changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.core.attribution import CauseFlow
from ragbench.core.comparison import CaseDifference, CaseKind, RunPair
from ragbench.views.comparison import flip_text, ids_text
from ragbench.views.html.case import anchor
from ragbench.views.html.differences import compared_texts

_MOST = 500
"""Cases of a kind that a page shows."""
_WORDS = {
    CaseKind.FAILING: ("Newly failing", "fails"),
    CaseKind.MIXED: ("Failing in one respect, fixed in another", "undecided"),
    CaseKind.FIXED: ("Newly fixed", "passes"),
}


def flow_rows(flows: Sequence[CauseFlow]) -> list[list[str]]:
    """From which cause to which, how many cases, of which run, and some of them."""
    return [
        [
            flow.before.label,
            flow.after.label,
            f"{flow.cases:,}",
            flow.second,
            ", ".join(flow.examples),
        ]
        for flow in flows
        if flow.before is not flow.after
    ]


def change_groups(
    pairs: Sequence[RunPair], changed: Sequence[CaseDifference]
) -> Iterator[dict[str, Any]]:
    """The cases by pair of runs and kind, newly failing ones first, with both answers."""
    for pair in pairs:
        for kind, (title, tone) in _WORDS.items():
            cases = [case for case in changed if case.second == pair.second and case.kind is kind]
            if cases:
                more = len(cases) - _MOST
                yield {
                    "title": f"{title}: {len(cases):,} ({pair.second} against {pair.first})",
                    "cases": [_case(case, title, tone) for case in cases[:_MOST]],
                    "more": f"... and {more:,} more" if more > 0 else "",
                }


def _case(case: CaseDifference, word: str, tone: str) -> dict[str, Any]:
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "id": case.id,
        "anchor": anchor(case.id),
        "kind": tone,
        "word": word,
        "query": case.query or "",
        "flips": [
            f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}" for flip in case.flips
        ],
        "first": f"Answer in {case.first}",
        "second": f"Answer in {case.second}",
        "before": before,
        "after": after,
        "before_status": _status(case.stages_before),
        "after_status": _status(case.stages_after),
        "ids": ids_text(case.ids),
    }


def _status(stages: Mapping[str, Any]) -> str:
    return str(stages.get("generate", "unknown"))
