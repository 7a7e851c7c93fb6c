"""What every RAG that ragbench ships, or makes of something else, must keep to.

A new implementation is added to `IMPLEMENTATIONS` by a function that builds it. Everything that
ragbench itself relies on is checked: the eight methods agree with each other, results are valid,
order is kept, nothing is remembered that should not be, and a copy in another process is the same.
"""

import asyncio
import inspect
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult, as_rag
from ragbench.errors import InterfaceError
from ragbench.rag.adapt import AnyRAG
from ragbench.rag.fallback import to_generation_result, to_retrieval_result
from ragbench.rag.load import describe_rag
from tests.json_server import serving_json

QUERIES = ["Do bees fly?", "蜜蜂会飞吗?", "Do bees fly?", "x" * 500]


def contexts_of(query: str) -> list[str]:
    return [f"{query} first", f"{query} second"]


def answer_of(query: str) -> str:
    return f"{query} answered"


class Old(RAGInterface):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return contexts_of(query)[:top_k]

    def generate(self, query: str, contexts: list[str]) -> str:
        return answer_of(query)


class New(RAGInterface):
    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        return [
            RetrievalResult(
                contexts_of(query)[:top_k],
                context_ids=["1", "2"][:top_k],
                scores=[0.9, 0.1][:top_k],
                metadata={"took": 0.1},
            )
            for query in queries
        ]

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        return [
            GenerationResult(answer_of(q), multi_responses=[answer_of(q)], confidence=1.0)
            for q in queries
        ]


class Later(AsyncRAGInterface):
    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        await asyncio.sleep(0)
        return contexts_of(query)[:top_k]

    async def generate(self, query: str, contexts: list[str]) -> str:
        await asyncio.sleep(0)
        return answer_of(query)


@dataclass
class Document:
    page_content: str
    id: str
    metadata: dict[str, Any]


class ChainRetriever:
    """LangChain's shape."""

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        texts = contexts_of(query)[: options.get("k")]
        return [Document(text, str(i), {}) for i, text in enumerate(texts)]

    def invoke(self, query: str, **options: Any) -> list[Document]:
        return self._get_relevant_documents(query, **options)

    def batch(self, queries: list[str], **options: Any) -> list[list[Document]]:
        return [self.invoke(query, **options) for query in queries]


@dataclass
class Response:
    response: str
    source_nodes: list[dict[str, str]]


class QueryEngine:
    """LlamaIndex's shape."""

    def query(self, query: str) -> Response:
        return Response(answer_of(query), [{"text": text} for text in contexts_of(query)])

    async def aquery(self, query: str) -> Response:
        return self.query(query)


class Component:
    """Haystack's shape."""

    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        return {"documents": [{"content": text} for text in contexts_of(query)[:top_k]]}


class Duck:
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return contexts_of(query)[:top_k]

    async def generate(self, query: str, contexts: list[str]) -> str:
        return answer_of(query)


def find(query: str, top_k: int | None = None) -> list[str]:
    return contexts_of(query)[:top_k]


def tell(query: str, contexts: list[str]) -> str:
    return answer_of(query)


async def find_later(query: str, top_k: int | None = None) -> list[str]:
    return find(query, top_k)


def ask(query: str, top_k: int | None = None) -> dict[str, Any]:
    return {"answer": answer_of(query), "contexts": find(query, top_k)}


async def ask_later(query: str, top_k: int | None = None) -> dict[str, Any]:
    return ask(query, top_k)


