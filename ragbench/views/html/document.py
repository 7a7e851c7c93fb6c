"""The page of a document."""

from __future__ import annotations

from typing import Any

from ragbench.core.comparison import CaseDifference, CaseKind
from ragbench.views.document import Document, flip_text, ids_text
from ragbench.views.html.case import anchor
from ragbench.views.html.chunks import compared_texts
from ragbench.views.html.page import Page, render

_MOST = 500
"""Cases of a kind that a page holds."""
_TONES = {CaseKind.FAILING: "fails", CaseKind.MIXED: "undecided", CaseKind.FIXED: "passes"}


def document_page(document: Document) -> Page:
    values = {"document": document, "told": _told, "most": _MOST, "tones": _TONES}
    body = render("document.html.jinja", values)
    return Page(title=f"{document.kind}: {document.title}", body=[body])


def _told(case: CaseDifference) -> dict[str, Any]:
    """What the template cannot read off a case."""
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "anchor": anchor(case.id),
        "flips": [
            f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}" for flip in case.flips
        ],
        "sides": (
            (case.first, before, case.stages_before.get("generate", "unknown")),
            (case.second, after, case.stages_after.get("generate", "unknown")),
        ),
        "ids": ids_text(case.ids),
    }
