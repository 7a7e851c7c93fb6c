"""Document 000, the post-retrieval module: what it asks, run through the face."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Chunk,
    IReranker,
    Pipeline,
    PostRetrieval,
    Query,
    RankedChunk,
    build_operator,
    build_reranker,
    load_pipeline,
    rerank,
)
from ragbench.errors import ConfigError

RERANKERS = ["lexical", "feedback", "linear", "mmr", "ppr", "rrf", "semantic", "time_weighted"]
"""Those that need neither a model nor an endpoint; `weighted` is beside them with its factors."""
WITH_SETTINGS: list[dict[str, Any]] = [
    {"name": "linear", "rerankers": ["lexical", "semantic"]},
    {"name": "rrf", "rerankers": ["lexical", "semantic"]},
    {"name": "weighted", "factors": [{"field": "importance"}]},
]
SHIPPED: list[str | dict[str, Any]] = [
    *[name for name in RERANKERS if name not in ("linear", "rrf")],
    *WITH_SETTINGS,
]


def name_of(reranker: object) -> str:
    if isinstance(reranker, dict):
        return str(reranker["name"])
    return str(reranker)


def retrieved(count: int) -> list[Chunk]:
    """Chunks whose retrieval scores fall, and whose worth for the question rises."""
    chunks: list[Chunk] = []
    for number in range(count):
        angle = math.pi / 2 * (1 - number / count)
        metadata = {
            "embedding": [math.cos(angle), math.sin(angle)],
            "importance": number,
            "timestamp": f"2024-01-{number + 1:02}",
            "source": f"page {number}",
        }
        text = "red house " * number + "blue boat " * (count - number)
        score = 1 - number / 100
        chunks.append(Chunk(id=f"c{number}", text=text, score=score, metadata=metadata))
    return chunks


QUESTION = Query(text="red house", embedding=[1.0, 0.0])


@dataclass(frozen=True)
class ByLength:
    """A reranker as a user writes one."""

    name: str = "by_length"
    sign: int = 1

    def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
        return [self.sign * float(len(chunk.text)) for chunk in chunks]


class Broken:
    name = "broken"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
        raise RuntimeError("the model is gone")


def stage_of(reranker: Any, k: int = 5) -> PostRetrieval:
    """The stage of one reranking, which leaves the first k chunks."""
    operator = build_operator({"action": "rerank", "reranker": reranker, "top_k": k})
    return PostRetrieval(operators=(operator,))


def reranked(reranker: Any, chunks: Sequence[Chunk], k: int = 5) -> tuple[RankedChunk, ...]:
    return stage_of(reranker, k).run(QUESTION, chunks).chunks


def ids_of(entries: Sequence[RankedChunk]) -> list[str]:
    return [entry.chunk.id for entry in entries]


@pytest.mark.parametrize("settings", SHIPPED, ids=name_of)
def test_ten_results_are_reordered_and_the_first_five_stay(settings: Any) -> None:
    """US1-1, FR-001, FR-002, for every reranker that ships and needs no model."""
    chunks = retrieved(10)
    scores = list(build_reranker(settings).score(QUESTION, chunks))
    best_first = sorted(range(10), key=lambda number: -scores[number])

    entries = reranked(settings, chunks)

    assert ids_of(entries) == [f"c{number}" for number in best_first[:5]]
    assert [entry.rank for entry in entries] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("settings", SHIPPED, ids=name_of)
def test_of_three_results_all_three_stay(settings: Any) -> None:
    """US1-2, FR-003."""
    entries = reranked(settings, retrieved(3))

    assert sorted(ids_of(entries)) == ["c0", "c1", "c2"]


@pytest.mark.parametrize("k", [1, 3, 5, 10, 11])
def test_exactly_k_results_stay(k: int) -> None:
    """US2-1, FR-004, SC-002, by the operator, by the function and in a reranking."""
    chunks = retrieved(10)
    top_k = build_operator({"action": "filter", "type": "top_k", "k": k})

    by_operator = PostRetrieval(operators=(top_k,)).run(QUESTION, chunks)
    by_function = rerank(QUESTION, chunks, build_reranker("lexical"), top_k=k)
    in_reranking = reranked("lexical", chunks, k)

    assert ids_of(by_operator.chunks) == [chunk.id for chunk in chunks[:k]]
    assert len(by_function.chunks) == min(k, 10)
    assert len(in_reranking) == min(k, 10)


def six_stages(folder: Path, k: int) -> Pipeline:
    """A file with all six stages: three documents, of which post-retrieval leaves the first k."""
    (folder / "corpus.jsonl").write_text(
        '{"id": "d1", "text": "Rent is due in May 1."}\n'
        '{"id": "d2", "text": "Rent is due in May 2."}\n'
        '{"id": "d3", "text": "Rent is due in May 3."}\n',
        "utf-8",
    )
    (folder / "rag.yaml").write_text(
        "indexing: {corpus: corpus.jsonl}\n"
        "pre_retrieval: [{type: normalise}]\n"
        "retrieval: {type: bm25, top_k: 3}\n"
        f"post_retrieval: [{{action: filter, type: top_k, k: {k}}}]\n"
        "generation: extractive\n"
        "orchestration: sequential\n",
        "utf-8",
    )
    return load_pipeline(folder / "rag.yaml")


def test_k_is_set_in_a_pipeline_s_file(tmp_path: Path) -> None:
    """US2-1 and FR-004 for who configures a pipeline."""
    stage = six_stages(tmp_path, k=2).post_retrieval

    assert stage is not None
    result = stage.run(QUESTION, retrieved(10))
    assert len(result.chunks) == 2


def test_two_rerankers_give_two_orders_without_a_change_of_code(own_modules: Path) -> None:
    """US3-1 and FR-005: a class of the user's, named in settings."""
    template = (
        "class {name}:\n"
        "    name = '{name}'\n"
        "    def score(self, query, chunks):\n"
        "        return [{sign}chunk.metadata['importance'] for chunk in chunks]\n"
    )
    up_class = template.format(name="Up", sign="")
    down_class = template.format(name="Down", sign="-")
    Path("mine.py").write_text(up_class + down_class, "utf-8")
    chunks = retrieved(4)

    up = reranked("mine.py:Up", chunks)
    down = reranked("mine.py:Down", chunks)

    assert ids_of(up) == ["c3", "c2", "c1", "c0"]
    assert ids_of(down) == ["c0", "c1", "c2", "c3"]


