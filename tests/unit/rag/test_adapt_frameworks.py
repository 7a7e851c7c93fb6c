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
    def run(self, query: str, filters: Any = None, top_k: int | None = None) -> dict[str, Any]:
        return {"documents": DOCUMENTS[:top_k]}


def socket(type_: Any, mandatory: bool = True) -> dict[str, Any]:
    return {"type": type_, "is_mandatory": mandatory}


class Pipeline:
    """retriever -> ranker -> prompt -> llm (-> builder), with their sockets."""

    def __init__(self, last: Any = None, gives: Any = None, takes: Any = None) -> None:
        self.ran: list[Any] = []
        self.last = last or {"replies": ["one", "two"]}
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

    def outputs(self, include_components_with_connected_outputs: bool = False) -> dict[str, Any]:
        assert include_components_with_connected_outputs
        inner: dict[str, Any] = {"retriever": {"documents": {}}, "ranker": {"documents": {}}}
        last = {name: dict[str, Any]() for name in self.last}
        return self.gives or {**inner, "prompt": {"prompt": {}}, "llm": last}

    def run(self, data: dict[str, Any], include_outputs_from: set[str] | None = None) -> Any:
        self.ran.append((data, include_outputs_from))
        top_k = data.get("ranker", {}).get("top_k")
        return {"ranker": {"documents": DOCUMENTS[::-1][:top_k]}, "llm": self.last}


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
        self.asked: list[str] = []
        self.response = response

    def query(self, str_or_query_bundle: str) -> Any:
        self.asked.append(str_or_query_bundle)
        known = {"n1": {"page": 1}}
        return SimpleNamespace(response=self.response, source_nodes=NODES, metadata=known)

    def retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise TypeError(query_bundle)

    aquery, aretrieve = query, retrieve


TEXTS, SCORES = ["alpha", "beta"], [0.9, 0.5]


@pytest.mark.parametrize(
    ("retriever", "found"),
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
def test_a_retriever(retriever: Any, found: RetrievalResult) -> None:
    rag = rag_of(retriever)
    assert rag.families == {"retrieval"}
    assert rag.retrieve_with_metadata("q") == found
    assert rag.retrieve("q", top_k=1) == found.contexts[:1]


def test_a_retriever_of_fixed_size_never_pretends_to_more() -> None:
    with pytest.raises(InterfaceError, match="built to return 2 contexts"):
        rag_of(Retriever(NODES)).retrieve("q", top_k=3)


def test_a_pipeline_is_run_once_and_gives_what_its_ranker_gave() -> None:
    pipeline = Pipeline()
    rag = rag_of(pipeline)
    assert rag.families == {"retrieval", "generation"}
    result = rag.retrieve_with_metadata("q")
    assert (result.contexts, result.scores) == (["beta", "alpha"], [0.5, 0.9])
    answer = rag.generate_with_metadata("q", result.contexts)
    assert (answer.response, answer.multi_responses) == ("one", ["one", "two"])
    query = {"query": "q"}
    asked = {"embedder": {"text": "q"}, "retriever": query, "ranker": query}
    assert pipeline.ran == [({**asked, "prompt": {"question": "q"}}, {"ranker", "llm"})]
    assert rag.retrieve("q", top_k=1) == ["beta"]


def test_built_answers_are_read_and_without_documents_a_pipeline_only_generates() -> None:
    built = SimpleNamespace(data="one", meta={"model": "m"})
    answer = rag_of(Pipeline(last={"answers": [built]})).generate_with_metadata("q", ["beta"])
    assert answer.response == "one"
    assert answer.metadata is not None and answer.metadata["model"] == "m"
    rag = rag_of(Pipeline(gives={"llm": {"replies": {}}}))
    assert rag.families == {"generation"}
    assert rag.generate("q", ["ignored"]) == "one"


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
    assert rag.families == {"retrieval", "generation"}
    result = rag.retrieve_with_metadata("q")
    assert (result.contexts, result.scores) == (TEXTS, SCORES)
    answered = GenerationResult("an answer", metadata={"n1": {"page": 1}})
    assert rag.generate_with_metadata("q", result.contexts) == answered
    assert engine.asked == ["q"]
    # Without an answer it is an error, and no empty string.
    with pytest.raises(InterfaceError, match=r"QueryEngine\.query returned .*must return a string"):
        rag_of(QueryEngine(response=None)).retrieve("q")
