"""Look-alikes with the shapes of llama-index-core 0.14's classes."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ragbench import GenerationResult, as_rag
from ragbench.errors import InterfaceError


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


@dataclass
class Response:
    response: str | None
    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any] | None = None


NODES = [
    NodeWithScore(TextNode("n1", "alpha", {"page": 1}, "doc1"), 0.9),
    NodeWithScore(TextNode("n2", "beta"), 0.5),
]


class Retriever:
    similarity_top_k = 2

    def retrieve(self, str_or_query_bundle: str) -> list[NodeWithScore]:
        return NODES

    async def aretrieve(self, str_or_query_bundle: str) -> list[NodeWithScore]:
        return NODES


class QueryEngine:
    """Has `retrieve`, too, and that one takes no string."""

    def __init__(self, response: str | None = "an answer") -> None:
        self.asked: list[str] = []
        self.response = response

    def query(self, str_or_query_bundle: str) -> Response:
        self.asked.append(str_or_query_bundle)
        return Response(self.response, NODES, {"n1": {"page": 1}})

    async def aquery(self, str_or_query_bundle: str) -> Response:
        return self.query(str_or_query_bundle)

    def retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise TypeError(query_bundle)

    async def aretrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise TypeError(query_bundle)


def rag_of(*arguments: Any, **options: Any) -> Any:
    return as_rag(*arguments, **options)


def test_a_retriever() -> None:
    rag = rag_of(Retriever())
    assert rag.families == {"retrieval"}
    result = rag.retrieve_with_metadata("q")
    assert result.contexts == ["alpha", "beta"]
    assert result.context_ids == ["n1", "n2"]
    assert result.scores == [0.9, 0.5]
    assert result.context_metadata == [{"page": 1, "document_id": "doc1"}, {}]
    assert rag.retrieve("q", top_k=1) == ["alpha"]
    with pytest.raises(InterfaceError, match="built to return 2 contexts"):
        rag.retrieve("q", top_k=3)


def test_a_node_that_is_no_text_gives_its_content() -> None:
    class Images(Retriever):
        def retrieve(self, str_or_query_bundle: str) -> list[NodeWithScore]:
            return [NodeWithScore(ImageNode(), None)]

    result = rag_of(Images()).retrieve_with_metadata("q")
    assert (result.contexts, result.context_ids, result.scores) == (["a caption"], ["image"], None)


def test_a_query_engine_is_asked_once() -> None:
    engine = QueryEngine()
    rag = rag_of(engine)
    assert rag.families == {"retrieval", "generation"}
    result = rag.retrieve_with_metadata("q")
    assert (result.contexts, result.scores) == (["alpha", "beta"], [0.9, 0.5])
    assert rag.generate_with_metadata("q", result.contexts) == GenerationResult(
        "an answer", metadata={"n1": {"page": 1}}
    )
    assert engine.asked == ["q"]


def test_an_engine_without_an_answer_is_an_error_and_no_empty_string() -> None:
    with pytest.raises(InterfaceError, match=r"QueryEngine\.query must return a string"):
        rag_of(QueryEngine(response=None)).retrieve("q")
