"""Pipelines and the baseline in every form of the interface: all agree, results pass all checks."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragbench import BaselineRAG, Document, RAGInterface, load_pipeline
from ragbench.rag.fallback import to_batch, to_generation_result, to_retrieval_result
from ragbench.rag.load import describe_rag

QUERIES = ["Where is the red house?", "无关的乱码", "Who owns the blue house?", "", "ｒｅｄ  house"]
DOCUMENTS = [
    Document(id="red", text="The red house is in Galway. It is old.", title="Red"),
    Document(id="blue", text="Mara Lind owns the blue house.", metadata={"year": 2024}),
    Document(id="none", text="Nothing else is known."),
]
EMBEDDER = "indexing: {embedder: 'hashing:64', chunker: {name: sentences, tokens: 8}}\n"
FILES = {
    "bm25": "retrieval: {top_k: 2}",
    "sparse": EMBEDDER + "retrieval: {type: sparse, top_k: 2}",
    "dense": EMBEDDER + "retrieval: {type: dense, top_k: 2, embeddings: true}",
    "hybrid": EMBEDDER + "retrieval: {type: hybrid, top_k: 2}\npre_retrieval: [normalise]",
    "filtered": EMBEDDER + "retrieval: {type: hybrid, top_k: 2, filters: {year: 2024}}",
    "processed": "retrieval: {top_k: 2}\npost_retrieval: [{action: rerank, type: lexical}]",
    "formatted": "retrieval: {top_k: 2}\npost_retrieval: [{action: format, type: xml}]",
}


@contextmanager
def opened(name: str, documents: list[Document], folder: Path) -> Generator[RAGInterface]:
    if name == "baseline":
        yield BaselineRAG(documents, top_k=2)
        return
    (folder / "rag.yaml").write_text(FILES[name], "utf-8")
    with load_pipeline(folder / "rag.yaml").open(lambda: documents) as pipeline:
        yield pipeline.rag


@pytest.fixture(scope="module", params=["baseline", *FILES])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rag(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RAGInterface]:
    with opened(name, DOCUMENTS, tmp_path_factory.mktemp(name)) as found:
        yield found


@pytest.mark.parametrize("top_k", [None, 1, 50])
def test_forms_of_retrieval_agree(rag: RAGInterface, top_k: int | None) -> None:
    rich = [rag.retrieve_with_metadata(query, top_k) for query in QUERIES]
    assert rag.batch_retrieve_with_metadata(QUERIES, top_k) == rich
    assert rag.batch_retrieve(QUERIES, top_k) == [list(result.contexts) for result in rich]
    assert [rag.retrieve(query, top_k) for query in QUERIES] == rag.batch_retrieve(QUERIES, top_k)
    assert all(len(result) <= (top_k or 2) for result in rich)


def test_forms_of_generation_agree(rag: RAGInterface) -> None:
    contexts = rag.batch_retrieve(QUERIES)
    rich = [rag.generate_with_metadata(*pair) for pair in zip(QUERIES, contexts, strict=True)]
    assert rag.batch_generate_with_metadata(QUERIES, contexts) == rich
    assert rag.batch_generate(QUERIES, contexts) == [result.response for result in rich]


def test_results_pass_the_interfaces_checks_and_are_json(rag: RAGInterface) -> None:
    retrieved = rag.batch_retrieve_with_metadata(QUERIES)
    for result in to_batch(retrieved, len(QUERIES), "retrieve"):
        assert to_retrieval_result(result, "retrieve") is result
        json.dumps(result.to_dict())
    generated = rag.batch_generate_with_metadata(QUERIES, [list(r.contexts) for r in retrieved])
    for result in to_batch(generated, len(QUERIES), "generate"):
        assert to_generation_result(result, "generate") is result
        assert 0 <= (result.confidence or 0) <= 1


def test_an_empty_batch_is_an_empty_batch(rag: RAGInterface) -> None:
    assert rag.batch_retrieve_with_metadata([]) == []
    assert rag.batch_generate_with_metadata([], []) == []


def test_the_description_is_json_and_the_same_again(
    rag: RAGInterface, name: str, tmp_path: Path
) -> None:
    described = json.dumps(describe_rag(rag, "pipeline"))
    with opened(name, DOCUMENTS, tmp_path) as again:
        assert json.dumps(describe_rag(again, "pipeline")) == described
    with opened(name, DOCUMENTS[:2], tmp_path) as other:
        assert json.dumps(describe_rag(other, "pipeline")) != described
