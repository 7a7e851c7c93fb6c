"""Cosine of stored embeddings."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ragbench.core.checked import Checked, Share
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.errors import InterfaceError
from ragbench.plugins import Floats, np
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.fusion import given_scores, unscored_note
from ragbench.safe_text import counted
from ragbench.text.tokens import tokenise

FIELD = "embedding"
"""The field of a chunk's metadata that holds its embedding."""
_ONE_THREAD = 1 << 18
"""How many products OpenBLAS, the library behind numpy, leaves to one thread."""


def query_direction(query: Query, rows: Floats | None) -> Floats | None:
    """The query's embedding with length 1, so that products with it are cosines.

    None when the query has no embedding.

    Args:
        rows: the embeddings of the chunks; None without any.

    Raises:
        InterfaceError: those of the chunks have another length.
    """
    if query.embedding is None:
        return None
    direction: Floats = _unit_rows([query.embedding], ["the query"])[0]
    # Only embeddings of one length have a product.
    if rows is not None and rows.shape[1] != len(direction):
        raise InterfaceError(
            f"the query's embedding has {len(direction)} dimensions, those of the chunks "
            f"{rows.shape[1]}: both must come from one model"
        )
    return direction


def chunk_directions(
    query: Query, chunks: Sequence[Chunk], field: str = FIELD
) -> tuple[Floats | None, list[int]]:
    """The chunks' embeddings with length 1, of those that have one.

    The embeddings come with the query, where the run computed them for all variants, or in the
    metadata.

    Products of rows of length 1 are cosines.

    Returns:
        A row per chunk with an embedding, None without any; and the places of these chunks. A row
        of zeros stays so, its cosines are 0.
    """
    embedding_of_id = query.chunk_embeddings or {}
    embeddings: list[Any] = []
    places: list[int] = []
    for place, chunk in enumerate(chunks):
        # Embeddings of the run come first: they are of one model, which metadata do not promise.
        embedding = embedding_of_id.get(chunk.id)
        if embedding is None:
            embedding = chunk.metadata.get(field)
        if embedding is not None:
            embeddings.append(embedding)
            places.append(place)
    if not embeddings:
        return None, []
    owners = [f"chunk '{chunks[place].id}'" for place in places]
    return _unit_rows(embeddings, owners), places


def similarities(rows: Floats) -> Floats:
    """The products of all pairs of embeddings, a row each: of rows of length 1 the cosines.

    A few hundred rows are multiplied in blocks that are too small for the library behind numpy to
    share out among threads: for matrices of this size these mostly wait for each other, on a busy
    machine for as long as a hundred times the work takes.
    """
    # A row times all rows takes as many products as there are numbers.
    rows_in_block = _ONE_THREAD // max(1, rows.size)
    if rows_in_block < 1:
        whole: Floats = rows @ rows.T
        return whole
    blocks: list[Floats] = []
    for start in range(0, len(rows), rows_in_block):
        block = rows[start : start + rows_in_block]
        blocks.append(block @ rows.T)
    return np.concatenate(blocks)


