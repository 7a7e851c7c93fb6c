"""Dense, sparse, hybrid, and the settings of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, TypeAlias, get_type_hints

from ragbench.core.checked import Checked, Positive, Weight
from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, field_values, fields_of
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import converted
from ragbench.plugins import np
from ragbench.safe_text import did_you_mean, listed, shortened_line
from ragbench.search.embedders.embedder import CosineScale, Embedder, readable_text
from ragbench.search.stores.base import NORMAL, Effort
from ragbench.search.stores.collection import OpenCollection
from ragbench.search.stores.record import searched_fields

LEGS = "ranked_by"
"""Metadata of a hybrid search's chunks: ``{"dense": {"rank": 3, "score": 0.41}, ...}``."""

StrategyName: TypeAlias = Literal["dense", "sparse", "hybrid"]

_VARIABLES = {
    "top_k": "DEFAULT_TOP_K",
    "score_threshold": "DEFAULT_SCORE_THRESHOLD",
    "strategy": "RETRIEVAL_STRATEGY",
}
"""The retrieval specification's names of the settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalSettings(Checked):
    top_k: Positive = 4
    """How many chunks a search returns at most; at least 1."""
    score_threshold: float | None = None
    """Chunks that score less are left out; 0 is the score of what has nothing to do with the
    query, 1 the highest. In a hybrid search it holds for each leg before they are fused. None
    leaves out no single chunk; a question that nothing is related to (the best vector scores below
    0, no word is shared) finds nothing all the same."""
    strategy: StrategyName = "hybrid"
    """``dense`` compares meanings by vectors, ``sparse`` words by BM25, ``hybrid`` fuses both."""
    dense_weight: Weight | None = None
    """Hybrid: weight of the dense ranking, at least 0; None for the one measured of the collection
    (`ragbench.search.pipeline.agreement`), else of the embedder (`Embedder.hybrid_weight`)."""
    sparse_weight: Weight = 1.0
    """Hybrid: weight of the sparse ranking, at least 0."""
    rrf_k: Positive = 60
    """Hybrid: how little the first ranks count more than the next ones, at least 1."""
    candidates: Positive = 100
    """Hybrid: how many chunks of each leg are fused, at least 1 and never fewer than are asked
    for."""
    ef: int | None = None
    """Dense and hybrid: how many candidates the store's approximate index keeps while it looks;
    None for the store's own setting. See `ragbench.search.stores.base.Effort`."""
    exact: bool = False
    """Dense and hybrid: whether every vector is compared, whatever index the store has."""

    def __post_init__(self) -> None:
        Effort(ef=self.ef, exact=self.exact)
        Checked.__post_init__(self)
        if self.dense_weight == self.sparse_weight == 0:
            raise ConfigError("one of the weights must be above 0")

    @property
    def effort(self) -> Effort:
        """How hard the store's index looks."""
        return Effort(ef=self.ef, exact=self.exact)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> RetrievalSettings:
        found: dict[str, Any] = {}
        hints = get_type_hints(cls)
        for field in fields(cls):
            names = [f"RAGBENCH_{field.name.upper()}", _VARIABLES.get(field.name, "")]
            if variable := next((name for name in names if name in environ), None):
                given = environ[variable].strip()
                value = converted(given, hints[field.name], variable, strict=False)
                try:
                    found[field.name] = getattr(cls(**{field.name: value}), field.name)
                except ConfigError as error:
                    raise ConfigError(f"{variable}={given!r}: {error}") from error
        return cls(**found)


class Search(Record):
    """What is looked for, besides the queries."""

    k: int
    """How many chunks at most, at least 1."""
    threshold: float | None = None
    """Chunks that score less are left out; None: see `RetrievalSettings.score_threshold`."""
    filters: Filter | None = None
    """What the chunks' metadata must pass."""
    kind: Literal["query", "passage"] = "query"
    """How what is looked for is embedded: as a question, or as the passages that are searched."""


