"""The page of a validated dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.validation import DumpSummary, EarlierRetrieval, PairedDumps, Verdict
from ragbench.safe_text import as_line
from ragbench.views.document import Document, Section
from ragbench.views.html import charts
from ragbench.views.html.case import anchor
from ragbench.views.html.document import document_page
from ragbench.views.html.page import Page
from ragbench.views.roles import roles_section
from ragbench.views.validation import summary_lines

_WORST = 50
"""Queries of a dump that a page shows."""
_MOST = 200
"""Queries that it shows as won, and as lost."""
_IDS = 20
_DEEPEST = 50
"""Ranks that its curve shows."""


_Shown = tuple[float, dict[str, Any]]
"""What decides which are shown, the least first; and the item."""


class DumpPage:
    """Collects the verdicts on a dump, then renders its page.

    Args:
        earlier: what another retriever's chunks came to, by query id: queries whose answer was won
            or lost against it stand first.
    """

    def __init__(self, earlier: Mapping[str, EarlierRetrieval] = MappingProxyType({})) -> None:
        self.earlier = earlier
        self._ranks: list[int | None] = []
        self._earlier_ranks: list[int | None] = []
        self._longest = 0
        self._worst: list[_Shown] = []
        self._changed: dict[bool, list[_Shown]] = {False: [], True: []}
        """By whether the answer is present now."""

    def add(self, query_id: str, query: str, outcome: Outcome[Verdict]) -> None:
        verdict, before = outcome.value, self.earlier.get(query_id)
        if verdict is None:
            return
        self._ranks.append(_first(tuple(verdict.relevance), verdict.relevant_chunk_ids))
        self._longest = max(self._longest, len(verdict.relevance))
        item = _query(query_id, query, verdict)
        self._worst.append((verdict.answer_probability, item))
        if len(self._worst) > 4 * _WORST:
            self._worst = _least(self._worst, _WORST)
        if before is None:
            return
        self._earlier_ranks.append(_first(before.chunk_ids, before.relevant_ids))
        if before.answer_present is not verdict.answer_present:
            moved = -abs(verdict.answer_probability - before.answer_probability)
            self._changed[verdict.answer_present].append((moved, _beside(item, verdict, before)))

    def page(self, summary: DumpSummary) -> Page:
        present, compared = summary.answer_present, summary.doctor.compared
        share = "" if present.share is None else f" ({present.share:.0%})"
        headline = (
            f"The answer is shown to be in the chunks of {present.count:,} of {present.total:,} "
            f"queries{share}, by {summary.validator}."
        )
        worst = [item for _, item in _least(self._worst, _WORST)]
        return document_page(
            Document(
                kind="ragbench validation",
                title=summary.dump,
                headline=headline,
                notes=summary.problems[:5],
                sections=[
                    Section(title="Summary", lines=list(summary_lines(summary))),
                    *([] if compared is None else _against(compared, self._changed)),
                    *self._depths(min(self._longest, _DEEPEST)),
                    Section(title="Worst queries", details=worst),
                    roles_section(summary.roles),
                ],
            )
        )

    def _depths(self, deepest: int) -> Iterator[Section]:
        """Where the first relevant chunks stand, as a curve and numbers."""
        if not self._ranks or not deepest:
            return
        here, then = (
            [ranks.count(rank) / (len(ranks) or 1) for rank in range(1, deepest + 1)]
            for ranks in (self._ranks, self._earlier_ranks)
        )
        shares, before = [*accumulate(here)], [*accumulate(then)] if self._earlier_ranks else []
        dashed = " Dashed: the earlier dump, on the queries in both." if before else ""
        drawn = charts.curve(
            shares,
            before,
            label="Share of queries with a relevant chunk within the first k",
            across="chunks kept",
            up="share of queries",
        )
        caption = f"Queries with a relevant chunk among the first k.{dashed}"
        both = zip(shares, here, strict=True)
        yield Section(
            title="How deep the answers stand",
            columns=(
                "cut-off",
                "queries with a relevant chunk by then",
                "first relevant chunk here",
            ),
            rows=[
                [str(k), f"{share:.1%}", f"{first:.1%}"] for k, (share, first) in enumerate(both, 1)
            ],
            hint="A steep start and a flat end say that fewer chunks would do; a rise to the end, "
            "that more would find more.",
            charts=[{"drawn": drawn, "caption": caption}],
        )


def _least(items: Sequence[_Shown], most: int) -> list[_Shown]:
    return sorted(items, key=lambda item: item[0])[:most]


def _first(chunks: Sequence[str], relevant: Sequence[str]) -> int | None:
    wanted = set(relevant)
    return next((rank for rank, id in enumerate(chunks, 1) if id in wanted), None)


def _against(compared: PairedDumps, changed: Mapping[bool, Sequence[_Shown]]) -> Iterator[Section]:
    counts = (compared.queries, compared.won, compared.lost)
    yield Section(
        title=f"Against {compared.against}",
        columns=("queries in both", "won", "lost", "p"),
        rows=[[*(f"{count:,}" for count in counts), f"{compared.p_value:.3g}"]],
        hint="Won: the answer is shown to be in the chunks here, and was not there. p: McNemar's "
        "exact test, two-sided.",
    )
    for present, title in ((False, "Lost"), (True, "Won")):
        more = len(changed[present]) - _MOST
        yield Section(
            title=f"{title}: {len(changed[present]):,}",
            details=[item for _, item in _least(changed[present], _MOST)],
            hint=f"... and {more:,} more" if more > 0 else "",
        )


def _beside(item: dict[str, Any], verdict: Verdict, before: EarlierRetrieval) -> dict[str, Any]:
    """A query whose answer was won or lost: with what the other retriever's chunks came to."""
    now, then = verdict.relevance, before.chunk_ids
    moved: list[str] = []
    for name, mine, other in (("only here", [*now], then), ("only there", then, [*now])):
        ids = [id for id in mine if id not in frozenset(other)]
        moved += [f"{name}: {as_line(ids, _IDS)}"] if ids else []
    chance, was = verdict.answer_probability, before.answer_probability
    quotes = [{**quote, "id": f"here, {quote['id']}"} for quote in item["quotes"]]
    return {
        **item,
        "word": f"{was:.2f} → {chance:.2f}",
        "lines": [
            f"Chunks: {'; '.join(moved) or 'the same'}.",
            f"There: {before.quality}, probability of an answer {was:.2f}. "
            f"Here: {verdict.retrieval_quality.value}, {chance:.2f}.",
            *item["lines"],
        ],
        "quotes": [
            *quotes,
            *({"id": f"there, {id}", "text": text[:1000]} for id, text in before.quotes),
        ],
    }


def _query(query_id: str, query: str, verdict: Verdict) -> dict[str, Any]:
    chances = ", ".join(f"{id} {p:.2f}" for id, p in list(verdict.relevance.items())[:_IDS])
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
        "quotes": [{"id": one.chunk_id, "text": one.text[:1000]} for one in verdict.evidence],
    }
