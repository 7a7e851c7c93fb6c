"""Dense, sparse, hybrid, and the settings of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, TypeAlias, get_type_hints

from ragbench.core.checked import Checked, Positive, Weight
from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, field_values, fields_of
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.readable_metadata import LEGS
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import converted
from ragbench.plugins import np
from ragbench.safe_text import did_you_mean, listed, shortened_line
from ragbench.search.embedders.embedder import CosineScale, Embedder
from ragbench.search.stores.base import NORMAL, Effort, MetricName
from ragbench.search.stores.collection import OpenCollection
from ragbench.search.stores.record import searched_fields
from ragbench.text.letters import readable_text

StrategyName: TypeAlias = Literal["dense", "sparse", "hybrid"]

_VARIABLES = {
    "top_k": "DEFAULT_TOP_K",
    "score_threshold": "DEFAULT_SCORE_THRESHOLD",
    "strategy": "RETRIEVAL_STRATEGY",
}
"""The retrieval specification's names of the settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalSettings(Checked):
    """How a collection is searched by default; a call may set other values."""

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
        """Refuses values out of range, and settings that contradict.

        Two such settings are ``ef`` and ``exact``, or two weights of 0: a search would ignore one
        of them without a word, or find nothing.
        """
        Effort(ef=self.ef, exact=self.exact)  # refuses both at once
        Checked.__post_init__(self)
        # Both are 0; None, a weight that is measured later, is not equal to 0.
        if self.dense_weight == self.sparse_weight == 0:
            raise ConfigError("one of the weights must be above 0")

    @property
    def effort(self) -> Effort:
        """How hard the store's approximate index looks, by ``ef`` and ``exact``.

        A store without such an index has no use for it.
        """
        return Effort(ef=self.ef, exact=self.exact)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> RetrievalSettings:
        """The settings that variables of the environment name, such as ``DEFAULT_TOP_K``.

        ``RAGBENCH_TOP_K`` goes before it, and so for every setting.

        Raises:
            ConfigError: a variable has a value that its setting cannot have.
        """
        settings: dict[str, Any] = {}
        hints = get_type_hints(cls)
        for field in fields(cls):
            variable = variable_of(field.name, environ)
            if variable is None:
                continue
            text = environ[variable].strip()
            value = converted(text, hints[field.name], variable, strict=False)
            try:  # alone first, so that the message can name the variable
                checked = cls(**{field.name: value})
                settings[field.name] = getattr(checked, field.name)
            except ConfigError as error:
                raise ConfigError(f"{variable}={text!r}: {error}") from error
        return cls(**settings)


def variable_of(setting: str, environ: Mapping[str, str]) -> str | None:
    """The name of the environment's variable that sets a search setting; None where none does.

    ``RAGBENCH_`` and the setting's name come first, then the names of the retrieval specification.

    Args:
        setting: the name of a field of `RetrievalSettings`.
    """
    for variable in (f"RAGBENCH_{setting.upper()}", _VARIABLES.get(setting, "")):
        if variable in environ:
            return variable
    return None


class Search(Record):
    """How queries are searched for."""

    k: int
    """How many chunks at most, at least 1."""
    threshold: float | None = None
    """Chunks that score less are left out; None: see `RetrievalSettings.score_threshold`."""
    filters: Filter | None = None
    """What the chunks' metadata must pass."""
    kind: Literal["query", "passage"] = "query"
    """How what is looked for is embedded: as a question, or as the passages that are searched."""


class ScoreMeaning(Record):
    """What the numbers of a search mean, to be said wherever they are shown."""

    name: str
    """One word for programs, such as ``"cosine"`` or ``"fused_rank"``."""
    meaning: str
    """The same for people: what is measured, and what its ends are."""


CALIBRATED_COSINE = ScoreMeaning(
    name="cosine", meaning="cosine on the embedder's scale, 0 is unrelated and 1 the same"
)
BM25 = ScoreMeaning(name="bm25", meaning="BM25 as a share of the question's words, below 1")