LONG_AND_SHORT = [Chunk(id="a", text="long text"), Chunk(id="b", text="text")]


def test_a_class_of_the_user_s_is_an_ireranker() -> None:
    """FR-005 and FR-010: the interface is a protocol under the document's name."""
    shortest_first = ByLength(sign=-1)

    assert isinstance(shortest_first, IReranker)
    assert ids_of(reranked(shortest_first, LONG_AND_SHORT)) == ["b", "a"]


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused_when_the_stage_is_built(k: int) -> None:
    """EC-1, FR-006."""
    with pytest.raises(ConfigError, match=f"must be at least 1, not {k}"):
        build_operator({"action": "filter", "type": "top_k", "k": k})
    with pytest.raises(ConfigError, match=f"must be at least 1, not {k}"):
        build_operator({"action": "rerank", "reranker": "lexical", "top_k": k})


@pytest.mark.parametrize("settings", SHIPPED, ids=name_of)
def test_no_results_give_no_results(settings: Any) -> None:
    """EC-2, FR-006."""
    assert reranked(settings, []) == ()


def test_a_reranker_that_raises_keeps_the_order_and_is_recorded() -> None:
    """EC-3, FR-006."""
    result = stage_of(Broken()).run(QUESTION, retrieved(10))

    assert ids_of(result.chunks) == ["c0", "c1", "c2", "c3", "c4"]
    assert "the model is gone" in str(result.failures[0])


def test_a_reranker_that_raises_stops_where_that_is_asked() -> None:
    """EC-3."""
    with pytest.raises(RuntimeError, match="the model is gone"):
        rerank(QUESTION, retrieved(3), Broken(), on_error="raise")


@pytest.mark.parametrize("settings", SHIPPED, ids=name_of)
def test_text_and_metadata_stay_as_they_are(settings: Any) -> None:
    """FR-007, and the entities: the new score stands beside the initial one."""
    chunks = retrieved(10)

    unchanged = retrieved(10)

    for entry in reranked(settings, chunks, 10):
        number = int(entry.chunk.id.removeprefix("c"))
        assert entry.chunk is chunks[number]
        assert entry.chunk == unchanged[number]
        assert entry.initial_score == 1 - number / 100
        assert entry.initial_rank == number + 1


def test_post_retrieval_is_the_fourth_of_six_stages(tmp_path: Path) -> None:
    """FR-008: it gets what the third found, and generation gets what it leaves."""
    with six_stages(tmp_path, k=1).open() as opened:
        retrieval, post_retrieval = opened.staged()
        retrieval_result = retrieval.retrieve_with_metadata("When is rent due?")
        contexts_for_generation = opened.rag.retrieve("When is rent due?")

    assert len(retrieval_result) == 3
    assert post_retrieval is not None
    filtered = post_retrieval.run("When is rent due?", retrieval_result.to_chunks())
    assert filtered.texts == contexts_for_generation
    assert contexts_for_generation == [retrieval_result.contexts[0]]


@pytest.mark.parametrize("settings", SHIPPED, ids=name_of)
def test_95_of_100_questions_take_less_than_100_milliseconds(settings: Any) -> None:
    """SC-001: processor time, so that a busy machine does not count."""
    stage = stage_of(settings)
    chunks = retrieved(20)
    stage.run(QUESTION, chunks)  # what is loaded once

    seconds: list[float] = []
    for _ in range(20):
        start = time.process_time()
        stage.run(QUESTION, chunks)
        seconds.append(time.process_time() - start)

    # The 19th of 20 times: 95 %.
    assert sorted(seconds)[18] < 0.1


def test_a_reranking_improves_the_relevance_of_the_first_five_by_a_fifth() -> None:
    """SC-003 on made chunks; docs/requirements.md names the figures on collections."""
    chunks = retrieved(10)

    entries = reranked("lexical", chunks)

    worth_before = sum(chunk.metadata["importance"] for chunk in chunks[:5])
    worth_after = sum(entry.chunk.metadata["importance"] for entry in entries)
    assert worth_after >= 1.2 * worth_before


def test_1000_requests_at_the_edge_end_without_an_error() -> None:
    """SC-004: none or few results, no scores, equal ids, blank questions, broken rerankers."""
    stages = [
        stage_of("lexical"),
        stage_of("semantic"),
        stage_of({"name": "rrf", "rerankers": ["lexical", "semantic"]}),
        stage_of(Broken()),
        stage_of(ByLength()),
    ]
    blank = Chunk(id="same", text="", score=None)
    chunk_lists = [
        [],
        [blank],
        [blank, blank],
        retrieved(4),
        [*retrieved(7), blank],
    ]
    queries = ["", "  ", "red house", "\x00", "红房子"]
    combinations = list(product(stages, chunk_lists, queries))  # 5 x 5 x 5

    for stage, chunks, query in combinations * 8:
        result = stage.run(query, chunks)
        assert len(result.chunks) == min(5, len(chunks))
