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
from ragbench.safe_text import counted
from ragbench.search.embedders.embedder import Embedder
from ragbench.search.pipeline.documents import with_origin
from ragbench.search.pipeline.search_engine import share_found
from ragbench.search.pipeline.strategies import DenseStrategy, Search, Strategy, StrategyName
from ragbench.search.stores.attached import ForeignCollection
from ragbench.search.stores.base import NORMAL, Effort
from ragbench.search.stores.collection import OwnCollection
from ragbench.stats.mean import MeanInterval, mean_interval
from ragbench.text.letters import readable_text

Measure: TypeAlias = Literal["ndcg", "recall", "mrr"]
_MEASURES: Mapping[Measure, tuple[str, Callable[..., float | Skip]]] = {
    "ndcg": ("nDCG", ndcg),
    "recall": ("recall", recall),
    "mrr": ("MRR", reciprocal_rank),
}
"""Each measure's name in a report, and its formula."""
_EFS = (16, 40, 100, 200, 400)
"""Efforts of an approximate index that are tried."""
_WEIGHTS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Weights of the vectors that are tried in a hybrid search."""
_FEWEST = 10
"""Questions that a choice is made by."""
_CANDIDATES = 100
"""Chunks of each ranking that a hybrid search fuses."""
_RRF_K = 60
"""The constant of reciprocal rank fusion, as in its source (Cormack et al. 2009)."""


class SearchSetting(Record):
    """One way to search a collection: what is tried, and what a pipeline's file can hold."""

    strategy: StrategyName
    effort: Effort = NORMAL
    """Of the ranking by vectors."""
    dense_weight: float | None = None
    """Of a hybrid search, where the ranking by words counts 1."""

    @property
    def settings(self) -> dict[str, object]:
        """The setting as it is written under ``retrieval`` in a pipeline's file.

        The names are those that a pipeline reads; a user copies the lines from the report.
        """
        settings: dict[str, object] = {"type": self.strategy}
        if self.dense_weight is not None:
            settings["dense_weight"] = self.dense_weight
        if self.effort.ef is not None:
            settings["ef"] = self.effort.ef
        if self.effort.exact:
            settings["exact"] = True
        return settings

    @property
    def name(self) -> str:
        """The name of the setting in reports, such as ``hybrid dense_weight=0.5 exact``.

        Settings are told apart by it in a report: each must have another one.
        """
        words: list[str] = [self.strategy]
        for name, value in self.settings.items():
            # The strategy is the first word already.
            if name == "type":
                continue
            if value is True:
                words.append(name)
            else:
                words.append(f"{name}={value:g}")
        return " ".join(words)

    @property
    def cost(self) -> tuple[int, float]:
        """The cost by which settings are ordered: how many rankings, then how much effort.

        The same on every machine, which a measured time would not be: of settings that are equally
        good the cheapest is advised.
        """
        # A ranking by words costs least, and two rankings cost the most.
        rankings = {"sparse": 0, "dense": 1, "hybrid": 2}[self.strategy]
        if self.effort.exact:
            return rankings, math.inf
        # A store's own effort is sorted between the tried ones.
        return rankings, self.effort.ef or _OWN_EF


_EXACT = SearchSetting(strategy="dense", effort=Effort(exact=True))
_OWN_EF = 40.5
"""Stands for the store's own setting, which is not known: pgvector's is 40, others' about 100."""


class TunedSetting(Record):
    """One way to search, what it scores, and what it loses against the best one."""

    name: str
    retrieval: Mapping[str, object]
    """The setting as it is written in a pipeline's file."""
    score: MeanInterval
    difference: MeanInterval
    """From the best setting, question by question."""
    overlap: MeanInterval | None
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
        """The setting of a name among those that were tried, such as that of ``best``.

        Raises:
            StopIteration: no such setting was tried.
        """
        return next(setting for setting in self.settings if setting.name == name)


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
        """The store that the collection's two strategies search: both have the same store.

        A strategy is a way to search, by vectors (dense) or by words (sparse). At least one must be
        there.
        """
        # Any: a strategy in general need not have a store, but those of a collection do.
        strategy: Any = self.dense or self.sparse
        return cast("OwnCollection | ForeignCollection", strategy.store)