class Strategy(Protocol):
    """A way to search a collection: by vectors, by words, or by both."""

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the search's scores, to be shown with them.

        Scores of two kinds of searches do not compare.
        """
        ...

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query its chunks with their scores, best first, at most `search.k`.

        Of equal scores the lower id (by code points) comes first. A query of white space finds
        nothing.
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

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the scores.

        The calibrated cosine, or the store's own measure of vectors. Reports print the meaning
        wherever they show scores.
        """
        if self.calibration is not None:
            return CALIBRATED_COSINE
        metric = self.store.metric
        return ScoreMeaning(name=metric, meaning=_METRICS[metric])

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query the chunks with the most similar vectors, best first.

        All queries are embedded in one batch. Empty ones find nothing, as in a search by words.
        """
        results: list[list[Chunk]] = [[] for _ in queries]
        positions = [position for position, query in enumerate(queries) if query.strip()]
        if not positions:
            return results
        # Queries lose the characters that tokenizers stop at, as passages do before they are
        # embedded.
        texts = [readable_text(queries[position]) for position in positions]
        if search.kind == "passage":
            vectors = self.embedder.embed_passages(texts)
        else:
            vectors = self.embedder.embed_queries(texts)
        rankings = self.store.search(
            vectors, k=search.k, filters=search.filters, effort=self.effort
        )
        for position, chunks in zip(positions, rankings, strict=True):
            results[position] = self._above_threshold(self._calibrated(chunks), search.threshold)
        return results

    def _calibrated(self, chunks: list[Chunk]) -> list[Chunk]:
        """The chunks with their cosines on the embedder's own scale, where it has one.

        There 0 is unrelated for every model, so that one threshold serves all. The order stays.
        """
        if self.calibration is None:
            return chunks
        score = self.calibration.score
        return [replace(chunk, score=score(chunk.score or 0.0)) for chunk in chunks]

    def _above_threshold(self, chunks: list[Chunk], threshold: float | None) -> list[Chunk]:
        """The chunks that score enough; without a threshold, none for an unrelated question.

        On the calibrated scale 0 is the background: where the best chunk is below, nothing is
        related.
        """
        if threshold is not None:
            return [chunk for chunk in chunks if (chunk.score or 0.0) >= threshold]
        # On the calibrated scale 0 is the background: below it, even the best is unrelated.
        if self.calibration is not None and chunks and (chunks[0].score or 0.0) < 0.0:
            return []
        return chunks


_METRICS: Mapping[MetricName, str] = {
    "cosine": "cosine of the vectors, on no common scale",
    "dot": "dot product of the vectors",
    "euclid": "negative Euclidean distance of the vectors",
    "manhattan": "negative Manhattan distance of the vectors",
}
"""What a store's own scores of vectors mean."""


def dense_of(strategy: Strategy) -> DenseStrategy | None:
    """The search by vectors that a search is, or that a hybrid one holds; None for words alone.

    Only such a search has an embedder, and an effort for an approximate index.
    """
    if isinstance(strategy, HybridStrategy):
        strategy = strategy.dense
    if isinstance(strategy, DenseStrategy):
        return strategy
    return None


def exactly(strategy: Strategy) -> Strategy | None:
    """The same search with every vector compared; None where it compares all already.

    A chunk that only the exact search finds was lost by the store's approximate index.
    """
    dense = dense_of(strategy)
    # The search compares no vectors, or all of them already.
    if dense is None or dense.store.is_exact or dense.effort.exact:
        return None
    exact = replace(dense, effort=Effort(exact=True))
    if isinstance(strategy, HybridStrategy):
        return replace(strategy, dense=exact)
    return exact


_LOOKED_AT = 200
"""Chunks whose fields a message about a filter names."""