def respond(_: str, path: str, body: Any) -> tuple[int, Any]:
    def result(query: str) -> dict[str, Any]:
        found = {"contexts": find(query, body.get("top_k"))}
        if path == "/generate":
            return {"response": answer_of(query)}
        return found if path == "/retrieve" else {**found, "response": answer_of(query)}

    return 200, {"results": [result(query) for query in body["queries"]]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_json(respond) as address:
        yield address


IMPLEMENTATIONS: dict[str, Callable[[str], AnyRAG]] = {
    "old": lambda url: Old(),
    "new": lambda url: New(),
    "async": lambda url: Later(),
    "duck": lambda url: as_rag(Duck()),
    "functions": lambda url: as_rag(retrieve=find, generate=tell),
    "async functions": lambda url: as_rag(retrieve=find_later, generate=tell),
    "one call": lambda url: as_rag(ask),
    "async one call": lambda url: as_rag(ask_later),
    "of two rags": lambda url: as_rag(retrieve=Later(), generate=New()),
    "LangChain": lambda url: as_rag(retrieve=ChainRetriever(), generate=tell),
    "LlamaIndex": lambda url: as_rag(QueryEngine()),
    "Haystack": lambda url: as_rag(retrieve=Component(), generate=tell),
    "HTTP": lambda url: as_rag(url),
    "HTTP, one call": lambda url: as_rag(f"{url}/answer"),
}
WITHOUT_TOP_K = {"LlamaIndex"}


@pytest.fixture(params=IMPLEMENTATIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rag(name: str, url: str) -> Iterator[AnyRAG]:
    if name.startswith("HTTP"):
        pytest.importorskip("httpx")
    made = IMPLEMENTATIONS[name](url)
    yield made
    for holder in (made, *getattr(made, "adapts", ())):
        close = getattr(holder, "close", None)
        if callable(close):
            close()


def call(rag: AnyRAG, method: str, *arguments: Any, **options: Any) -> Any:
    async def wait(value: Any) -> Any:
        return await value

    value = getattr(rag, method)(*arguments, **options)
    return asyncio.run(wait(value)) if inspect.isawaitable(value) else value


def test_it_is_one_of_the_two_interfaces_and_has_both_families(rag: AnyRAG) -> None:
    assert isinstance(rag, RAGInterface) != isinstance(rag, AsyncRAGInterface)
    assert rag.families == {"retrieval", "generation"}
    assert rag.is_async == isinstance(rag, AsyncRAGInterface)


def test_all_forms_of_retrieval_agree(rag: AnyRAG) -> None:
    expected = [contexts_of(query) for query in QUERIES]
    assert call(rag, "batch_retrieve", QUERIES) == expected
    assert [call(rag, "retrieve", query) for query in QUERIES] == expected
    batch = call(rag, "batch_retrieve_with_metadata", QUERIES)
    assert [list(result.contexts) for result in batch] == expected
    single = [call(rag, "retrieve_with_metadata", query) for query in QUERIES]
    assert single == batch
    for result in batch:
        assert isinstance(result, RetrievalResult)
        assert to_retrieval_result(cast("object", result), "contract") is result


def test_all_forms_of_generation_agree(rag: AnyRAG) -> None:
    contexts = call(rag, "batch_retrieve", QUERIES)
    expected = [answer_of(query) for query in QUERIES]
    assert call(rag, "batch_generate", QUERIES, contexts) == expected
    pairs = list(zip(QUERIES, contexts, strict=True))
    assert [call(rag, "generate", *pair) for pair in pairs] == expected
    batch = call(rag, "batch_generate_with_metadata", QUERIES, contexts)
    assert [result.response for result in batch] == expected
    assert [call(rag, "generate_with_metadata", *pair) for pair in pairs] == batch
    for result in batch:
        assert isinstance(result, GenerationResult)
        assert to_generation_result(cast("object", result), "contract") is result


def test_an_empty_batch_gives_an_empty_list(rag: AnyRAG) -> None:
    for method in ("batch_retrieve", "batch_retrieve_with_metadata"):
        assert call(rag, method, []) == []
    for method in ("batch_generate", "batch_generate_with_metadata"):
        assert call(rag, method, [], []) == []


def test_top_k_is_obeyed_or_refused(rag: AnyRAG, name: str) -> None:
    if name in WITHOUT_TOP_K:
        with pytest.raises(InterfaceError, match="takes no top_k"):
            call(rag, "retrieve", "q", top_k=1)
        return
    assert call(rag, "retrieve", "q", top_k=1) == ["q first"]
    assert call(rag, "batch_retrieve", ["q", "r"], 1) == [["q first"], ["r first"]]
    assert call(rag, "batch_retrieve_with_metadata", ["q"], top_k=1)[0].contexts == ["q first"]
    assert call(rag, "retrieve", "q", top_k=None) == contexts_of("q")


def test_arguments_are_not_changed(rag: AnyRAG) -> None:
    queries, contexts = list(QUERIES), [contexts_of(query) for query in QUERIES]
    call(rag, "batch_retrieve_with_metadata", queries)
    call(rag, "batch_generate_with_metadata", queries, contexts)
    assert queries == QUERIES
    assert contexts == [contexts_of(query) for query in QUERIES]


def test_generation_takes_contexts_that_retrieval_never_gave(rag: AnyRAG) -> None:
    assert call(rag, "generate", "q", ["other"]) == answer_of("q")
    assert call(rag, "generate", "q", []) == answer_of("q")


def test_it_is_described_by_what_json_can_hold_and_always_the_same(rag: AnyRAG) -> None:
    described = describe_rag(rag, "module:rag", {"a": 1})
    assert json.loads(json.dumps(described)) == described
    assert describe_rag(rag, "module:rag", {"a": 1}) == described
    assert "0x" not in json.dumps(described)


def test_a_copy_in_another_process_is_the_same(rag: AnyRAG) -> None:
    copy = pickle.loads(pickle.dumps(rag))
    assert call(copy, "batch_retrieve", ["q"]) == [contexts_of("q")]
    assert describe_rag(copy, "module:rag") == describe_rag(rag, "module:rag")


def test_threads_may_share_it(rag: AnyRAG) -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        query = f"q{number}"
        contexts = call(rag, "retrieve", query)
        found[number] = (contexts, call(rag, "generate", query, contexts))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: (contexts_of(f"q{n}"), answer_of(f"q{n}")) for n in range(8)}