class LegRankings(NamedTuple):
    """One leg of a search, by words or by vectors: a ranking per question."""

    rankings: list[list[Chunk]]
    seconds: list[float]
    """How long each ranking took."""


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
    measure_name, formula = _MEASURES[measure]
    # An empty question has no vector, and no words.
    questions = [case for case in cases if case.query.strip()]
    # As deep as a fusion needs, and as what counts.
    depth = max(k, _CANDIDATES)
    legs = legs_of(collection, questions, depth, advance)
    searches: dict[SearchSetting, LegRankings] = {}
    # The cheapest first: `best` and `chosen` below take the first of equal ones.
    for setting in settings_of(legs, collection.present):
        searches[setting] = combined(setting, legs, depth)
    rankings = {setting: search.rankings for setting, search in searches.items()}
    _, scores = scores_of(questions, rankings, k=k, measure=formula)

    # Settings are compared question by question: on those that all of them have a score for.
    positions = _comparable_positions(cases, scores)
    clusters = clusters_among([questions[position] for position in positions])
    values_of: dict[SearchSetting, list[float]] = {}
    for setting, column in scores.items():
        values_of[setting] = [cast("float", column[position]) for position in positions]
    # Of settings that are equally good the first one, which is the cheapest. Rounded: a difference
    # in the last digit is none.
    # A dict keeps the settings' order: `max` takes the first of equal totals.
    totals = {setting: round(math.fsum(values), 9) for setting, values in values_of.items()}
    best = max(totals, key=totals.__getitem__)

    tuned_settings: list[TunedSetting] = []
    for setting, values in values_of.items():
        own = rankings[setting]
        # Without vectors there is no exact search: the share is not shown then.
        exact = rankings.get(_EXACT, own)
        overlaps = [share_found(own[position], exact[position], k) for position in positions]
        tuned = _tuned_setting(setting, values, values_of[best], overlaps, clusters, margin)
        median_seconds = median(searches[setting].seconds)
        tuned_settings.append(replace(tuned, p50_ms=1000 * median_seconds))
    # The cheapest comes first, and the best itself loses nothing.
    chosen = next(tuned.name for tuned in tuned_settings if tuned.loses_nothing)
    return Tuning(
        measure=f"{measure_name}@{k}",
        k=k,
        margin=margin,
        questions=len(positions),
        skipped=len(cases) - len(positions),
        settings=tuple(tuned_settings),
        best=best.name,
        chosen=chosen,
        present=collection.present.name,
    )


def _comparable_positions(
    cases: Sequence[Case], scores: Mapping[Any, Sequence[float | None]]
) -> list[int]:
    """The positions of the questions that every setting has a score for.

    On those alone are settings compared.

    Raises:
        DataError: these are too few to choose a setting by.
    """
    positions: list[int] = []
    # A row has the scores of one question by all settings.
    for position, row in enumerate(zip(*scores.values(), strict=True)):
        if None not in row:
            positions.append(position)
    if len(positions) < _FEWEST:
        message = (
            f"only {len(positions)} of {counted(len(cases), 'question')} have gold that can be "
            f"compared with what was found: {_FEWEST} are needed"
        )
        raise DataError([Problem(message=message)])
    return positions


def _tuned_setting(
    setting: SearchSetting,
    values: Sequence[float],
    best: Sequence[float],
    overlaps: Sequence[float],
    clusters: Sequence[str | None],
    margin: float,
) -> TunedSetting:
    """A setting beside the best one, by the scores of each question: does it lose anything?

    Args:
        values: the setting's score of each question.
        best: the best setting's.
        overlaps: for each question, the share of chunks that an exact search finds, too.
        clusters: questions with the same label are not independent.
        margin: a loss that is surely smaller counts as none.
    """
    difference = gain_of(values, best, clusters)
    # The best setting itself may have an interval that is too wide to show it.
    is_best = values == best
    # The whole interval lies above the tolerated loss.
    is_near = difference.low is not None and difference.low > -margin
    overlap: MeanInterval | None = None
    if setting.strategy == "dense":  # an exact search by vectors is no measure of words
        overlap = mean_interval(overlaps, clusters, bounds=(0.0, 1.0))
    return TunedSetting(
        name=setting.name,
        retrieval=setting.settings,
        score=mean_interval(values, clusters, bounds=(0.0, 1.0)),
        difference=difference,
        overlap=overlap,
        loses_nothing=is_near or is_best,
    )