def filter_problem(store: OpenCollection[Any], filters: Filter | None) -> str | None:
    """A sentence about a filter that lets no chunk of the collection pass; None where some pass.

    Without it every question would find nothing, and the search would look bad.

    Raises:
        ConfigError: the filter names a field that no chunk has.
    """
    if filters is None:
        return None
    # Every store can search by a vector; its direction makes no difference to whether one passes.
    any_vector = np.ones((1, store.dimension), dtype=np.float32)
    [passing] = store.search(any_vector, k=1, filters=filters)
    if passing:
        return None
    existing: set[str] = set()
    [sample] = store.search(any_vector, k=_LOOKED_AT)
    for chunk in sample:
        existing.update(field_values(searched_fields(chunk)))
    absent = [name for name in fields_of(filters) if name not in existing]
    if not absent:
        return "the filter lets no chunk pass: its fields are there, its values are not"
    absent_name = absent[0]
    names = sorted(existing)
    raise ConfigError(
        f"the filter lets no chunk pass: no chunk that was looked at has a field "
        f"'{shortened_line(absent_name)}'.{did_you_mean(absent_name, names)} "
        f"There are: {listed(names) or 'none'}"
    )


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
        """All that the fused rankings depend on besides the two that are fused, as JSON.

        Stored results are used again only while it is the same.
        """
        dense_weight, sparse_weight = self.weights
        # These keys cannot change: stored results are compared with them.
        return {
            "dense_weight": dense_weight,
            "sparse_weight": sparse_weight,
            "rrf_k": self.rrf_k,
            "candidates": self.candidates,
        }

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the scores: a sum of reciprocal ranks, which only orders chunks.

        Such a score compares with no other search and no threshold.
        """
        return ScoreMeaning(
            name="fused_rank",
            meaning=f"fused rank, the sum of weight / ({self.rrf_k} + rank); it only orders",
        )

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query the chunks of its rankings by vectors and by words, fused, best first.

        More chunks of each ranking are fused than are wanted: a chunk in the middle of both may
        come before one at the top of a single one.
        """
        # Never fewer than are asked for, or a short fusion could not fill the result.
        wider = replace(search, k=max(search.k, self.candidates))
        dense = self.dense.retrieve(queries, wider)
        sparse = self.sparse.retrieve(queries, wider)
        results: list[list[Chunk]] = []
        for rankings in zip(dense, sparse, strict=True):
            results.append(self._fused(rankings, search.k))
        return results

    def _fused(self, rankings: tuple[list[Chunk], list[Chunk]], k: int) -> list[Chunk]:
        """The first `k` chunks of the fused ranking, each with its rank and score in both rankings.

        `ragbench search` shows these under `LEGS` in the metadata.

        Args:
            rankings: by vectors, and by words.
        """
        weighted: list[list[Chunk]] = []
        for ranking, weight in zip(rankings, self.weights, strict=True):
            # A ranking without weight brings no chunk in, either.
            fused_ranking = ranking if weight else []
            weighted.append(fused_ranking)
        fused = reciprocal_rank_fusion(weighted, weights=self.weights, rrf_k=self.rrf_k, top_k=k)
        legs: dict[str, dict[str, dict[str, float]]] = {chunk.id: {} for chunk in fused}
        for name, ranking in zip(("dense", "sparse"), rankings, strict=True):
            for rank, chunk in enumerate(ranking, start=1):
                if chunk.id in legs:
                    # For readers only: four digits are enough, and the fused order does not need
                    # them.
                    score = round(chunk.score or 0.0, 4)
                    legs[chunk.id][name] = {"rank": rank, "score": score}
        results: list[Chunk] = []
        for chunk in fused:
            metadata = {**chunk.metadata, LEGS: legs[chunk.id]}
            results.append(replace(chunk, metadata=metadata))
        return results


def hybrid(
    dense: DenseStrategy,
    words: Strategy,
    settings: RetrievalSettings,
    measured: float | None = None,
) -> HybridStrategy:
    """A search that fuses vectors and words, with the first weight of vectors that is known.

    The settings come first, then the collection's measured weight, then the embedder's own.

    Args:
        dense: the search by vectors.
        words: the search by words.
        measured: the weight of vectors that the indexing measured; None where it could not.
    """
    dense_weight = settings.dense_weight
    # Not `or`: 0 is a weight, too, which leaves the vectors out.
    if dense_weight is None:
        dense_weight = measured
    if dense_weight is None:
        dense_weight = dense.embedder.hybrid_weight
    return HybridStrategy(
        dense=dense,
        sparse=words,
        weights=(dense_weight, settings.sparse_weight),
        rrf_k=settings.rrf_k,
        candidates=settings.candidates,
    )
