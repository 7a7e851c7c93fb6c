"""The baseline, and the index that it searches."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import BaselineRAG, Chunk, Document
from ragbench.errors import ConfigError, DataError
from ragbench.search.pipeline.baseline import Bm25Index
from tests.unit.io.traces import lines

PARIS = "Paris is the capital of France. It lies on the Seine."
DOCUMENTS = [
    Document(id="fr", text=PARIS, title="France"),
    Document(id="de", text="Berlin ist die Hauptstadt von Deutschland.", metadata={"year": 2023}),
    Document(id="zh", text="北京是中国的首都。", title="中国"),
]


def test_a_retrieval_has_ids_and_texts_in_the_same_order() -> None:
    result = BaselineRAG(DOCUMENTS).retrieve_with_metadata("capital of France")

    assert result.context_ids == ["fr"]
    assert result.contexts == [PARIS]
    assert result.scores is not None
    assert result.scores[0] > 0


def test_a_retrieval_says_where_its_texts_come_from() -> None:
    result = BaselineRAG(DOCUMENTS).retrieve_with_metadata("capital of France")

    assert result.context_metadata == [
        {"document_id": "fr", "start": 0, "end": len(PARIS), "title": "France"}
    ]
    assert result.metadata == {"retriever": "bm25"}


def test_a_default_top_k_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="top_k"):
        BaselineRAG(DOCUMENTS, top_k=0)


def test_a_top_k_below_one_in_a_call_is_refused() -> None:
    with pytest.raises(ConfigError, match="top_k"):
        BaselineRAG(DOCUMENTS).retrieve("capital", top_k=-3)


def test_an_id_of_two_documents_is_refused() -> None:
    documents = [
        Document(id="a", text="x"),
        Document(id="b", text="x"),
        Document(id="a", text="x"),
    ]

    with pytest.raises(DataError, match="two documents have the id 'a'"):
        BaselineRAG(documents)


def identity_of_retrieval(documents: list[Document], **settings: Any) -> Any:
    rag = BaselineRAG(documents, **settings)
    return rag.stage_identity("retrieve")


def test_what_only_generation_uses_is_not_in_the_identity_of_retrieval() -> None:
    identity = identity_of_retrieval(DOCUMENTS)

    assert identity_of_retrieval(list(DOCUMENTS), threshold=0.9) == identity


WITHOUT_TITLE = [*DOCUMENTS[:2], Document(id="zh", text="北京是中国的首都。")]


@pytest.mark.parametrize(
    ("documents", "settings"),
    [
        pytest.param(DOCUMENTS, {"k1": 2.0}, id="k1"),
        pytest.param(DOCUMENTS, {"b": 0.5}, id="b"),
        pytest.param(DOCUMENTS, {"title_weight": 0}, id="title_weight"),
        pytest.param(DOCUMENTS, {"top_k": 2}, id="top_k"),
        pytest.param(DOCUMENTS[::-1], {}, id="another order"),
        pytest.param(DOCUMENTS[:2], {}, id="a document less"),
        pytest.param(WITHOUT_TITLE, {}, id="a title less"),
    ],
)
def test_settings_of_retrieval_and_the_corpus_are_in_its_identity(
    documents: list[Document], settings: dict[str, Any]
) -> None:
    identity = identity_of_retrieval(DOCUMENTS)

    assert identity_of_retrieval(documents, **settings) != identity


@pytest.mark.parametrize("kind", [Path, str])
def test_it_is_built_from_a_corpus_file(tmp_path: Path, kind: type) -> None:
    rows: list[dict[str, object]] = []
    for document in DOCUMENTS:
        rows.append({"id": document.id, "text": document.text, "title": document.title or ""})
    corpus = lines(tmp_path / "corpus.jsonl", rows)

    rag = BaselineRAG.from_corpus(kind(corpus), top_k=1, threshold=0.5)

    assert rag.retrieve("capital") == [PARIS]
    assert rag.config.top_k == 1


# --- BM25


def index_of(*texts: str, **settings: Any) -> Bm25Index:
    """Of chunks with the ids c0, c1, ..."""
    chunks = [Chunk(id=f"c{position}", text=text) for position, text in enumerate(texts)]
    return Bm25Index(chunks, **settings)


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def test_a_score_is_the_formula_of_bm25() -> None:
    index = index_of("red apple", "red red", "blue", k1=1.2, b=0.75)

    [ranking] = index.batch_search(["red"], 3)

    # N = 3, "red" in two chunks, average length 5/3; both chunks have two words.
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    length = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    assert ids(ranking) == ["c1", "c0"]
    best_score, second_score = [chunk.score or 0 for chunk in ranking]
    assert math.isclose(best_score, idf * 2 / (2 + length), rel_tol=1e-6)
    assert math.isclose(second_score, idf * 1 / (1 + length), rel_tol=1e-6)


def test_the_inverse_document_frequency_is_the_formula_of_bm25() -> None:
    index = index_of("red apple", "red red", "blue", k1=1.2, b=0.75)

    assert math.isclose(index.idf("red"), math.log(1 + (3 - 2 + 0.5) / (2 + 0.5)))
    assert math.isclose(index.idf("unseen"), math.log(1 + (3 - 0 + 0.5) / (0 + 0.5)))


@pytest.mark.parametrize(("title_weight", "ranking"), [(0, ["text"]), (2, ["title", "text"])])
def test_a_title_counts_as_often_as_its_weight(title_weight: int, ranking: list[str]) -> None:
    in_text = Chunk(id="text", text="leave rules")
    in_title = Chunk(id="title", text="some rules", metadata={"title": "Leave"})
    index = Bm25Index([in_text, in_title], title_weight=title_weight)

    [chunks] = index.batch_search(["leave"], 2)

    assert ids(chunks) == ranking


@pytest.mark.parametrize(
    "texts", [(), ("",), ("...", " ")], ids=["no chunk", "an empty chunk", "marks and spaces"]
)
def test_a_corpus_without_words_gives_nothing(texts: tuple[str, ...]) -> None:
    index = index_of(*texts)

    assert len(index) == len(texts)
    assert index.batch_search(["apple"], 5) == [[]]
    assert index.idf("apple") >= 0


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=6).map(" ".join)


@given(st.lists(WORDS, max_size=8), WORDS, st.integers(1, 10))
def test_search_returns_the_best_of_all_in_a_fixed_order(
    texts: list[str], query: str, k: int
) -> None:
    index = index_of(*texts)

    [ranking_of_all] = index.batch_search([query], max(1, len(texts)))
    [ranking] = index.batch_search([query], k)

    assert ranking == ranking_of_all[:k]

    # Of equal scores the earlier chunk comes first.
    order: list[tuple[float, int]] = []
    for chunk in ranking_of_all:
        position = int(chunk.id.removeprefix("c"))
        order.append((-(chunk.score or 0), position))
    assert order == sorted(order)

    words_of_query = set(query.split())
    with_a_word_of_the_query: set[str] = set()
    for position, text in enumerate(texts):
        if words_of_query & set(text.split()):
            with_a_word_of_the_query.add(f"c{position}")
    assert set(ids(ranking_of_all)) == with_a_word_of_the_query
