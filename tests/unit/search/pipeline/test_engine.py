"""Search by vectors, by words and by both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from ragbench import Chunk, Document, index, open_engine
from ragbench.core.readable_metadata import LEGS
from ragbench.errors import ConfigError, RagbenchWarning, StoreError
from ragbench.search.embedders.embedder import CosineScale
from ragbench.search.pipeline import sparse_index
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.search_engine import RetrievalEngine, check_index
from ragbench.search.pipeline.sparse_index import SparseStrategy, kept_index, sparse_cache_folder
from ragbench.search.pipeline.strategies import RetrievalSettings, Search, StrategyName
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import open_database
from ragbench.search.stores.memory import MemoryDatabase
from tests.unit.search.pipeline.builders import Forgetful, chunk, database

CHUNKS = [
    chunk("rent", "The rent is due on the first day of each month.", year=2023, kind="lease"),
    chunk("fee", "A late fee is charged when the rent is late.", year=2022, kind="lease"),
    chunk("dog", "Dogs are allowed in the garden.", year=2023, kind="house"),
    chunk("合同", "合同条款规定了付款的期限。", year=2023, kind="lease"),
]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)


def engine(**settings: Any) -> RetrievalEngine:
    return RetrievalEngine(database(CHUNKS), settings=RetrievalSettings(**settings))


def ids(ranking: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in ranking]


def scores(ranking: list[Chunk]) -> list[float]:
    return [chunk.score or 0.0 for chunk in ranking]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_finds_what_shares_words(strategy: StrategyName) -> None:
    ranking = engine().search("kb", "Is rent due on the first day?", strategy=strategy)

    assert ranking[0].id == "rent"
    assert ranking[0].text == "The rent is due on the first day of each month."
    assert scores(ranking) == sorted(scores(ranking), reverse=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_metadata_are_the_chunk_s_own_and_in_a_hybrid_search_its_legs(
    strategy: StrategyName,
) -> None:
    ranking = engine().search("kb", "Is rent due on the first day?", strategy=strategy)

    metadata = dict(ranking[0].metadata)
    legs = metadata.pop(LEGS, None)
    assert metadata == {"year": 2023, "kind": "lease"}
    assert (legs is not None) == (strategy == "hybrid")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("query", ["", "  ", "\x00", "zzxqy vvkw", "!?"])
def test_a_query_that_says_nothing_finds_nothing(strategy: StrategyName, query: str) -> None:
    scale = CosineScale(background=0.2)

    with RetrievalEngine(database(CHUNKS, scale)) as opened:
        assert opened.search("kb", query, strategy=strategy) == []


# --- thresholds


def test_the_threshold_holds_on_the_calibrated_scale() -> None:
    # On this scale a cosine of 0.5 scores 0.
    scale = CosineScale(background=0.5)

    with RetrievalEngine(database(CHUNKS, scale)) as opened:
        ranking = opened.search(
            "kb", "Dogs are allowed in the garden.", score_threshold=0.0, strategy="dense"
        )

    assert ids(ranking) == ["dog"]
    assert ranking[0].score == pytest.approx(1.0)


def test_without_a_threshold_scores_reach_below_zero() -> None:
    scale = CosineScale(background=0.5)

    with RetrievalEngine(database(CHUNKS, scale)) as opened:
        ranking = opened.search("kb", "Dogs are allowed in the garden.", strategy="dense")

    assert len(ranking) == 4
    # A cosine near 0 scores (0 - 0.5) / (1 - 0.5).
    assert ranking[-1].score == pytest.approx(-1.0, abs=0.5)


def test_a_hybrid_search_finds_nothing_where_no_leg_passes_the_threshold() -> None:
    assert engine().search("kb", "rent", score_threshold=0.99) == []


def test_a_hybrid_search_finds_what_either_leg_finds_above_the_threshold() -> None:
    searched = engine()

    dense = searched.search("kb", "rent due", score_threshold=0.3, strategy="dense")
    sparse = searched.search("kb", "rent due", score_threshold=0.3, strategy="sparse")
    hybrid = searched.search("kb", "rent due", score_threshold=0.3)

    assert set(ids(hybrid)) == {*ids(dense), *ids(sparse)}


def test_sparse_scores_are_shares_of_the_query_and_rank_like_bm25() -> None:
    shares = engine().search("kb", "rent late month", strategy="sparse")
    [bm25] = Bm25Index(CHUNKS).batch_search(["rent late month"], 4)

    assert ids(shares) == ids(bm25)
    for share in scores(shares):
        assert 0 < share < 1
    # One divisor for all: what the query could reach at most.
    divisor = scores(bm25)[0] / scores(shares)[0]
    multiplied = [share * divisor for share in scores(shares)]
    assert multiplied == pytest.approx(scores(bm25), rel=1e-4)


# --- hybrid


def test_a_hybrid_search_keeps_what_each_leg_says() -> None:
    searched = engine()
    rankings = {
        "dense": searched.search("kb", "rent due", strategy="dense"),
        "sparse": searched.search("kb", "rent due", strategy="sparse"),
    }

    for chunk_of_both in searched.search("kb", "rent due"):
        expected_legs: dict[str, dict[str, float]] = {}
        for leg, ranking in rankings.items():
            for rank, chunk_of_leg in enumerate(ranking, start=1):
                if chunk_of_leg.id == chunk_of_both.id:
                    score = round(chunk_of_leg.score or 0, 4)
                    expected_legs[leg] = {"rank": rank, "score": score}
        assert chunk_of_both.metadata[LEGS] == expected_legs


def test_a_hybrid_score_is_the_sum_of_reciprocal_ranks() -> None:
    for hybrid_chunk in engine().search("kb", "rent due"):
        legs = hybrid_chunk.metadata[LEGS].values()
        reciprocal_ranks = [1 / (60 + leg["rank"]) for leg in legs]
        assert hybrid_chunk.score == pytest.approx(sum(reciprocal_ranks))


def test_a_leg_that_counts_nothing_brings_nothing_in() -> None:
    sparse = engine().search("kb", "rent due", strategy="sparse")

    without_dense = engine(dense_weight=0).search("kb", "rent due", top_k=10)

    assert ids(without_dense) == ids(sparse)


# --- kept BM25 indexes


@pytest.fixture
def large_database() -> MemoryDatabase:
    """2000 chunks, so many that their index is kept; only c0007 says "word7"."""
    chunks = [chunk(f"c{number:04}", f"word{number} and more") for number in range(2000)]
    return database(chunks)


def best_for_word7(opened: MemoryDatabase, sparse_folder: Path) -> list[str]:
    with RetrievalEngine(opened, sparse_folder=sparse_folder) as searched:
        return ids(searched.search("kb", "word7", strategy="sparse"))


def test_a_large_collection_s_index_is_kept_and_built_anew_for_a_changed_collection(
    large_database: MemoryDatabase, tmp_path: Path
) -> None:
    assert best_for_word7(large_database, tmp_path) == ["c0007"]

    # What is kept is changed behind the engine's back: only who reads it finds "kept7".
    [folder] = tmp_path.iterdir()
    kept_ids = folder / "ids.json"
    kept_ids.write_text(kept_ids.read_text().replace("c0007", "kept7"))
    store = large_database.open("kb")
    vector = np.zeros((1, 512), dtype=np.float32)
    vector[0, 0] = 1.0
    store.upsert([chunk("kept7", "x")], vector)
    store.delete(["c0007"])
    assert best_for_word7(large_database, tmp_path) == ["kept7"]

    # Now the collection has a chunk less than what is kept.
    store.delete(["kept7"])
    assert best_for_word7(large_database, tmp_path) == []


@pytest.mark.parametrize(
    ("setting", "folder"),
    [
        pytest.param({}, "/home/ada/cache/ragbench/bm25", id="in the user's cache"),
        pytest.param({"RAGBENCH_BM25_CACHE": "off"}, None, id="nowhere"),
        pytest.param({"RAGBENCH_BM25_CACHE": "here"}, "here", id="in a folder of one's own"),
    ],
)
def test_kept_indexes_have_one_place(setting: dict[str, str], folder: str | None) -> None:
    environment = {"XDG_CACHE_HOME": "/home/ada/cache", **setting}

    place = sparse_cache_folder(environment)

    assert place == (None if folder is None else Path(folder))


@pytest.fixture
def three_kept(tmp_path: Path) -> OwnCollection:
    """A store whose index is kept three times: last used at 70, 80 and 90 seconds after 1970."""
    store = database(CHUNKS).open("kb")
    for last_used, name in ((70, "oldest"), (80, "middle"), (90, "latest")):
        kept_index(tmp_path / name, store)
        os.utime(tmp_path / name, (last_used, last_used))
    return store


def test_a_kept_index_is_read_and_not_built(
    three_kept: OwnCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = SparseStrategy.build(three_kept)
    monkeypatch.setattr(SparseStrategy, "build", lambda _: pytest.fail("it is kept"))

    from_folder = kept_index(tmp_path / "oldest", three_kept)

    search = Search(k=3)
    assert from_folder.retrieve(["rent"], search) == built.retrieve(["rent"], search)


def test_of_too_many_kept_indexes_the_one_used_longest_ago_is_removed(
    three_kept: OwnCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(file.stat().st_size for file in (tmp_path / "oldest").iterdir())
    monkeypatch.setattr(sparse_index, "_MAX_CACHE_BYTES", 3 * size)

    # Used now, so that it is no longer the oldest.
    kept_index(tmp_path / "oldest", three_kept)
    kept_index(tmp_path / "new", three_kept)

    remaining = {path.name for path in tmp_path.iterdir()}
    assert remaining == {"oldest", "latest", "new"}


def test_an_index_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    with database(CHUNKS).open("kb") as store:
        index = kept_index(tmp_path / "file" / "in", store)
        [ranking] = index.retrieve(["dogs"], Search(k=1))

    assert ids(ranking) == ["dog"]


def messages(recwarn: pytest.WarningsRecorder) -> list[str]:
    return [str(warning.message) for warning in recwarn if warning.category is RagbenchWarning]


def test_what_a_large_index_takes_is_said_when_it_is_built(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sparse_index, "_LARGE", 3)

    with open_database("memory:").create("x", dimension=2) as store:
        for id in ("0", "1"):
            store.upsert([Chunk(id=id, text="rent is due in May")], np.ones((1, 2)))
            SparseStrategy.build(store)
        messages_of_two_chunks = messages(recwarn)

        store.upsert([Chunk(id="2", text="rent is due in May")], np.ones((1, 2)))
        SparseStrategy.build(store)

    assert messages_of_two_chunks == []
    (message,) = messages(recwarn)
    assert message.startswith("BM25 is built of all 3 chunks, once, in this process")
    assert "into Qdrant with --words store" in message


# --- settings


def test_an_empty_environment_leaves_the_defaults() -> None:
    assert RetrievalSettings.from_environment({}) == RetrievalSettings(top_k=4)


def test_the_environment_is_read_by_the_specification_s_names_and_by_ours() -> None:
    environment = {
        "DEFAULT_SCORE_THRESHOLD": "0.25",
        "RETRIEVAL_STRATEGY": "sparse",
        "RAGBENCH_RRF_K": "10",
    }

    settings = RetrievalSettings.from_environment(environment)

    assert settings == RetrievalSettings(top_k=4, score_threshold=0.25, strategy="sparse", rrf_k=10)


def test_our_own_variable_goes_before_the_specification_s() -> None:
    environment = {"DEFAULT_TOP_K": "7", "RAGBENCH_TOP_K": "9"}

    assert RetrievalSettings.from_environment(environment).top_k == 9


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("DEFAULT_TOP_K", "0", "top_k must be at least 1"),
        ("DEFAULT_SCORE_THRESHOLD", "nan", "must be a number"),
        ("RETRIEVAL_STRATEGY", "both", "dense, sparse, hybrid"),
        ("RAGBENCH_DENSE_WEIGHT", "-1", "at least 0"),
    ],
)
def test_a_wrong_value_names_its_variable(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        RetrievalSettings.from_environment({variable: value})

    assert str(caught.value).startswith(variable)


def test_two_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="one of the weights must be above 0"):
        RetrievalSettings(dense_weight=0, sparse_weight=0)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a store in a folder whose collection ``kb`` has three documents."""
    address = f"memory:{tmp_path_factory.mktemp('store')}"
    documents = [
        Document(id="desk", text="The desk is open."),
        Document(id="gate", text="The gate is open."),
        Document(id="pool", text="The pool is open."),
    ]
    index(documents, address, "kb", embedder="hashing:256", chunker="whole")
    return address


