"""Questions searched in every way that is asked for, and what their contexts hold of the gold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ragbench.core.case import Case
from ragbench.core.chunk import Chunk
from ragbench.core.filters import matches
from ragbench.core.matched import GoldSearch
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.errors import MissingExtraError
from ragbench.post.stage import PostRetrieval
from ragbench.search.embedders.embedder import open_embedder
from ragbench.search.pipeline.agreement import VectorIndex
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.documents import with_origin
from ragbench.search.pipeline.gold import Gold, GoldLocator
from ragbench.search.pipeline.index import ENGLISH_EMBEDDER, are_english
from ragbench.search.pipeline.retrieval import StoreRetriever, over_store
from ragbench.search.pipeline.stages import Searching
from ragbench.search.pipeline.strategies import HybridStrategy, Strategy
from ragbench.search.stores.attached import ForeignCollection
from ragbench.search.stores.base import NORMAL
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.record import searched_fields
from ragbench.verbs.tune import Leg, LegRankings, SearchSetting, TunedCollection, combined, legs_of

TEXTS = 20_000
"""Chunks up to which the store's texts are read for estimates."""
View: TypeAlias = Literal["", "threshold", "filter", "bm25", "english"]
"""What a search is tried without, or what it is estimated with."""
ESTIMATED: tuple[View, ...] = ("bm25", "english")
"""Views that need another index: they are tried in memory on the store's texts."""
_LANGUAGE_SAMPLE = 200
"""Chunks that are enough to recognise the language of a collection."""


class Way(Record):
    """A search, and what stands between it and generation."""

    setting: SearchSetting
    view: View = ""
    """Without which limit, or with which other index; empty for neither."""
    operators: tuple[int, ...] = ()
    """Those that are applied, by their positions."""
    k: int
    """Chunks before the operators."""


