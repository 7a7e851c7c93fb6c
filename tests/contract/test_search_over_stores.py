"""Indexing and search give the same over every engine; what ranks by words, as our own BM25."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
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
from tests.contract.store_engines import ENGINES, Opening, UnderTest

EMBEDDER = HashingEmbedder(dimension=64)
WHOLE = make_chunker("whole")
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)


SUBJECTS = ("rent", "fee", "garden", "dog", "key", "合同", "付款", "notice", "heating", "roof")


def sixty_documents() -> list[Document]:
    """Two subjects of ten in each title sentence, so that every query below has many hits."""
    documents: list[Document] = []
    for number in range(60):
        # Different steps through the subjects, so that they meet in many pairs.
        subject = SUBJECTS[number % 10]
        second_subject = SUBJECTS[number * 7 % 10]
        third_subject = SUBJECTS[number * 3 % 10]
        fourth_subject = SUBJECTS[number % 9]
        sentences = [
            f"The {subject} and the {second_subject}",
            f"of flat {number % 13}.",
            f"{third_subject} {fourth_subject} number {number}.",
            # Of different lengths: engines add up in single precision, each in its own order, so
            # that exact ties would come in any order.
            "more " * number,
        ]
        document = Document(
            id=f"doc {number}/é",
            text=" ".join(sentences),
            title=f"Part {number % 4}",
            metadata={"year": 2020 + number % 5, "source": f"file {number % 3}.pdf"},
        )
        documents.append(document)
    return documents


DOCUMENTS = sixty_documents()
UNKNOWN_WORDS = "zzz"
NO_WORDS = ""
QUERIES = [
    "rent and fee",
    "付款 合同",
    "dog in the garden of flat 7",
    "rent rent rent roof",
    "what is the roof of the zebra",
    "the zebra",
    "the and of",
    UNKNOWN_WORDS,
    NO_WORDS,
    "number 31 roof",
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


def engine_of(database: Database) -> RetrievalEngine:
    return RetrievalEngine(database, embedder=EMBEDDER)


def own_engine(documents: list[Document] = DOCUMENTS) -> RetrievalEngine:
    """The same collection in memory, ranked by ragbench."""
    database = MemoryDatabase()
    index(database, documents, words="here")
    return engine_of(database)


# Those that rank by words themselves.
WORD_ENGINES = [engine for engine in ENGINES if engine.name.startswith("qdrant")]


@pytest.fixture(params=WORD_ENGINES, ids=lambda engine: engine.name)
def open_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opening]:
    with request.param.started(tmp_path_factory) as opening:
        yield opening


@pytest.fixture
def database(open_store: Opening) -> Iterator[Database]:
    database = open_store()
    yield database
    database.close()


@pytest.fixture(scope="module", params=WORD_ENGINES, ids=lambda engine: engine.name)
def word_engine(request: pytest.FixtureRequest) -> UnderTest[Opening]:
    """For collections that several tests search and none changes: each is indexed once."""
    engine: UnderTest[Opening] = request.param
    return engine


def refuse_to_build_bm25(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a test fails where the chunks are fetched, to be ranked by ragbench."""
    monkeypatch.setattr(SparseStrategy, "build", lambda *_, **__: pytest.fail("BM25 is built"))


@pytest.fixture
def nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_build_bm25(monkeypatch)


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def ids_of_each(rankings: list[list[Chunk]]) -> list[list[str]]:
    return [ids(ranking) for ranking in rankings]


def all_scores(rankings: list[list[Chunk]]) -> list[float]:
    scores: list[float] = []
    for ranking in rankings:
        scores += [chunk.score or 0.0 for chunk in ranking]
    return scores


# --- every engine

in_every_engine = pytest.mark.parametrize(
    "open_store", ENGINES, ids=lambda engine: engine.name, indirect=True
)


@in_every_engine
def test_every_strategy_finds_the_same_chunks_in_every_engine(database: Database) -> None:
    index(database)

    with own_engine() as own, engine_of(database) as searched:
        for strategy in STRATEGIES:
            for filters in FILTERS:
                search: dict[str, Any] = {"filters": filters, "strategy": strategy}
                expected = own.batch_search("kb", QUERIES, 7, -1.0, **search)
                rankings = searched.batch_search("kb", QUERIES, 7, -1.0, **search)

                assert ids_of_each(rankings) == ids_of_each(expected), search
                # Some engines compute in single precision.
                assert all_scores(rankings) == pytest.approx(all_scores(expected), abs=1e-4)
                for ranking, expected_ranking in zip(rankings, expected, strict=True):
                    metadata = [chunk.metadata for chunk in ranking]
                    assert metadata == [chunk.metadata for chunk in expected_ranking]


