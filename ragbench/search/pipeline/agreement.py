"""How much the vectors of a collection count beside its words, measured without a label.

A vector that knows what a passage is about finds it by a few of its words. So sentences of some
chunks are reduced to their five rarest words, and each is looked for by vectors and by words among
chunks that lie around it: the share of words' mean reciprocal rank that vectors reach is the
agreement. Cubed, it scales the weight that the embedder's ranking has at its best: where vectors
confuse the passages of a document (long articles on one subject), they hardly count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from ragbench.core.chunk import Chunk, Document
from ragbench.core.record import Record, replace
from ragbench.plugins import Floats32, np
from ragbench.search.embedders.embedder import Embedder
from ragbench.search.pipeline.documents import ChunkSize, document_chunks, make_chunker
from ragbench.search.pipeline.sparse_index import Bm25Scores
from ragbench.search.stores.collection import OwnCollection
from ragbench.text.letters import readable_text
from ragbench.text.sentences import split_sentences
from ragbench.text.token_counter import APPROXIMATE
from ragbench.text.tokens import tokenise

_MIN_CHUNKS = 50
"""Fewer chunks are too few to measure anything; so are half as many questions."""
_MAX_CHUNKS = 2000
"""How many chunks are searched: enough to be hard, few enough to be embedded in a moment."""
_NEIGHBOURS = 50
"""Chunks in a row that are sampled together: the neighbours of a passage are the hard ones."""
_QUESTIONS = 200
"""How many chunks are looked for, each by the words of one of its sentences."""
_WORDS = 5
"""How many words of a sentence look for it: fewer would find anything, more only itself."""


class _Question(Record):
    """The rarest words of a sentence, to find again the chunk that the sentence stands in."""

    position: int
    """Of that chunk among those that are searched."""
    text: str
    word_scores: Floats32
    """What BM25 gives every chunk for the text."""


def measured_weight(store: OwnCollection, embedder: Embedder) -> float | None:
    """The weight of a collection's vectors in hybrid searches; None where nothing can be said.

    It is measured at the end of an indexing and kept with the collection.
    """
    # In the order of ids, chunks of a document are neighbours.
    ids = _sampled_ids(sorted(store.digests()))
    if len(ids) < _MIN_CHUNKS or not embedder.hybrid_weight:
        return None
    chunks = list(store.get(ids).values())
    vectors = list(store.vectors(ids).values())
    return weight_of(chunks, vectors, embedder)


def weight_of(
    chunks: Sequence[Chunk], vectors: Sequence[Floats32], embedder: Embedder
) -> float | None:
    """The weight that the vectors of these chunks deserve; None with too few questions."""
    best_weight: float = getattr(embedder, "agreeing_weight", embedder.hybrid_weight)
    bm25 = Bm25Scores.build([tokenise(chunk.text) for chunk in chunks], k1=1.2, b=0.75)
    questions = _questions(chunks, bm25)
    if len(questions) < _MIN_CHUNKS // 2:
        return None
    positions = [question.position for question in questions]
    # Both kinds of vectors have length 1, so that their products are cosines.
    question_vectors = embedder.embed_queries([question.text for question in questions])
    cosines = question_vectors @ np.stack(vectors).T
    word_scores = [question.word_scores for question in questions]
    rank_by_vectors = _mean_reciprocal_rank(list(cosines), positions)
    rank_by_words = _mean_reciprocal_rank(word_scores, positions)
    agreement = rank_by_vectors / rank_by_words
    # Cubed, so that vectors that reach half of what words do count an eighth.
    return round(best_weight * min(1.0, agreement) ** 3, 4)


def _sampled_ids(ids: Sequence[str]) -> Sequence[str]:
    """All ids, or of a large collection runs of neighbours that are spread evenly over it."""
    if len(ids) <= _MAX_CHUNKS:
        return ids
    runs = _MAX_CHUNKS // _NEIGHBOURS
    sample: set[str] = set()
    last_start = len(ids) - _NEIGHBOURS
    for run in range(runs):
        start = round(run * last_start / (runs - 1))
        sample.update(ids[start : start + _NEIGHBOURS])
    return sorted(sample)


def _questions(chunks: Sequence[Chunk], bm25: Bm25Scores) -> list[_Question]:
    """A question for each of up to 200 chunks that hold a sentence of enough words.

    Which chunk answers it is known, so that rankings can be measured without labels.
    """
    random = Random(0)  # the same chunks give the same weight
    positions = random.sample(range(len(chunks)), min(_QUESTIONS, len(chunks)))
    questions: list[_Question] = []
    for position in positions:
        text = readable_text(chunks[position].text)
        sentences: list[str] = []
        for span in split_sentences(text):
            sentence = text[span.start : span.end]
            if len(tokenise(sentence)) >= _WORDS:
                sentences.append(sentence)
        if not sentences:
            continue
        rarest = _rarest_words(random.choice(sentences), bm25)
        word_scores = bm25.scores(tokenise(rarest))
        # None where no word is in any chunk: pairs of characters may be cut otherwise than tokens.
        if word_scores is not None:
            questions.append(_Question(position=position, text=rarest, word_scores=word_scores))
    return questions


def _rarest_words(sentence: str, bm25: Bm25Scores) -> str:
    """The rarest words of a sentence, in its order: a question that its chunk answers.

    Nobody types a whole sentence, and frequent words would fit too many chunks.
    """
    words = sentence.split()
    if len(words) < _WORDS:  # written without spaces: pairs of characters serve as words
        words = [sentence[start : start + 2] for start in range(0, len(sentence), 2)]
    rarity: dict[str, float] = {}
    for word in words:
        rarities = [bm25.idf(token) for token in tokenise(word)]
        rarity[word] = max(rarities, default=0.0)  # a word is as rare as its rarest token
    by_rarity = sorted(rarity, key=lambda word: (-rarity[word], word))
    rarest = by_rarity[:_WORDS]
    return " ".join(word for word in words if word in rarest)


def _mean_reciprocal_rank(rankings: Sequence[Floats32], positions: Sequence[int]) -> float:
    """How high each question's scores rank its own chunk; of equals the chunk is the last."""
    reciprocal_ranks: list[float] = []
    for scores, position in zip(rankings, positions, strict=True):
        rank = int(np.sum(scores >= scores[position]))
        reciprocal_ranks.append(1 / rank)
    return sum(reciprocal_ranks) / len(reciprocal_ranks)


