"""The page of a validated dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.validation import DumpSummary, Verdict
from ragbench.views.html import charts
from ragbench.views.html.case import anchor
from ragbench.views.html.facts import Page, facts_page, section
from ragbench.views.validation import summary_lines

__all__ = [
    "DumpPage",
]

_WORST = 50
"""Queries of a dump that a page shows."""
_DEEPEST = 50
"""Ranks that its curves show."""


@dataclass(slots=True)
class DumpPage:
    """Collects the verdicts on a dump, then renders its page."""

    _ranks: list[int | None] = field(default_factory=list[int | None])
    _longest: int = 0
    _worst: list[tuple[float, dict[str, Any]]] = field(
        default_factory=list[tuple[float, dict[str, Any]]]
    )

    def add(self, query_id: str, query: str, outcome: Outcome[Verdict]) -> None:
        """Takes a verdict."""
        verdict = outcome.value
        if verdict is None:
            return
        relevant = set(verdict.relevant_chunk_ids)
        ranks = (rank for rank, id in enumerate(verdict.relevance, 1) if id in relevant)
        self._ranks.append(next(ranks, None))
        self._longest = max(self._longest, len(verdict.relevance))
        self._worst.append((verdict.answer_probability, _query(query_id, query, verdict)))
        if len(self._worst) > 4 * _WORST:
            self._worst = self._kept()

    def _kept(self) -> list[tuple[float, dict[str, Any]]]:
        return sorted(self._worst, key=lambda item: item[0])[:_WORST]

    def page(self, summary: DumpSummary) -> Page:
        """The page, once all verdicts are there."""
        present = summary.answer_present
        share = "" if present.share is None else f" ({present.share:.0%})"
        worst = [item for _, item in self._kept()]
        return facts_page(
            kind="ragbench validation",
            title=summary.dump,
            tab=f"Validation of {summary.dump}",
            headline=(
                f"The answer is shown to be in the chunks of {present.count:,} of "
                f"{present.total:,} queries{share}, by {summary.validator}."
            ),
            notes=summary.problems[:5],
            sections=[
                section("Summary", ("",), [[line] for line in summary_lines(summary)]),
                *([_depth(self._ranks, min(self._longest, _DEEPEST))] if self._ranks else []),
                section("Worst queries", (), [], details=worst),
            ],
        )


def _depth(ranks: Sequence[int | None], deepest: int) -> dict[str, Any]:
    """Where the first relevant chunks stand, as curves and numbers.

    Args:
        ranks: of the first relevant chunk, a query each; None where none is relevant.
        deepest: the last rank that is shown.
    """
    first = [ranks.count(k) / len(ranks) for k in range(1, deepest + 1)]
    shares = [*accumulate(first)]
    curves = (
        (shares, "chunks kept", "Share of queries with a relevant chunk within the first k",
         "Queries with a relevant chunk among the first k."),
        (first, "rank", "Share of queries whose first relevant chunk has rank k",
         "Where the first relevant chunk stands."),
    )  # fmt: skip
    return section(
        "How deep the answers stand",
        ("Cut-off", "queries with a relevant chunk by then", "first relevant chunk here"),
        [
            [str(k), f"{share:.1%}", f"{here:.1%}"]
            for k, (share, here) in enumerate(zip(shares, first, strict=True), 1)
        ],
        hint="A steep start and a flat end say that fewer chunks would do; a rise to the end, that "
        "more would find more.",
        charts=[
            {
                "drawn": charts.curve(values, label=label, across=across, up="share of queries"),
                "caption": caption,
            }
            for values, across, label, caption in curves
        ],
    )


def _query(query_id: str, query: str, verdict: Verdict) -> dict[str, Any]:
    chances = ", ".join(f"{id} {p:.2f}" for id, p in list(verdict.relevance.items())[:20])
    return {
        "word": f"{verdict.retrieval_quality.value} {verdict.answer_probability:.2f}",
        "id": query_id,
        "anchor": anchor(query_id),
        "text": query[:1000],
        "lines": [
            verdict.message,
            *verdict.reasons,
            f"Probability by chunk: {chances or 'no chunk'}",
            *(f"Warning: {warning}" for warning in verdict.warnings),
        ],
        "quotes": [
            {"id": quoted.chunk_id, "before": "", "text": quoted.text[:1000], "after": ""}
            for quoted in verdict.evidence
        ],
    }
