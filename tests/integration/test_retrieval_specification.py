"""The integration cases of the retrieval specification, with a real multilingual model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragbench import Document, open_embedder
from ragbench.search.pipeline.documents import make_chunker
from ragbench.search.pipeline.index import index_documents
from ragbench.search.pipeline.search_engine import RetrievalEngine
from ragbench.search.pipeline.strategies import StrategyName
from ragbench.search.stores.memory import MemoryDatabase

pytestmark = pytest.mark.extra("embeddings")

DOCUMENTS = [
    Document(id="fruit", text="苹果是水果"),
    Document(id="old", text="合同条款：付款期限为六十天。", metadata={"year": 2022}),
    Document(id="new", text="合同条款：付款期限为三十天。", metadata={"year": 2023}),
    Document(id="staff", text="员工每年有二十七天带薪休假。", metadata={"year": 2023}),
    Document(id="weather", text="今天天气很好，我们去公园散步。"),
]
GIBBERISH = [
    "asdkjh qwpoeiru zxmcnb",
    "xq7#kz!! vvplq 0x9 ~~",
    "jfkdls;a fjdksla; fjdkla",
    "鑫龘犇骉 麤猋淼 垚焱",
    "ａｓｄｆ ｊｋｌ；",
    "%%%% $$$$ ####",
]


@pytest.fixture(scope="module")
def engine() -> Iterator[RetrievalEngine]:
    database = MemoryDatabase()
    embedder = open_embedder("multilingual", threads=1)
    index_documents(
        DOCUMENTS,
        database,
        "kb",
        embedder=embedder,
        embedder_name="multilingual",
        chunker=make_chunker(),
    )
    with RetrievalEngine(database, embedder=embedder) as opened:
        yield opened


def test_case_1_meaning_across_languages(engine: RetrievalEngine) -> None:
    found = engine.search("kb", "Apple 是什么类别", strategy="dense")
    assert found[0].text == "苹果是水果"
    assert (found[0].score or 0) > 0.8
    assert engine.search("kb", "Apple 是什么类别", strategy="hybrid")[0].text == "苹果是水果"


@pytest.mark.parametrize("strategy", ["dense", "sparse", "hybrid"])
def test_case_2_a_filter_leaves_out_other_years(
    engine: RetrievalEngine, strategy: StrategyName
) -> None:
    found = engine.search("kb", "合同条款", filters={"year": 2023}, strategy=strategy)
    assert found[0].id == "new"
    assert all(chunk.metadata["year"] == 2023 for chunk in found)


@pytest.mark.parametrize("strategy", ["dense", "sparse", "hybrid"])
@pytest.mark.parametrize("query", GIBBERISH)
def test_case_3_gibberish_finds_nothing(
    engine: RetrievalEngine, strategy: StrategyName, query: str
) -> None:
    assert engine.search("kb", query, strategy=strategy) == []
