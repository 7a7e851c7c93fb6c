"""The baseline in every form of the interface: all eight are its own and agree."""

import pytest

from ragbench import BaselineRAG, Document
from ragbench.rag.fallback import to_batch, to_generation_result, to_retrieval_result
from ragbench.rag.forms import FORMS

QUERIES = ["Where is the red house?", "无关的乱码", "Who owns the blue house?", ""]


@pytest.fixture
def rag() -> BaselineRAG:
    return BaselineRAG(
        [
            Document(id="red", text="The red house is in Galway. It is old.", title="Red"),
            Document(id="blue", text="Mara Lind owns the blue house.", metadata={"year": 2024}),
            Document(id="none", text="Nothing else is known."),
        ],
        top_k=2,
    )


def test_every_form_is_written(rag: BaselineRAG) -> None:
    assert type(rag).implemented == set(FORMS)


@pytest.mark.parametrize("top_k", [None, 1, 50])
def test_forms_of_retrieval_agree(rag: BaselineRAG, top_k: int | None) -> None:
    rich = [rag.retrieve_with_metadata(query, top_k) for query in QUERIES]
    assert rag.batch_retrieve_with_metadata(QUERIES, top_k) == rich
    assert rag.batch_retrieve(QUERIES, top_k) == [list(result.contexts) for result in rich]
    assert [rag.retrieve(query, top_k) for query in QUERIES] == rag.batch_retrieve(QUERIES, top_k)
    assert all(len(result) <= (top_k or 2) for result in rich)


def test_forms_of_generation_agree(rag: BaselineRAG) -> None:
    contexts = rag.batch_retrieve(QUERIES)
    rich = [rag.generate_with_metadata(*pair) for pair in zip(QUERIES, contexts, strict=True)]
    assert rag.batch_generate_with_metadata(QUERIES, contexts) == rich
    assert rag.batch_generate(QUERIES, contexts) == [result.response for result in rich]
    assert [rag.generate(*pair) for pair in zip(QUERIES, contexts, strict=True)] == (
        rag.batch_generate(QUERIES, contexts)
    )
    assert [result.abstained for result in rich] == [False, True, False, True]


def test_results_pass_the_interfaces_checks(rag: BaselineRAG) -> None:
    retrieved = rag.batch_retrieve_with_metadata(QUERIES)
    for result in to_batch(retrieved, len(QUERIES), "retrieve"):
        assert to_retrieval_result(result, "retrieve") is result
        assert None not in (result.context_ids, result.scores, result.context_metadata)
    generated = rag.batch_generate_with_metadata(QUERIES, [list(r.contexts) for r in retrieved])
    for result in to_batch(generated, len(QUERIES), "generate"):
        assert to_generation_result(result, "generate") is result
        assert result.confidence is not None
        assert result.multi_responses


def test_an_empty_batch_is_an_empty_batch(rag: BaselineRAG) -> None:
    assert rag.batch_retrieve_with_metadata([]) == []
    assert rag.batch_generate_with_metadata([], []) == []


def test_batches_of_unequal_length_are_refused(rag: BaselineRAG) -> None:
    with pytest.raises(ValueError, match="shorter"):
        rag.batch_generate(["one", "two"], [["only one list"]])