@dataclass(kw_only=True)
class Bench:
    """The questions, searched in every way that is asked for; each ranking is made once."""

    collection: TunedCollection
    cases: Sequence[Case]
    golds: Sequence[Sequence[Gold]]
    """Of each case: at least one."""
    stage: PostRetrieval
    depth: int
    """Chunks of each ranking: more than a context has."""
    advance: Callable[[str], None]
    _legs: dict[View, dict[Leg, LegRankings]] = field(
        default_factory=dict[View, dict[Leg, LegRankings]]
    )
    """By view, the rankings that settings are combined from; filled when first asked for."""

    @property
    def store(self) -> OwnCollection | ForeignCollection:
        """The store that every way to search uses: a collection of our own, or a foreign one.

        No way writes to it: other indexes are imitated in memory.
        """
        return self.collection.store

    def legs(self, view: View) -> dict[Leg, LegRankings]:
        """The rankings by words and by vectors of a view: without some limit, or estimated.

        Ways to search differ mostly in how they combine these, so each view is searched once.
        """
        if view not in self._legs:
            if view in ESTIMATED:
                legs = self._estimated_legs(view)
            else:
                legs = legs_of(self._without_limits(view), self.cases, self.depth, self.advance)
            self._legs[view] = legs
        return self._legs[view]

    def _without_limits(self, view: View) -> TunedCollection:
        """The collection without its score threshold, or without threshold and filter.

        A search of it shows whether the threshold or the filter hides the gold. Without the filter
        there is no threshold either: a low score would hide what the filter leaves out.
        """
        if not view:
            return self.collection
        # Lower than any score: None would bring back the store's own threshold.
        collection = replace(self.collection, threshold=-math.inf)
        if view == "threshold":
            return collection
        store = self.store.unfiltered()
        dense = collection.dense
        if dense is not None:
            dense = replace(dense, store=store)
        sparse = collection.sparse
        if sparse is not None:
            sparse = over_store(sparse, store)
        return replace(collection, filters=None, dense=dense, sparse=sparse)

    def _estimated_legs(self, view: View) -> dict[Leg, LegRankings]:
        """The rankings with BM25 for the store's words, or with English vectors, made in memory.

        These rankings estimate what another index would give, without writing to the store. They
        have no times.
        """
        self.advance(f"{view}, estimated")
        queries = [case.query for case in self.cases]
        # A copy: the legs without a change must stay as they are.
        legs = dict(self.legs(""))
        untimed = [0.0] * len(queries)  # in memory they take other times than in the store
        if view == "bm25":
            by_words = self.words.batch_search(queries, self.depth)
            legs["sparse"] = LegRankings(by_words, untimed)
            return legs
        # `_other_ways` asks for this view only where these vectors can be made.
        assert self.english is not None
        words = legs.get("sparse")
        if words is None:
            words = self.legs("bm25")["sparse"]
        by_vectors = self.english.batch_search(queries, self.depth)
        # Under NORMAL, as the setting of this view has no effort of its own.
        return {"sparse": words, NORMAL: LegRankings(by_vectors, untimed)}

    @cached_property
    def texts(self) -> list[Chunk]:
        """All chunks that a search of the store may find, for estimates made in memory.

        None of them where the store is too large or cannot give all.
        """
        count = self.store.count()
        # Only the store knows which chunks pass a filter in its own syntax.
        if self.store.native_filter is not None or count > TEXTS:
            return []
        # All of them at once: a search in memory needs every chunk.
        chunks = self.store.rows(count)
        if len(chunks) < count:  # some stores give no more than a part of their rows
            return []
        filters = self.collection.filters
        if filters is None:
            return list(chunks)
        return [chunk for chunk in chunks if matches(filters, searched_fields(chunk))]

    @cached_property
    def words(self) -> Bm25Index:
        """BM25 over all texts of the store, in memory: a search by words where the store has none.

        Made once, when the first view needs it.
        """
        return Bm25Index(self.texts)

    @cached_property
    def english(self) -> VectorIndex | None:
        """Static English vectors of the store's texts, to try them beside words.

        None where the texts are not English, the collection has these vectors, or the embedder is
        not installed.
        """
        dense = self.collection.dense
        if dense is not None and dense.embedder.identity.get("embedder") == ENGLISH_EMBEDDER:
            return None  # the collection has these vectors already
        sample = [chunk.text for chunk in self.texts[:_LANGUAGE_SAMPLE]]
        if not are_english(sample):
            return None
        try:
            return VectorIndex(self.texts, open_embedder(ENGLISH_EMBEDDER))
        except MissingExtraError:
            return None

    def rankings(self, way: Way) -> list[list[Chunk]]:
        """The ranking of each question in one way to search, `depth` chunks deep.

        A ranking is deeper than a context (`contexts`), as it is to show at which rank the gold is.
        """
        return combined(way.setting, self.legs(way.view), self.depth).rankings

    def contexts(self, way: Way) -> list[list[Chunk]]:
        """Each question's context in one way to search: the ranking, cut and post-processed.

        A context holds the chunks that generation would be given.
        """
        rankings = [ranking[: way.k] for ranking in self.rankings(way)]
        if not way.operators:
            return rankings
        # In the order of the stage, since positions are ascending.
        operators = tuple(self.stage.operators[position] for position in way.operators)
        stage = replace(self.stage, operators=operators)
        contexts: list[list[Chunk]] = []
        for case, ranking in zip(self.cases, rankings, strict=True):
            scored_chunks = stage.run(case.query, ranking).chunks
            contexts.append([scored.chunk for scored in scored_chunks])
        return contexts

    def shares(self, way: Way) -> list[float]:
        """The share of its gold that one way to search brings into each question's context.

        Two ways are compared by these.
        """
        return self.gold_shares(self.contexts(way))

    def gold_shares(self, contexts: Sequence[Sequence[Chunk]]) -> list[float]:
        """The share of its gold that each question's context holds: changes are judged by it.

        Args:
            contexts: the chunks of each question, in the order of the cases.
        """
        shares: list[float] = []
        for golds, context in zip(self.golds, contexts, strict=True):
            shown_count = 0
            for gold in golds:
                is_shown = any(gold.is_held_by(chunk) for chunk in context)
                if is_shown:
                    shown_count += 1
            # At least one gold each: questions without gold were left out.
            shares.append(shown_count / len(golds))
        return shares

    def located(self, way: Way, positions: Sequence[int]) -> list[GoldSearch]:
        """For some questions, where their gold is in the store and why one way to search misses it.

        Args:
            positions: the places of these questions among all.
        """
        collection = self.collection
        embedder = None
        if collection.dense is not None:
            embedder = collection.dense.embedder
        # Only its searches count: no result is stored under its identity, no report has its notes.
        retriever = StoreRetriever(
            store=self.store,
            method=way.setting.strategy,
            strategy=_strategy_of_setting(collection, way.setting),
            embedder=embedder,
            threshold=collection.threshold,
            filters=collection.filters,
            identity={},
            opening=(),
            closing=ExitStack(),
        )
        rankings = self.rankings(way)
        inputs: list[tuple[Case, RetrievalResult[Any]]] = []
        # The context before operators: the search for lost gold is about retrieval alone.
        for position in positions:
            chunks = [with_origin(chunk) for chunk in rankings[position][: way.k]]
            inputs.append((self.cases[position], RetrievalResult.from_chunks(chunks)))
        searching = Searching(retriever=retriever)
        locator = GoldLocator(rankings=searching.rankings, retriever=retriever, top_k=way.k)
        return locator.located(inputs)


def _strategy_of_setting(collection: TunedCollection, setting: SearchSetting) -> Strategy:
    """The strategy (by words, by vectors or both) that searches a collection by a setting.

    In the form that a retriever takes. A setting by words needs an index of words.
    """
    if collection.dense is None or setting.strategy == "sparse":
        assert collection.sparse is not None
        return collection.sparse
    dense = replace(collection.dense, effort=setting.effort)
    if collection.sparse is None or setting.strategy == "dense":
        return dense
    # The setting's weight for vectors, 1 for words.
    weights = (setting.dense_weight or 0.0, 1.0)
    return HybridStrategy(dense=dense, sparse=collection.sparse, weights=weights)
