"""Questions searched in every way that is asked for, and what their contexts hold of the gold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

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


class Way(Record):
    """A search, and what stands between it and generation."""

    setting: SearchSetting
    view: View = ""
    operators: tuple[int, ...] = ()
    """Those that are applied, by their positions."""
    k: int


@dataclass(kw_only=True)
class Bench:
    """The questions, searched in every way that is asked for; each ranking is made once."""

    collection: TunedCollection
    cases: Sequence[Case]
    golds: Sequence[Sequence[Gold]]
    stage: PostRetrieval
    depth: int
    advance: Callable[[str], None]
    _legs: dict[View, dict[Leg, LegRankings]] = field(
        default_factory=dict[View, dict[Leg, LegRankings]]
    )

    @property
    def store(self) -> OwnCollection | ForeignCollection:
        return self.collection.store

    def legs(self, view: View) -> dict[Leg, LegRankings]:
        if view not in self._legs:
            if view in ESTIMATED:
                found = self._estimated(view)
            else:
                found = legs_of(self._viewed(view), self.cases, self.depth, self.advance)
            self._legs[view] = found
        return self._legs[view]

    def _viewed(self, view: View) -> TunedCollection:
        if not view:
            return self.collection
        found = replace(self.collection, threshold=-math.inf)
        if view == "threshold":
            return found
        every, dense, sparse = self.store.unfiltered(), found.dense, found.sparse
        return replace(
            found,
            filters=None,
            dense=None if dense is None else replace(dense, store=every),
            sparse=None if sparse is None else over_store(sparse, every),
        )

    def _estimated(self, view: View) -> dict[Leg, LegRankings]:
        self.advance(f"{view}, estimated")
        queries, legs = [case.query for case in self.cases], dict(self.legs(""))
        untimed = [0.0] * len(queries)
        if view == "bm25":
            legs["sparse"] = LegRankings(self.words.batch_search(queries, self.depth), untimed)
            return legs
        assert self.english is not None
        words = legs.get("sparse") or self.legs("bm25")["sparse"]
        found = LegRankings(self.english.batch_search(queries, self.depth), untimed)
        return {"sparse": words, NORMAL: found}

    @cached_property
    def texts(self) -> list[Chunk]:
        """All that may be found, where that can be read; else nothing."""
        if self.store.native_filter is not None or self.store.count() > TEXTS:
            return []
        rows = self.store.rows(self.store.count())
        if len(rows) < self.store.count():
            return []
        wanted = self.collection.filters
        return [one for one in rows if wanted is None or matches(wanted, searched_fields(one))]

    @cached_property
    def words(self) -> Bm25Index:
        return Bm25Index(self.texts)

    @cached_property
    def english(self) -> VectorIndex | None:
        """Static vectors of the texts; None where they are not English, or it is not installed."""
        dense = self.collection.dense
        used = None if dense is None else dense.embedder.identity.get("embedder")
        if used == ENGLISH_EMBEDDER or not are_english([one.text for one in self.texts[:200]]):
            return None
        try:
            return VectorIndex(self.texts, open_embedder(ENGLISH_EMBEDDER))
        except MissingExtraError:
            return None

    def rankings(self, way: Way) -> list[list[Chunk]]:
        return combined(way.setting, self.legs(way.view), self.depth).rankings

    def contexts(self, way: Way) -> list[list[Chunk]]:
        """What generation would be given for each question."""
        found = [ranking[: way.k] for ranking in self.rankings(way)]
        if not way.operators:
            return found
        kept = [self.stage.operators[at] for at in way.operators]
        stage = replace(self.stage, operators=tuple(kept))
        pairs = zip(self.cases, found, strict=True)
        return [
            [one.chunk for one in stage.run(case.query, ranked).chunks] for case, ranked in pairs
        ]

    def shares(self, way: Way) -> list[float]:
        return self.held(self.contexts(way))

    def held(self, contexts: Sequence[Sequence[Chunk]]) -> list[float]:
        """Of each question the share of its gold that its context holds."""
        return [
            sum(any(map(gold.is_held_by, context)) for gold in golds) / len(golds)
            for golds, context in zip(self.golds, contexts, strict=True)
        ]

    def located(self, way: Way, places: Sequence[int]) -> list[GoldSearch]:
        """Where the gold of some questions is, as a run of a pipeline says it."""
        collection = self.collection
        dense = collection.dense
        retriever = StoreRetriever(
            store=self.store,
            method=way.setting.strategy,
            strategy=_strategy(collection, way.setting),
            embedder=None if dense is None else dense.embedder,
            threshold=collection.threshold,
            filters=collection.filters,
            identity={},
            opening=(),
            closing=ExitStack(),
        )
        found = self.rankings(way)
        inputs = [
            (
                self.cases[at],
                RetrievalResult.from_chunks([with_origin(one) for one in found[at][: way.k]]),
            )
            for at in places
        ]
        rankings = Searching(retriever=retriever).rankings
        return GoldLocator(rankings=rankings, retriever=retriever, top_k=way.k).located(inputs)


def _strategy(collection: TunedCollection, setting: SearchSetting) -> Strategy:
    dense, sparse = collection.dense, collection.sparse
    if dense is None or setting.strategy == "sparse":
        assert sparse is not None
        return sparse
    dense = replace(dense, effort=setting.effort)
    if sparse is None or setting.strategy == "dense":
        return dense
    return HybridStrategy(dense=dense, sparse=sparse, weights=(setting.dense_weight or 0.0, 1.0))
