"""What every RAG that ragbench ships, or makes of something else, must keep to.

A new implementation is added to `IMPLEMENTATIONS` by a function that builds it. Everything that
ragbench itself relies on is checked: the eight methods agree with each other, results are valid,
order is kept, nothing is remembered that should not be, and a copy in another process is the same.
"""

import asyncio
import copy
import inspect
import json
import pickle
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ragbench
from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult, as_rag
from ragbench import Document as Page
from ragbench.errors import InterfaceError
from ragbench.rag.adapt import AnyRAG
from ragbench.rag.fallback import to_generation_result, to_retrieval_result
from ragbench.rag.load import describe_rag
from tests.json_server import serving_json

QUERIES = [
    *("Do bees fly?", "蜜蜂会飞吗?", "Do bees fly?", "x" * 500, ""),
    *("Where is the red house?", "Who owns the blue house?", "ｒｅｄ  house"),
]


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
        found = {"context_ids": ["1", "2"][:top_k], "scores": [0.9, 0.1][:top_k]}
        known: Any = {**found, "metadata": {"took": 0.1}}
        return [RetrievalResult(contexts_of(query)[:top_k], **known) for query in queries]

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        made = map(answer_of, queries)
        return [GenerationResult(one, multi_responses=[one], confidence=1.0) for one in made]


class Later(AsyncRAGInterface):
    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        await asyncio.sleep(0)
        return contexts_of(query)[:top_k]

    async def generate(self, query: str, contexts: list[str]) -> str:
        await asyncio.sleep(0)
        return answer_of(query)


class ChainRetriever:
    """LangChain's shape."""

    def _get_relevant_documents(self, query: str, **options: Any) -> list[SimpleNamespace]:
        texts = enumerate(contexts_of(query)[: options.get("k")])
        return [SimpleNamespace(page_content=text, id=str(i), metadata={}) for i, text in texts]

    invoke = _get_relevant_documents

    def batch(self, queries: list[str], **options: Any) -> list[list[SimpleNamespace]]:
        return [self.invoke(query, **options) for query in queries]


class QueryEngine:
    """LlamaIndex's shape."""

    def query(self, query: str) -> SimpleNamespace:
        nodes = [{"text": text} for text in contexts_of(query)]
        return SimpleNamespace(response=answer_of(query), source_nodes=nodes)

    async def aquery(self, query: str) -> SimpleNamespace:
        return self.query(query)


class Component:
    """Haystack's shape."""

    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        return {"documents": [{"content": text} for text in find(query, top_k)]}


def find(query: str, top_k: int | None = None) -> list[str]:
    return contexts_of(query)[:top_k]


class Duck:
    retrieve = staticmethod(find)

    async def generate(self, query: str, contexts: list[str]) -> str:
        return answer_of(query)


def tell(query: str, contexts: list[str]) -> str:
    return answer_of(query)


def ask(query: str, top_k: int | None = None) -> dict[str, Any]:
    return {"answer": answer_of(query), "contexts": find(query, top_k)}


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
    "one call": lambda url: as_rag(ask),
    "of two rags": lambda url: as_rag(retrieve=Later(), generate=New()),
    "LangChain": lambda url: as_rag(retrieve=ChainRetriever(), generate=tell),
    "LlamaIndex": lambda url: as_rag(QueryEngine()),
    "Haystack": lambda url: as_rag(retrieve=Component(), generate=tell),
    "HTTP": lambda url: as_rag(url),
    "HTTP, one call": lambda url: as_rag(f"{url}/answer"),
}
WITHOUT_TOP_K = {"LlamaIndex"}
DOCUMENTS = [
    Page(id="red", text="The red house is in Galway. It is old.", title="Red"),
    Page(id="blue", text="Mara Lind owns the blue house.", metadata={"year": 2024}),
    Page(id="none", text="Nothing else is known."),
]
EMBEDDER = "indexing: {embedder: 'hashing:64', chunker: {name: sentences, tokens: 8}}\n"
PIPELINES = {
    "baseline": "",
    "bm25": "retrieval: {top_k: 2}",
    "sparse": EMBEDDER + "retrieval: {type: sparse, top_k: 2}",
    "dense": EMBEDDER + "retrieval: {type: dense, top_k: 2, embeddings: true}",
    "hybrid": EMBEDDER + "retrieval: {type: hybrid, top_k: 2}\npre_retrieval: [normalise]",
    "filtered": EMBEDDER + "retrieval: {type: hybrid, top_k: 2, filters: {year: 2024}}",
    "processed": "retrieval: {top_k: 2}\npost_retrieval: [{action: rerank, type: lexical}]",
    "formatted": "retrieval: {top_k: 2}\npost_retrieval: [{action: format, type: xml}]",
}
"""ragbench's own: what they find and answer is not known in advance."""


