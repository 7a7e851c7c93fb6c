"""Results of a RAG: what is refused in them, and their other forms, there and back."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError


class Array:
    """As much of a numpy array as matters here: it has a length and is not a sequence."""

    def __len__(self) -> int:
        return 2

    def tolist(self) -> list[float]:
        return [1.0, 2.0]


@pytest.mark.parametrize(
    ("form", "value", "options", "message"),
    [
        (RetrievalResult, "one text", {}, "contexts must be a list, not a str"),
        (RetrievalResult, None, {}, "contexts must be a list, not None"),
        (RetrievalResult, {"a"}, {}, "contexts must be a list, not a set"),
        (RetrievalResult, ["a"], {"context_ids": "x"}, "context_ids must be a list, not a str"),
        (RetrievalResult, ["a"], {"context_ids": []}, "context_ids has 0 elements for 1 contexts"),
        (RetrievalResult, ["a"], {"scores": [0.1, 0.2]}, "scores has 2 elements for 1 contexts"),
        (RetrievalResult, ["a"], {"scores": Array()}, r"not a Array; call its tolist\(\)"),
        (RetrievalResult, ["a", "b"], {"context_metadata": [{}]}, "context_metadata has 1 element"),
        (RetrievalResult, ["a", "b"], {"metadata": [{}]}, "a list of 1 for 2 contexts"),
        (RetrievalResult, ["a", "b"], {"metadata": [{}, "x"]}, r"metadata\[1\] must be a mapping"),
        (
            RetrievalResult,
            ["a"],
            {"metadata": [{}], "context_metadata": [{}]},
            "where context_metadata is given",
        ),
        (GenerationResult, None, {}, "response must be a string, not None"),
        (GenerationResult, ["a"], {}, "response must be a string, not a list"),
        (GenerationResult, "a", {"multi_responses": "ab"}, "multi_responses must be a list, not a"),
        (GenerationResult, "a", {"confidence": 1.01}, r"confidence must lie in \[0, 1\], not 1.01"),
        (GenerationResult, "a", {"confidence": -0.1}, r"confidence must lie in \[0, 1\], not -0.1"),
        (GenerationResult, "a", {"confidence": float("nan")}, r"must lie in \[0, 1\], not nan"),
        (GenerationResult, "a", {"confidence": "high"}, "confidence must be a number, not a str"),
        (GenerationResult, "a", {"abstained": "no"}, "must be True, False or None, not 'no'"),
        (GenerationResult, "a", {"abstained": 0}, "must be True, False or None, not 0"),
        (
            RetrievalResult.from_mapping,
            {"contexts": ["a"], "took": 1},
            {},
            "no field 'took': other th",
        ),
    ],
)
def test_a_malformed_result_is_refused(form: Any, value: Any, options: Any, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        form(value, **options)


def test_chunks_and_back() -> None:
    result: RetrievalResult[Any] = RetrievalResult(
        ["a", "b"],
        context_ids=["1", "2"],
        scores=[0.9, 0.1],
        context_metadata=[{"p": 1}, {}],
    )

    chunks = result.to_chunks()

    assert chunks[0] == Chunk(id="1", text="a", score=0.9, metadata={"p": 1})
    assert RetrievalResult.from_chunks(chunks) == result


def test_chunks_of_a_result_without_ids_are_numbered() -> None:
    chunks = RetrievalResult(["a", "b"]).to_chunks()

    assert [chunk.id for chunk in chunks] == ["0", "1"]


def test_a_chunk_without_a_score_drops_those_of_all() -> None:
    chunks = [Chunk(id="1", text="a", score=0.9), Chunk(id="2", text="b")]

    assert RetrievalResult.from_chunks(chunks).scores is None


texts = st.lists(st.text(), max_size=4)


@given(texts, st.data())
def test_retrieval_to_dict_and_back(contexts: Sequence[str], data: st.DataObject) -> None:
    ids = [str(number) for number in range(len(contexts))]
    scores = [0.5] * len(contexts)
    result = RetrievalResult(
        contexts,
        context_ids=data.draw(st.none() | st.just(ids)),
        scores=data.draw(st.none() | st.just(scores)),
        metadata=data.draw(st.none() | st.just({"k": 1})),
    )

    assert RetrievalResult.from_mapping(result.to_dict()) == result
    assert None not in result.to_dict().values()


@given(st.text(), st.none() | texts, st.none() | st.floats(0, 1), st.none() | st.booleans())
def test_generation_to_dict_and_back(
    response: str, candidates: list[str] | None, confidence: float | None, abstained: bool | None
) -> None:
    result: GenerationResult[Any] = GenerationResult(
        response, multi_responses=candidates, confidence=confidence, abstained=abstained
    )

    assert GenerationResult.from_mapping(result.to_dict()) == result


def test_a_list_of_metadata_is_one_a_context() -> None:
    pages: Any = [{"page": 1}, None]

    result: RetrievalResult[Any] = RetrievalResult(["a", "b"], metadata=pages)

    assert result.context_metadata == [{"page": 1}, {}]
    assert result.metadata is None
    assert [chunk.metadata for chunk in result.to_chunks()] == [{"page": 1}, {}]
