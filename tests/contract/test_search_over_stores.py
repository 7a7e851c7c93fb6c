"""Indexing and every strategy of search give the same over every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any, get_args

import pytest

from ragbench.embedders.hashing import HashingEmbedder
from ragbench.errors import StoreError
from ragbench.indexing.chunkers.registry import make_chunker
from ragbench.indexing.index import index_documents
from ragbench.records.corpus import Chunk, Document
from ragbench.retrieval.bm25_scores import Bm25Scores
from ragbench.retrieval.engine import RetrievalEngine
from ragbench.retrieval.settings import RetrievalSettings, StrategyName
from ragbench.stores.base import Database, HybridStore, SparseVector
from ragbench.stores.memory import MemoryDatabase
from ragbench.text.tokens import tokenise
from tests.contract.store_engines import ENGINES, EngineUnderTest, start

EMBEDDER = HashingEmbedder(dimension=64)
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
SUBJECTS = ("rent", "fee", "garden", "dog", "key", "合同", "付款", "notice", "heating", "roof")
DOCUMENTS = [
    Document(
        id=f"doc {at}/é",
        text=f"The {SUBJECTS[at % 10]} and the {SUBJECTS[at * 7 % 10]} of flat {at % 13}. "
        # Of different lengths: engines add up in single precision, each in its own order, so that
        # exact ties are none.
        f"{SUBJECTS[at * 3 % 10]} {SUBJECTS[at % 9]} number {at}. {'more ' * at}",
        title=f"Part {at % 4}",
        metadata={"year": 2020 + at % 5, "source": f"file {at % 3}.pdf"},
    )
    for at in range(60)
]
QUERIES = ["rent and fee", "付款 合同", "dog in the garden of flat 7", "number 31 roof", "zzz", ""]
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"year": 2023},
    {"any": [{"source": "file 1.pdf"}, {"year": {"lt": 2022}}]},
]


def index(
    database: Database, collection: str, documents: list[Document] = DOCUMENTS
) -> tuple[int, int, int]:
    result = index_documents(
        documents,
        database,
        collection,
        embedder=EMBEDDER,
        embedder_name="hashing:64",
        chunker=make_chunker("whole"),
    )
    return result.written, result.unchanged, result.removed


@pytest.fixture(scope="module")
def expected() -> Iterator[RetrievalEngine]:
    database = MemoryDatabase()
    index(database, "kb")
    with RetrievalEngine(database, embedder=EMBEDDER) as engine:
        yield engine


@pytest.fixture(scope="module", params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> EngineUnderTest:
    found: EngineUnderTest = request.param
    return found


@pytest.fixture(scope="module")
def opened(
    engine: EngineUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Database]]:
    with ExitStack() as closing:
        yield start(engine, tmp_path_factory.mktemp("store"), closing)


def assert_same(found: list[list[Chunk]], wanted: list[list[Chunk]], what: object) -> None:
    """The same chunks in the same order; scores but for what single precision may lose."""
    assert [[chunk.id for chunk in one] for one in found] == [
        [chunk.id for chunk in one] for one in wanted
    ], what
    scores = [chunk.score or 0.0 for one in wanted for chunk in one]
    assert [chunk.score or 0.0 for one in found for chunk in one] == pytest.approx(scores, abs=1e-4)


def test_a_search_finds_the_same_over_every_engine(
    opened: Callable[[], Database], expected: RetrievalEngine
) -> None:
    database = opened()
    assert index(database, "kb") == (60, 0, 0)
    with RetrievalEngine(database, embedder=EMBEDDER) as searched:
        for strategy in STRATEGIES:
            for filters in FILTERS:
                given: dict[str, Any] = {"filters": filters, "strategy": strategy}
                found = searched.batch_search("kb", QUERIES, 7, -1.0, **given)
                wanted = expected.batch_search("kb", QUERIES, 7, -1.0, **given)
                assert_same(found, wanted, (strategy, filters))
                assert [[each.metadata for each in ranking] for ranking in found] == [
                    [each.metadata for each in ranking] for ranking in wanted
                ]
    database.close()


def test_an_index_is_kept_changed_and_continued_in_every_engine(
    opened: Callable[[], Database],
) -> None:
    database = opened()
    index(database, "changing")
    database.close()
    database = opened()
    changed = [Document(id=DOCUMENTS[0].id, text="Changed."), *DOCUMENTS[2:]]
    assert index(database, "changing") == (0, 60, 0)
    assert index(database, "changing", changed) == (1, 58, 1)
    store = database.open("changing")
    assert store.info().complete
    store.mark(complete=False)
    with RetrievalEngine(database) as searched, pytest.raises(StoreError, match="not complete"):
        searched.search("changing", "rent")
    database.close()
    database = opened()
    assert index(database, "changing", changed) == (0, 59, 0)
    assert database.open("changing").info().complete
    database.close()


def test_hybrid_search_in_the_store_ranks_as_ours(
    engine: EngineUnderTest, opened: Callable[[], Database], expected: RetrievalEngine
) -> None:
    if not engine.hybrid:
        pytest.skip("the store keeps no sparse vectors")
    chunks = sorted(
        expected.collection("kb").store.get([each.id for each in DOCUMENTS]).values(),
        key=lambda chunk: chunk.id,
    )
    ours = RetrievalSettings(dense_weight=0.5, candidates=30, score_threshold=-1.0)
    database = opened()
    store = database.create("native", dimension=64, sparse=True)
    assert isinstance(store, HybridStore)
    stored = expected.collection("kb").store.vectors([chunk.id for chunk in chunks])
    texts = [tokenise(f"{chunk.metadata['title']}") * 2 + tokenise(chunk.text) for chunk in chunks]
    weights = document_weights(texts)
    store.upsert_hybrid(chunks, [stored[chunk.id] for chunk in chunks], weights)  # type: ignore[arg-type]
    # Questions that every chunk shares a word with: a cosine of 0 would be an exact tie again.
    queries = ["rent and fee", "dog in the garden of flat 7", "the number 31 and the roof"]
    scores = Bm25Scores.build(texts, k1=1.2, b=0.75)
    native = store.search_hybrid(
        EMBEDDER.embed_queries(queries),
        [query_weights(query, scores) for query in queries],
        k=10,
        candidates=30,
        weights=(0.5, 1.0),
        rrf_k=60,
    )
    database.close()
    with RetrievalEngine(source(expected), embedder=EMBEDDER, settings=ours) as engine_:
        wanted = engine_.batch_search("kb", queries, 10, strategy="hybrid")
    assert_same(native, wanted, "native")


def source(engine: RetrievalEngine) -> Database:
    database: Database = engine._database
    return database


def document_weights(texts: list[list[str]]) -> list[SparseVector]:
    """What BM25 gives a token for its place in a text: all but the query's part of the product."""
    average = sum(map(len, texts)) / len(texts)
    found: list[SparseVector] = []
    for text in texts:
        room = 1.2 * (1 - 0.75 + 0.75 * len(text) / average)
        found.append(sparse({token: n / (n + room) for token, n in Counter(text).items()}))
    return found


def query_weights(query: str, scores: Bm25Scores) -> SparseVector:
    counts = Counter(tokenise(query))
    return sparse({token: n * scores.idf(token) for token, n in counts.items()})


def sparse(weights: dict[str, float]) -> SparseVector:
    named = sorted((dimension(token), weight) for token, weight in weights.items())
    return SparseVector(
        indices=tuple(index for index, _ in named), values=tuple(value for _, value in named)
    )


def dimension(token: str) -> int:
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big") % 10**9
