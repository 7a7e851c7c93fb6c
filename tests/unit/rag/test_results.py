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
    known: Any = {"scores": [0.9, 0.1], "context_metadata": [{"p": 1}, {}]}
    result = RetrievalResult(["a", "b"], context_ids=["1", "2"], **known)
    chunks = result.to_chunks()
    assert chunks[0] == Chunk(id="1", text="a", score=0.9, metadata={"p": 1})
    assert RetrievalResult.from_chunks(chunks) == result
    # Without ids they are numbered; a missing score drops all.
    assert [chunk.id for chunk in RetrievalResult(["a", "b"]).to_chunks()] == ["0", "1"]
    assert RetrievalResult.from_chunks([chunks[0], Chunk(id="2", text="b")]).scores is None


texts = st.lists(st.text(), max_size=4)


@given(texts, st.data())
def test_retrieval_to_dict_and_back(contexts: Sequence[str], data: st.DataObject) -> None:
    size = len(contexts)
    result = RetrievalResult(
        contexts,
        context_ids=data.draw(st.none() | st.just([str(i) for i in range(size)])),
        scores=data.draw(st.none() | st.just([0.5] * size)),
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
    found: RetrievalResult[Any] = RetrievalResult(["a", "b"], metadata=pages)
    assert found.context_metadata == [{"page": 1}, {}]
    assert found.metadata is None
    assert [chunk.metadata for chunk in found.to_chunks()] == [{"page": 1}, {}]
