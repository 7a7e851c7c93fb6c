"""A page of sections: what comparisons, gates, ablations and validated dumps have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.views.html.page import render


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
    return {
        "title": title,
        "columns": columns,
        "rows": rows,
        "hint": hint,
        "charts": charts,
        "details": details,
        "groups": groups,
    }