@contextmanager
def opened(name: str, documents: list[Page], folder: Path) -> Generator[RAGInterface]:
    if name == "baseline":
        yield ragbench.BaselineRAG(documents, top_k=2)
        return
    (folder / "rag.yaml").write_text(PIPELINES[name], "utf-8")
    with ragbench.load_pipeline(folder / "rag.yaml").open(lambda: documents) as pipeline:
        yield pipeline.rag


@pytest.fixture(params=[*IMPLEMENTATIONS, *PIPELINES], scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rag(name: str, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyRAG]:
    if name in PIPELINES:
        with opened(name, DOCUMENTS, tmp_path_factory.mktemp("rag")) as found:
            yield found
        return
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


@pytest.mark.parametrize("top_k", [None, 1, 50])
def test_all_forms_of_retrieval_agree(rag: AnyRAG, name: str, top_k: int | None) -> None:
    if name in WITHOUT_TOP_K and top_k:
        with pytest.raises(InterfaceError, match="takes no top_k"):
            call(rag, "retrieve", "q", top_k=top_k)
        return
    queries = list(QUERIES)
    batch = call(rag, "batch_retrieve_with_metadata", queries, top_k)
    found = [list(result.contexts) for result in batch]
    if name not in PIPELINES:
        assert found == [contexts_of(query)[:top_k] for query in QUERIES]
    assert all(len(one) <= (top_k or 2) for one in found)
    assert call(rag, "batch_retrieve", QUERIES, top_k) == found
    assert [call(rag, "retrieve", query, top_k) for query in QUERIES] == found
    assert [call(rag, "retrieve_with_metadata", query, top_k) for query in QUERIES] == batch
    for result in batch:
        assert isinstance(result, RetrievalResult)
        assert to_retrieval_result(cast("object", result), "contract") is result
        json.dumps(result.to_dict())
    assert queries == QUERIES


def test_all_forms_of_generation_agree(rag: AnyRAG, name: str) -> None:
    contexts = call(rag, "batch_retrieve", QUERIES)
    before = copy.deepcopy(contexts)
    batch = call(rag, "batch_generate_with_metadata", QUERIES, contexts)
    found = [result.response for result in batch]
    if name not in PIPELINES:
        assert found == [answer_of(query) for query in QUERIES]
    assert call(rag, "batch_generate", QUERIES, contexts) == found
    pairs = list(zip(QUERIES, contexts, strict=True))
    assert [call(rag, "generate", *pair) for pair in pairs] == found
    assert [call(rag, "generate_with_metadata", *pair) for pair in pairs] == batch
    for result in batch:
        assert isinstance(result, GenerationResult)
        assert to_generation_result(cast("object", result), "contract") is result
        assert 0 <= (result.confidence or 0) <= 1
    assert contexts == before


def test_an_empty_batch_gives_an_empty_list(rag: AnyRAG) -> None:
    for method in ("batch_retrieve", "batch_retrieve_with_metadata"):
        assert call(rag, method, []) == []
    for method in ("batch_generate", "batch_generate_with_metadata"):
        assert call(rag, method, [], []) == []


def test_generation_takes_contexts_that_retrieval_never_gave(rag: AnyRAG, name: str) -> None:
    for contexts in (["other"], []):
        answer = call(rag, "generate", "q", contexts)
        assert name in PIPELINES or answer == answer_of("q")


def test_it_is_described_by_what_json_can_hold_and_always_the_same(
    rag: AnyRAG, name: str, tmp_path: Path
) -> None:
    described = describe_rag(rag, "module:rag", {"a": 1})
    assert json.loads(json.dumps(described)) == described
    assert describe_rag(rag, "module:rag", {"a": 1}) == described
    assert "0x" not in json.dumps(described)
    if name in PIPELINES:
        with opened(name, DOCUMENTS, tmp_path) as again:
            assert describe_rag(again, "module:rag", {"a": 1}) == described
        with opened(name, DOCUMENTS[:2], tmp_path) as other:
            assert describe_rag(other, "module:rag", {"a": 1}) != described


def test_a_copy_in_another_process_is_the_same(rag: AnyRAG, name: str) -> None:
    if name in PIPELINES:
        pytest.skip("opened anew in each process")
    other = pickle.loads(pickle.dumps(rag))
    assert call(other, "batch_retrieve", ["q"]) == [contexts_of("q")]
    assert describe_rag(other, "module:rag") == describe_rag(rag, "module:rag")


def test_threads_may_share_it(rag: AnyRAG) -> None:
    def work(number: int) -> tuple[list[str], str]:
        contexts = call(rag, "retrieve", f"q{number}")
        return contexts, call(rag, "generate", f"q{number}", contexts)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [work(number) for number in range(8)]
