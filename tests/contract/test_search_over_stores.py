"""Indexing and every strategy of search give the same over every engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, get_args

import pytest

from ragbench import Chunk, Document
from ragbench.embedders.local import HashingEmbedder
from ragbench.errors import StoreError
from ragbench.pipeline.documents import WordsPlace, make_chunker
from ragbench.pipeline.index import index_documents
from ragbench.pipeline.search_engine import RetrievalEngine
from ragbench.pipeline.strategies import StrategyName
from ragbench.pipeline.writing import words_of
from ragbench.stores.database import Database
from ragbench.stores.memory import MemoryDatabase
from tests.contract.store_engines import ENGINES, Opening, UnderTest

EMBEDDER = HashingEmbedder(dimension=64)
WHOLE = make_chunker("whole")
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
    database: Database,
    documents: list[Document] = DOCUMENTS,
    *,
    collection: str = "kb",
    words: WordsPlace | None = None,
) -> tuple[int, int, int]:
    """How many chunks were written, unchanged and removed."""
    result = index_documents(
        documents,
        database,
        collection,
        embedder=EMBEDDER,
        embedder_name="hashing:64",
        chunker=WHOLE,
        words=words_of(words, database, collection, documents, WHOLE),
    )
    return result.written, result.unchanged, result.removed


@pytest.fixture(scope="module")
def expected() -> Iterator[RetrievalEngine]:
    database = MemoryDatabase()
    index(database)
    with RetrievalEngine(database, embedder=EMBEDDER) as engine:
        yield engine


@pytest.fixture(scope="module", params=ENGINES, ids=lambda engine: engine.name)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opening]:
    engine: UnderTest[Opening] = request.param
    with ExitStack() as closing:
        yield engine.start(tmp_path_factory.mktemp("store"), closing)


def assert_same(found: list[list[Chunk]], wanted: list[list[Chunk]], what: object) -> None:
    """The same chunks in the same order; scores but for what single precision may lose."""
    assert [[chunk.id for chunk in one] for one in found] == [
        [chunk.id for chunk in one] for one in wanted
    ], what
    scores = [chunk.score or 0.0 for one in wanted for chunk in one]
    assert [chunk.score or 0.0 for one in found for chunk in one] == pytest.approx(scores, abs=1e-4)


def test_a_search_finds_the_same_over_every_engine(
    opened: Opening, expected: RetrievalEngine
) -> None:
    database = opened()
    assert index(database) == (60, 0, 0)
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
    opened: Opening,
) -> None:
    database = opened()
    database.drop("kb")
    index(database)
    database.close()
    database = opened()
    changed = [Document(id=DOCUMENTS[0].id, text="Changed."), *DOCUMENTS[2:]]
    assert index(database) == (0, 60, 0)
    assert index(database, changed) == (1, 58, 1)
    store = database.open("kb")
    assert store.info().complete
    store.mark(complete=False)
    with RetrievalEngine(database) as searched, pytest.raises(StoreError, match="not complete"):
        searched.search("kb", "rent")
    database.close()
    database = opened()
    assert index(database, changed) == (0, 59, 0)
    assert database.open("kb").info().complete
    database.close()
