"""How much the vectors of a collection count beside its words, measured without a label.

A vector that knows what a passage is about finds it by a few of its words. So sentences of some
chunks are reduced to their five rarest words, and each is looked for by vectors and by words among
chunks that lie around it: the share of words' mean reciprocal rank that vectors reach is the
agreement. Cubed, it scales the weight that the embedder's ranking has at its best: where vectors
confuse the passages of a document (long articles on one subject), they hardly count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from ragbench.core.chunk import Chunk, Document
from ragbench.core.record import replace
from ragbench.plugins import Floats32, np
from ragbench.search.embedders.embedder import Embedder, readable_text
from ragbench.search.pipeline.documents import ChunkSize, document_chunks, make_chunker
from ragbench.search.pipeline.sparse_index import Bm25Scores
from ragbench.search.stores.collection import OwnCollection
from ragbench.text.sentences import split_sentences
from ragbench.text.token_counter import APPROXIMATE
from ragbench.text.tokens import tokenise

_FEWEST = 50
"""Chunks below which nothing can be said."""
_AMONG = 2000
"""Chunks that are looked among: neighbours stay together, for they are the hard ones."""
_RUN = 50
_ASKED = 200
_WORDS = 5
"""Of a sentence: fewer words than a question has would find anything, more only itself."""


def measured_weight(store: OwnCollection, embedder: Embedder) -> float | None:
    """The weight of a collection's vectors in hybrid searches; None where nothing can be said."""
    ids = _around(sorted(store.digests()))
    if len(ids) < _FEWEST or not embedder.hybrid_weight:
        return None
    return weight_of([*store.get(ids).values()], [*store.vectors(ids).values()], embedder)


def weight_of(
    chunks: Sequence[Chunk], rows: Sequence[Floats32], embedder: Embedder
) -> float | None:
    most: float = getattr(embedder, "agreeing_weight", embedder.hybrid_weight)
    scores = Bm25Scores.build([tokenise(one.text) for one in chunks], k1=1.2, b=0.75)
    asked = [*_questions(chunks, scores)]
    if len(asked) < _FEWEST // 2:
        return None
    places, texts, by_words = zip(*asked, strict=True)
    cosines = embedder.embed_queries(texts) @ np.stack(rows).T
    agreement = _mean_rank([*cosines], places) / _mean_rank(by_words, places)
    return round(most * min(1.0, agreement) ** 3, 4)


def _around(ids: Sequence[str]) -> Sequence[str]:
    """All of them, or runs of neighbours spread over them."""
    if len(ids) <= _AMONG:
        return ids
    runs = _AMONG // _RUN
    starts = [round(at * (len(ids) - _RUN) / (runs - 1)) for at in range(runs)]
    return sorted({ids[start + at] for start in starts for at in range(_RUN)})


def _questions(chunks: Sequence[Chunk], scores: Bm25Scores) -> Iterator[tuple[int, str, Floats32]]:
    """Places of chunks, of each the rarest words of a sentence, and how BM25 scores all by them."""
    random = Random(0)
    for at in random.sample(range(len(chunks)), min(_ASKED, len(chunks))):
        text = readable_text(chunks[at].text)
        sentences = [text[span.start : span.end] for span in split_sentences(text)]
        sentences = [one for one in sentences if len(tokenise(one)) >= _WORDS]
        if sentences:
            words = _words(random.choice(sentences))
            worth = {word: max(map(scores.idf, tokenise(word)), default=0.0) for word in words}
            rare = set(sorted(worth, key=lambda word: (-worth[word], word))[:_WORDS])
            asked = " ".join(word for word in words if word in rare)
            found = scores.scores(tokenise(asked))
            if found is not None:  # pairs of characters may be cut otherwise than tokens are
                yield at, asked, found


def _words(sentence: str) -> list[str]:
    """Its words; where they are written without spaces, pairs of characters."""
    words = sentence.split()
    if len(words) >= _WORDS:
        return words
    return [sentence[at : at + 2] for at in range(0, len(sentence), 2)]


def _mean_rank(rankings: Sequence[Floats32], places: Sequence[int]) -> float:
    """The mean reciprocal rank of each one's own place; of equals it is the last."""
    ranks = [int(np.sum(one >= one[at])) for one, at in zip(rankings, places, strict=True)]
    return sum(1 / rank for rank in ranks) / len(ranks)


# --- what a collection would find if it were indexed otherwise: tried in memory on its texts

_GAP = " "
"""Stands for what no chunk of a document holds: white space, as chunkers cut."""


class VectorIndex:
    """Chunks ranked by the vectors of an embedder that did not fill the collection."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks = chunks
        self._embedder = embedder
        texts = [readable_text(chunk.text) for chunk in chunks]
        self._rows: Floats32 = embedder.embed_passages(texts)
        known = weight_of(chunks, [*self._rows], embedder)
        self.weight = embedder.hybrid_weight if known is None else known
        """Of its rankings beside those by words."""

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        asked = self._embedder.embed_queries([readable_text(query) for query in queries])
        found: list[list[Chunk]] = []
        for row in asked:
            cosines = self._rows @ row
            best: list[int] = np.argsort(-cosines, kind="stable")[:k].tolist()
            found.append([replace(self._chunks[at], score=float(cosines[at])) for at in best])
        return found


def usual_tokens(chunks: Sequence[Chunk]) -> int:
    """How long nine of ten chunks are at most, in estimated tokens."""
    counts = sorted(APPROXIMATE.count(chunk.text) for chunk in chunks)
    return counts[9 * len(counts) // 10] if counts else 0


def resized(chunks: Iterable[Chunk], tokens: int) -> list[Chunk]:
    """The same texts in chunks of another size.

    Documents are put together again where chunks say where they stand in them; any other chunk is
    cut as a text of its own.
    """
    chunker = make_chunker("tokens", ChunkSize(tokens=tokens))
    return [one for text in _documents(chunks) for one in document_chunks(text, chunker)]


def _documents(chunks: Iterable[Chunk]) -> list[Document]:
    parts: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        placed = chunk.document_id is not None and chunk.start is not None
        parts.setdefault((chunk.document_id if placed else None) or chunk.id, []).append(chunk)
    documents: list[Document] = []
    for id_, held in parts.items():
        text = ""
        for chunk in sorted(held, key=lambda one: one.start or 0):
            start = chunk.start or 0
            gap, rest = _GAP * (start - len(text)), text[start + len(chunk.text) :]
            text = f"{text[:start]}{gap}{chunk.text}{rest}"
        title = held[0].metadata.get("title")
        title = title if isinstance(title, str) else None
        documents.append(Document(id=id_, text=text, title=title))
    return documents
