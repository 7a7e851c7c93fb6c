"""The page of a validated dump: figures, how deep the answers are, the worst queries.

``ragbench validate`` gives each verdict to `DumpPage` as it comes, because a dump may have millions
of queries; only those that the page shows are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, islice
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

_MOST_WORST = 50
"""Queries of a dump that a page shows."""
_MOST_CHANGED = 200
"""Queries that it shows as won, and as lost."""
_MOST_IDS = 20
"""Chunks of a query whose ids it shows."""
_LONGEST = 1000
"""Letters of a query or a quote that it shows."""
_MOST_PROBLEMS = 5
"""Malformed parts of the dump that it names."""
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
        """Begins a page of a dump without any query.

        Verdicts come one by one, and only those that the page shows are kept.

        Args:
            earlier: the verdicts on another retriever's chunks by query id; empty without another.
        """
        self.earlier = earlier
        # For each query the rank of its first relevant chunk; None where it has none.
        self._ranks: list[int | None] = []
        # The ranks in the earlier dump, for the queries that are in both.
        self._earlier_ranks: list[int | None] = []
        # The number of chunks of the longest list, which is how far the curve goes.
        self._longest = 0
        # The worst queries so far, each with its probability; cut now and then to those shown.
        self._worst: list[_Shown] = []
        self._changed: dict[bool, list[_Shown]] = {False: [], True: []}
        """Queries whose verdict is another one than in the earlier dump, by whether the answer is
        present now."""

    def add(self, query_id: str, query: str, outcome: Outcome[Verdict]) -> None:
        """Takes in the verdict on a query of the dump.

        A query whose verdict failed is on no curve and in no list.
        """
        verdict = outcome.value
        if verdict is None:
            return
        self._ranks.append(_first_rank(tuple(verdict.relevance), verdict.relevant_chunk_ids))
        self._longest = max(self._longest, len(verdict.relevance))
        item = _query_item(query_id, query, verdict)
        self._worst.append((verdict.answer_probability, item))
        # A dump may have millions of queries: the list is cut now and then. Each cut sorts it,
        # which takes too long to do at each query.
        if len(self._worst) > 4 * _MOST_WORST:
            self._worst = _first_by_number(self._worst, _MOST_WORST)
        before = self.earlier.get(query_id)
        if before is None:
            return
        self._earlier_ranks.append(_first_rank(before.chunk_ids, before.relevant_ids))
        if before.answer_present is not verdict.answer_present:
            # Negative: the largest change is shown first.
            change = -abs(verdict.answer_probability - before.answer_probability)
            item_of_both = _item_beside_earlier(item, verdict, before)
            self._changed[verdict.answer_present].append((change, item_of_both))

    def page(self, summary: DumpSummary) -> Page:
        """The page of a validated dump, after all its queries were added.

        It shows the figures, how deep the answers are, and the worst queries, since nobody reads
        millions.
        """
        present = summary.answer_present
        queries = f"{present.count:,} of {present.total:,} queries"
        if present.share is not None:
            queries += f" ({present.share:.0%})"
        # The lowest probabilities: `_worst` pairs each with its item.
        worst = [item for _, item in _first_by_number(self._worst, _MOST_WORST)]
        sections = [Section(title="Summary", lines=list(summary_lines(summary)))]
        compared = summary.doctor.compared
        if compared is not None:
            sections += _comparison_sections(compared, self._changed)
        # A dump of very long lists would make a curve that nobody can read: `_DEEPEST` ranks at
        # most.
        sections += self._depth_sections(min(self._longest, _DEEPEST))
        sections.append(Section(title="Worst queries", details=worst))
        sections.append(roles_section(summary.roles))
        document = Document(
            kind="ragbench validation",
            title=summary.dump,
            headline=(
                f"The answer is shown to be in the chunks of {queries}, by {summary.validator}."
            ),
            notes=summary.problems[:_MOST_PROBLEMS],
            sections=sections,
        )
        return document_page(document)

    def _depth_sections(self, deepest: int) -> Iterator[Section]:
        """The section with the ranks of the first relevant chunks, as a curve and in numbers.

        From it a user reads how many chunks the retriever should give to generation.

        Args:
            deepest: the last rank of the curve; 0 for a dump whose queries have no chunks.
        """
        if not self._ranks or not deepest:
            return
        shares_here = _share_by_rank(self._ranks, deepest)
        # Sums from the first rank on: queries whose first relevant chunk is at k or before.
        shares_by_then = list(accumulate(shares_here))
        earlier: list[float] = []
        caption = "Queries with a relevant chunk among the first k."
        # Empty without an earlier dump.
        if self._earlier_ranks:
            earlier = list(accumulate(_share_by_rank(self._earlier_ranks, deepest)))
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


def _first_by_number(items: Sequence[_Shown], count: int) -> list[_Shown]:
    """The first queries of a page by the number that they are sorted by, the least first.

    Items are dictionaries, which cannot be compared: the sort is stable, so equal numbers keep
    their order.
    """
    # By the number alone: two items of one number cannot be compared.
    in_order = sorted(items, key=lambda number_and_item: number_and_item[0])
    return in_order[:count]


def _first_rank(chunk_ids: Sequence[str], relevant_ids: Collection[str]) -> int | None:
    """The rank of a query's first relevant chunk, from 1; None where no chunk is relevant.

    The curve of a dump's page counts these ranks.
    """
    for rank, id in enumerate(chunk_ids, 1):
        if id in relevant_ids:
            return rank
    return None


def _share_by_rank(ranks: Sequence[int | None], deepest: int) -> list[float]:
    """The share of queries whose first relevant chunk is at each rank from 1 to ``deepest``.

    Queries without any are in the total, so that the shares add up to less than 1.
    """
    return [ranks.count(rank) / len(ranks) for rank in range(1, deepest + 1)]


def _comparison_sections(
    compared: PairedDumps, changed: Mapping[bool, Sequence[_Shown]]
) -> Iterator[Section]:
    """The sections that compare a dump with the earlier one: counts, then queries lost and won.

    A user who changed his retriever sees whether that won more answers than it lost.

    Args:
        changed: these queries, by whether the answer is present in this dump.
    """
    row = [
        f"{compared.queries:,}",
        f"{compared.won:,}",
        f"{compared.lost:,}",
        f"{compared.p_value:.3g}",
    ]
    yield Section(
        title=f"Against {compared.against}",
        columns=("queries in both", "won", "lost", "p"),
        rows=[row],
        hint="Won: the answer is shown to be in the chunks here, and was not there. p: McNemar's "
        "exact test, two-sided.",
    )
    # Lost first: they are why a user may keep the earlier retriever.
    for is_present, title in ((False, "Lost"), (True, "Won")):
        items = changed[is_present]
        hint = ""
        hidden = len(items) - _MOST_CHANGED
        if hidden > 0:
            hint = f"... and {hidden:,} more"
        yield Section(
            title=f"{title}: {len(items):,}",
            details=[item for _, item in _first_by_number(items, _MOST_CHANGED)],
            hint=hint,
        )


def _item_beside_earlier(
    item: dict[str, Any], verdict: Verdict, before: EarlierRetrieval
) -> dict[str, Any]:
    """The page's item of a won or lost query, with the verdict on the other retriever's chunks.

    It shows which chunks only one of the two retrievers found. The template reads these names.

    Args:
        item: the query as the page shows it without the other retriever.
    """
    ids_there = frozenset(before.chunk_ids)
    # By id: both dumps must have taken them from the same store.
    only_here = [id for id in verdict.relevance if id not in ids_there]
    only_there = [id for id in before.chunk_ids if id not in verdict.relevance]
    differences: list[str] = []
    if only_here:
        differences.append(f"only here: {as_line(only_here, _MOST_IDS)}")
    if only_there:
        differences.append(f"only there: {as_line(only_there, _MOST_IDS)}")
    chunks = "the same"
    if differences:
        chunks = "; ".join(differences)
    probability = f"{verdict.answer_probability:.2f}"
    probability_there = f"{before.answer_probability:.2f}"
    quotes: list[dict[str, str]] = []
    for quote in item["quotes"]:
        # Each quote names the dump that it is from, since chunks of both may have the same ids.
        quotes.append({"id": f"here, {quote['id']}", "text": quote["text"]})
    for chunk_id, text in before.quotes:
        quotes.append({"id": f"there, {chunk_id}", "text": text[:_LONGEST]})
    # What the item has without the comparison stays, below the new lines.
    return {
        **item,
        "word": f"{probability_there} → {probability}",
        "lines": [
            f"Chunks: {chunks}.",
            f"There: {before.quality}, probability of an answer {probability_there}. "
            f"Here: {verdict.retrieval_quality.value}, {probability}.",
            *item["lines"],
        ],
        "quotes": quotes,
    }


def _query_item(query_id: str, query: str, verdict: Verdict) -> dict[str, Any]:
    """The page's item of a query: the verdict on its chunks, with quotes.

    The template reads these names.
    """
    probabilities: list[str] = []
    # In the order of the ranking, the first ones.
    for chunk_id, probability in islice(verdict.relevance.items(), _MOST_IDS):
        probabilities.append(f"{chunk_id} {probability:.2f}")
    if not probabilities:
        probabilities = ["no chunk"]
    warnings = [f"Warning: {warning}" for warning in verdict.warnings]
    quotes: list[dict[str, str]] = []
    for quote in verdict.evidence:
        quotes.append({"id": quote.chunk_id, "text": quote.text[:_LONGEST]})
    return {
        "word": f"{verdict.retrieval_quality.value} {verdict.answer_probability:.2f}",
        "id": query_id,
        "anchor": anchor(query_id),
        "text": query[:_LONGEST],
        "lines": [
            verdict.message,
            f"Answer present: {presence_text(verdict)}.",
            *verdict.reasons,
            f"Probability by chunk: {', '.join(probabilities)}",
            *warnings,
        ],
        "quotes": quotes,
    }
