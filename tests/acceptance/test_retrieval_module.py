"""Document 003, the retrieval module: its integration cases, settings and interfaces.

The collections are indexed with the embedder that ragbench chooses by itself for their language.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from ragbench import Chunk, Document, Node, RetrievalEngine, RetrievalSettings, index, open_engine
from ragbench.errors import ConfigError
from ragbench_cli.main import main

Strategy = Literal["dense", "sparse", "hybrid"]
STRATEGIES: list[Strategy] = ["dense", "sparse", "hybrid"]
CHINESE = [
    Document(id="fruit", text="苹果是水果"),
    Document(id="old", text="合同条款：付款期限为六十天。", metadata={"year": 2022}),
    Document(id="new", text="合同条款：付款期限为三十天。", metadata={"year": 2023}),
    Document(id="staff", text="员工每年有二十七天带薪休假。", metadata={"year": 2023}),
    Document(id="weather", text="今天天气很好，我们去公园散步。"),
]
ENGLISH = [
    Document(id="fruit", text="An apple is a fruit.", metadata={"source": "food.pdf"}),
    Document(id="rent", text="The rent is due on the first of May.", metadata={"year": 2023}),
    Document(id="rent-22", text="The rent is due on the last of May.", metadata={"year": 2022}),
]
GIBBERISH = [
    "asdkjh qwpoeiru zxmcnb",
    "xq7#kz!! vvplq 0x9 ~~",
    "jfkdls;a fjdksla; fjdkla",
    "鑫龘犇骉 麤猋淼 垚焱",
    "ａｓｄｆ ｊｋｌ；",
    "%%%% $$$$ ####",
]
embeddings = pytest.mark.extra("embeddings")


def opened(folder: Path, documents: list[Document], **settings: Any) -> RetrievalEngine:
    """An engine over these documents, each of them one chunk of the collection kb."""
    address = f"memory:{folder}"
    index(documents, address, "kb", chunker="whole", **settings)
    return open_engine(address)


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RetrievalEngine]:
    with opened(tmp_path_factory.mktemp("chinese"), CHINESE) as engine:
        yield engine


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RetrievalEngine]:
    with opened(tmp_path_factory.mktemp("english"), ENGLISH) as engine:
        yield engine


@pytest.fixture
def by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RetrievalEngine]:
    """The English documents without a model's vectors."""
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path / "store", ENGLISH, embedder="hashing:256") as engine:
        yield engine


# --- 3.4 integration cases


@embeddings
def test_case_1_a_question_in_another_language_finds_the_meaning(chinese: RetrievalEngine) -> None:
    """By vectors the score is the similarity, above 0.8."""
    chunks = chinese.search("kb", "Apple 是什么类别", strategy="dense")

    best = chunks[0]
    assert best.text == "苹果是水果"
    assert best.score is not None
    assert best.score > 0.8


@embeddings
def test_case_1_by_default_finds_the_meaning_and_gives_its_similarity_beside_the_rank(
    chinese: RetrievalEngine,
) -> None:
    """A hybrid score is a fused rank: docs/requirements.md."""
    chunks = chinese.search("kb", "Apple 是什么类别")

    best = chunks[0]
    assert best.text == "苹果是水果"
    assert best.metadata["ranked_by"]["dense"]["score"] > 0.8


@embeddings
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_case_2_a_filter_leaves_out_other_years(
    chinese: RetrievalEngine, strategy: Strategy
) -> None:
    chunks = chinese.search("kb", "合同条款", filters={"year": 2023}, strategy=strategy)

    assert chunks[0].id == "new"
    for chunk in chunks:
        assert chunk.metadata["year"] == 2023


@embeddings
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("query", GIBBERISH)
def test_case_3_gibberish_finds_nothing(
    chinese: RetrievalEngine, english: RetrievalEngine, strategy: Strategy, query: str
) -> None:
    """In a Chinese and in an English collection, each with its default embedder."""
    assert chinese.search("kb", query, strategy=strategy) == []
    assert english.search("kb", query, strategy=strategy) == []


