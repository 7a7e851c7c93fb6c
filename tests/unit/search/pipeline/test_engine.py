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
from ragbench.search.stores.database import open_database
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


def ids(found: list[Chunk]) -> list[str]:
    return [each.id for each in found]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_finds_what_shares_words(strategy: StrategyName) -> None:
    found = engine().search("kb", "Is rent due on the first day?", strategy=strategy)
    assert found[0].id == "rent"
    assert found[0].text == CHUNKS[0].text
    shown = {name: value for name, value in found[0].metadata.items() if name != LEGS}
    assert shown == {"year": 2023, "kind": "lease"}
    assert (LEGS in found[0].metadata) == (strategy == "hybrid")
    scores = [each.score or 0.0 for each in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("query", ["", "  ", "\x00", "zzxqy vvkw", "!?"])
def test_a_query_that_says_nothing_finds_nothing(strategy: StrategyName, query: str) -> None:
    scale = CosineScale(background=0.2)
    with RetrievalEngine(database(CHUNKS, scale)) as opened:
        assert opened.search("kb", query, strategy=strategy) == []


def test_the_threshold_holds_on_the_calibrated_scale() -> None:
    scale = CosineScale(background=0.5)
    with RetrievalEngine(database(CHUNKS, scale)) as opened:
        exact = opened.search("kb", CHUNKS[2].text, score_threshold=0.0, strategy="dense")
        assert ids(exact) == ["dog"]
        assert exact[0].score == pytest.approx(1.0)
        everything = opened.search("kb", CHUNKS[2].text, strategy="dense")
        assert len(everything) == 4
        assert everything[-1].score == pytest.approx(-1.0, abs=0.5)


def test_the_threshold_holds_for_each_leg_of_hybrid() -> None:
    opened = engine()
    assert ids(opened.search("kb", "rent", score_threshold=0.99)) == []
    dense = ids(opened.search("kb", "rent due", score_threshold=0.3, strategy="dense"))
    sparse = ids(opened.search("kb", "rent due", score_threshold=0.3, strategy="sparse"))
    both = ids(opened.search("kb", "rent due", score_threshold=0.3))
    assert set(both) == {*dense, *sparse}


def test_sparse_scores_are_shares_of_the_query_and_rank_like_bm25() -> None:
    found = engine().search("kb", "rent late month", strategy="sparse")
    [plain] = Bm25Index(CHUNKS).batch_search(["rent late month"], 4)
    assert ids(found) == ids(plain)
    ratios = {round((a.score or 0) / (b.score or 1), 5) for a, b in zip(found, plain, strict=True)}
    assert len(ratios) == 1
    assert all(0 < (each.score or 0) < 1 for each in found)


def test_a_hybrid_search_keeps_what_each_leg_says() -> None:
    opened = engine()
    dense = opened.search("kb", "rent due", strategy="dense")
    sparse = opened.search("kb", "rent due", strategy="sparse")
    for one in opened.search("kb", "rent due"):
        legs = {
            name: {"rank": ids(ranking).index(one.id) + 1, "score": round(other.score or 0, 4)}
            for name, ranking in (("dense", dense), ("sparse", sparse))
            for other in ranking
            if other.id == one.id
        }
        assert one.metadata[LEGS] == legs
        shares = [1 / (60 + leg["rank"]) for leg in legs.values()]
        assert one.score == pytest.approx(sum(shares))
    alone = engine(dense_weight=0).search("kb", "rent due", top_k=10)
    assert ids(alone) == ids(sparse), "what counts nothing brings nothing in"


def test_a_large_collection_s_index_is_kept_until_the_collection_changes(tmp_path: Path) -> None:
    many = [chunk(f"c{at:04}", f"word{at} and more") for at in range(2000)]
    opened = database(many)
    with RetrievalEngine(opened, sparse_folder=tmp_path) as first:
        assert ids(first.search("kb", "word7", strategy="sparse")) == ["c0007"]
    [kept] = tmp_path.iterdir()
    (kept / "ids.json").write_text((kept / "ids.json").read_text().replace("c0007", "kept7"))
    opened.open("kb").upsert([chunk("kept7", "x")], [[1.0] + [0.0] * 511])  # type: ignore[arg-type]
    opened.open("kb").delete(["c0007"])
    with RetrievalEngine(opened, sparse_folder=tmp_path) as second:
        assert ids(second.search("kb", "word7", strategy="sparse")) == ["kept7"]
    opened.open("kb").delete(["kept7"])
    with RetrievalEngine(opened, sparse_folder=tmp_path) as third:
        assert ids(third.search("kb", "word7", strategy="sparse")) == []


def test_kept_indexes_have_one_place_and_the_oldest_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert sparse_cache_folder(home) == tmp_path / "ragbench" / "bm25"
    assert sparse_cache_folder({**home, "RAGBENCH_BM25_CACHE": "off"}) is None
    assert sparse_cache_folder({**home, "RAGBENCH_BM25_CACHE": "here"}) == Path("here")
    store = database(CHUNKS).open("kb")
    for age, name in ((30, "old"), (10, "newer"), (20, "between")):
        index = kept_index(tmp_path / name, store)
        os.utime(tmp_path / name, (age, -age + 100))
    size = sum(file.stat().st_size for file in (tmp_path / "old").iterdir())
    monkeypatch.setattr("ragbench.search.pipeline.sparse_index._MAX_CACHE_BYTES", 3 * size)
    with monkeypatch.context() as patched:
        patched.setattr(SparseStrategy, "build", lambda _: pytest.fail("it is kept"))
        found = kept_index(tmp_path / "old", store)
    assert found.retrieve(["rent"], Search(k=3)) == index.retrieve(["rent"], Search(k=3))
    kept_index(tmp_path / "newest", store)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "newer", "newest"}


