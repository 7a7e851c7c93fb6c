"""Look-alikes with the shapes of haystack-ai 3 and llama-index-core 0.14."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench import GenerationResult, RetrievalResult, as_rag
from ragbench.errors import InterfaceError

rag_of: Any = as_rag


DOCUMENTS = [
    SimpleNamespace(id="1", content="alpha", meta={"page": 1}, score=0.9),
    SimpleNamespace(id="2", content="beta", meta={}, score=0.5),
]


class Component:
    """A retriever of Haystack."""

    def run(self, query: str, filters: Any = None, top_k: int | None = None) -> dict[str, Any]:
        return {"documents": DOCUMENTS[:top_k]}


def socket(type_: Any, mandatory: bool = True) -> dict[str, Any]:
    """An input of a component."""
    return {"type": type_, "is_mandatory": mandatory}


class Pipeline:
    """retriever -> ranker -> prompt -> llm (-> builder), with their sockets."""

    def __init__(self, last: Any = None, gives: Any = None, takes: Any = None) -> None:
        self.runs: list[Any] = []
        self.last = last or {"replies": ["one", "two"]}
        self.gives = gives
        self.takes = takes
        edges = [
            ("retriever", "ranker", "k"),
            ("ranker", "prompt", "k"),
            ("prompt", "llm", "k"),
        ]
        self.graph = SimpleNamespace(edges=edges)

    def inputs(self) -> dict[str, dict[str, Any]]:
        return self.takes or {
            "embedder": {"text": socket(str)},
            "retriever": {"query": socket(str), "filters": socket(dict, False)},
            "ranker": {"query": socket(str | None, False), "top_k": socket(int | None, False)},
            "prompt": {"question": socket(Any), "template": socket(str | None, False)},
        }

    def outputs(self, include_components_with_connected_outputs: bool = False) -> dict[str, Any]:
        assert include_components_with_connected_outputs
        return self.gives or {
            "retriever": {"documents": {}},
            "ranker": {"documents": {}},
            "prompt": {"prompt": {}},
            "llm": {name: {} for name in self.last},
        }

    def run(self, data: dict[str, Any], include_outputs_from: set[str] | None = None) -> Any:
        self.runs.append((data, include_outputs_from))
        worst_first = DOCUMENTS[::-1]
        top_k = data.get("ranker", {}).get("top_k")
        return {"ranker": {"documents": worst_first[:top_k]}, "llm": self.last}


@dataclass
class TextNode:
    node_id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    ref_doc_id: str | None = None

    def get_content(self) -> str:
        return self.text


class ImageNode:
    """Refuses `text`, as nodes of other kinds do, and has its content all the same."""

    node_id = "image"
    metadata: dict[str, Any] = {}  # noqa: RUF012

    @property
    def text(self) -> str:
        raise ValueError("not a text node")

    def get_content(self) -> str:
        return "a caption"


@dataclass
class NodeWithScore:
    node: Any
    score: float | None = None

    @property
    def text(self) -> str:
        return str(self.node.text)


NODES = [
    NodeWithScore(TextNode("n1", "alpha", {"page": 1}, "doc1"), 0.9),
    NodeWithScore(TextNode("n2", "beta"), 0.5),
]


@dataclass
class Retriever:
    nodes: list[NodeWithScore]
    similarity_top_k = 2

    def retrieve(self, str_or_query_bundle: str) -> list[NodeWithScore]:
        return self.nodes

    aretrieve = retrieve


class QueryEngine:
    """Has `retrieve`, too, and that one takes no string."""

    def __init__(self, response: str | None = "an answer") -> None:
        self.queries: list[str] = []
        self.response = response

    def query(self, str_or_query_bundle: str) -> Any:
        self.queries.append(str_or_query_bundle)
        return SimpleNamespace(
            response=self.response, source_nodes=NODES, metadata={"n1": {"page": 1}}
        )

    def retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise TypeError(query_bundle)

    aquery = query
    aretrieve = retrieve


TEXTS = ["alpha", "beta"]
SCORES = [0.9, 0.5]


@pytest.mark.parametrize(
    ("retriever", "result"),
    [
        (
            Component(),
            RetrievalResult(
                TEXTS, context_ids=["1", "2"], scores=SCORES, context_metadata=[{"page": 1}, {}]
            ),
        ),
        (
            Retriever(NODES),
            RetrievalResult(
                TEXTS,
                context_ids=["n1", "n2"],
                scores=SCORES,
                context_metadata=[{"page": 1, "document_id": "doc1"}, {}],
            ),
        ),
        (
            Retriever([NodeWithScore(ImageNode())]),
            RetrievalResult(["a caption"], context_ids=["image"]),
        ),
    ],
    ids=["Haystack", "LlamaIndex", "LlamaIndex, no text"],
)
def test_a_retriever(retriever: Any, result: RetrievalResult) -> None:
    rag = rag_of(retriever)

    assert rag.families == {"retrieval"}
    assert rag.retrieve_with_metadata("q") == result
    assert rag.retrieve("q", top_k=1) == result.contexts[:1]


def test_a_retriever_of_fixed_size_never_pretends_to_more() -> None:
    rag = rag_of(Retriever(NODES))

    with pytest.raises(InterfaceError, match="built to return 2 contexts"):
        rag.retrieve("q", top_k=3)


def test_a_pipeline_is_run_once_and_gives_what_its_ranker_gave() -> None:
    pipeline = Pipeline()
    rag = rag_of(pipeline)

    retrieval = rag.retrieve_with_metadata("q")
    answer = rag.generate_with_metadata("q", retrieval.contexts)

    assert rag.families == {"retrieval", "generation"}
    assert retrieval.contexts == ["beta", "alpha"]
    assert retrieval.scores == [0.5, 0.9]
    assert answer.response == "one"
    assert answer.multi_responses == ["one", "two"]
    ((inputs, outputs),) = pipeline.runs
    assert inputs == {
        "embedder": {"text": "q"},
        "retriever": {"query": "q"},
        "ranker": {"query": "q"},
        "prompt": {"question": "q"},
    }
    assert outputs == {"ranker", "llm"}


def test_top_k_reaches_the_ranker_of_a_pipeline() -> None:
    assert rag_of(Pipeline()).retrieve("q", top_k=1) == ["beta"]


def test_built_answers_are_read_and_without_documents_a_pipeline_only_generates() -> None:
    built_answer = SimpleNamespace(data="one", meta={"model": "m"})
    building = rag_of(Pipeline(last={"answers": [built_answer]}))
    without_documents = rag_of(Pipeline(gives={"llm": {"replies": {}}}))

    answer = building.generate_with_metadata("q", ["beta"])

    assert answer.response == "one"
    assert answer.metadata is not None
    assert answer.metadata["model"] == "m"
    assert without_documents.families == {"generation"}
    assert without_documents.generate("q", ["ignored"]) == "one"


NO_TEXT = {"retriever": {"query_embedding": socket(list)}}


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (Pipeline(gives={"c": {"count": {}}}), r"no component gives 'documents'.*there are count"),
        (Pipeline(takes=NO_TEXT), r"takes retriever\.query_embedding, and only the"),
    ],
)
def test_a_pipeline_that_cannot_be_asked_is_refused(pipeline: Pipeline, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        as_rag(pipeline)


def test_a_query_engine_is_asked_once() -> None:
    engine = QueryEngine()
    rag = rag_of(engine)

    retrieval = rag.retrieve_with_metadata("q")
    answer = rag.generate_with_metadata("q", retrieval.contexts)

    assert rag.families == {"retrieval", "generation"}
    assert retrieval.contexts == TEXTS
    assert retrieval.scores == SCORES
    assert answer == GenerationResult("an answer", metadata={"n1": {"page": 1}})
    assert engine.queries == ["q"]


def test_a_query_engine_without_an_answer_is_an_error_and_no_empty_string() -> None:
    rag = rag_of(QueryEngine(response=None))

    with pytest.raises(InterfaceError, match=r"QueryEngine\.query returned .*must return a string"):
        rag.retrieve("q")