@embeddings
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_english_collection_is_searched_in_the_same_way(
    english: RetrievalEngine, strategy: Strategy
) -> None:
    """Cases 1 and 2 with the default embedder of an English corpus."""
    about_fruit = english.search("kb", "Which fruit is an apple?", strategy=strategy)
    about_rent = english.search(
        "kb", "When is rent due?", filters={"year": 2023}, strategy=strategy
    )

    assert about_fruit[0].id == "fruit"
    assert [chunk.id for chunk in about_rent] == ["rent"]


# --- 3.2 the flow


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_filter_and_a_strategy_give_chunks_in_one_form(
    by_words: RetrievalEngine, strategy: Strategy
) -> None:
    (chunk,) = by_words.search("kb", "rent due", filters={"year": 2022}, strategy=strategy)

    assert isinstance(chunk, Node)
    assert chunk.id == "rent-22"
    assert chunk.text == "The rent is due on the last of May."
    assert chunk.metadata["year"] == 2022
    assert chunk.score is not None


def test_two_rankings_are_fused_by_weighted_reciprocal_ranks(by_words: RetrievalEngine) -> None:
    """Both rank the chunk first: 1 / 61 of each, weighted 1."""
    settings = RetrievalSettings(dense_weight=1.0, sparse_weight=1.0)

    with open_engine(by_words.database.address, settings=settings) as engine:
        best = engine.search("kb", "An apple is a fruit.")[0]

    assert best.id == "fruit"
    assert best.score == pytest.approx(1 / 61 + 1 / 61)


# --- 3.3 search()


def test_search_has_the_parameters_of_the_document() -> None:
    parameters = list(inspect.signature(RetrievalEngine.search).parameters)

    assert parameters[1:6] == ["dataset_id", "query_text", "top_k", "score_threshold", "filters"]
    assert Node is Chunk


def test_search_returns_top_k_chunks_that_reach_the_threshold(by_words: RetrievalEngine) -> None:
    top_1 = by_words.search("kb", "rent due", 1, strategy="sparse")
    of_2023 = by_words.search("kb", "rent due", 4, 0.2, {"year": 2023}, strategy="sparse")
    above_threshold = by_words.search("kb", "rent due", score_threshold=0.999, strategy="sparse")

    assert len(top_1) == 1
    assert [chunk.id for chunk in of_2023] == ["rent"]
    assert above_threshold == []


def test_the_command_finds_the_same(
    by_words: RetrievalEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    address = by_words.database.address
    command = ["search", "rent due", "--store", address, "--filter", "year=2023", "--json"]

    assert main(command) == 0

    (chunk,) = json.loads(capsys.readouterr().out)["chunks"]
    assert chunk["id"] == "rent"


# --- 3.6 settings


def test_the_defaults_are_those_of_the_document() -> None:
    """Four chunks; no threshold leaves out what scores below 0 of all (docs/requirements.md)."""
    settings = RetrievalSettings()

    assert settings.top_k == 4
    assert settings.score_threshold is None
    assert settings.strategy == "hybrid"


def test_the_variables_hold_in_python_and_for_the_command(
    by_words: RetrievalEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = by_words.database.address
    monkeypatch.setenv("DEFAULT_TOP_K", "1")
    monkeypatch.setenv("DEFAULT_SCORE_THRESHOLD", "0.1")
    monkeypatch.setenv("RETRIEVAL_STRATEGY", "sparse")

    with open_engine(address) as engine:
        chunks = engine.search("kb", "rent due")
    assert main(["search", "rent due", "--store", address, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)

    (chunk,) = chunks
    (printed_chunk,) = printed["chunks"]
    assert printed_chunk["id"] == chunk.id
    assert printed["score_kind"] == "bm25"


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("DEFAULT_TOP_K", "0", "at least 1"),
        ("DEFAULT_SCORE_THRESHOLD", "high", "a number"),
        ("RETRIEVAL_STRATEGY", "both", "one of dense, sparse, hybrid"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_in_both(
    by_words: RetrievalEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    allowed: str,
) -> None:
    address = by_words.database.address
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigError, match=f"^{variable}.*{allowed}"):
        open_engine(address)
    assert main(["search", "rent due", "--store", address]) == 2
    assert variable in capsys.readouterr().err
