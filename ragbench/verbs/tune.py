"""tune(): how a collection should be searched, measured on its own questions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from ragbench.core.case import Case
from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.metrics.gold_space import GoldSpace, MatchingTally
from ragbench.metrics.matching import Matching, match
from ragbench.metrics.rank import ndcg, ranking_of, recall, reciprocal_rank
from ragbench.pipeline.documents import with_origin
from ragbench.pipeline.search_engine import share_found
from ragbench.pipeline.strategies import DenseStrategy, Search, Strategy, StrategyName
from ragbench.stats.mean import Interval, mean_interval
from ragbench.stores.base import NORMAL, Effort

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Measure: TypeAlias = Literal["ndcg", "recall", "mrr"]
_MEASURES: Mapping[Measure, Callable[..., float | Skip]] = {
    "ndcg": ndcg,
    "recall": recall,
    "mrr": reciprocal_rank,
}
_SHOWN: Mapping[Measure, str] = {"ndcg": "nDCG", "recall": "recall", "mrr": "MRR"}
_EFS = (16, 40, 100, 200, 400)
_WEIGHTS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_FEWEST = 10
"""Questions that a choice is made by."""
_CANDIDATES = 100
_RRF_K = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSetting:
    """One way to search a collection."""

    strategy: StrategyName
    effort: Effort = NORMAL
    """Of the ranking by vectors."""
    dense_weight: float | None = None
    """Of a hybrid search, where the ranking by words counts 1."""

    @property
    def name(self) -> str:
        parts: list[str] = [self.strategy]
        if self.dense_weight is not None:
            parts.append(f"dense_weight={self.dense_weight:g}")
        if self.effort.ef is not None:
            parts.append(f"ef={self.effort.ef}")
        return " ".join([*parts, "exact"] if self.effort.exact else parts)

    @property
    def settings(self) -> dict[str, object]:
        """As they stand under ``retrieval`` in a pipeline's file."""
        found: dict[str, object] = {"type": self.strategy}
        if self.dense_weight is not None:
            found["dense_weight"] = self.dense_weight
        if self.effort.ef is not None:
            found["ef"] = self.effort.ef
        return {**found, "exact": True} if self.effort.exact else found

    @property
    def cost(self) -> tuple[int, float]:
        """What orders settings by what they cost, whatever the machine: rankings, then effort."""
        rankings = {"sparse": 0, "dense": 1, "hybrid": 2}[self.strategy]
        return rankings, math.inf if self.effort.exact else self.effort.ef or _OWN_EF


