"""The page of a document."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ragbench.core.comparison import CaseDifference, CaseKind
from ragbench.views.document import (
    MOST_CHANGED_CASES,
    Document,
    cause_text,
    flip_text,
    ids_text,
)
from ragbench.views.html.case import anchor, compared_texts
from ragbench.views.html.page import Page, render

_TONES = {CaseKind.FAILING: "fails", CaseKind.MIXED: "undecided", CaseKind.FIXED: "passes"}


def document_page(document: Document, folder: Path = Path()) -> Page:
    """The page of a document, as of a gate or a comparison.

    It needs no network: style, script and drawings are within.

    Args:
        folder: in which the page lies; by it the page links to the pages of the runs.
    """
    values = {
        "document": document,
        # Links to cases of other runs are relative to the page's folder.
        "case_values": partial(_case_values, folder),
        "most": MOST_CHANGED_CASES,
        "tones": _TONES,
    }
    body = render("document.html.jinja", values)
    return Page(title=f"{document.kind}: {document.title}", body=[body])


def _case_values(folder: Path, case: CaseDifference, place: str) -> dict[str, Any]:
    """The values of a changed case that the template of a page cannot read off its record.

    They are the anchor, the link, the differences and both answers in parts.

    Args:
        folder: in which the page lies.
        place: the folder of the case's run; where that has a page, the case links to it.
    """
    # A run's page is in its folder; where it was never written there is no link.
    page = Path(place, "report.html")
    link = ""
    if page.is_file():
        link = quote(os.path.relpath(page, folder).replace(os.sep, "/"))
    flips: list[str] = []
    for flip in case.flips:
        flips.append(f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}")
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "anchor": anchor(case.id),
        "link": f"{link}#{anchor(case.id)}",
        "cause": cause_text(case),
        "flips": flips,
        # Two sides of the same form: mark, answer in parts, how generation ended.
        "sides": (
            (case.first, before, case.stages_before.get("generate", "unknown")),
            (case.second, after, case.stages_after.get("generate", "unknown")),
        ),
        "ids": ids_text(case.ids, case.gold),
    }
