"""The page of a document."""

from __future__ import annotations

from typing import Any

from ragbench.core.comparison import CaseDifference, CaseKind
from ragbench.views.document import KIND_TITLES, Changes, Document, flip_text, ids_text
from ragbench.views.html.case import anchor
from ragbench.views.html.chunks import compared_texts
from ragbench.views.html.page import Page, render

_MOST = 500
"""Cases of a kind that a page holds."""
_TONES = {CaseKind.FAILING: "fails", CaseKind.MIXED: "undecided", CaseKind.FIXED: "passes"}


def document_page(document: Document) -> Page:
    groups = [list(map(_group, section.changes)) for section in document.shown]
    body = render("document.html.jinja", {"document": document, "groups": groups})
    return Page(title=f"{document.kind}: {document.title}", body=[body])


def _group(group: Changes) -> dict[str, Any]:
    more = len(group.cases) - _MOST
    return {
        "title": group.title,
        "word": KIND_TITLES[group.kind],
        "tone": _TONES[group.kind],
        "cases": list(map(_case, group.cases[:_MOST])),
        "more": f"... and {more:,} more" if more > 0 else "",
    }


def _case(case: CaseDifference) -> dict[str, Any]:
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "id": case.id,
        "anchor": anchor(case.id),
        "query": case.query or "",
        "flips": [
            f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}" for flip in case.flips
        ],
        "sides": (
            (case.first, before, case.stages_before.get("generate", "unknown")),
            (case.second, after, case.stages_after.get("generate", "unknown")),
        ),
        "ids": ids_text(case.ids),
    }
