"""Indexing and search give the same over every engine; what ranks by words, as our own BM25."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import pytest

from ragbench import Chunk, Document
from ragbench.errors import ConfigError, StoreError
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.pipeline.documents import WordsPlace, make_chunker
from ragbench.search.pipeline.index import index_documents, words_of
from ragbench.search.pipeline.search_engine import RetrievalEngine
from ragbench.search.pipeline.sparse_index import SparseStrategy, StoredWordsStrategy
from ragbench.search.pipeline.strategies import StrategyName
from ragbench.search.stores.database import Database
from ragbench.search.stores.memory import MemoryDatabase
from ragbench.search.stores.record import word_number
from tests.contract.store_engines import ENGINES, Opening

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
QUERIES = [
    *("rent and fee", "付款 合同", "dog in the garden of flat 7", "rent rent rent roof"),
    *("what is the roof of the zebra", "the zebra", "the and of", "zzz", "", "number 31 roof"),
]
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
    how = {"embedder": EMBEDDER, "embedder_name": "hashing:64", "chunker": WHOLE}
    ranked_by = words_of(words, database, collection, documents, WHOLE)
    result = index_documents(documents, database, collection, words=ranked_by, **how)  # type: ignore[arg-type]
    return result.written, result.unchanged, result.removed


stored = partial(index, words="store")
RANKING = [engine for engine in ENGINES if engine.name.startswith("qdrant")]


def own(documents: list[Document] = DOCUMENTS) -> RetrievalEngine:
    """The same collection, ranked by ragbench."""
    database = MemoryDatabase()
    index(database, documents, words="here")
    return RetrievalEngine(database, embedder=EMBEDDER)


@pytest.fixture(params=RANKING, ids=lambda engine: engine.name)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opening]:
    with request.param.started(tmp_path_factory) as opened:
        yield opened


@pytest.fixture
def database(opened: Opening) -> Iterator[Database]:
    database = opened()
    yield database
    database.close()


@pytest.fixture
def nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparseStrategy, "build", lambda *_, **__: pytest.fail("BM25 is built"))


def ranked(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def scores(rankings: list[list[Chunk]]) -> list[float]:
    return [chunk.score or 0.0 for ranking in rankings for chunk in ranking]


def assert_same(found: list[list[Chunk]], wanted: list[list[Chunk]], what: object) -> None:
    """The same chunks in the same order; scores but for what single precision may lose."""
    assert list(map(ranked, found)) == list(map(ranked, wanted)), what
    assert scores(found) == pytest.approx(scores(wanted), abs=1e-4)
    shown = [[[one.metadata for one in ranking] for ranking in each] for each in (found, wanted)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("opened", ENGINES, ids=lambda engine: engine.name, indirect=True)
def test_an_index_is_searched_kept_changed_and_continued_in_every_engine(opened: Opening) -> None:
    database = opened()
    assert index(database) == (60, 0, 0)
    with own() as expected, RetrievalEngine(database, embedder=EMBEDDER) as searched:
        for strategy in STRATEGIES:
            for filters in FILTERS:
                given: dict[str, Any] = {"filters": filters, "strategy": strategy}
                found = searched.batch_search("kb", QUERIES, 7, -1.0, **given)
                wanted = expected.batch_search("kb", QUERIES, 7, -1.0, **given)
                assert_same(found, wanted, (strategy, filters))
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


def test_the_store_ranks_as_ragbench_s_own_bm25(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = ("sparse", "hybrid")
    asked: list[Any] = [{"filters": f, "strategy": one} for f in FILTERS for one in strategies]
    with own() as engine:
        every = [engine.batch_search("kb", QUERIES, 7, **given) for given in asked]
    monkeypatch.setattr(SparseStrategy, "build", lambda *_, **__: pytest.fail("BM25 is built"))
    assert stored(database) == (60, 0, 0)
    with RetrievalEngine(database, embedder=EMBEDDER) as engine:
        for given, wanted in zip(asked, every, strict=True):
            found = engine.batch_search("kb", QUERIES, 7, **given)
            assert found == [engine.search("kb", query, 7, **given) for query in QUERIES]
            assert list(map(ranked, found)) == list(map(ranked, wanted)), given
            assert scores(found) == pytest.approx(scores(wanted), abs=2e-6)
            assert [one.metadata for one in found[0]] == [one.metadata for one in wanted[0]]
            assert found[0] and found[1] and not found[7] and not found[8]


def test_a_chunk_that_shares_only_function_words_does_not_match(
    database: Database, nothing_is_downloaded: None
) -> None:
    # "of", "the" and "is" are in many of them, and in some more often than "roof" is in any.
    said = {at: f"{'what is of the ' * (at % 7)} {'roof' if at < 3 else 'fee'}" for at in range(99)}
    documents = [Document(id=f"d{at:02}", text=f"{text} {at}") for at, text in said.items()]
    stored(database, documents)
    with RetrievalEngine(database, embedder=EMBEDDER) as engine:
        found = engine.search("kb", "what is the roof of the zebra", 10, strategy="sparse")
        assert sorted(ranked(found)) == ["d00", "d01", "d02"]
        assert engine.search("kb", "what is the zebra", 10, strategy="sparse") == []
        # Without any other word they are what is asked for.
        assert len(engine.search("kb", "what is the", 10, strategy="sparse")) == 10
        limited = engine.search("kb", "what is the roof of the zebra", 10, 0.2, strategy="sparse")
        assert limited == [chunk for chunk in found if (chunk.score or 0.0) >= 0.2]


def test_the_best_is_found_however_many_rank_before_it_by_the_words_that_show(
    database: Database,
) -> None:
    # "roof" is in nearly all, "what is" in two: one has no roof, the other is the longest one.
    texts = {f"d{at:02}": "roof fee" for at in range(60)}
    texts |= {"idle": "what is", "long": f"roof what is {'fee ' * 9}"}
    documents = [Document(id=id, text=text) for id, text in texts.items()]
    stored(database, documents)
    with own(documents) as one, RetrievalEngine(database, embedder=EMBEDDER) as other:
        for k in (1, 3):
            (found,) = other.batch_search("kb", ["what is the roof"], k, strategy="sparse")
            (wanted,) = one.batch_search("kb", ["what is the roof"], k, strategy="sparse")
            assert ranked(found) == ["long", "d00", "d01"][:k] == ranked(wanted)
            assert scores([found]) == pytest.approx(scores([wanted]), abs=2e-6)


def test_a_word_weighs_its_inverse_document_frequency(
    database: Database, nothing_is_downloaded: None
) -> None:
    texts = ["rent", "rent and fee", "garden", "fee fee fee", "rent"]
    stored(database, [Document(id=str(at), text=text) for at, text in enumerate(texts)])
    store = database.open("kb")
    assert store.words is not None
    # Nine words in five chunks.
    assert store.words.average == pytest.approx(9 / 5)
    numbers = [word_number(word) for word in ("rent", "fee", "zebra")]
    rent, fee = math.log(1 + 2.5 / 3.5), math.log(1 + 3.5 / 2.5)
    assert store.word_weights(numbers) == [pytest.approx(rent), pytest.approx(fee), None]
    strategy = StoredWordsStrategy(store=store, words=store.words)
    assert strategy.idf("fee") == pytest.approx(fee)
    assert strategy.idf("zebra") == pytest.approx(math.log(1 + 5.5 / 0.5))
    # "garden": one word where 1.8 are the average.
    has = 1 / (1 + 1.2 * (0.25 + 0.75 / 1.8))
    (found,) = store.search_words([{word_number("garden"): 0.5}], k=2)
    assert ranked(found) == ["2"]
    assert found[0].score == pytest.approx(0.5 * math.log(1 + 4.5 / 1.5) * has, abs=1e-6)


def test_what_is_changed_added_and_removed_is_ranked(opened: Opening) -> None:
    new = Document(id=DOCUMENTS[0].id, text="A new clause on the boiler.")
    added = Document(id="added", text="The boiler and the roof of flat 99 are new.")
    changed = [new, *DOCUMENTS[3:], added]
    database = opened()
    stored(database)
    database.close()
    database = opened()
    # Nothing said: the collection stays one that the store ranks.
    assert index(database, changed) == (2, 57, 2)
    assert database.open("kb").words is not None
    queries = [*QUERIES, "boiler", "the boiler of the roof"]
    with own(changed) as one, RetrievalEngine(database, embedder=EMBEDDER) as other:
        wanted = one.batch_search("kb", queries, 5, strategy="sparse")
        found = other.batch_search("kb", queries, 5, strategy="sparse")
    assert [set(ranked(one)) for one in found] == [set(ranked(one)) for one in wanted]
    # Not equal, for the average length is that of the first 60.
    assert scores(found) == pytest.approx(scores(wanted), abs=0.02)
    assert ranked(found[-2])[:2] == ["doc 0/é", "added"]
    store = database.open("kb")
    assert store.words is not None
    # Two of 59, whatever was there before.
    strategy = StoredWordsStrategy(store=store, words=store.words)
    assert strategy.idf("boiler") == pytest.approx(math.log(1 + 57.5 / 2.5))
    database.close()


def test_a_collection_stays_as_it_was_made(database: Database) -> None:
    index(database, words="here", collection="plain")
    stored(database)
    assert database.open("plain").info().words is None
    with pytest.raises(ConfigError, match="'plain' was made to be ranked by ragbench by words"):
        stored(database, collection="plain")
    with pytest.raises(ConfigError, match="'kb' was made to be ranked by the store by words"):
        index(database, words="here")
    with RetrievalEngine(database, embedder=EMBEDDER) as engine:
        built = engine.search("plain", "rent and fee", 5, strategy="sparse")
        assert ranked(built) == ranked(engine.search("kb", "rent and fee", 5, strategy="sparse"))


def test_words_of_another_release_are_not_searched_by(database: Database) -> None:
    words = words_of("store", database, "kb", DOCUMENTS, WHOLE)
    assert words is not None
    stored(database, collection="other")
    identity = database.open("other").info().identity
    other = replace(words, tokeniser="0")
    store = database.create("kb", dimension=64, identity=identity, words=other)
    with pytest.raises(StoreError, match="cut by another release of ragbench"):
        store.upsert([Chunk(id="a", text="rent")], EMBEDDER.embed_passages(["rent"]))
    with (
        RetrievalEngine(database, embedder=EMBEDDER, allow_incomplete=True) as engine,
        pytest.raises(StoreError, match="cut by another release of ragbench"),
    ):
        engine.search("kb", "rent", strategy="sparse")
