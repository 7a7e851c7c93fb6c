"""Look-alikes with the shapes of haystack-ai 3's components and pipelines."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench import as_rag
from ragbench.errors import InterfaceError


@dataclass
class Document:
    id: str
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    score: float | None = None


@dataclass
class GeneratedAnswer:
    data: str
    meta: dict[str, Any]


DOCUMENTS = [Document("1", "alpha", {"page": 1}, 0.9), Document("2", "beta", {}, 0.5)]


class Retriever:
    def run(self, query: str, filters: Any = None, top_k: int | None = None) -> dict[str, Any]:
        return {"documents": DOCUMENTS[:top_k]}


def socket(type_: Any, mandatory: bool = True) -> dict[str, Any]:
    return {"type": type_, "is_mandatory": mandatory}


class Pipeline:
    """retriever -> ranker -> prompt -> llm (-> builder), with their sockets."""

    def __init__(self, last: Any = None, gives: Any = None, takes: Any = None) -> None:
        self.ran: list[Any] = []
        self.last = {"replies": ["one", "two"]} if last is None else last
        self.gives, self.takes = gives, takes
        edges = [("retriever", "ranker", "k"), ("ranker", "prompt", "k"), ("prompt", "llm", "k")]
        self.graph = SimpleNamespace(edges=edges)

    def inputs(self) -> dict[str, dict[str, Any]]:
        return self.takes or {
            "embedder": {"text": socket(str)},
            "retriever": {"query": socket(str), "filters": socket(dict, False)},
            "ranker": {"query": socket(str | None, False), "top_k": socket(int | None, False)},
            "prompt": {"question": socket(Any), "template": socket(str | None, False)},
        }

    def outputs(
        self, include_components_with_connected_outputs: bool = False
    ) -> dict[str, dict[str, Any]]:
        assert include_components_with_connected_outputs
        return self.gives or {
            "retriever": {"documents": {}},
            "ranker": {"documents": {}},
            "prompt": {"prompt": {}},
            "llm": {name: {} for name in self.last},
        }

    def run(
        self, data: dict[str, Any], include_outputs_from: set[str] | None = None
    ) -> dict[str, Any]:
        self.ran.append((data, include_outputs_from))
        top_k = data.get("ranker", {}).get("top_k")
        return {"ranker": {"documents": DOCUMENTS[::-1][:top_k]}, "llm": self.last}


def rag_of(*arguments: Any, **options: Any) -> Any:
    return as_rag(*arguments, **options)


def test_a_retriever_component() -> None:
    rag = rag_of(Retriever())
    assert rag.families == {"retrieval"}
    result = rag.retrieve_with_metadata("q")
    assert (result.contexts, result.context_ids) == (["alpha", "beta"], ["1", "2"])
    assert result.scores == [0.9, 0.5]
    assert result.context_metadata == [{"page": 1}, {}]
    assert rag.retrieve("q", top_k=1) == ["alpha"]


def test_a_pipeline_is_run_once_and_gives_what_its_ranker_gave() -> None:
    pipeline = Pipeline()
    rag = rag_of(pipeline)
    assert rag.families == {"retrieval", "generation"}
    result = rag.retrieve_with_metadata("q")
    assert (result.contexts, result.scores) == (["beta", "alpha"], [0.5, 0.9])
    answer = rag.generate_with_metadata("q", result.contexts)
    assert (answer.response, answer.multi_responses) == ("one", ["one", "two"])
    data, included = pipeline.ran[0]
    assert data == {
        "embedder": {"text": "q"},
        "retriever": {"query": "q"},
        "ranker": {"query": "q"},
        "prompt": {"question": "q"},
    }
    assert included == {"ranker", "llm"}
    assert len(pipeline.ran) == 1
    assert rag.retrieve("q", top_k=1) == ["beta"]


def test_built_answers_are_read() -> None:
    pipeline = Pipeline(last={"answers": [GeneratedAnswer("one", {"model": "m"})]})
    answer = rag_of(pipeline).generate_with_metadata("q", ["beta", "alpha"])
    assert answer.response == "one"
    assert answer.metadata == {"model": "m", "asked_again": True}


def test_a_pipeline_without_documents_only_generates() -> None:
    rag = rag_of(Pipeline(gives={"llm": {"replies": {}}}))
    assert rag.families == {"generation"}
    assert rag.generate("q", ["ignored"]) == "one"


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            Pipeline(gives={"counter": {"count": {}}}),
            r"no component gives 'documents'.*there are count",
        ),
        (
            Pipeline(takes={"retriever": {"query_embedding": socket(list)}}),
            r"takes retriever\.query_embedding, and only the",
        ),
    ],
)
def test_a_pipeline_that_cannot_be_asked_is_refused(pipeline: Pipeline, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        as_rag(pipeline)