def _unit_rows(embeddings: Sequence[Any], owners: Sequence[str]) -> Floats:
    """Embeddings with length 1, a row each; those of zeros stay as they are.

    Products of such rows are cosines.

    Args:
        owners: whose each embedding is, in the words of messages, such as ``chunk 'a1'``.

    Raises:
        InterfaceError: an embedding is no list of finite numbers, or has another length than the
            first.
    """
    rows: list[Floats] = []
    for embedding, owner in zip(embeddings, owners, strict=True):
        try:
            vector = np.asarray(embedding, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty(0)  # refused below: an empty vector is no list of numbers
        if vector.ndim != 1 or not vector.size:
            raise InterfaceError(f"the embedding of {owner} is not a list of numbers")
        if not np.isfinite(vector).all():
            raise InterfaceError(f"the embedding of {owner} holds a number that is not finite")
        if rows and vector.size != rows[0].size:
            raise InterfaceError(
                f"the embedding of {owner} has {vector.size} dimensions, those before it "
                f"{rows[0].size}: all must come from one model"
            )
        rows.append(vector)
    matrix = np.stack(rows)
    # `einsum` adds up the squares without a matrix of them, which would be as large as the rows.
    squared_lengths = np.einsum("ij,ij->i", matrix, matrix)
    lengths = np.sqrt(squared_lengths)
    divisors = np.where(lengths == 0, 1, lengths)
    directions: Floats = matrix / divisors[:, None]
    return directions


@dataclass(frozen=True, kw_only=True, slots=True)
class SemanticReranker:
    """Scores in [-1, 1]: the cosine of stored embeddings (post-retrieval operators, "semantic").

    A chunk without an embedding keeps its given score, and so do all when the query has none; a
    note says so. Such scores may be on another scale than cosines.
    """

    name = "semantic"

    NEEDS: ClassVar[tuple[str, ...]] = ("embeddings of query and chunks",)
    needs_embeddings: ClassVar[bool] = True

    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""
    default_score: float = 0.5
    """Score of a chunk with neither an embedding nor a score."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The cosine of the query's and each chunk's embedding.

        A chunk without an embedding keeps its given score, and a note says so.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        scores = given_scores(chunks, self.default_score)
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        direction = query_direction(query, rows)
        if direction is None:
            note = "the query has no embedding: the given scores were kept"
            notes = (note, *unscored_note(chunks, self.default_score))
            return NotedScores(tuple(scores), notes)
        # Rows are of the chunks with an embedding alone, which are at `places`; others keep theirs.
        if rows is not None:
            cosines = (rows @ direction).tolist()
            for place, cosine in zip(places, cosines, strict=True):
                scores[place] = cosine
        if len(places) == len(chunks):
            return NotedScores(scores)
        places_with_embedding = set(places)
        without_embedding: list[Chunk] = []
        for place, chunk in enumerate(chunks):
            if place not in places_with_embedding:
                without_embedding.append(chunk)
        counts = f"{len(without_embedding)} of {counted(len(chunks), 'chunk')}"
        note = f"{counts} had no embedding: their given scores were kept"
        notes = (note, *unscored_note(without_embedding, self.default_score))
        return NotedScores(scores, notes)


def sparse_matrix(weights: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix of the weights at their places; weights of the same place add up.

    Args:
        rows: of each weight, its row.
        columns: of each weight, its column.
    """
    # Imported late: scipy takes longer to load than most commands take.
    sparse = importlib.import_module("scipy.sparse")
    return sparse.csr_array((weights, (rows, columns)), shape=shape, dtype=float)


def lexical_similarity(texts: Sequence[str]) -> Floats:
    """Cosines of the texts' words, each weighted by ln(1 + N / n) * (1 + ln tf).

    N is the number of texts, n of those that hold the word, tf its number in the text.

    Chunks are compared by it where embeddings are missing.

    Returns:
        A symmetric square matrix in [0, 1]; a text without words is like none, itself included.
    """
    counters = [Counter(tokenise(text)) for text in texts]
    # An entry for each word of each text: its row, its column and how often it stands there.
    vocabulary: dict[str, int] = {}
    entry_rows: list[int] = []
    entry_columns: list[int] = []
    entry_times: list[int] = []
    for row, counter in enumerate(counters):
        for word, times in counter.items():
            column = vocabulary.setdefault(word, len(vocabulary))
            entry_rows.append(row)
            entry_columns.append(column)
            entry_times.append(times)
    rows = np.array(entry_rows, dtype=int)
    columns = np.array(entry_columns, dtype=int)
    texts_with_word = np.bincount(columns, minlength=len(vocabulary))
    rarities = np.log1p(len(texts) / texts_with_word)
    weights = (1 + np.log(np.array(entry_times))) * rarities[columns]
    squared_lengths = np.bincount(rows, weights * weights, minlength=len(texts))
    lengths = np.sqrt(squared_lengths)
    # A word of one text alone makes it like no other, and counts for its length only.
    is_shared = texts_with_word[columns] > 1
    rows = rows[is_shared]
    columns = columns[is_shared]
    weights = weights[is_shared] / lengths[rows]
    # A matrix must have a column, also where no text has a word.
    shape = (len(texts), max(1, len(vocabulary)))
    matrix = sparse_matrix(weights, rows, columns, shape)
    similarity: Floats = (matrix @ matrix.T).toarray()
    # The products lack the words of one text alone: the diagonal is set to what it would be.
    has_words = [float(bool(counter)) for counter in counters]
    np.fill_diagonal(similarity, has_words)
    return similarity


@dataclass(frozen=True, kw_only=True, slots=True)
class MmrReranker(Checked):
    """Picks, again and again, the chunk with the highest marginal relevance.

    That is ``balance * relevance - (1 - balance) * highest similarity to a chunk already picked``
    (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries"). A chunk's score is its marginal relevance when it was
    picked, held below that of the pick before it.
    """

    name = "mmr"

    balance: Share = 0.5
    """1 looks at relevance alone, 0 at diversity alone."""
    relevance: Literal["auto", "score", "embedding"] = "auto"
    """``"embedding"``: cosine of the query's and the chunk's embedding. ``"score"``: the given
    score, mapped to [0, 1] among the candidates. ``"auto"``: embeddings where all are there."""
    similarity: Literal["auto", "embedding", "lexical"] = "auto"
    """How alike two chunks are. ``"embedding"``: cosine. ``"lexical"``: cosine of their words,
    weighted by rarity among the candidates. ``"auto"``: embeddings where all are there."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    @property
    def needs_embeddings(self) -> bool:
        """Whether a setting of this reranker asks for embeddings; ``"auto"`` does without.

        A pipeline refuses it then where retrieval gives none.
        """
        return "embedding" in (self.relevance, self.similarity)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Each chunk's marginal relevance; with one embedding missing, all are compared by words.

        Cosines of embeddings and of words have no common scale, so that the two are never mixed.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        notes: list[str] = []
        rows: Floats | None = None
        if self.similarity != "lexical" or self.relevance != "score":
            rows, places = chunk_directions(query, chunks, self.embedding_field)
            # With one missing none is used: two measures of likeness in one list do not compare.
            if len(places) < len(chunks):
                rows = None
        relevance = self._relevance(query, chunks, rows, notes)
        if self.similarity != "lexical" and rows is not None:
            similarity = similarities(rows)
        else:
            if self.similarity == "embedding":
                notes.append("a chunk has no embedding: chunks were compared by their words")
            similarity = lexical_similarity([chunk.text for chunk in chunks])
        values = _marginal_relevances(relevance, similarity, self.balance)
        return NotedScores(tuple(values), tuple(notes))

    def _relevance(
        self, query: Query, chunks: Sequence[Chunk], rows: Floats | None, notes: list[str]
    ) -> Floats:
        """How relevant each chunk is by itself, before any similarity to others.

        Args:
            rows: the chunks' embeddings; None where one has none.
            notes: takes a sentence where something had to be made up for.
        """
        if self.relevance != "score":
            direction = query_direction(query, rows)
            if direction is not None and rows is not None:
                # Rows and direction have length 1: their product is the cosine.
                return rows @ direction
            if self.relevance == "embedding":
                notes.append("the query or a chunk has no embedding: the given scores were used")
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        if len(scores) < len(chunks):
            notes.append("a chunk has no score: relevance was taken from the present order")
            return np.linspace(1.0, 0.0, len(chunks))
        return np.array(min_max(scores))


def _marginal_relevances(relevance: Floats, similarity: Floats, balance: float) -> list[float]:
    """Each chunk's marginal relevance when it was picked, strictly falling from pick to pick.

    That is its relevance less its similarity to what was picked before. The value falls strictly
    from pick to pick, so that the scores give the order of the picks.

    Args:
        relevance: of each chunk by itself.
        similarity: of all pairs of chunks.
        balance: the share of relevance; the similarity to what is picked costs the rest of 1.
    """
    size = len(relevance)
    values = [0.0] * size
    # A product, and so a copy: picks are struck out of it below.
    worth = balance * relevance
    cost = (1 - balance) * similarity
    highest_cost = np.zeros(size)  # before the first pick nothing costs anything
    previous = math.inf
    for turn in range(size):
        place = int(np.argmax(worth - highest_cost))
        value = float(worth[place] - highest_cost[place])
        # A chunk scores below the one that was picked before it, so that sorting by score gives the
        # order in which the chunks were picked.
        next_lower = math.nextafter(previous, -math.inf)
        value = min(value, next_lower)
        values[place] = value
        previous = value
        # Costs may be negative: the zeros of the start must not count as such.
        if turn == 0:
            highest_cost = cost[place].copy()
        else:
            highest_cost = np.maximum(highest_cost, cost[place])
        worth[place] = -np.inf  # what is picked is never picked again
    return values
