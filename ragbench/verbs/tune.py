"""tune(): how a collection should be searched, measured on its own questions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from ragbench.core.case import Case
from ragbench.core.case_table import clusters_among
from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.metrics.gold_space import GoldSpace, MatchingTally, MatchingVerdict
from ragbench.metrics.matching import match
from ragbench.metrics.rank import ndcg, ranking_of, recall, reciprocal_rank
from ragbench.plugins import Floats32, np
from ragbench.search.embedders.embedder import Embedder, readable_text
from ragbench.search.pipeline.documents import with_origin
from ragbench.search.pipeline.search_engine import share_found
from ragbench.search.pipeline.strategies import DenseStrategy, Search, Strategy, StrategyName
from ragbench.search.stores.attached import ForeignCollection
from ragbench.search.stores.base import NORMAL, Effort
from ragbench.search.stores.collection import OwnCollection
from ragbench.stats.mean import Interval, mean_interval

Measure: TypeAlias = Literal["ndcg", "recall", "mrr"]
_MEASURES: Mapping[Measure, tuple[str, Callable[..., float | Skip]]] = {
    "ndcg": ("nDCG", ndcg),
    "recall": ("recall", recall),
    "mrr": ("MRR", reciprocal_rank),
}
_EFS = (16, 40, 100, 200, 400)
_WEIGHTS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_FEWEST = 10
"""Questions that a choice is made by."""
_CANDIDATES = 100
_RRF_K = 60


class SearchSetting(Record):
    """One way to search a collection."""

    strategy: StrategyName
    effort: Effort = NORMAL
    """Of the ranking by vectors."""
    dense_weight: float | None = None
    """Of a hybrid search, where the ranking by words counts 1."""

    @property
    def settings(self) -> dict[str, object]:
        """As they stand under ``retrieval`` in a pipeline's file."""
        vectors = {"ef": self.effort.ef, "exact": self.effort.exact or None}
        found = {"type": self.strategy, "dense_weight": self.dense_weight, **vectors}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def name(self) -> str:
        _, *others = self.settings.items()
        shown = (name if value is True else f"{name}={value:g}" for name, value in others)
        return " ".join([self.strategy, *shown])

    @property
    def cost(self) -> tuple[int, float]:
        """What orders settings by what they cost, whatever the machine: rankings, then effort."""
        rankings = {"sparse": 0, "dense": 1, "hybrid": 2}[self.strategy]
        return rankings, math.inf if self.effort.exact else self.effort.ef or _OWN_EF


_EXACT = SearchSetting(strategy="dense", effort=Effort(exact=True))
_OWN_EF = 40.5
"""Stands for the store's own setting, which is not known: pgvector's is 40, others' about 100."""


class TunedSetting(Record):
    name: str
    retrieval: Mapping[str, object]
    """As it stands in a pipeline's file."""
    score: Interval
    difference: Interval
    """From the best setting, question by question."""
    overlap: Interval | None
    """Share of the first k that an exact search by vectors has, too; None without vectors."""
    p50_ms: float = 0.0
    """Median wall time of a search, the query's embedding left out; differs from run to run."""
    loses_nothing: bool
    """Whether the difference is surely less than the margin."""


class Tuning(Record):
    """How a collection is searched best, and how cheaply as well."""

    measure: str
    """Such as ``nDCG@10``."""
    k: int
    margin: float
    questions: int
    """With gold that can be compared."""
    skipped: int
    """Without."""
    settings: tuple[TunedSetting, ...]
    """The cheapest first."""
    best: str
    """Name of the setting of the highest score."""
    chosen: str
    """Name of the cheapest setting that loses nothing against it."""
    present: str
    """Name of the setting that searches have by default."""

    def __getitem__(self, name: str) -> TunedSetting:
        return next(one for one in self.settings if one.name == name)


class TunedCollection(Record):
    """An open collection, and the ways in which it can be searched."""

    dense: DenseStrategy | None
    """None where nothing makes vectors of questions."""
    sparse: Strategy | None
    """None where nothing ranks by words."""
    present: SearchSetting
    """How it is searched by default."""
    filters: Filter | None = None
    threshold: float | None = None
    """Chunks that score less are left out; None: see `RetrievalSettings.score_threshold`."""

    @property
    def store(self) -> OwnCollection | ForeignCollection:
        searched: Any = self.dense or self.sparse
        return cast("OwnCollection | ForeignCollection", searched.store)


class LegRankings(NamedTuple):
    """The rankings of one leg, and how long each took."""

    rankings: list[list[Chunk]]
    seconds: list[float]


