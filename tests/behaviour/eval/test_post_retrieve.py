"""Post-retrieval within a run: journaled, resumed, told of, and what generation is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk, PostRetrieval, RetrievalResult, Status, as_rag, open_traces
from ragbench.errors import ConfigError
from ragbench.post.filter import Threshold, TopK
from ragbench.post.format import Template
from ragbench.post.operator import ChunkNeighbours
from ragbench.stages.rag import chunk_service
from tests.behaviour.rags import (
    AsyncRAG,
    Failing,
    NotingRAG,
    OnlyGenerates,
    cases,
    counts,
    rows,
    run,
)

STAGES = ["retrieve", "post_retrieve", "generate"]
KEEP_ONE = PostRetrieval(operators=(TopK(k=1),))


class Three(NotingRAG):
    """Retrieves three chunks; the right one stands last."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        return RetrievalResult(
            ["text x", "text y", *right.contexts],
            context_ids=["x", "y", *(right.context_ids or ())],
            scores=[0.1, 0.2, 0.9],
        )


def test_generation_and_metrics_see_what_stands_after_it(tmp_path: Path) -> None:
    rag = Three()
    stage = PostRetrieval(operators=(Threshold(min_score=0.5),))

    report = run(cases(*"ab"), rag, tmp_path, metrics="precision@1", post_retrieval=stage)

    assert rag.given["a"] == ["text a"]
    assert report.summaries[0].score == 1.0
    assert counts(report) == dict.fromkeys(STAGES, (2, 0, 0, 0))
    assert rows(report)["a"].retrieved_ids == ("d-a",)
    assert [latency.stage for latency in report.latencies] == STAGES


def test_generation_is_given_the_formatted_text(tmp_path: Path) -> None:
    rag = Three()
    stage = PostRetrieval(operators=(TopK(k=2), Template(template="- {text}", separator="\n")))
    run(cases("a"), rag, tmp_path / "run", post_retrieval=stage)
    assert rag.given["a"] == ["- text x\n- text y"]
    trace = next(open_traces(tmp_path / "run")).trace
    assert trace.context.value is not None
    assert trace.context.value.contexts == ["text x", "text y"]
    assert trace.generation.status is Status.MEASURED


def test_the_same_command_again_computes_nothing(tmp_path: Path) -> None:
    first, again = Three(), Three()
    for stage in (KEEP_ONE, PostRetrieval(operators=(Template(),))):
        run(cases("a", "b"), first, tmp_path, post_retrieval=stage)
        report = run(cases("a", "b"), again, tmp_path, post_retrieval=stage)
        assert (again.retrieved, again.generated) == ([], [])
        assert counts(report)["post_retrieve"] == (2, 0, 0, 0)


def test_another_stage_retrieves_nothing_again_and_generates_where_the_texts_differ(
    tmp_path: Path,
) -> None:
    rag, two = Three(), TopK(k=2)
    for operators in ((TopK(k=1),), (two,), (two, two)):
        run(cases("a"), rag, tmp_path, post_retrieval=PostRetrieval(operators=operators))

    assert (rag.retrieved, rag.generated) == (["a"], ["a", "a"])


def test_an_operator_that_fails_is_counted_and_tried_again_on_request(tmp_path: Path) -> None:
    broken = [True]
    stage = PostRetrieval(operators=(Failing(broken=broken),))
    rag = Three()
    report = run(cases("a", "b"), rag, tmp_path / "run", post_retrieval=stage)
    assert counts(report)["post_retrieve"] == (2, 0, 0, 0)
    assert [(group.stage, group.message, group.count) for group in report.failures] == [
        ("custom.failing", "no model", 2)
    ]
    assert rows(report)["a"].retrieved_ids == ("x", "y", "d-a")
    broken.clear()
    unchanged = run(cases("a", "b"), rag, tmp_path / "run", post_retrieval=stage)
    assert len(unchanged.failures) == 1
    mended = run(cases("a", "b"), rag, tmp_path / "run", post_retrieval=stage, retry_failed=True)
    assert mended.failures == ()
    assert rows(mended)["a"].retrieved_ids == ("d-a",)
    assert rag.retrieved == ["a", "b"]


@pytest.mark.parametrize("kind", [NotingRAG, AsyncRAG])
@pytest.mark.parametrize(("on_error", "ended"), [("keep", (1, 0, 0, 0)), ("raise", (0, 0, 0, 1))])
def test_on_error_raise_costs_the_case_of_functions_and_coroutines(
    tmp_path: Path, kind: Callable[[], Any], on_error: Any, ended: object
) -> None:
    rag = kind()
    stage = PostRetrieval(operators=(Failing(broken=[True]),), on_error=on_error)

    report = run(cases("a"), rag, tmp_path, post_retrieval=stage)

    assert counts(report)["post_retrieve"] == counts(report)["generate"] == ended
    assert getattr(rag, "plain", rag).generated == ([] if on_error == "raise" else ["a"])


def test_a_rag_that_gives_no_room_for_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not retrieve"):
        run(cases("a"), OnlyGenerates(), tmp_path / "run", post_retrieval=KEEP_ONE)
    chain = as_rag(lambda query: {"answer": "A", "contexts": ["text"]})

    with pytest.raises(ConfigError, match="in one call"):
        run(cases("a"), chain, tmp_path / "run", post_retrieval=KEEP_ONE)

    assert not (tmp_path / "run").exists()


# --- the RAG as a service


class Linked(Three):
    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        return [Chunk(id=f"beside {chunk_id}", text="T.")][:top_k]


def test_a_rag_can_be_searched_again_and_asked_for_neighbours_where_it_knows_them() -> None:
    service: Any = chunk_service(Three())
    linked: Any = chunk_service(Linked())
    assert service is not None
    assert [chunk.id for chunk in service.search("a", 2)] == ["x", "y"]
    assert not isinstance(service, ChunkNeighbours)
    assert isinstance(linked, ChunkNeighbours)
    neighbours: Any = linked.neighbours("x", 1)
    assert [chunk.id for chunk in neighbours] == ["beside x"]
    assert chunk_service(AsyncRAG()) is None
    assert chunk_service(OnlyGenerates()) is None
