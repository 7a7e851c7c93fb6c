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
_NO_SPACES_STEP = 2
"""Characters that serve as a word in a script that is written without spaces."""
_BM25_K1 = 1.2
_BM25_B = 0.75
"""Usual settings of BM25: how soon a repeated word adds nothing, and how much length counts."""


class _Question(Record):
    """The rarest words of a sentence, to find again the chunk that the sentence stands in."""

    position: int
    """Of that chunk among those that are searched."""
    text: str
    word_scores: Floats32
    """What BM25 gives every chunk for the text."""


def measured_weight(store: OwnCollection, embedder: Embedder) -> float | None:
    """How much a collection's vectors count beside words in hybrid searches; None if it is unclear.

    An indexing measures the weight at its end and stores it with the collection, so that no search
    waits for it. The weight is unclear for small collections, and for an embedder without a hybrid
    weight.
    """
    # In the order of ids, chunks of a document are neighbours.
    all_ids = sorted(store.digests())
    ids = _sampled_ids(all_ids)
    if len(ids) < _MIN_CHUNKS or not embedder.hybrid_weight:
        return None
    chunks_by_id = store.get(ids)
    vectors_by_id = store.vectors(ids)
    # The store gives chunks and vectors in the order of `ids`, so that they pair by position.
    return weight_of(list(chunks_by_id.values()), list(vectors_by_id.values()), embedder)


def weight_of(
    chunks: Sequence[Chunk], vectors: Sequence[Floats32], embedder: Embedder
) -> float | None:
    """The weight that the vectors of these chunks deserve beside words in a hybrid search.

    Each question is a few words of a chunk, and both rankings look for that chunk: the worse
    vectors do it, the less they count. None with too few questions to measure. Stored collections
    keep the weight; the exponent was chosen so that vectors half as good as words hardly count.
    """
    # An embedder may have another weight for where its vectors agree with words.
    best_weight: float = getattr(embedder, "agreeing_weight", embedder.hybrid_weight)
    tokens = [tokenise(chunk.text) for chunk in chunks]
    bm25 = Bm25Scores.build(tokens, k1=_BM25_K1, b=_BM25_B)
    questions = _questions(chunks, bm25)
    if len(questions) < _MIN_CHUNKS // 2:
        return None

    texts = [question.text for question in questions]
    word_scores = [question.word_scores for question in questions]
    positions = [question.position for question in questions]
    # Both kinds of vectors have length 1, so that their products are cosines.
    question_vectors = embedder.embed_queries(texts)
    chunk_vectors = np.stack(vectors)
    cosines = question_vectors @ chunk_vectors.T

    rank_by_vectors = _mean_reciprocal_rank(list(cosines), positions)
    rank_by_words = _mean_reciprocal_rank(word_scores, positions)
    # Ranks are at least 1 and finite, so words never reach 0 here.
    agreement = min(1.0, rank_by_vectors / rank_by_words)
    # Cubed, so that vectors that reach half of what words do count an eighth.
    weight = best_weight * agreement**3
    return round(weight, 4)


def _sampled_ids(ids: Sequence[str]) -> Sequence[str]:
    """All chunk ids, or of a large collection runs of neighbours, spread evenly over it.

    The weight of vectors is measured on this sample. Chunks drawn one by one would share no
    document, and would be easy to keep apart; neighbours are hard.
    """
    if len(ids) <= _MAX_CHUNKS:
        return ids
    runs = _MAX_CHUNKS // _NEIGHBOURS
    last_start = len(ids) - _NEIGHBOURS
    # In equal steps from the first chunk to the last run that fits.
    step = last_start / (runs - 1)
    sample: set[str] = set()  # runs of a collection that is hardly larger overlap
    for run in range(runs):
        start = round(run * step)
        run_ids = ids[start : start + _NEIGHBOURS]
        sample.update(run_ids)
    # In the order of ids again, as the caller's are.
    return sorted(sample)


def _questions(chunks: Sequence[Chunk], bm25: Bm25Scores) -> list[_Question]:
    """A question for each of up to `_QUESTIONS` chunks with a sentence of enough words.

    The chunk that a question was made from is known, so that rankings by vectors and by words can
    be measured without labels. Drawn by a fixed seed: the same chunks always give the same weight.
    """
    random = Random(0)  # the same chunks give the same weight
    count = min(_QUESTIONS, len(chunks))
    positions = random.sample(range(len(chunks)), count)
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
        sentence = random.choice(sentences)
        rarest = _rarest_words(sentence, bm25)
        word_scores = bm25.scores(tokenise(rarest))
        # None where no word is in any chunk: pairs of characters may be cut otherwise than tokens.
        if word_scores is None:
            continue
        question = _Question(position=position, text=rarest, word_scores=word_scores)
        questions.append(question)
    return questions


def _rarest_words(sentence: str, bm25: Bm25Scores) -> str:
    """The rarest words of a sentence, in its order.

    A test question that the sentence's chunk answers. People do not type whole sentences, and
    frequent words would fit too many chunks. Equally rare words are taken by the alphabet, so that
    the measurement repeats.
    """
    words: list[str] = sentence.split()
    if len(words) < _WORDS:  # written without spaces: pairs of characters serve as words
        words.clear()
        for start in range(0, len(sentence), _NO_SPACES_STEP):
            words.append(sentence[start : start + _NO_SPACES_STEP])
    rarity: dict[str, float] = {}
    for word in words:
        token_rarities = [bm25.idf(token) for token in tokenise(word)]
        rarity[word] = max(token_rarities, default=0.0)  # a word is as rare as its rarest token

    # Of equally rare words the first in the alphabet, so that the choice is the same each time.
    by_alphabet = sorted(rarity)
    by_rarity = sorted(by_alphabet, key=rarity.__getitem__, reverse=True)
    rarest = by_rarity[:_WORDS]
    return " ".join(word for word in words if word in rarest)


