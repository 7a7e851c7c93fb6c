"""Where the gold was lost: each way to lose it is injected, and must be named."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

ROWS: list[dict[str, Any]] = [
    {"id": "rent", "text": "Rent is due on the first of May.", "metadata": {"year": 2023}},
    {"id": "dogs", "text": "Dogs are welcome in the garden.", "metadata": {"year": 2022}},
    {"id": "keys", "text": "The keys are at the gate.", "metadata": {"year": 2023}},
    {"id": "rent2", "text": "Rent of the garage is due in June.", "metadata": {"year": 2023}},
]
# A fifth, long document, with a sentence about the boiler in its middle.
BOILER = "The boiler is serviced in October and in March by the firm of Meyer and Sons."
PARAGRAPHS = " ".join(
    f"Paragraph {number} speaks of the stairs and of the cellar." for number in range(40)
)
LONG_ROW = {
    "id": "long",
    "text": f"{PARAGRAPHS} {BOILER} {PARAGRAPHS}",
    "metadata": {"year": 2023},
}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file corpus.jsonl in the current folder."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(row) for row in (*ROWS, LONG_ROW)]
    Path("corpus.jsonl").write_text("\n".join(lines), "utf-8")


in_the_corpus = pytest.mark.usefixtures("corpus")


def located(case: Case, retrieval: Mapping[str, Any], chunker: object = "whole") -> GoldSearch:
    """What a pipeline over the corpus says of a case that it was asked itself."""
    indexing = {"corpus": "corpus.jsonl", "embedder": "hashing:256", "chunker": chunker}
    file = Path("rag.yaml")
    file.write_text(json.dumps({"indexing": indexing, "retrieval": retrieval}), "utf-8")
    with load_pipeline(file, environ={"RAGBENCH_BM25_CACHE": "off"}).open() as opened:
        assert opened.locator is not None
        result = opened.rag.retrieve_with_metadata(case.query)
        (gold_search,) = opened.locator.located([(case, result)])
        return gold_search


def case_of(query: str, *gold_ids: str, **labels: Any) -> Case:
    return Case(id=query, query=query, reference_context_ids=gold_ids or None, **labels)


# --- each way to lose the gold


@in_the_corpus
@pytest.mark.parametrize("strategy", ["dense", "sparse", "hybrid"])
@pytest.mark.parametrize(
    ("query", "gold", "cause", "rank"),
    [
        ("When is rent due in May?", "rent", GoldCause.RETRIEVED, 1),
        ("When is rent due in May?", "rent2", GoldCause.RANKED_LOWER, 2),
        ("Are dogs welcome in the garden?", "dogs", GoldCause.LOST_BY_FILTER, 1),
        ("Are cats welcome?", "cats", GoldCause.NOT_INDEXED, None),
    ],
    ids=["retrieved", "ranked lower", "lost by the filter", "not indexed"],
)
def test_each_way_to_lose_the_gold_is_named(
    strategy: str, query: str, gold: str, cause: GoldCause, rank: int | None
) -> None:
    retrieval = {"type": strategy, "top_k": 1, "filters": {"year": 2023}}

    gold_search = located(case_of(query, gold), retrieval)

    assert gold_search.cause is cause
    assert gold_search.nearest.rank == rank


@in_the_corpus
def test_gold_that_the_filter_excludes_is_found_without_it() -> None:
    case = case_of("Are dogs welcome in the garden?", "dogs")

    gold_search = located(case, {"type": "sparse", "filters": {"year": 2023}})

    assert gold_search.nearest.chunk_ids == ("dogs",)


@in_the_corpus
def test_gold_that_the_filter_excludes_and_the_question_does_not_name_is_looked_up() -> None:
    gold_search = located(case_of("zebra", "dogs"), {"type": "sparse", "filters": {"year": 2023}})

    assert gold_search.cause is GoldCause.LOST_BY_FILTER


@in_the_corpus
def test_gold_that_the_question_does_not_name_is_not_ranked() -> None:
    gold_search = located(case_of("zebra", "dogs"), {"type": "sparse"})

    (gold,) = gold_search.golds
    assert asdict(gold) == {
        "gold": "dogs",
        "cause": GoldCause.NOT_RANKED,
        "rank": None,
        "chunk_ids": ("dogs",),
    }


@in_the_corpus
def test_a_threshold_that_leaves_the_gold_out_is_named() -> None:
    case = case_of("When is rent due in May?", "rent2")

    gold_search = located(case, {"type": "dense", "top_k": 4, "score_threshold": 0.9})

    assert gold_search.cause is GoldCause.LOST_BY_THRESHOLD
    assert gold_search.nearest.rank == 2


BOILER_START = len(PARAGRAPHS) + 1
EVIDENCE_BY_OFFSETS = Evidence(
    text=BOILER, document_id="long", start=BOILER_START, end=BOILER_START + len(BOILER)
)
EVIDENCE_BY_TEXT = Evidence(text=BOILER, document_id="long")
SMALL_CHUNKS = {"name": "tokens", "tokens": 16}


@in_the_corpus
@pytest.mark.parametrize(
    ("evidence", "least_pieces"),
    [
        pytest.param(EVIDENCE_BY_OFFSETS, 2, id="by offsets"),
        # A piece of a few letters could stand anywhere: only offsets tell that it is of this text.
        pytest.param(EVIDENCE_BY_TEXT, 1, id="by text"),
    ],
)
def test_evidence_that_chunks_cut_in_two_is_cut(evidence: Evidence, least_pieces: int) -> None:
    case = case_of("When is the boiler serviced?", evidence=(evidence,))

    gold_search = located(case, {"type": "sparse", "top_k": 3}, SMALL_CHUNKS)

    assert gold_search.cause is GoldCause.CUT
    assert len(gold_search.nearest.chunk_ids) >= least_pieces


@in_the_corpus
@pytest.mark.parametrize(
    "evidence", [EVIDENCE_BY_OFFSETS, EVIDENCE_BY_TEXT], ids=["by offsets", "by text"]
)
def test_evidence_in_a_chunk_that_is_whole_is_retrieved(evidence: Evidence) -> None:
    case = case_of("When is the boiler serviced?", evidence=(evidence,))

    gold_search = located(case, {"type": "sparse", "top_k": 3}, "whole")

    assert gold_search.cause is GoldCause.RETRIEVED


@in_the_corpus
def test_of_several_golds_the_nearest_one_speaks_for_the_case() -> None:
    case = case_of("When is rent due in May?", "cats", "rent2", "rent")

    gold_search = located(case, {"type": "sparse", "top_k": 1})

    assert [gold.cause for gold in gold_search.golds] == [
        GoldCause.NOT_INDEXED,
        GoldCause.RANKED_LOWER,
        GoldCause.RETRIEVED,
    ]
    assert gold_search.cause is GoldCause.RETRIEVED


# --- an index that misses a chunk


@pytest.fixture
def forgetful() -> StoreRetriever:
    """Over a store whose index misses the chunk "dogs"."""
    chunks = [Chunk(id=row["id"], text=row["text"]) for row in ROWS]
    store: Any = Forgetful(chunks, "dogs")
    embedder = HashingEmbedder(dimension=256)
    return StoreRetriever(
        store=store,
        method="dense",
        strategy=DenseStrategy(store=store, embedder=embedder, calibration=None),
        embedder=embedder,
        threshold=None,
        filters=None,
        identity={},
        opening=(),
        closing=ExitStack(),
    )


def test_gold_that_the_index_misses_is_lost_by_the_index(forgetful: StoreRetriever) -> None:
    case = case_of("Are dogs welcome in the garden?", "dogs")
    chunks = forgetful.search([SearchQuery(text=case.query)], 2)[0]
    rankings = Searching(retriever=forgetful).rankings
    locator = GoldLocator(rankings=rankings, retriever=forgetful, top_k=2)

    (gold_search,) = locator.located([(case, RetrievalResult.from_chunks(chunks))])

    assert gold_search.cause is GoldCause.LOST_BY_INDEX
    assert gold_search.nearest.rank == 1


def test_a_search_that_is_exact_already_is_not_repeated(forgetful: StoreRetriever) -> None:
    assert isinstance(forgetful.strategy, DenseStrategy)

    assert exactly(replace(forgetful.strategy, effort=Effort(exact=True))) is None


# --- what is looked for


@pytest.mark.parametrize(
    ("case", "golds"),
    [
        pytest.param(
            case_of("q", "a", evidence=(EVIDENCE_BY_TEXT,)),
            (Gold(document_id="long", text=BOILER),),
            id="evidence before ids",
        ),
        # Three letters could stand anywhere.
        pytest.param(
            case_of("q", "a", evidence=(Evidence(text="May"),)),
            (Gold(id="a"),),
            id="ids before short evidence",
        ),
        pytest.param(
            replace(case_of("q"), grades={"a": 2, "b": 0}),
            (Gold(id="a"),),
            id="ids with a grade above 0",
        ),
        pytest.param(
            replace(case_of("q"), reference_contexts=("One text.",)),
            (Gold(text="one text."),),
            id="texts",
        ),
        pytest.param(case_of("q"), (), id="nothing"),
    ],
)
def test_gold_is_evidence_then_ids_then_texts(case: Case, golds: tuple[Gold, ...]) -> None:
    assert golds_of(case) == golds