def test_an_index_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with database(CHUNKS).open("kb") as store:
        index = kept_index(tmp_path / "file" / "in", store)
        assert ids(index.retrieve(["dogs"], Search(k=1))[0]) == ["dog"]


def test_what_a_large_index_takes_is_said_once_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sparse_index, "_LARGE", 3)
    with open_database("memory:").create("x", dimension=2) as store:
        for at in range(3):
            assert not [one for one in recwarn if one.category is RagbenchWarning]
            store.upsert([Chunk(id=f"{at}", text="rent is due in May")], np.ones((1, 2)))
            SparseStrategy.build(store)
    (said,) = [str(one.message) for one in recwarn if one.category is RagbenchWarning]
    assert said.startswith("BM25 is built of all 3 chunks, once, in this process")
    assert "into Qdrant with --words store" in said


def test_the_environment_is_read_by_the_specification_s_names_and_by_ours() -> None:
    assert RetrievalSettings.from_environment({}) == RetrievalSettings(top_k=4)
    theirs = {"DEFAULT_SCORE_THRESHOLD": "0.25", "RETRIEVAL_STRATEGY": "sparse"}
    ours = {"DEFAULT_TOP_K": "7", "RAGBENCH_TOP_K": "9", "RAGBENCH_RRF_K": "10"}
    wanted = RetrievalSettings(top_k=9, score_threshold=0.25, strategy="sparse", rrf_k=10)
    assert RetrievalSettings.from_environment({**theirs, **ours}) == wanted


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
    with pytest.raises(ConfigError, match="one of the weights must be above 0"):
        RetrievalSettings(dense_weight=0, sparse_weight=0)


def indexed_in(folder: Path) -> str:
    """The address of a store in a folder whose collection ``kb`` has three documents."""
    documents = [
        Document(id=name, text=f"The {name} is open.") for name in ("desk", "gate", "pool")
    ]
    address = f"memory:{folder}"
    index(documents, address, "kb", embedder="hashing:256", chunker="whole")
    return address


def test_the_specification_s_variables_hold_for_a_search_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = indexed_in(tmp_path)
    monkeypatch.setenv("DEFAULT_TOP_K", "2")
    monkeypatch.setenv("RETRIEVAL_STRATEGY", "sparse")

    with open_engine(address) as opened:
        found = opened.search("kb", "What is open?")
        assert len(found) == 2
        assert LEGS not in found[0].metadata, "a hybrid search would have its legs"
        assert len(opened.search("kb", "What is open?", top_k=3)) == 3
    monkeypatch.setenv("DEFAULT_SCORE_THRESHOLD", "0.99")
    with open_engine(address) as opened:
        assert opened.search("kb", "What is open?") == []
        assert len(opened.search("kb", "What is open?", score_threshold=0.0)) == 2


def test_settings_in_python_go_before_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_TOP_K", "none")

    with open_engine(indexed_in(tmp_path), settings=RetrievalSettings(top_k=1)) as opened:
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

ANGLED = [Chunk(id=f"c{at:02}", text=f"text {at}") for at in range(20)]
# On a line of angles: the neighbours of a chunk are those next to it.
ANGLES = np.linspace(0.0, 1.0, 20)
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)


def test_what_an_index_misses_is_counted_and_an_exact_one_needs_no_measuring() -> None:
    exact = check_index(Forgetful(ANGLED, "", VECTORS).store)
    assert (exact.is_exact, exact.overlap, exact.queries) == (True, 1.0, 0)
    assert str(exact) == "c: exact, every vector is compared"
    found = check_index(Forgetful(ANGLED, "c10", VECTORS), k=2)  # type: ignore[arg-type]
    # c10 is among the two nearest of its two neighbours alone, and c10 itself finds its own two.
    assert found.queries == 20
    assert found.overlap == pytest.approx(1 - 2 * 0.5 / 20)
    assert str(found).startswith("c: the store's index finds 0.950 (")


def test_too_little_to_search_is_said() -> None:
    store: Any = Forgetful(ANGLED[:1], "c10", VECTORS[:1])
    for k, message in ((10, "fewer than two chunks"), (0, "at least 1")):
        with pytest.raises((StoreError, ConfigError), match=message):
            check_index(store, k=k)