def gain_of(
    values: Sequence[float],
    base: Sequence[float],
    clusters: Sequence[str | None],
    level: float = 0.95,
) -> MeanInterval:
    """The mean difference of scores from 0 to 1, question by question, with its interval.

    Args:
        base: the scores to compare with, of the same questions.
        clusters: questions with the same label are not independent.
        level: of the interval, such as 0.95.
    """
    differences = [value - before for value, before in zip(values, base, strict=True)]
    return mean_interval(differences, clusters, level, bounds=(-1.0, 1.0))


Leg: TypeAlias = Effort | Literal["sparse"]
"""A ranking by words, or one by vectors with some effort."""


def legs_of(
    collection: TunedCollection, cases: Sequence[Case], depth: int, advance: Callable[[str], None]
) -> dict[Leg, LegRankings]:
    """All rankings (legs) that settings are made of: by words, and by vectors with several efforts.

    Settings share legs: each is searched once, and hybrid settings are fused of two afterwards.

    Args:
        depth: chunks of each ranking.
        advance: called with the name of each leg before its search.
    """
    legs: dict[Leg, LegRankings] = {}
    search = Search(k=depth, threshold=collection.threshold, filters=collection.filters)
    queries = [case.query for case in cases]
    if collection.sparse is not None:
        advance("sparse")
        legs["sparse"] = _timed_rankings(collection.sparse, queries, search)
    dense = collection.dense
    if dense is not None and queries:
        texts = [readable_text(query) for query in queries]
        # All at once, before any search: only searches are timed.
        vectors = dense.embedder.embed_queries(texts)
        vectors_by_text = dict(zip(texts, vectors, strict=True))
        # A cast: the strategies call nothing but `embed_queries` of it.
        embedder = cast("Embedder", _QueryVectors(vectors_by_text))
        present = collection.present.effort
        efforts = [NORMAL]
        # Nothing is to be tuned where every search is exact.
        if not dense.store.is_exact:
            efforts += [Effort(ef=ef) for ef in _EFS]
            efforts.append(Effort(exact=True))
        # The collection's own effort is always tried.
        if present not in efforts:
            efforts.append(present)
        for effort in efforts:
            advance(SearchSetting(strategy="dense", effort=effort).name)
            strategy = replace(dense, embedder=embedder, effort=effort)
            try:
                legs[effort] = _timed_rankings(strategy, queries, search)
            except ConfigError:
                # The usual search must work: only further efforts may be unknown to the store.
                if effort in (NORMAL, present):
                    raise
                continue  # the store's index has no such setting
    if not legs:
        raise ConfigError("the collection can be searched neither by words nor by vectors")
    return legs


class _QueryVectors(Record, kw_only=False):
    """Stands for an embedder: the vectors are there already, so that only the search is timed."""

    vectors: Mapping[str, Floats32]

    def embed_queries(self, texts: Sequence[str]) -> Floats32:
        """The vectors of the texts, in their order; each text was embedded before the search.

        The time of a search is so measured without the embedder's.
        """
        return np.stack([self.vectors[text] for text in texts])


def _timed_rankings(strategy: Strategy, queries: Sequence[str], search: Search) -> LegRankings:
    """Searches one question after the other and measures the time of each, as a user would wait.

    Many questions at once would take less time each.
    """
    leg = LegRankings([], [])
    for query in queries:
        begin = time.perf_counter()
        # One question in a list: strategies take several.
        [ranking] = strategy.retrieve([query], search)
        leg.seconds.append(time.perf_counter() - begin)
        leg.rankings.append(ranking)
    return leg


def settings_of(legs: Mapping[Leg, LegRankings], present: SearchSetting) -> list[SearchSetting]:
    """The ways to search (settings) that the rankings can be combined to, the cheapest first.

    Args:
        legs: the rankings by words and by vectors.
        present: the collection's own setting, which is always tried if it can be.
    """
    efforts = [leg for leg in legs if isinstance(leg, Effort)]
    has_words = "sparse" in legs
    settings: list[SearchSetting] = []
    if has_words:
        settings.append(SearchSetting(strategy="sparse"))
    for effort in efforts:
        settings.append(SearchSetting(strategy="dense", effort=effort))
    for effort in efforts:
        # Weights are tried with the usual efforts only: all efforts times all weights are too many.
        if has_words and effort in (NORMAL, present.effort):
            for weight in _WEIGHTS:
                hybrid = SearchSetting(strategy="hybrid", effort=effort, dense_weight=weight)
                settings.append(hybrid)
    # The present setting is among them where its rankings are at hand.
    is_possible = present.strategy != "hybrid" or has_words
    if present not in settings and is_possible:
        settings.append(present)
    # Of equal cost, the smaller weight of vectors first.
    return sorted(settings, key=lambda setting: (setting.cost, setting.dense_weight or 0.0))