def test_the_specification_s_variables_hold_for_a_search_in_python(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_TOP_K", "2")
    monkeypatch.setenv("RETRIEVAL_STRATEGY", "sparse")

    with open_engine(address) as opened:
        ranking = opened.search("kb", "What is open?")

    assert len(ranking) == 2
    assert LEGS not in ranking[0].metadata, "a hybrid search would have its legs"


def test_an_argument_of_a_search_goes_before_the_variables(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_TOP_K", "2")

    with open_engine(address) as opened:
        assert len(opened.search("kb", "What is open?", top_k=3)) == 3


def test_the_threshold_of_the_environment_holds_unless_a_search_has_its_own(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVAL_STRATEGY", "sparse")
    monkeypatch.setenv("DEFAULT_SCORE_THRESHOLD", "0.99")

    with open_engine(address) as opened:
        assert opened.search("kb", "What is open?") == []
        assert len(opened.search("kb", "What is open?", score_threshold=0.0)) == 3


def test_settings_in_python_go_before_the_variables(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_TOP_K", "none")

    with open_engine(address, settings=RetrievalSettings(top_k=1)) as opened:
        assert len(opened.search("kb", "What is open?")) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"score_threshold": float("nan")}, "score_threshold must be a finite number"),
        ({"strategy": "both"}, "strategy must be one of dense, sparse, hybrid"),
    ],
)
def test_a_search_refuses_an_argument_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        engine().search("kb", "rent", **wrong)


