"""PageRank over the candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

from msgspec import Meta

from ragbench.core.checked import Checked, NotNegative, Weight
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.errors import InterfaceError
from ragbench.plugins import Floats, np
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.semantic import (
    FIELD,
    chunk_directions,
    query_direction,
    similarities,
    sparse_matrix,
)

_TOLERANCE = 1e-9
"""How far the probabilities may be from those that further steps would give, all together."""


def personalised_pagerank(adjacency: Any, seeds: Floats, *, damping: float = 0.85) -> Floats:
    """The stationary distribution of a walk that starts again at the seeds.

    At each step the walk follows an edge of its node with probability ``damping``, in proportion to
    the weights, else it jumps to a seed; from a node without edges it always jumps (Page et al.
    1999, "The PageRank Citation Ranking"; Haveliwala 2002, "Topic-Sensitive PageRank").

    A candidate ranks high that fits the query, or is linked with such ones.

    Args:
        adjacency: a sparse matrix; row and column are the ends of an edge, the value its weight.
        seeds: how likely the walk starts at each node, up to a factor.
        damping: in [0, 1).
    """
    start: Floats = seeds / seeds.sum()
    if damping == 0:
        return start  # the logarithm below needs a number above 0
    out_weights = np.asarray(adjacency.sum(axis=1)).ravel()
    is_dangling = out_weights == 0
    shares = damping / np.where(is_dangling, 1, out_weights)
    # Transposed once: a step adds up what flows into each node.
    flow = adjacency.T.tocsr()
    # Each step shrinks the distance to the fixed point, at most 2, by the damping.
    steps = math.ceil(math.log(_TOLERANCE / 2) / math.log(damping))
    ranks = start
    for _ in range(max(1, steps)):
        dangling_share = float(ranks[is_dangling].sum())
        jump = 1 - damping + damping * dangling_share
        next_ranks = flow @ (shares * ranks) + jump * start
        change = float(np.abs(next_ranks - ranks).sum())
        ranks = next_ranks
        # All further steps together change at most change * damping / (1 - damping).
        if change * damping <= _TOLERANCE * (1 - damping):
            break
    result: Floats = ranks / ranks.sum()
    return result


Edge = tuple[int, int, float]
"""The places of two candidates, and the weight of the edge from the first to the second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalisedPageRankReranker(Checked):
    """Probabilities of a walk over the candidates that starts at those that fit the query.

    Candidates are joined by the links in their metadata (to ids of chunks or of documents, as a
    list or as a mapping to weights) and to their nearest neighbours by stored embeddings. An edge
    to a neighbour weighs its cosine, mapped so that the lowest among the candidates becomes 0 and
    1 stays 1, to the power of ``sharpness``: raw cosines of many models hardly differ. Links to
    what is not among the candidates are left out. Without any edge the order is that of the seeds,
    and a note says so.
    """

    name = "ppr"

    NEEDS: ClassVar[tuple[str, ...]] = ("links in the metadata, or embeddings",)

    damping: Annotated[float, Meta(ge=0, lt=1)] = 0.3
    """The share of steps that follow an edge, in [0, 1); low values stay near the seeds. Whole
    webs are usually walked with 0.85; over a short list 0.3 measured better."""
    seeds: Literal["score", "rank", "similarity"] = "score"
    """Where the walk starts: in proportion to the given scores or to the cosine of the query's and
    the chunk's embedding, mapped to [0, 1] among the candidates, or to 1 / present rank. Where
    scores or embeddings are missing, ranks are used, with a note."""
    links_field: str | None = "links"
    """The field of a chunk's metadata that holds its links; None leaves links out."""
    directed: bool = False
    """Whether a link leads in one direction only."""
    neighbours: NotNegative = 5
    """How many nearest neighbours each chunk is joined to; 0 leaves embeddings out."""
    sharpness: Weight = 4.0
    """How much close neighbours weigh more than distant ones, at least 0; 0 makes all equal."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The probability that the walk is at each chunk.

        Embeddings are read only where seeds or edges need them.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        rows: Floats | None = None
        places: list[int] = []
        # The walk by ranks and links alone needs no embedding, which may be missing or wrong.
        if self.neighbours or self.seeds == "similarity":
            rows, places = chunk_directions(query, chunks, self.embedding_field)
        edges = _edges_by_links(chunks, self.links_field, directed=self.directed)
        if rows is not None and self.neighbours:
            edges += self._edges_to_nearest(rows, places)
        sources = [source for source, _, _ in edges]
        targets = [target for _, target, _ in edges]
        weights = [weight for _, _, weight in edges]
        shape = (len(chunks), len(chunks))
        adjacency = sparse_matrix(weights, sources, targets, shape)
        start, notes = self._start_probabilities(query, chunks, rows, places)
        if not edges:
            notes.append("no chunk is linked to another: the order is that of the seeds")
        ranks = personalised_pagerank(adjacency, start, damping=self.damping)
        return NotedScores(tuple(ranks.tolist()), tuple(notes))

    def _start_probabilities(
        self, query: Query, chunks: Sequence[Chunk], rows: Floats | None, places: list[int]
    ) -> tuple[Floats, list[str]]:
        """How probable each candidate is as the start of the walk, up to a factor, with notes.

        A note is given where scores or embeddings are missing, so that ranks are used.

        Args:
            rows: embeddings of the chunks that have one.
            places: of these chunks.
        """
        ranks = np.arange(1, len(chunks) + 1)
        by_rank = 1.0 / ranks
        if self.seeds == "rank":
            return by_rank, []
        if self.seeds == "similarity":
            direction = query_direction(query, rows)
            # Cosines are taken only if all chunks have one: a cosine and a rank do not compare.
            if direction is None or rows is None or len(places) < len(chunks):
                note = "the query or a chunk has no embedding: the walk starts by ranks"
                return by_rank, [note]
            cosines = (rows @ direction).tolist()
            return np.array(min_max(cosines)), []
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        if len(scores) < len(chunks):
            return by_rank, ["a chunk has no score: the walk starts by ranks"]
        return np.array(min_max(scores)), []

    def _edges_to_nearest(self, rows: Floats, places: list[int]) -> list[Edge]:
        """Edges from each chunk to the nearest ones by embedding.

        Two chunks that choose each other are joined once, not twice.

        Args:
            rows: embeddings of the chunks that have one.
            places: of these chunks among all.
        """
        count = min(self.neighbours, len(rows) - 1)
        if count < 1:
            return []
        similarity = similarities(rows)
        # Below 1, so that the scale has a length also where all are alike.
        lowest = min(float(similarity.min()), 0.999)
        # No chunk is a neighbour of itself.
        np.fill_diagonal(similarity, -np.inf)
        nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
        cosines = np.take_along_axis(similarity, nearest, axis=1)
        shares_of_scale = ((cosines - lowest) / (1 - lowest)).clip(0, 1)
        weights = np.zeros(similarity.shape)
        np.put_along_axis(weights, nearest, shares_of_scale**self.sharpness, axis=1)
        # Two rows are neighbours where either one is among the nearest of the other.
        weights = np.maximum(weights, weights.T)
        source_rows, target_rows = np.nonzero(weights)
        # Rows are those of the chunks with an embedding: their places are among all chunks.
        place_of_row = np.array(places)
        sources = place_of_row[source_rows].tolist()
        targets = place_of_row[target_rows].tolist()
        edge_weights = weights[source_rows, target_rows].tolist()
        return list(zip(sources, targets, edge_weights, strict=True))


def _edges_by_links(chunks: Sequence[Chunk], field: str | None, *, directed: bool) -> list[Edge]:
    """Edges of the walk by the links in the candidates' metadata.

    Of several links between two candidates the heaviest counts. Links to what is not among the
    candidates are left out.

    Args:
        field: the field of the metadata that holds links; None where links are left out.
        directed: whether a link is an edge in its own direction only.
    """
    if field is None:
        return []
    # A link may name a chunk, or a document and by it all of its chunks.
    places_of_id: dict[str, list[int]] = {}
    for place, chunk in enumerate(chunks):
        places_of_id.setdefault(chunk.id, []).append(place)
        if chunk.document_id is not None and chunk.document_id != chunk.id:
            places_of_id.setdefault(chunk.document_id, []).append(place)
    weights: dict[tuple[int, int], float] = {}
    for place, chunk in enumerate(chunks):
        for id_, weight in _links_of_chunk(chunk, field):
            for target in places_of_id.get(id_, ()):
                if target == place or not weight:
                    continue
                pairs = [(place, target)]
                if not directed:
                    pairs.append((target, place))
                for pair in pairs:
                    present_weight = weights.get(pair, 0.0)
                    weights[pair] = max(weight, present_weight)
    return [(source, target, weight) for (source, target), weight in weights.items()]


def _links_of_chunk(chunk: Chunk, field: str) -> Iterable[tuple[str, float]]:
    """The ids that a chunk links to, each with the link's weight; 1 where the chunk gives none.

    Args:
        field: the field of the metadata that holds the links.

    Raises:
        InterfaceError: they are in no known form, or a weight is below 0.
    """
    links: Any = chunk.metadata.get(field) or ()
    if not isinstance(links, Mapping):
        if isinstance(links, str) or not isinstance(links, Iterable):
            raise InterfaceError(
                f"the links of chunk '{chunk.id}' in '{field}' must be a list of ids or a mapping "
                f"of ids to weights, not {type(links).__name__}"
            )
        # A list gives no weights: each link counts 1, and a repeated one once.
        links = dict.fromkeys(cast("Iterable[object]", links), 1.0)
    for id_, weight in cast("Mapping[object, object]", links).items():
        if not (isinstance(weight, int | float) and 0 <= weight < math.inf):
            raise InterfaceError(
                f"chunk '{chunk.id}' has a link with the weight {weight!r}; weights are numbers of "
                "at least 0"
            )
        yield str(id_), float(weight)