# --- what a collection would find if it were indexed otherwise: tried in memory on its texts


class VectorIndex:
    """Chunks ranked by the vectors of an embedder that did not fill the collection."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        """Embeds the chunks, and measures what their vectors deserve beside words."""
        self._chunks = chunks
        self._embedder = embedder
        texts = [readable_text(chunk.text) for chunk in chunks]
        self._vectors: Floats32 = embedder.embed_passages(texts)
        measured = weight_of(chunks, list(self._vectors), embedder)
        self.weight = embedder.hybrid_weight if measured is None else measured
        """Of its rankings beside those by words."""

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """The nearest chunks of each query, best first, with their cosines as scores."""
        query_vectors = self._embedder.embed_queries([readable_text(query) for query in queries])
        rankings: list[list[Chunk]] = []
        for query_vector in query_vectors:
            cosines = self._vectors @ query_vector
            best: list[int] = np.argsort(-cosines, kind="stable")[:k].tolist()
            ranking: list[Chunk] = []
            for position in best:
                ranking.append(replace(self._chunks[position], score=float(cosines[position])))
            rankings.append(ranking)
        return rankings


def usual_tokens(chunks: Sequence[Chunk]) -> int:
    """How long nine of ten chunks are at most, in estimated tokens."""
    if not chunks:
        return 0
    counts = sorted(APPROXIMATE.count(chunk.text) for chunk in chunks)
    return counts[9 * len(counts) // 10]


def resized(chunks: Iterable[Chunk], tokens: int) -> list[Chunk]:
    """The same texts in chunks of another size.

    Documents are put together again where chunks know their place in them; any other chunk is cut
    as a text of its own.
    """
    chunker = make_chunker("tokens", ChunkSize(tokens=tokens))
    smaller: list[Chunk] = []
    for document in _reassembled(chunks):
        smaller += document_chunks(document, chunker)
    return smaller


def _reassembled(chunks: Iterable[Chunk]) -> list[Document]:
    """The documents that chunks were cut from, as far as the chunks cover them."""
    chunks_by_document: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        document_id = chunk.id
        if chunk.document_id and chunk.start is not None:
            document_id = chunk.document_id
        chunks_by_document.setdefault(document_id, []).append(chunk)
    documents: list[Document] = []
    for document_id, parts in chunks_by_document.items():
        text = ""
        for chunk in sorted(parts, key=lambda chunk: chunk.start or 0):
            start = chunk.start or 0
            before = text[:start]
            # Chunkers cut at white space, so spaces fill what no chunk holds.
            gap = " " * (start - len(text))
            # Chunks may overlap, and a chunk may lie within what is there already.
            after = text[start + len(chunk.text) :]
            text = f"{before}{gap}{chunk.text}{after}"
        title = parts[0].metadata.get("title")
        if not isinstance(title, str):
            title = None
        documents.append(Document(id=document_id, text=text, title=title))
    return documents