@in_every_engine
def test_an_index_outlives_its_connection(open_store: Opening) -> None:
    database = open_store()
    assert index(database) == (60, 0, 0)
    database.close()

    database = open_store()
    assert database.open("kb").info().complete
    assert index(database) == (0, 60, 0)
    database.close()


@in_every_engine
def test_only_what_has_changed_is_written_and_removed(database: Database) -> None:
    index(database)
    changed = Document(id=DOCUMENTS[0].id, text="Changed.")
    without_the_second = [changed, *DOCUMENTS[2:]]

    counts = index(database, without_the_second)

    assert counts == (1, 58, 1)


@in_every_engine
def test_an_index_that_was_cut_short_is_refused_until_it_is_continued(
    open_store: Opening,
) -> None:
    database = open_store()
    index(database)
    database.open("kb").mark(complete=False)
    with RetrievalEngine(database) as searched, pytest.raises(StoreError, match="not complete"):
        searched.search("kb", "rent")
    database.close()

    database = open_store()
    counts = index(database)

    assert counts == (0, 60, 0)
    assert database.open("kb").info().complete
    database.close()


# --- engines that rank by words


@pytest.fixture(scope="module")
def stored_words(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """The sixty documents, ranked by the store."""
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, words="store")
        yield database
        database.close()