_OWN_EF = 40.5
"""Stands for the store's own setting, which is not known: pgvector's is 40, others' about 100."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedSetting:
    """What one setting gives over all questions."""

    name: str
    retrieval: Mapping[str, object]
    """As it stands in a pipeline's file."""
    score: Interval
    difference: Interval
    """From the best setting, question by question."""
    overlap: Interval | None
    """Share of the first k that an exact search by vectors has, too; None without vectors."""
    p50_ms: float
    """Median wall time of a search, the query's embedding left out; differs from run to run."""
    loses_nothing: bool
    """Whether the difference is surely less than the margin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedCollection:
    """An open collection, and the ways in which it can be searched."""

    dense: DenseStrategy | None
    """None where nothing makes vectors of questions."""
    sparse: Strategy | None
    """None where nothing ranks by words."""
    present: SearchSetting
    """How it is searched by default."""
    filters: Filter | None = None


@dataclass(slots=True)
class _Measured:
    """The rankings of one leg, and how long each took."""

    rankings: list[list[Chunk]] = field(default_factory=list[list[Chunk]])
    seconds: list[float] = field(default_factory=list[float])


def tune(
    collection: TunedCollection,
    cases: Sequence[Case],
    *,
    k: int = 10,
    measure: Measure = "ndcg",
    margin: float = 0.01,
    matching: Matching = Matching.AUTO,
    advance: Callable[[str], None] = lambda _: None,
) -> Tuning:
    """Searches every question in every way, and says which way is the cheapest that loses nothing.

    A setting loses nothing when the 95% interval of its paired difference from the best setting
    lies above minus the margin.
    """
    if k < 1 or not 0 < margin < 1 or measure not in get_args(Measure):
        raise ConfigError(
            f"k must be at least 1, the margin between 0 and 1, the measure one of "
            f"{', '.join(get_args(Measure))}; found {k}, {margin}, {measure}"
        )
    asked = [case for case in cases if case.query.strip()]
    depth = max(k, _CANDIDATES)
    legs = _legs(collection, asked, depth, advance)
    tried = _settings(legs, collection.present)
    rankings = {setting: _rankings(setting, legs, depth) for setting in tried}
    scores = _scores(asked, rankings, k=k, measure=measure, matching=matching)
    kept = _comparable(scores, len(asked), len(cases))
    clusters = [asked[at].cluster for at in kept]
    table = {name: [cast("float", one[at]) for at in kept] for name, one in scores.items()}
    best = _best(table)
    settings = [
        TunedSetting(
            name=setting.name,
            retrieval=setting.settings,
            score=mean_interval(values, clusters, bounds=(0.0, 1.0)),
            difference=_difference(values, table[best], clusters),
            overlap=_overlap(setting, rankings, kept, k, clusters),
            p50_ms=1000 * median(_seconds(setting, legs)),
            loses_nothing=_loses_nothing(values, table[best], clusters, margin),
        )
        for setting, values in table.items()
    ]
    return Tuning(
        measure=f"{_SHOWN[measure]}@{k}",
        k=k,
        margin=margin,
        questions=len(kept),
        skipped=len(cases) - len(kept),
        settings=tuple(settings),
        best=best.name,
        chosen=next(one.name for one in settings if one.loses_nothing),
        present=collection.present.name,
    )


def _comparable(
    scores: Mapping[SearchSetting, Sequence[float | None]], asked: int, cases: int
) -> list[int]:
    """The questions that every setting has a score for, by position."""
    kept = [at for at in range(asked) if all(one[at] is not None for one in scores.values())]
    if len(kept) < _FEWEST:
        message = (
            f"only {len(kept)} of {cases} questions have gold that can be compared with what was "
            f"found: {_FEWEST} are needed"
        )
        raise DataError([Problem(message=message)])
    return kept


_Leg: TypeAlias = Effort | Literal["sparse"]


def _legs(
    collection: TunedCollection, cases: Sequence[Case], depth: int, advance: Callable[[str], None]
) -> dict[_Leg, _Measured]:
    """Each ranking that a setting is made of."""
    found: dict[_Leg, _Measured] = {}
    search = Search(k=depth, threshold=None, filters=collection.filters)
    queries = [case.query for case in cases]
    if collection.sparse is not None:
        advance("sparse")
        found["sparse"] = _timed(collection.sparse, queries, search)
    dense = collection.dense
    if dense is not None and queries:
        texts = [readable_text(query) for query in queries]
        vectors = dense.embedder.embed_queries(texts)
        known = cast("Embedder", _Known(dict(zip(texts, vectors, strict=True))))
        for effort in _efforts(collection.present.effort, exact=dense.store.is_exact):
            advance(SearchSetting(strategy="dense", effort=effort).name)
            strategy = replace(dense, embedder=known, effort=effort)
            try:
                found[effort] = _timed(strategy, queries, search)
            except ConfigError:
                if effort in (NORMAL, collection.present.effort):
                    raise
                continue  # the store's index has no such setting
    if not found:
        raise ConfigError("the collection can be searched neither by words nor by vectors")
    return found


def _efforts(present: Effort, *, exact: bool) -> list[Effort]:
    tried = [NORMAL] if exact else [NORMAL, *(Effort(ef=ef) for ef in _EFS), Effort(exact=True)]
    return [*tried, *(() if present in tried else (present,))]


@dataclass(frozen=True, slots=True)
class _Known:
    """An embedder of questions whose vectors are known: only the search is timed."""

    vectors: Mapping[str, NDArray[np.float32]]

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        return np.stack([self.vectors[text] for text in texts])


def _timed(strategy: Strategy, queries: Sequence[str], search: Search) -> _Measured:
    found = _Measured()
    for query in queries:
        begin = time.perf_counter()
        found.rankings += strategy.retrieve([query], search)
        found.seconds.append(time.perf_counter() - begin)
    return found


def _settings(legs: Mapping[_Leg, _Measured], present: SearchSetting) -> list[SearchSetting]:
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


def _rankings(
    setting: SearchSetting, legs: Mapping[_Leg, _Measured], depth: int
) -> list[list[Chunk]]:
    if setting.strategy == "sparse":
        return legs["sparse"].rankings
    dense = legs[setting.effort].rankings
    if setting.strategy == "dense":
        return dense
    weights = (setting.dense_weight or 0.0, 1.0)
    return [
        reciprocal_rank_fusion(
            [one if weights[0] else [], other], weights=weights, rrf_k=_RRF_K, top_k=depth
        )
        for one, other in zip(dense, legs["sparse"].rankings, strict=True)
    ]


def _seconds(setting: SearchSetting, legs: Mapping[_Leg, _Measured]) -> list[float]:
    used = [] if setting.strategy == "dense" else [legs["sparse"].seconds]
    used += [] if setting.strategy == "sparse" else [legs[setting.effort].seconds]
    return [sum(one) for one in zip(*used, strict=True)]


def _scores(
    cases: Sequence[Case],
    rankings: Mapping[SearchSetting, Sequence[Sequence[Chunk]]],
    *,
    k: int,
    measure: Measure,
    matching: Matching,
) -> dict[SearchSetting, list[float | None]]:
    traces = {
        setting: [_trace(case, one[:k]) for case, one in zip(cases, found, strict=True)]
        for setting, found in rankings.items()
    }
    if matching is Matching.AUTO:
        # Once for all settings: they are compared with each other.
        gold = GoldSpace()
        for case in cases:
            gold.add(case)
        tally = MatchingTally(gold)
        for each in traces.values():
            for trace in each:
                tally.add(trace)
        matching = tally.verdict().matching
    scored: dict[SearchSetting, list[float | None]] = {}
    for setting, each in traces.items():
        scored[setting] = [_score(trace, matching, measure, k) for trace in each]
    return scored


def _trace(case: Case, chunks: Sequence[Chunk]) -> Trace:
    result = RetrievalResult.from_chunks([with_origin(chunk) for chunk in chunks])
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=result),
        generation=Outcome(status=Status.SKIPPED, reason="nothing is generated"),
    )


def _score(trace: Trace, matching: Matching, measure: Measure, k: int) -> float | None:
    result = trace.retrieval.value
    matched = Skip("nothing") if result is None else match(trace.case, result, matching)
    if isinstance(matched, Skip):
        return None
    found = _MEASURES[measure](ranking_of(matched), k=k)
    return None if isinstance(found, Skip) else found


_Table: TypeAlias = Mapping[SearchSetting, Sequence[float]]


def _best(table: _Table) -> SearchSetting:
    """The highest mean; of equal ones the cheapest, which comes first."""
    return max(table, key=lambda setting: round(math.fsum(table[setting]), 9))


def _difference(
    values: Sequence[float], best: Sequence[float], clusters: Sequence[str | None]
) -> Interval:
    differences = [one - other for one, other in zip(values, best, strict=True)]
    return mean_interval(differences, clusters, bounds=(-1.0, 1.0))


def _loses_nothing(
    values: Sequence[float],
    best: Sequence[float],
    clusters: Sequence[str | None],
    margin: float,
) -> bool:
    if list(values) == list(best):
        return True
    low = _difference(values, best, clusters).low
    return low is not None and low > -margin


def _overlap(
    setting: SearchSetting,
    rankings: Mapping[SearchSetting, Sequence[Sequence[Chunk]]],
    kept: Sequence[int],
    k: int,
    clusters: Sequence[str | None],
) -> Interval | None:
    if setting.strategy != "dense":
        return None
    exact = SearchSetting(strategy="dense", effort=Effort(exact=True))
    true = rankings.get(exact, rankings[setting])
    shares = [share_found(rankings[setting][at], true[at], k) for at in kept]
    return mean_interval(shares, clusters, bounds=(0.0, 1.0))
