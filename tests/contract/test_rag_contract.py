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

# One of them twice, one long, and one empty.
QUERIES = [
    "Do bees fly?",
    "蜜蜂会飞吗?",
    "Do bees fly?",
    "x" * 500,
    "",
    "Where is the red house?",
    "Who owns the blue house?",
    "ｒｅｄ  house",
]


def contexts_of(query: str) -> list[str]:
    return [f"{query} first", f"{query} second"]


def answer_of(query: str) -> str:
    return f"{query} answered"


class Old(RAGInterface):
    """With the two plain methods alone."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return contexts_of(query)[:top_k]

    def generate(self, query: str, contexts: list[str]) -> str:
        return answer_of(query)


class New(RAGInterface):
    """With the two methods that tell most alone."""

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        results: list[RetrievalResult] = []
        for query in queries:
            result = RetrievalResult(
                contexts_of(query)[:top_k],
                context_ids=["1", "2"][:top_k],
                scores=[0.9, 0.1][:top_k],
                metadata={"took": 0.1},
            )
            results.append(result)
        return results

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        results: list[GenerationResult] = []
        for query in queries:
            answer = answer_of(query)
            results.append(GenerationResult(answer, multi_responses=[answer], confidence=1.0))
        return results


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
        texts = contexts_of(query)[: options.get("k")]
        documents: list[SimpleNamespace] = []
        for number, text in enumerate(texts):
            documents.append(SimpleNamespace(page_content=text, id=str(number), metadata={}))
        return documents

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
        documents = [{"content": text} for text in find(query, top_k)]
        return {"documents": documents}


def find(query: str, top_k: int | None = None) -> list[str]:
    return contexts_of(query)[:top_k]


class Duck:
    """Has the methods of a RAG, of which one is a coroutine, and none of its classes."""

    retrieve = staticmethod(find)

    async def generate(self, query: str, contexts: list[str]) -> str:
        return answer_of(query)


def generate(query: str, contexts: list[str]) -> str:
    return answer_of(query)


def find_and_answer(query: str, top_k: int | None = None) -> dict[str, Any]:
    return {"answer": answer_of(query), "contexts": find(query, top_k)}


def respond(_: str, path: str, body: Any) -> tuple[int, Any]:
    """A server that retrieves, generates, or at any other path does both."""
    results: list[dict[str, Any]] = []
    for query in body["queries"]:
        result: dict[str, Any] = {}
        if path != "/generate":
            result["contexts"] = find(query, body.get("top_k"))
        if path != "/retrieve":
            result["response"] = answer_of(query)
        results.append(result)
    return 200, {"results": results}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_json(respond) as address:
        yield address


IMPLEMENTATIONS: dict[str, Callable[[str], AnyRAG]] = {
    "old": lambda url: Old(),
    "new": lambda url: New(),
    "async": lambda url: Later(),
    "duck": lambda url: as_rag(Duck()),
    "functions": lambda url: as_rag(retrieve=find, generate=generate),
    "one call": lambda url: as_rag(find_and_answer),
    "of two rags": lambda url: as_rag(retrieve=Later(), generate=New()),
    "LangChain": lambda url: as_rag(retrieve=ChainRetriever(), generate=generate),
    "LlamaIndex": lambda url: as_rag(QueryEngine()),
    "Haystack": lambda url: as_rag(retrieve=Component(), generate=generate),
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
        with opened(name, DOCUMENTS, tmp_path_factory.mktemp("rag")) as rag_of_pipeline:
            yield rag_of_pipeline
        return
    if name.startswith("HTTP"):
        pytest.importorskip("httpx")
    implementation = IMPLEMENTATIONS[name](url)
    yield implementation
    for holder in (implementation, *getattr(implementation, "adapts", ())):
        close = getattr(holder, "close", None)
        if callable(close):
            close()


def call(rag: AnyRAG, method: str, *arguments: Any, **options: Any) -> Any:
    """What a method gives; of a coroutine what it gives in the end."""

    async def wait(value: Any) -> Any:
        return await value

    value = getattr(rag, method)(*arguments, **options)
    return asyncio.run(wait(value)) if inspect.isawaitable(value) else value


def test_it_is_one_of_the_two_interfaces_and_has_both_families(rag: AnyRAG) -> None:
    assert isinstance(rag, RAGInterface) != isinstance(rag, AsyncRAGInterface)
    assert rag.is_async == isinstance(rag, AsyncRAGInterface)
    assert rag.families == {"retrieval", "generation"}


# --- retrieval

any_top_k = pytest.mark.parametrize("top_k", [None, 1, 50])


def skip_where_top_k_is_fixed(name: str, top_k: int | None) -> None:
    if name in WITHOUT_TOP_K and top_k is not None:
        pytest.skip("it takes no top_k")


@any_top_k
def test_retrieval_gives_at_most_top_k_contexts_a_query_in_their_order(
    rag: AnyRAG, name: str, top_k: int | None
) -> None:
    skip_where_top_k_is_fixed(name, top_k)

    rankings = call(rag, "batch_retrieve", QUERIES, top_k)

    # What ragbench's own pipelines find is not known in advance.
    if name not in PIPELINES:
        assert rankings == [contexts_of(query)[:top_k] for query in QUERIES]
    assert len(rankings) == len(QUERIES)
    for contexts in rankings:
        assert len(contexts) <= (top_k or 2)


@any_top_k
def test_all_forms_of_retrieval_agree(rag: AnyRAG, name: str, top_k: int | None) -> None:
    skip_where_top_k_is_fixed(name, top_k)

    results = call(rag, "batch_retrieve_with_metadata", QUERIES, top_k)

    rankings = [list(result.contexts) for result in results]
    one_by_one = [call(rag, "retrieve", query, top_k) for query in QUERIES]
    results_one_by_one = [call(rag, "retrieve_with_metadata", query, top_k) for query in QUERIES]
    assert call(rag, "batch_retrieve", QUERIES, top_k) == rankings
    assert one_by_one == rankings
    assert results_one_by_one == results


@any_top_k
def test_results_of_retrieval_are_valid_and_can_be_written(
    rag: AnyRAG, name: str, top_k: int | None
) -> None:
    skip_where_top_k_is_fixed(name, top_k)

    results = call(rag, "batch_retrieve_with_metadata", QUERIES, top_k)

    for result in results:
        assert isinstance(result, RetrievalResult)
        assert to_retrieval_result(cast("object", result), "contract") is result
        json.dumps(result.to_dict())


def test_the_queries_are_left_as_they_were(rag: AnyRAG) -> None:
    queries = list(QUERIES)

    call(rag, "batch_retrieve_with_metadata", queries)

    assert queries == QUERIES


@pytest.mark.parametrize("name", sorted(WITHOUT_TOP_K), scope="module")
def test_where_top_k_is_fixed_a_call_with_one_is_refused(rag: AnyRAG, name: str) -> None:
    with pytest.raises(InterfaceError, match="takes no top_k"):
        call(rag, "retrieve", "q", top_k=1)


# --- generation


def test_all_forms_of_generation_agree(rag: AnyRAG, name: str) -> None:
    contexts = call(rag, "batch_retrieve", QUERIES)
    queries_and_contexts = list(zip(QUERIES, contexts, strict=True))

    results = call(rag, "batch_generate_with_metadata", QUERIES, contexts)

    answers = [result.response for result in results]
    one_by_one = [call(rag, "generate", *pair) for pair in queries_and_contexts]
    results_one_by_one = [
        call(rag, "generate_with_metadata", *pair) for pair in queries_and_contexts
    ]
    if name not in PIPELINES:
        assert answers == [answer_of(query) for query in QUERIES]
    assert call(rag, "batch_generate", QUERIES, contexts) == answers
    assert one_by_one == answers
    assert results_one_by_one == results


def test_results_of_generation_are_valid(rag: AnyRAG) -> None:
    contexts = call(rag, "batch_retrieve", QUERIES)

    results = call(rag, "batch_generate_with_metadata", QUERIES, contexts)

    for result in results:
        assert isinstance(result, GenerationResult)
        assert to_generation_result(cast("object", result), "contract") is result
        assert 0 <= (result.confidence or 0) <= 1


def test_the_contexts_are_left_as_they_were(rag: AnyRAG) -> None:
    contexts = call(rag, "batch_retrieve", QUERIES)
    before = copy.deepcopy(contexts)

    call(rag, "batch_generate_with_metadata", QUERIES, contexts)

    assert contexts == before


@pytest.mark.parametrize("contexts", [["other"], []], ids=["another context", "no context"])
def test_generation_takes_contexts_that_retrieval_never_gave(
    rag: AnyRAG, name: str, contexts: list[str]
) -> None:
    answer = call(rag, "generate", "q", contexts)

    assert isinstance(answer, str)
    if name not in PIPELINES:
        assert answer == answer_of("q")


def test_an_empty_batch_gives_an_empty_list(rag: AnyRAG) -> None:
    assert call(rag, "batch_retrieve", []) == []
    assert call(rag, "batch_retrieve_with_metadata", []) == []
    assert call(rag, "batch_generate", [], []) == []
    assert call(rag, "batch_generate_with_metadata", [], []) == []


# --- what it is


def test_it_is_described_by_what_json_can_hold_and_always_the_same(rag: AnyRAG) -> None:
    description = describe_rag(rag, "module:rag", {"a": 1})

    assert json.loads(json.dumps(description)) == description
    assert describe_rag(rag, "module:rag", {"a": 1}) == description
    # No address in memory, which is another one in each process.
    assert "0x" not in json.dumps(description)


@pytest.mark.parametrize("name", PIPELINES, scope="module")
def test_a_pipeline_over_the_same_documents_has_the_same_description(
    rag: AnyRAG, name: str, tmp_path: Path
) -> None:
    with opened(name, DOCUMENTS, tmp_path) as second_rag:
        assert describe_rag(second_rag, "module:rag") == describe_rag(rag, "module:rag")


@pytest.mark.parametrize("name", PIPELINES, scope="module")
def test_a_pipeline_over_other_documents_has_another_description(
    rag: AnyRAG, name: str, tmp_path: Path
) -> None:
    with opened(name, DOCUMENTS[:2], tmp_path) as second_rag:
        assert describe_rag(second_rag, "module:rag") != describe_rag(rag, "module:rag")


# Pipelines are opened anew in each process.
@pytest.mark.parametrize("name", IMPLEMENTATIONS, scope="module")
def test_a_copy_in_another_process_is_the_same(rag: AnyRAG, name: str) -> None:
    sent_to_a_process = pickle.loads(pickle.dumps(rag))

    assert call(sent_to_a_process, "batch_retrieve", ["q"]) == [contexts_of("q")]
    assert describe_rag(sent_to_a_process, "module:rag") == describe_rag(rag, "module:rag")


def test_threads_may_share_it(rag: AnyRAG) -> None:
    def retrieve_and_generate(number: int) -> tuple[list[str], str]:
        contexts = call(rag, "retrieve", f"q{number}")
        return contexts, call(rag, "generate", f"q{number}", contexts)

    one_by_one = [retrieve_and_generate(number) for number in range(8)]

    with ThreadPoolExecutor(8) as threads:
        side_by_side = list(threads.map(retrieve_and_generate, range(8)))

    assert side_by_side == one_by_one