def _mean_reciprocal_rank(rankings: Sequence[Floats32], positions: Sequence[int]) -> float:
    """The mean reciprocal rank of the test questions' own chunks: 1 where each is the best of all.

    The mean says how well a kind of scores finds the chunk that a question was made from. Of equal
    scores the own chunk counts as the last, so that scores without differences gain nothing.

    Args:
        rankings: for each question the scores of all chunks.
        positions: of each question's own chunk among them.
    """
    reciprocal_ranks: list[float] = []
    for scores, position in zip(rankings, positions, strict=True):
        own_score = scores[position]
        # The own score is among them, so a rank is at least 1.
        rank = int(np.sum(scores >= own_score))
        reciprocal_ranks.append(1 / rank)
    return sum(reciprocal_ranks) / len(reciprocal_ranks)


# --- what a collection would find if it were indexed otherwise: tried in memory on its texts


class VectorIndex:
    """Chunks ranked by the vectors of an embedder that did not fill the collection.

    `ragbench why` and `ragbench fidelity` try another embedder with it, without indexing again.
    """

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        """Embeds the chunks, and measures how much their vectors count beside words (`weight`).

        The texts are embedded once; every search compares all vectors.
        """
        self._chunks = chunks
        self._embedder = embedder
        texts = [readable_text(chunk.text) for chunk in chunks]
        self._vectors: Floats32 = embedder.embed_passages(texts)
        weight = weight_of(chunks, list(self._vectors), embedder)
        # Too few chunks to measure: the embedder's usual weight then.
        if weight is None:
            weight = embedder.hybrid_weight
        self.weight = weight
        """The weight of rankings by these vectors in a hybrid search; rankings by words have the
        rest."""

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """The `k` chunks nearest to each query, best first, with their cosines as scores.

        Of equal cosines the earlier chunk comes first, so that runs repeat.
        """
        texts = [readable_text(query) for query in queries]
        query_vectors = self._embedder.embed_queries(texts)
        rankings: list[list[Chunk]] = []
        for query_vector in query_vectors:
            cosines = self._vectors @ query_vector
            # Stable: chunks with equal cosines stay in their order, and runs repeat.
            order = np.argsort(-cosines, kind="stable")
            best: list[int] = order[:k].tolist()
            ranking: list[Chunk] = []
            for position in best:
                score = float(cosines[position])
                ranking.append(replace(self._chunks[position], score=score))
            rankings.append(ranking)
        return rankings


def usual_tokens(chunks: Sequence[Chunk]) -> int:
    """The length in estimated tokens that nine of ten chunks do not exceed; 0 without chunks.

    This length is about the size that a collection was cut to, while a few chunks may be far
    longer. `ragbench why` tries half and twice of it.
    """
    if not chunks:
        return 0
    counts = sorted(APPROXIMATE.count(chunk.text) for chunk in chunks)
    ninth_decile = 9 * len(counts) // 10
    return counts[ninth_decile]


def resized(chunks: Iterable[Chunk], tokens: int) -> list[Chunk]:
    """The same texts cut into chunks of another size, to try that size without the original files.

    Documents are put together again where chunks know their place in them; any other chunk is cut
    as a text of its own.

    Args:
        tokens: the most tokens of a new chunk.
    """
    chunker = make_chunker("tokens", ChunkSize(tokens=tokens))
    smaller: list[Chunk] = []
    for document in _reassembled(chunks):
        smaller += document_chunks(document, chunker)
    return smaller


def _reassembled(chunks: Iterable[Chunk]) -> list[Document]:
    """The documents that chunks were cut from, as far as the chunks cover them, to be cut anew.

    A chunk that does not know its place in a document is a document of its own.
    """
    chunks_by_document: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        # A chunk that does not know its place cannot be put together with others.
        document_id = chunk.id
        if chunk.document_id and chunk.start is not None:
            document_id = chunk.document_id
        chunks_by_document.setdefault(document_id, []).append(chunk)
    documents: list[Document] = []
    for document_id, parts in chunks_by_document.items():
        title = parts[0].metadata.get("title")
        # Metadata are the user's: a title may be a number.
        if not isinstance(title, str):
            title = None
        document = Document(id=document_id, text=_joined_text(parts), title=title)
        documents.append(document)
    return documents


def _joined_text(parts: Iterable[Chunk]) -> str:
    """The text of a document, put together from its chunks by their offsets.

    Other chunk sizes are tried without the original files, so the text is cut anew. Chunks may
    overlap; spaces fill what no chunk holds, as chunkers cut at white space. A chunk without an
    offset is alone in its document.
    """
    text = ""
    for chunk in sorted(parts, key=lambda chunk: chunk.start or 0):
        start = chunk.start or 0
        end = start + len(chunk.text)
        before = text[:start]
        # Chunkers cut at white space, so spaces fill what no chunk holds.
        # Where chunks overlap the count is negative, which gives no space.
        gap = " " * (start - len(text))
        # Chunks may overlap, and a chunk may lie within what is there already.
        after = text[end:]
        text = f"{before}{gap}{chunk.text}{after}"
    return text
