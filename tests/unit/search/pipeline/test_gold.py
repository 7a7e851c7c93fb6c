"""Where the gold was lost: each way to lose it is injected, and must be named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, Chunk, Evidence, RetrievalResult, load_pipeline
from ragbench.core.matched import GoldCause, GoldSearch
from ragbench.core.search_query import SearchQuery
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.pipeline.gold import Gold, GoldLocator, golds_of
from ragbench.search.pipeline.retrieval import StoreRetriever
from ragbench.search.pipeline.stages import Searching
from ragbench.search.pipeline.strategies import DenseStrategy, exactly
from ragbench.search.stores.base import Effort
from tests.unit.search.pipeline.builders import Forgetful

SPAN = "The boiler is serviced in October and in March by the firm of Meyer and Sons."
LONG = " ".join(f"Paragraph {at} speaks of the stairs and of the cellar." for at in range(40))
ROWS = [
    {"id": "rent", "text": "Rent is due on the first of May.", "metadata": {"year": 2023}},
    {"id": "dogs", "text": "Dogs are welcome in the garden.", "metadata": {"year": 2022}},
    {"id": "keys", "text": "The keys are at the gate.", "metadata": {"year": 2023}},
    {"id": "rent2", "text": "Rent of the garage is due in June.", "metadata": {"year": 2023}},
    {"id": "long", "text": f"{LONG} {SPAN} {LONG}", "metadata": {"year": 2023}},
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(row) for row in ROWS]
    Path("corpus.jsonl").write_text("\n".join(lines), "utf-8")
    return tmp_path


def located(
    cases: Sequence[Case], retrieval: Mapping[str, Any], chunker: object = "whole"
) -> list[GoldSearch]:
    """What a pipeline over the corpus says of cases that it was asked itself."""
    indexing = {"corpus": "corpus.jsonl", "embedder": "hashing:256", "chunker": chunker}
    file = Path("rag.yaml")
    file.write_text(json.dumps({"indexing": indexing, "retrieval": retrieval}), "utf-8")
    with load_pipeline(file, environ={"RAGBENCH_BM25_CACHE": "off"}).open() as opened:
        locator = opened.locator
        assert locator is not None
        results = [opened.rag.retrieve_with_metadata(case.query) for case in cases]
        return locator.located(list(zip(cases, results, strict=True)))


def asked(query: str, *ids: str, **more: Any) -> Case:
    return Case(id=query, query=query, reference_context_ids=ids or None, **more)


@pytest.mark.parametrize("strategy", ["dense", "sparse", "hybrid"])
def test_each_way_to_lose_the_gold_is_named(corpus: Path, strategy: str) -> None:
    cases = [asked("When is rent due in May?", gold) for gold in ("rent", "rent2")]
    cases += [asked("Are dogs welcome in the garden?", "dogs"), asked("Are cats welcome?", "cats")]
    settings = {"type": strategy, "top_k": 1, "filters": {"year": 2023}}
    found = located(cases, settings)
    assert [one.cause.name for one in found] == [
        "RETRIEVED",
        "RANKED_LOWER",
        "LOST_BY_FILTER",
        "NOT_INDEXED",
    ]
    assert [one.nearest.rank for one in found] == [1, 2, 1, None]
    assert found[2].nearest.chunk_ids == ("dogs",)


def test_gold_that_the_filter_excludes_and_the_question_does_not_name_is_looked_up(
    corpus: Path,
) -> None:
    (found,) = located([asked("zebra", "dogs")], {"type": "sparse", "filters": {"year": 2023}})
    assert found.cause is GoldCause.LOST_BY_FILTER
    (found,) = located([asked("zebra", "dogs")], {"type": "sparse"})
    wanted = {"cause": GoldCause.NOT_RANKED, "rank": None, "chunk_ids": ("dogs",)}
    assert [asdict(one) for one in found.golds] == [{"gold": "dogs", **wanted}]


def test_a_threshold_that_leaves_the_gold_out_is_named(corpus: Path) -> None:
    cases = [asked("When is rent due in May?", "rent2")]
    (found,) = located(cases, {"type": "dense", "top_k": 4, "score_threshold": 0.9})
    assert (found.cause, found.nearest.rank) == (GoldCause.LOST_BY_THRESHOLD, 2)


@pytest.mark.parametrize("offsets", [True, False])
def test_evidence_that_chunks_cut_in_two_is_cut(corpus: Path, offsets: bool) -> None:
    start = len(LONG) + 1
    span = {"start": start, "end": start + len(SPAN)} if offsets else {}
    evidence = Evidence(text=SPAN, document_id="long", **span)
    case = asked("When is the boiler serviced?", evidence=(evidence,))
    small = {"name": "tokens", "tokens": 16}
    (cut,) = located([case], {"type": "sparse", "top_k": 3}, small)
    assert cut.cause is GoldCause.CUT
    # A piece of a few letters could stand anywhere: only offsets tell that it is of this text.
    assert len(cut.nearest.chunk_ids) >= (2 if offsets else 1)
    (whole,) = located([case], {"type": "sparse", "top_k": 3}, "whole")
    assert whole.cause is GoldCause.RETRIEVED


def test_of_several_golds_the_nearest_one_speaks_for_the_case(corpus: Path) -> None:
    case = asked("When is rent due in May?", "cats", "rent2", "rent")
    (found,) = located([case], {"type": "sparse", "top_k": 1})
    causes = [fate.cause for fate in found.golds]
    assert causes == [GoldCause.NOT_INDEXED, GoldCause.RANKED_LOWER, GoldCause.RETRIEVED]
    assert found.cause is GoldCause.RETRIEVED


def forgetful(store: Any) -> StoreRetriever:
    embedder = HashingEmbedder(dimension=256)
    nothing: Any = {"threshold": None, "filters": None, "identity": {}, "opening": ()}
    strategy = DenseStrategy(store=store, embedder=embedder, calibration=None)
    made = {"store": store, "method": "dense", "strategy": strategy, "embedder": embedder}
    return StoreRetriever(**made, **nothing, closing=ExitStack())


def test_gold_that_the_index_misses_is_lost_by_the_index() -> None:
    chunks = [Chunk(id=row["id"], text=row["text"]) for row in ROWS[:4]]  # type: ignore[arg-type]
    retriever = forgetful(Forgetful(chunks, "dogs"))
    rankings = Searching(retriever=retriever).rankings
    locator = GoldLocator(rankings=rankings, retriever=retriever, top_k=2)
    case = asked("Are dogs welcome in the garden?", "dogs")
    queries = [SearchQuery(text=case.query)]
    result = RetrievalResult.from_chunks(retriever.search(queries, 2)[0])
    (found,) = locator.located([(case, result)])
    assert (found.cause, found.nearest.rank) == (GoldCause.LOST_BY_INDEX, 1)
    assert isinstance(retriever.strategy, DenseStrategy)
    assert exactly(replace(retriever.strategy, effort=Effort(exact=True))) is None


def test_gold_is_evidence_then_ids_then_texts() -> None:
    span = Evidence(text=SPAN, document_id="long")
    assert golds_of(asked("q", "a", evidence=(span,))) == (Gold(document_id="long", text=SPAN),)
    short = Evidence(text="May")
    assert golds_of(asked("q", "a", evidence=(short,))) == (Gold(id="a"),)
    graded = replace(asked("q"), grades={"a": 2, "b": 0})
    assert golds_of(graded) == (Gold(id="a"),)
    texts = replace(asked("q"), reference_contexts=("One text.",))
    assert golds_of(texts) == (Gold(text="one text."),)
    assert golds_of(asked("q")) == ()