# --- what a store's index misses, against an exact search

# On a line of angles: the neighbours of a chunk are those next to it.
ANGLES = np.linspace(0.0, 1.0, 20)
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
CHUNKS_ON_A_LINE = [Chunk(id=f"c{number:02}", text=f"text {number}") for number in range(20)]


def test_an_exact_index_needs_no_measuring() -> None:
    exact_store = Forgetful(CHUNKS_ON_A_LINE, "", VECTORS).store

    check = check_index(exact_store)

    assert check.is_exact
    assert check.overlap == 1.0
    assert check.queries == 0
    assert str(check) == "c: exact, every vector is compared"


def test_what_an_index_misses_is_counted() -> None:
    store: Any = Forgetful(CHUNKS_ON_A_LINE, "c10", VECTORS)

    check = check_index(store, k=2)

    # c10 is among the two nearest of its two neighbours alone, and c10 itself finds its own two:
    # two of the 20 queries find one of two.
    assert check.queries == 20
    assert check.overlap == pytest.approx(1 - 2 * 0.5 / 20)
    assert str(check).startswith("c: the store's index finds 0.950 (")


def test_a_single_chunk_is_too_little_to_search() -> None:
    store: Any = Forgetful(CHUNKS_ON_A_LINE[:1], "c10", VECTORS[:1])

    with pytest.raises(StoreError, match="fewer than two chunks"):
        check_index(store, k=10)


def test_an_index_is_not_checked_for_no_chunks() -> None:
    store: Any = Forgetful(CHUNKS_ON_A_LINE, "c10", VECTORS)

    with pytest.raises(ConfigError, match="at least 1"):
        check_index(store, k=0)