class Strategy(Protocol):
    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query its chunks with their scores, best first.

        Of equal scores the lower id (by code points) comes first. A query without a character that
        is not white space finds nothing.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseStrategy:
    """The chunks whose vectors are most similar to the query's.

    A score is the cosine on the embedder's own scale: see `CosineScale`.
    """

    store: OpenCollection[Any]
    embedder: Embedder
    """The one that the collection was built with."""
    calibration: CosineScale | None
    """That embedder's; None leaves scores as the store gives them."""
    effort: Effort = NORMAL
    """How hard the store's index looks."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        asked = [at for at, query in enumerate(queries) if query.strip()]
        found: list[list[Chunk]] = [[] for _ in queries]
        if not asked:
            return found
        passage = search.kind == "passage"
        embed = self.embedder.embed_passages if passage else self.embedder.embed_queries
        vectors = embed([readable_text(queries[at]) for at in asked])
        ranked = self.store.search(vectors, k=search.k, filters=search.filters, effort=self.effort)
        scale, least = self.calibration, search.threshold
        for at, chunks in zip(asked, ranked, strict=True):
            if scale is not None:
                chunks = [replace(one, score=scale.score(one.score or 0.0)) for one in chunks]
            if least is not None:
                chunks = [one for one in chunks if (one.score or 0.0) >= least]
            # On the calibrated scale 0 is the background: below it, even the best is unrelated.
            elif scale is not None and chunks and (chunks[0].score or 0.0) < 0.0:
                chunks = []
            found[at] = chunks
        return found


def dense_of(strategy: Strategy) -> DenseStrategy | None:
    """The search by vectors that a search is, or holds."""
    inner = strategy.dense if isinstance(strategy, HybridStrategy) else strategy
    return inner if isinstance(inner, DenseStrategy) else None


def exactly(strategy: Strategy) -> Strategy | None:
    """The same search with every vector compared; None where it does so already."""
    dense = dense_of(strategy)
    if dense is None or dense.store.is_exact or dense.effort.exact:
        return None
    exact = replace(dense, effort=Effort(exact=True))
    return replace(strategy, dense=exact) if isinstance(strategy, HybridStrategy) else exact


def filter_problem(store: OpenCollection[Any], filters: Filter | None) -> str | None:
    """What is wrong with a filter that lets no chunk of a collection pass; None where some do.

    Raises:
        ConfigError: no chunk has a field of its.
    """
    if filters is None:
        return None
    anything = np.ones((1, store.dimension), dtype=np.float32)
    if store.search(anything, k=1, filters=filters)[0]:
        return None
    looked_at = store.search(anything, k=_LOOKED_AT)[0]
    known = sorted({name for chunk in looked_at for name in field_values(searched_fields(chunk))})
    absent = [name for name in fields_of(filters) if name not in known]
    if not absent:
        return "the filter lets no chunk pass: its fields are there, its values are not"
    meant = did_you_mean(absent[0], known)
    raise ConfigError(
        f"the filter lets no chunk pass: no chunk that was looked at has a field "
        f"'{shortened_line(absent[0])}'.{meant} There are: {listed(known) or 'none'}"
    )


_LOOKED_AT = 200
"""Chunks whose fields a message about a filter names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HybridStrategy:
    """Weighted reciprocal rank fusion of a dense and a sparse ranking.

    The threshold holds for each of the two before they are fused: what is fused is a sum of
    reciprocal ranks and says only which chunk comes before which. So each chunk keeps, in its
    metadata under `LEGS`, its rank (from 1) and score in each ranking that holds it.
    """

    dense: Strategy
    sparse: Strategy
    weights: tuple[float, float] = (1.0, 1.0)
    """Of the dense and of the sparse ranking, each at least 0."""
    rrf_k: int = 60
    """See `reciprocal_rank_fusion`."""
    candidates: int = 100
    """How many chunks of each ranking are fused; never fewer than are asked for."""

    @property
    def identity(self) -> dict[str, object]:
        """All that its rankings depend on besides those that it fuses, as JSON."""
        weights = dict(zip(("dense_weight", "sparse_weight"), self.weights, strict=True))
        return {**weights, "rrf_k": self.rrf_k, "candidates": self.candidates}

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        wider = replace(search, k=max(search.k, self.candidates))
        legs = [leg.retrieve(queries, wider) for leg in (self.dense, self.sparse)]
        return [self._fused(rankings, search.k) for rankings in zip(*legs, strict=True)]

    def _fused(self, rankings: Sequence[Sequence[Chunk]], k: int) -> list[Chunk]:
        # What counts nothing brings nothing in, either.
        weighted = zip(self.weights, rankings, strict=True)
        counted: list[Sequence[Chunk]] = [one if weight else [] for weight, one in weighted]
        fused = reciprocal_rank_fusion(counted, weights=self.weights, rrf_k=self.rrf_k, top_k=k)
        legs: dict[str, dict[str, dict[str, float]]] = {chunk.id: {} for chunk in fused}
        for name, ranking in zip(("dense", "sparse"), rankings, strict=True):
            for rank, chunk in enumerate(ranking, start=1):
                if chunk.id in legs:
                    score = round(chunk.score or 0.0, 4)
                    legs[chunk.id][name] = {"rank": rank, "score": score}
        told = ({**chunk.metadata, LEGS: legs[chunk.id]} for chunk in fused)
        return [replace(chunk, metadata=more) for chunk, more in zip(fused, told, strict=True)]


def hybrid(
    dense: DenseStrategy,
    words: Strategy,
    settings: RetrievalSettings,
    measured: float | None = None,
) -> HybridStrategy:
    """Both, weighted as the settings say, or as was measured of the collection or the embedder."""
    known = (settings.dense_weight, measured, dense.embedder.hybrid_weight)
    return HybridStrategy(
        dense=dense,
        sparse=words,
        weights=(next(one for one in known if one is not None), settings.sparse_weight),
        rrf_k=settings.rrf_k,
        candidates=settings.candidates,
    )
