"""A page of sections: what comparisons, gates, ablations and validated dumps have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.views.html.page import render

__all__ = [
    "Page",
    "facts_page",
    "section",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page without its head and foot."""

    title: str
    body: Sequence[str]


def facts_page(
    *,
    kind: str,
    title: str,
    headline: str,
    notes: Sequence[str],
    sections: Sequence[dict[str, Any]],
    tone: str = "",
    tab: str = "",
) -> Page:
    """A page of sections.

    Args:
        kind: what it is a page of.
        title: its first line.
        headline: what came out, in a sentence.
        notes: what a reader must know to read it right.
        sections: see `section`.
        tone: colour of the headline: ``"passes"``, ``"fails"``, ``"undecided"`` or none.
        tab: what a browser's tab says; the title when not given.
    """
    values = {
        "kind": kind,
        "title": title,
        "headline": headline,
        "tone": tone,
        "notes": notes,
        "sections": sections,
    }
    return Page(title=tab or title, body=[render("facts.html.jinja", values)])


def section(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    hint: str = "",
    charts: Sequence[dict[str, Any]] = (),
    details: Sequence[dict[str, Any]] = (),
    groups: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A part of a page.

    Args:
        title: its head.
        columns: of its table.
        rows: the table's cells.
        hint: how to read it.
        charts: drawings with their captions.
        details: what folds out, an item each.
        groups: cases that went another way, see `ragbench.views.html.changes.change_groups`.
    """
    return {
        "title": title,
        "columns": columns,
        "rows": rows,
        "hint": hint,
        "charts": charts,
        "details": details,
        "groups": groups,
    }