def combined(setting: SearchSetting, legs: Mapping[Leg, LegRankings], depth: int) -> LegRankings:
    """The ranking and time of each question with a setting, out of rankings that are there already.

    Nothing is searched again: a hybrid setting is the fusion of two rankings, and takes their
    times.

    Args:
        depth: chunks of each ranking.
    """
    if setting.strategy == "sparse":
        return legs["sparse"]
    dense = legs[setting.effort]
    if setting.strategy == "dense":
        return dense
    sparse = legs["sparse"]
    weight = setting.dense_weight or 0.0
    rankings: list[list[Chunk]] = []
    for by_vectors, by_words in zip(dense.rankings, sparse.rankings, strict=True):
        if not weight:  # a ranking without weight brings no chunk in, either
            by_vectors = []
        fused = reciprocal_rank_fusion(
            [by_vectors, by_words], weights=(weight, 1.0), rrf_k=_RRF_K, top_k=depth
        )
        rankings.append(fused)
    # As a hybrid search takes both rankings, one after the other.
    seconds = [sum(pair) for pair in zip(dense.seconds, sparse.seconds, strict=True)]
    return LegRankings(rankings, seconds)


SettingT = TypeVar("SettingT", bound=Hashable)


def scores_of(
    cases: Sequence[Case],
    rankings: Mapping[SettingT, Sequence[Sequence[Chunk]]],
    *,
    k: int,
    measure: Callable[..., float | Skip],
    corpus: Callable[[], Iterable[str]] | None = None,
) -> tuple[MatchingVerdict, dict[SettingT, list[float | None]]]:
    """The score of each case with each setting, and how chunks are compared with the gold for that.

    The way of comparing is the same for all settings, since they are compared with each other. A
    case whose gold cannot be compared has None.

    Args:
        rankings: by setting, the chunks that each case gets.
        k: chunks that count.
        measure: the formula of the score.
        corpus: ids of all documents, where they are known.
    """
    traces: dict[SettingT, list[Trace]] = {}
    for setting, ranked in rankings.items():
        traces[setting] = []
        for case, chunks in zip(cases, ranked, strict=True):
            # Cut to what counts, so that matching is decided by what is scored.
            traces[setting].append(_retrieval_trace(case, chunks[:k]))
    # Once for all settings: they are compared with each other.
    # All gold before any chunk: an id of a later case may show how ids are compared.
    gold = GoldSpace()
    for case in cases:
        gold.add(case)
    tally = MatchingTally(gold)
    for trace in chain.from_iterable(traces.values()):
        tally.add(trace)
    verdict = tally.verdict(corpus)

    scores: dict[SettingT, list[float | None]] = {}
    for setting, traces_of_setting in traces.items():
        scores[setting] = [
            _score_of_case(trace, verdict, k, measure) for trace in traces_of_setting
        ]
    return verdict, scores


def _retrieval_trace(case: Case, chunks: Sequence[Chunk]) -> Trace:
    """A case with retrieved chunks and no answer, in the form that metrics read.

    Each chunk carries its document and its place there, so that it is compared with the gold
    however documents are cut.
    """
    result = RetrievalResult.from_chunks([with_origin(chunk) for chunk in chunks])
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=result),
        generation=Outcome(status=Status.SKIPPED, reason="nothing is generated"),
    )


def _score_of_case(
    trace: Trace, verdict: MatchingVerdict, k: int, measure: Callable[..., float | Skip]
) -> float | None:
    """A case's score by one measure; None where its gold cannot be compared with the chunks.

    A score of 0 would count as a bad search there.
    """
    result = trace.retrieval.value
    if result is None:
        return None
    ranking = match(trace.case, result, verdict.matching)
    if isinstance(ranking, Skip):
        return None
    score = measure(ranking_of(ranking), k=k)
    if isinstance(score, Skip):
        return None
    return score