@pytest.mark.parametrize("strategy", ["sparse", "hybrid"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_the_store_ranks_as_ragbench_s_own_bm25(
    stored_words: Database,
    monkeypatch: pytest.MonkeyPatch,
    strategy: StrategyName,
    filters: dict[str, Any] | None,
) -> None:
    with own_engine() as own:
        expected = own.batch_search("kb", QUERIES, 7, filters=filters, strategy=strategy)
    refuse_to_build_bm25(monkeypatch)

    searched = engine_of(stored_words)
    rankings = searched.batch_search("kb", QUERIES, 7, filters=filters, strategy=strategy)

    assert ids_of_each(rankings) == ids_of_each(expected)
    assert all_scores(rankings) == pytest.approx(all_scores(expected), abs=2e-6)
    first_metadata = [chunk.metadata for chunk in rankings[0]]
    assert first_metadata == [chunk.metadata for chunk in expected[0]]
    ranking_of_query = dict(zip(QUERIES, rankings, strict=True))
    assert ranking_of_query["rent and fee"] != []
    assert ranking_of_query["付款 合同"] != []
    assert ranking_of_query[UNKNOWN_WORDS] == []
    assert ranking_of_query[NO_WORDS] == []


@pytest.mark.usefixtures("nothing_is_downloaded")
@pytest.mark.parametrize("strategy", ["sparse", "hybrid"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_query_finds_the_same_alone_as_among_others(
    stored_words: Database, strategy: StrategyName, filters: dict[str, Any] | None
) -> None:
    searched = engine_of(stored_words)

    together = searched.batch_search("kb", QUERIES, 7, filters=filters, strategy=strategy)
    alone: list[list[Chunk]] = []
    for query in QUERIES:
        alone.append(searched.search("kb", query, 7, filters=filters, strategy=strategy))

    assert together == alone


@pytest.fixture(scope="module")
def three_roofs(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RetrievalEngine]:
    """99 chunks: the first three say "roof", the others "fee".

    "of", "the" and "is" are in many of them, and in some more often than "roof" is in any.
    """
    documents: list[Document] = []
    for number in range(99):
        function_words = "what is of the " * (number % 7)
        subject = "roof" if number < 3 else "fee"
        text = f"{function_words} {subject} {number}"
        documents.append(Document(id=f"d{number:02}", text=text))
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, documents, words="store")
        with engine_of(database) as searched:
            yield searched
        database.close()


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_a_chunk_that_shares_only_function_words_does_not_match(
    three_roofs: RetrievalEngine,
) -> None:
    roofs = three_roofs.search("kb", "what is the roof of the zebra", 10, strategy="sparse")
    zebras = three_roofs.search("kb", "what is the zebra", 10, strategy="sparse")

    assert sorted(ids(roofs)) == ["d00", "d01", "d02"]
    assert zebras == []


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_a_query_of_function_words_alone_is_searched_by_them(
    three_roofs: RetrievalEngine,
) -> None:
    chunks = three_roofs.search("kb", "what is the", 10, strategy="sparse")

    assert len(chunks) == 10


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_a_threshold_holds_for_what_the_store_ranks(three_roofs: RetrievalEngine) -> None:
    query = "what is the roof of the zebra"

    unlimited = three_roofs.search("kb", query, 10, strategy="sparse")
    limited = three_roofs.search("kb", query, 10, 0.2, strategy="sparse")

    assert limited == [chunk for chunk in unlimited if (chunk.score or 0.0) >= 0.2]


def test_the_best_chunk_is_found_however_many_rank_before_it_by_its_rare_words(
    database: Database,
) -> None:
    # "roof" is in nearly all chunks, "what is" in two: "idle" has no roof, "long" is the longest.
    texts = {f"d{number:02}": "roof fee" for number in range(60)}
    texts["idle"] = "what is"
    texts["long"] = f"roof what is {'fee ' * 9}"
    documents = [Document(id=id, text=text) for id, text in texts.items()]
    index(database, documents, words="store")
    queries = ["what is the roof"]

    with own_engine(documents) as own, engine_of(database) as searched:
        expected = own.batch_search("kb", queries, 3, strategy="sparse")
        best_three = searched.batch_search("kb", queries, 3, strategy="sparse")
        best_chunk = searched.batch_search("kb", queries, 1, strategy="sparse")

    assert ids_of_each(expected) == [["long", "d00", "d01"]]
    assert ids_of_each(best_three) == [["long", "d00", "d01"]]
    assert ids_of_each(best_chunk) == [["long"]]
    scores = all_scores(expected)
    assert all_scores(best_three) == pytest.approx(scores, abs=2e-6)
    assert all_scores(best_chunk) == pytest.approx(scores[:1], abs=2e-6)


@pytest.fixture(scope="module")
def five_chunks(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """Nine words in five chunks: "rent" in three of them, "fee" in two, "garden" in one."""
    documents = [
        Document(id="0", text="rent"),
        Document(id="1", text="rent and fee"),
        Document(id="2", text="garden"),
        Document(id="3", text="fee fee fee"),
        Document(id="4", text="rent"),
    ]
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, documents, words="store")
        yield database
        database.close()


# log(1 + (N - n + 0.5) / (n + 0.5)) of a word that is in n of N = 5 chunks.
IDF_OF_RENT = math.log(1 + 2.5 / 3.5)
IDF_OF_FEE = math.log(1 + 3.5 / 2.5)
IDF_OF_GARDEN = math.log(1 + 4.5 / 1.5)
IDF_OF_UNKNOWN = math.log(1 + 5.5 / 0.5)


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_the_average_length_of_chunks_is_kept(five_chunks: Database) -> None:
    words = five_chunks.open("kb").words

    assert words is not None
    assert words.average == pytest.approx(9 / 5)


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_a_word_weighs_its_inverse_document_frequency(five_chunks: Database) -> None:
    store = five_chunks.open("kb")
    numbers = [word_number("rent"), word_number("fee"), word_number("zebra")]

    weights = store.word_weights(numbers)

    assert weights == [pytest.approx(IDF_OF_RENT), pytest.approx(IDF_OF_FEE), None]


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_a_word_that_is_in_no_chunk_is_the_rarest(five_chunks: Database) -> None:
    store = five_chunks.open("kb")
    assert store.words is not None
    strategy = StoredWordsStrategy(store=store, words=store.words)

    assert strategy.idf("fee") == pytest.approx(IDF_OF_FEE)
    assert strategy.idf("zebra") == pytest.approx(IDF_OF_UNKNOWN)


@pytest.mark.usefixtures("nothing_is_downloaded")
def test_the_store_scores_by_the_formula_of_bm25(five_chunks: Database) -> None:
    weight_in_query = 0.5
    # With k1 = 1.2 and b = 0.75: the chunk has one word where 1.8 are the average.
    saturation = 1 / (1 + 1.2 * (0.25 + 0.75 / 1.8))

    query = {word_number("garden"): weight_in_query}
    (chunks,) = five_chunks.open("kb").search_words([query], k=2)

    (chunk,) = chunks
    assert chunk.id == "2"
    expected = weight_in_query * IDF_OF_GARDEN * saturation
    assert chunk.score == pytest.approx(expected, abs=1e-6)


# --- a collection that is ranked by the store, and changed

CHANGED_DOCUMENTS = [
    Document(id=DOCUMENTS[0].id, text="A new clause on the boiler."),
    *DOCUMENTS[3:],
    Document(id="added", text="The boiler and the roof of flat 99 are new."),
]
"""The first document is changed, the second and third are gone, and one is new."""


@pytest.fixture(scope="module")
def changed_database(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """Indexed for the store's own ranking, then opened again and indexed without saying so."""
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, words="store")
        database.close()

        database = opening()
        assert index(database, CHANGED_DOCUMENTS) == (2, 57, 2)
        yield database
        database.close()


def test_a_collection_that_the_store_ranks_stays_one(changed_database: Database) -> None:
    assert changed_database.open("kb").words is not None


def test_what_is_changed_added_and_removed_is_ranked(changed_database: Database) -> None:
    queries = [*QUERIES, "boiler", "the boiler of the roof"]

    searched = engine_of(changed_database)
    with own_engine(CHANGED_DOCUMENTS) as own:
        expected = own.batch_search("kb", queries, 5, strategy="sparse")
        rankings = searched.batch_search("kb", queries, 5, strategy="sparse")

    for ranking, expected_ranking in zip(rankings, expected, strict=True):
        assert set(ids(ranking)) == set(ids(expected_ranking))
    # Not equal, for the average length is that of the first 60.
    assert all_scores(rankings) == pytest.approx(all_scores(expected), abs=0.02)
    ranking_of_boiler = rankings[queries.index("boiler")]
    assert ids(ranking_of_boiler)[:2] == ["doc 0/é", "added"]


def test_words_of_removed_chunks_are_no_longer_counted(changed_database: Database) -> None:
    store = changed_database.open("kb")
    assert store.words is not None
    strategy = StoredWordsStrategy(store=store, words=store.words)

    # In two chunks of 59.
    idf_of_boiler = math.log(1 + 57.5 / 2.5)
    assert strategy.idf("boiler") == pytest.approx(idf_of_boiler)


@pytest.fixture(scope="module")
def both_kinds(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """The collections "by ragbench" and "by store", named after what ranks them by words."""
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, words="here", collection="by ragbench")
        index(database, words="store", collection="by store")
        yield database
        database.close()


def test_a_collection_that_ragbench_ranks_is_not_handed_to_the_store(
    both_kinds: Database,
) -> None:
    message = "'by ragbench' was made to be ranked by ragbench by words"
    with pytest.raises(ConfigError, match=message):
        index(both_kinds, words="store", collection="by ragbench")

    assert both_kinds.open("by ragbench").info().words is None


def test_a_collection_that_the_store_ranks_is_not_handed_to_ragbench(
    both_kinds: Database,
) -> None:
    message = "'by store' was made to be ranked by the store by words"
    with pytest.raises(ConfigError, match=message):
        index(both_kinds, words="here", collection="by store")

    assert both_kinds.open("by store").info().words is not None


def test_collections_of_either_kind_are_searched_side_by_side(both_kinds: Database) -> None:
    searched = engine_of(both_kinds)

    by_ragbench = searched.search("by ragbench", "rent and fee", 5, strategy="sparse")
    by_store = searched.search("by store", "rent and fee", 5, strategy="sparse")

    assert len(by_ragbench) == 5
    assert ids(by_ragbench) == ids(by_store)


# --- words that another release of ragbench has cut


@pytest.fixture(scope="module")
def other_release(
    word_engine: UnderTest[Opening], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """The collection "kb" whose words are not those that this release would cut."""
    with word_engine.started(tmp_path_factory) as opening:
        database = opening()
        index(database, DOCUMENTS[:1], words="store", collection="template")
        identity = database.open("template").info().identity
        words = words_of("store", database, "kb", DOCUMENTS, WHOLE)
        assert words is not None
        words_of_other_release = replace(words, tokeniser="0")
        database.create("kb", dimension=64, identity=identity, words=words_of_other_release)
        yield database
        database.close()


def test_chunks_are_not_added_to_words_of_another_release(other_release: Database) -> None:
    store = other_release.open("kb")
    chunk = Chunk(id="a", text="rent")
    vectors = EMBEDDER.embed_passages(["rent"])

    with pytest.raises(StoreError, match="cut by another release of ragbench"):
        store.upsert([chunk], vectors)


def test_words_of_another_release_are_not_searched_by(other_release: Database) -> None:
    with (
        RetrievalEngine(other_release, embedder=EMBEDDER, allow_incomplete=True) as searched,
        pytest.raises(StoreError, match="cut by another release of ragbench"),
    ):
        searched.search("kb", "rent", strategy="sparse")
