"""The page of a validated dump."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from ragbench.views.words import presence_text

_WORST = 50
"""Queries of a dump that a page shows."""
_MOST_CHANGED = 200
"""Queries that it shows as won, and as lost."""
_MOST_IDS = 20
"""Chunks of a query whose ids it shows."""
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
        """Takes in the verdict on a query; one that failed is on no curve and in no list."""
        verdict = outcome.value
        if verdict is None:
            return
        self._ranks.append(_first_rank(tuple(verdict.relevance), verdict.relevant_chunk_ids))
        self._longest = max(self._longest, len(verdict.relevance))
        item = _query(query_id, query, verdict)
        self._worst.append((verdict.answer_probability, item))
        if len(self._worst) > 4 * _WORST:  # a dump may have millions of queries
            self._worst = _least(self._worst, _WORST)
        before = self.earlier.get(query_id)
        if before is None:
            return
        self._earlier_ranks.append(_first_rank(before.chunk_ids, before.relevant_ids))
        if before.answer_present is not verdict.answer_present:
            # Negative: the largest change is shown first.
            change = -abs(verdict.answer_probability - before.answer_probability)
            self._changed[verdict.answer_present].append((change, _beside(item, verdict, before)))

    def page(self, summary: DumpSummary) -> Page:
        """The page, after all queries were added."""
        present = summary.answer_present
        compared = summary.doctor.compared
        share = "" if present.share is None else f" ({present.share:.0%})"
        headline = (
            f"The answer is shown to be in the chunks of {present.count:,} of {present.total:,} "
            f"queries{share}, by {summary.validator}."
        )
        worst = [item for _, item in _least(self._worst, _WORST)]
        sections = [Section(title="Summary", lines=list(summary_lines(summary)))]
        if compared is not None:
            sections += _against(compared, self._changed)
        sections += self._depths(min(self._longest, _DEEPEST))
        sections.append(Section(title="Worst queries", details=worst))
        sections.append(roles_section(summary.roles))
        return document_page(
            Document(
                kind="ragbench validation",
                title=summary.dump,
                headline=headline,
                notes=summary.problems[:5],
                sections=sections,
            )
        )

    def _depths(self, deepest: int) -> Iterator[Section]:
        """Where the first relevant chunks stand, as a curve and numbers."""
        if not self._ranks or not deepest:
            return
        shares_here = _share_by_rank(self._ranks, deepest)
        shares_by_then = [*accumulate(shares_here)]
        earlier: list[float] = []
        caption = "Queries with a relevant chunk among the first k."
        if self._earlier_ranks:
            earlier = [*accumulate(_share_by_rank(self._earlier_ranks, deepest))]
            caption += " Dashed: the earlier dump, on the queries in both."
        drawn = charts.curve(
            shares_by_then,
            earlier,
            label="Share of queries with a relevant chunk within the first k",
            across="chunks kept",
            up="share of queries",
        )
        rows: list[list[str]] = []
        pairs = zip(shares_by_then, shares_here, strict=True)
        for k, (share_by_then, share_here) in enumerate(pairs, 1):
            rows.append([str(k), f"{share_by_then:.1%}", f"{share_here:.1%}"])
        yield Section(
            title="How deep the answers stand",
            columns=(
                "cut-off",
                "queries with a relevant chunk by then",
                "first relevant chunk here",
            ),
            rows=rows,
            hint="A steep start and a flat end say that fewer chunks would do; a rise to the end, "
            "that more would find more.",
            charts=[{"drawn": drawn, "caption": caption}],
        )


def _least(items: Sequence[_Shown], count: int) -> list[_Shown]:
    """The first of the items, in the order in which they are shown."""
    return sorted(items, key=lambda item: item[0])[:count]


def _first_rank(chunk_ids: Sequence[str], relevant_ids: Collection[str]) -> int | None:
    """Where the first relevant chunk stands, from 1; None where there is none."""
    for rank, id in enumerate(chunk_ids, 1):
        if id in relevant_ids:
            return rank
    return None


def _share_by_rank(ranks: Sequence[int | None], deepest: int) -> list[float]:
    """The share of queries whose first relevant chunk stands at each rank."""
    return [ranks.count(rank) / len(ranks) for rank in range(1, deepest + 1)]


def _against(compared: PairedDumps, changed: Mapping[bool, Sequence[_Shown]]) -> Iterator[Section]:
    """How the dump compares with the earlier one: counts, then the queries lost and won."""
    row = [f"{compared.queries:,}", f"{compared.won:,}", f"{compared.lost:,}"]
    yield Section(
        title=f"Against {compared.against}",
        columns=("queries in both", "won", "lost", "p"),
        rows=[[*row, f"{compared.p_value:.3g}"]],
        hint="Won: the answer is shown to be in the chunks here, and was not there. p: McNemar's "
        "exact test, two-sided.",
    )
    for is_present, title in ((False, "Lost"), (True, "Won")):
        items = changed[is_present]
        hint = ""
        if len(items) > _MOST_CHANGED:
            hint = f"... and {len(items) - _MOST_CHANGED:,} more"
        yield Section(
            title=f"{title}: {len(items):,}",
            details=[item for _, item in _least(items, _MOST_CHANGED)],
            hint=hint,
        )


def _beside(item: dict[str, Any], verdict: Verdict, before: EarlierRetrieval) -> dict[str, Any]:
    """A query whose answer was won or lost: with what the other retriever's chunks came to."""
    ids_there = frozenset(before.chunk_ids)
    only_here = [id for id in verdict.relevance if id not in ids_there]
    only_there = [id for id in before.chunk_ids if id not in verdict.relevance]
    differences: list[str] = []
    if only_here:
        differences.append(f"only here: {as_line(only_here, _MOST_IDS)}")
    if only_there:
        differences.append(f"only there: {as_line(only_there, _MOST_IDS)}")
    probability = f"{verdict.answer_probability:.2f}"
    probability_there = f"{before.answer_probability:.2f}"
    quotes = [{**quote, "id": f"here, {quote['id']}"} for quote in item["quotes"]]
    quotes += [{"id": f"there, {id}", "text": text[:1000]} for id, text in before.quotes]
    return {
        **item,
        "word": f"{probability_there} → {probability}",
        "lines": [
            f"Chunks: {'; '.join(differences) or 'the same'}.",
            f"There: {before.quality}, probability of an answer {probability_there}. "
            f"Here: {verdict.retrieval_quality.value}, {probability}.",
            *item["lines"],
        ],
        "quotes": quotes,
    }


def _query(query_id: str, query: str, verdict: Verdict) -> dict[str, Any]:
    """A query as the page shows it: what the validator says of it, with its quotes."""
    relevance = [*verdict.relevance.items()][:_MOST_IDS]
    chances = ", ".join(f"{id} {probability:.2f}" for id, probability in relevance)
    return {
        "word": f"{verdict.retrieval_quality.value} {verdict.answer_probability:.2f}",
        "id": query_id,
        "anchor": anchor(query_id),
        "text": query[:1000],
        "lines": [
            verdict.message,
            f"Answer present: {presence_text(verdict)}.",
            *verdict.reasons,
            f"Probability by chunk: {chances or 'no chunk'}",
            *[f"Warning: {warning}" for warning in verdict.warnings],
        ],
        "quotes": [{"id": quote.chunk_id, "text": quote.text[:1000]} for quote in verdict.evidence],
    }