def tune(
    collection: TunedCollection,
    cases: Sequence[Case],
    *,
    k: int = 10,
    measure: Measure = "ndcg",
    margin: float = 0.01,
    advance: Callable[[str], None] = lambda _: None,
) -> Tuning:
    """Searches every question in every way, and says which way is the cheapest that loses nothing.

    A setting loses nothing when the 95% interval of its paired difference from the best setting
    lies above minus the margin.
    """
    if k < 1 or not 0 < margin < 1 or measure not in _MEASURES:
        needed = "k must be at least 1, the margin between 0 and 1, the measure one of"
        raise ConfigError(f"{needed} {', '.join(_MEASURES)}; found {k}, {margin}, {measure}")
    shown, formula = _MEASURES[measure]
    asked, depth = [case for case in cases if case.query.strip()], max(k, _CANDIDATES)
    legs = legs_of(collection, asked, depth, advance)
    tried = {one: combined(one, legs, depth) for one in settings_of(legs, collection.present)}
    rankings = {setting: found.rankings for setting, found in tried.items()}
    _, scores = scores_of(asked, rankings, k=k, measure=formula)
    kept = _comparable(cases, scores)
    table = {one: [cast("float", column[at]) for at in kept] for one, column in scores.items()}
    best = max(table, key=lambda one: round(math.fsum(table[one]), 9))  # the cheapest comes first
    clusters = clusters_among([asked[at] for at in kept])
    settings: list[TunedSetting] = []
    for setting, values in table.items():
        found, true = rankings[setting], rankings.get(_EXACT, rankings[setting])
        shares = [share_found(found[at], true[at], k) for at in kept]
        made = _tuned(setting, values, table[best], shares, clusters, margin)
        settings.append(replace(made, p50_ms=1000 * median(tried[setting].seconds)))
    return Tuning(
        measure=f"{shown}@{k}",
        k=k,
        margin=margin,
        questions=len(kept),
        skipped=len(cases) - len(kept),
        settings=tuple(settings),
        best=best.name,
        chosen=next(one.name for one in settings if one.loses_nothing),
        present=collection.present.name,
    )


def _comparable(cases: Sequence[Case], scores: Mapping[Any, Sequence[float | None]]) -> list[int]:
    """The places of the questions that every setting has a score for."""
    kept = [at for at, row in enumerate(zip(*scores.values(), strict=True)) if None not in row]
    if len(kept) < _FEWEST:
        message = (
            f"only {len(kept)} of {len(cases)} questions have gold that can be compared with what "
            f"was found: {_FEWEST} are needed"
        )
        raise DataError([Problem(message=message)])
    return kept


def _tuned(
    setting: SearchSetting,
    values: Sequence[float],
    best: Sequence[float],
    shares: Sequence[float],
    clusters: Sequence[str | None],
    margin: float,
) -> TunedSetting:
    is_dense, difference = setting.strategy == "dense", gain_of(values, best, clusters)
    is_near = difference.low is not None and difference.low > -margin
    return TunedSetting(
        name=setting.name,
        retrieval=setting.settings,
        score=mean_interval(values, clusters, bounds=(0.0, 1.0)),
        difference=difference,
        overlap=mean_interval(shares, clusters, bounds=(0.0, 1.0)) if is_dense else None,
        loses_nothing=is_near or values == best,
    )


def gain_of(
    values: Sequence[float],
    base: Sequence[float],
    clusters: Sequence[str | None],
    level: float = 0.95,
) -> Interval:
    """The mean difference of scores from 0 to 1, question by question."""
    differences = [one - other for one, other in zip(values, base, strict=True)]
    return mean_interval(differences, clusters, level, bounds=(-1.0, 1.0))


Leg: TypeAlias = Effort | Literal["sparse"]


