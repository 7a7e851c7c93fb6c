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

DOCUMENTS = [
    Document(id="fr", text="Paris is the capital of France. It lies on the Seine.", title="France"),
    Document(id="de", text="Berlin ist die Hauptstadt von Deutschland.", metadata={"year": 2023}),
    Document(id="zh", text="北京是中国的首都。", title="中国"),
]


def test_retrieval_has_ids_scores_and_metadata() -> None:
    result = BaselineRAG(DOCUMENTS).retrieve_with_metadata("capital of France")
    assert (result.context_ids, result.contexts) == (["fr"], [DOCUMENTS[0].text])
    assert result.scores is not None
    assert result.scores[0] > 0
    origin = {"document_id": "fr", "start": 0, "end": len(DOCUMENTS[0].text)}
    assert result.context_metadata == [{**origin, "title": "France"}]
    assert result.metadata == {"retriever": "bm25"}


def test_top_k_below_one_and_repeated_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="top_k"):
        BaselineRAG(DOCUMENTS, top_k=0)
    with pytest.raises(ConfigError, match="top_k"):
        BaselineRAG(DOCUMENTS).retrieve("capital", top_k=-3)
    with pytest.raises(DataError, match="two documents have the id 'a'"):
        BaselineRAG([Document(id=id_, text="x") for id_ in "abacc"])


def test_retrievals_settings_and_the_corpus_are_in_its_identity() -> None:
    identity = BaselineRAG(DOCUMENTS).stage_identity("retrieve")
    assert identity == BaselineRAG(list(DOCUMENTS), threshold=0.9).stage_identity("retrieve")
    settings: list[dict[str, Any]] = [{"k1": 2.0}, {"b": 0.5}, {"title_weight": 0}, {"top_k": 2}]
    untitled = [*DOCUMENTS[:2], Document(id="zh", text=DOCUMENTS[2].text)]
    others = [BaselineRAG(DOCUMENTS, **given) for given in settings]
    others += map(BaselineRAG, (DOCUMENTS[::-1], DOCUMENTS[:2], untitled))
    assert all(other.stage_identity("retrieve") != identity for other in others)


def test_it_is_built_from_a_corpus_file(tmp_path: Path) -> None:
    rows = [{"id": one.id, "text": one.text, "title": one.title or ""} for one in DOCUMENTS]
    file = lines(tmp_path / "corpus.jsonl", rows)
    for source in (file, str(file)):
        rag = BaselineRAG.from_corpus(source, top_k=1, threshold=0.5)
        assert rag.retrieve("capital") == [DOCUMENTS[0].text]
        assert rag.config.top_k == 1


# --- BM25


def index_of(*texts: str, **settings: Any) -> Bm25Index:
    return Bm25Index((Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts)), **settings)


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def test_score_is_the_formula() -> None:
    index = index_of("red apple", "red red", "blue", k1=1.2, b=0.75)
    # N = 3, "red" in two chunks, average length 5/3.
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    length = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    found = index.batch_search(["red"], 3)[0]
    assert ids(found) == ["c1", "c0"]
    best, second = [chunk.score or 0 for chunk in found]
    assert math.isclose(best, idf * 2 / (2 + length), rel_tol=1e-6)
    assert math.isclose(second, idf * 1 / (1 + length), rel_tol=1e-6)
    assert math.isclose(index.idf("red"), idf)
    assert math.isclose(index.idf("unseen"), math.log(1 + 3.5 / 0.5))


def test_a_title_counts_as_often_as_its_weight() -> None:
    titled = Chunk(id="title", text="some rules", metadata={"title": "Leave"})
    chunks = [Chunk(id="text", text="leave rules"), titled]
    assert ids(Bm25Index(chunks, title_weight=0).batch_search(["leave"], 2)[0]) == ["text"]
    assert ids(Bm25Index(chunks, title_weight=2).batch_search(["leave"], 2)[0]) == ["title", "text"]


@pytest.mark.parametrize("texts", [(), ("",), ("...", " ")])
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
    everything = index_of(*texts).batch_search([query], max(1, len(texts)))[0]
    found = index_of(*texts).batch_search([query], k)[0]
    assert found == everything[:k]
    keys = [(-(chunk.score or 0), int(chunk.id[1:])) for chunk in everything]
    assert keys == sorted(keys)
    shared = {f"c{at}" for at, text in enumerate(texts) if set(text.split()) & set(query.split())}
    assert {chunk.id for chunk in everything} == shared