def legs_of(
    collection: TunedCollection, cases: Sequence[Case], depth: int, advance: Callable[[str], None]
) -> dict[Leg, LegRankings]:
    """Each ranking that a setting is made of."""
    found: dict[Leg, LegRankings] = {}
    search = Search(k=depth, threshold=collection.threshold, filters=collection.filters)
    queries = [case.query for case in cases]
    if collection.sparse is not None:
        advance("sparse")
        found["sparse"] = _timed(collection.sparse, queries, search)
    dense = collection.dense
    if dense is not None and queries:
        texts = [readable_text(query) for query in queries]
        vectors = dense.embedder.embed_queries(texts)
        known = cast("Embedder", _Known(dict(zip(texts, vectors, strict=True))))
        present, tried = collection.present.effort, [NORMAL]
        if not dense.store.is_exact:
            tried += [*(Effort(ef=ef) for ef in _EFS), Effort(exact=True)]
        for effort in dict.fromkeys([*tried, present]):
            advance(SearchSetting(strategy="dense", effort=effort).name)
            strategy = replace(dense, embedder=known, effort=effort)
            try:
                found[effort] = _timed(strategy, queries, search)
            except ConfigError:
                if effort in (NORMAL, present):
                    raise
                continue  # the store's index has no such setting
    if not found:
        raise ConfigError("the collection can be searched neither by words nor by vectors")
    return found


class _Known(Record, kw_only=False):
    """An embedder of questions whose vectors are known: only the search is timed."""

    vectors: Mapping[str, Floats32]

    def embed_queries(self, texts: Sequence[str]) -> Floats32:
        return np.stack([self.vectors[text] for text in texts])


def _timed(strategy: Strategy, queries: Sequence[str], search: Search) -> LegRankings:
    found = LegRankings([], [])
    for query in queries:
        begin = time.perf_counter()
        found.rankings.extend(strategy.retrieve([query], search))
        found.seconds.append(time.perf_counter() - begin)
    return found


def settings_of(legs: Mapping[Leg, LegRankings], present: SearchSetting) -> list[SearchSetting]:
    efforts = [leg for leg in legs if isinstance(leg, Effort)]
    found = [SearchSetting(strategy="sparse")] if "sparse" in legs else []
    found += [SearchSetting(strategy="dense", effort=effort) for effort in efforts]
    if "sparse" in legs:
        found += [
            SearchSetting(strategy="hybrid", effort=effort, dense_weight=weight)
            for effort in efforts
            if effort in (NORMAL, present.effort)
            for weight in _WEIGHTS
        ]
    if present not in found and (present.strategy != "hybrid" or "sparse" in legs):
        found.append(present)
    return sorted(found, key=lambda one: (one.cost, one.dense_weight or 0.0))


def combined(setting: SearchSetting, legs: Mapping[Leg, LegRankings], depth: int) -> LegRankings:
    """What a setting finds, and how long it takes."""
    if setting.strategy == "sparse":
        return legs["sparse"]
    dense, weight = legs[setting.effort], setting.dense_weight or 0.0
    if setting.strategy == "dense":
        return dense
    sparse = legs["sparse"]
    rankings = [
        reciprocal_rank_fusion(
            [one if weight else [], other], weights=(weight, 1.0), rrf_k=_RRF_K, top_k=depth
        )
        for one, other in zip(dense.rankings, sparse.rankings, strict=True)
    ]
    return LegRankings(rankings, [*map(sum, zip(dense.seconds, sparse.seconds, strict=True))])


SettingT = TypeVar("SettingT", bound=Hashable)


def scores_of(
    cases: Sequence[Case],
    rankings: Mapping[SettingT, Sequence[Sequence[Chunk]]],
    *,
    k: int,
    measure: Callable[..., float | Skip],
    corpus: Callable[[], Iterable[str]] | None = None,
) -> tuple[MatchingVerdict, dict[SettingT, list[float | None]]]:
    """How chunks are compared with the gold, and what each setting gives for each case.

    Args:
        corpus: ids of all documents, where they are known.
    """
    nothing: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="nothing is generated")

    def found(case: Case, chunks: Sequence[Chunk]) -> Trace:
        result = RetrievalResult.from_chunks([with_origin(chunk) for chunk in chunks[:k]])
        retrieval = Outcome(status=Status.MEASURED, value=result)
        return Trace(case=case, retrieval=retrieval, generation=nothing)

    traces = {setting: [*map(found, cases, ranked)] for setting, ranked in rankings.items()}
    # Once for all settings: they are compared with each other.
    gold = GoldSpace()
    for case in cases:
        gold.add(case)
    tally = MatchingTally(gold)
    for trace in chain.from_iterable(traces.values()):
        tally.add(trace)
    verdict = tally.verdict(corpus)

    def score(trace: Trace) -> float | None:
        result = trace.retrieval.value
        matched = Skip("nothing") if result is None else match(trace.case, result, verdict.matching)
        if isinstance(matched, Skip):
            return None
        value = measure(ranking_of(matched), k=k)
        return None if isinstance(value, Skip) else value

    return verdict, {setting: [*map(score, each)] for setting, each in traces.items()}
