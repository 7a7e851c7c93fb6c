"""Post-retrieval within a run: what is stored, reused and reported, and what generation gets."""

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
    Counts,
    Failing,
    NotingRAG,
    OnlyGenerates,
    cases,
    counts,
    rows,
    run,
)

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


# --- what comes after it


BEST = PostRetrieval(operators=(Threshold(min_score=0.5),))


def test_generation_gets_what_post_retrieval_leaves(tmp_path: Path) -> None:
    rag = Three()

    run(cases("a", "b"), rag, tmp_path, post_retrieval=BEST)

    assert rag.contexts == {"a": ["text a"], "b": ["text b"]}


def test_metrics_see_what_post_retrieval_leaves(tmp_path: Path) -> None:
    report = run(cases("a", "b"), Three(), tmp_path, metrics="precision@1", post_retrieval=BEST)

    assert report.summaries[0].score == 1.0
    assert rows(report)["a"].retrieved_ids == ("d-a",)


def test_post_retrieval_is_counted_and_timed_as_a_stage(tmp_path: Path) -> None:
    report = run(cases("a", "b"), Three(), tmp_path, post_retrieval=BEST)

    assert counts(report) == {
        "retrieve": Counts(measured=2),
        "post_retrieve": Counts(measured=2),
        "generate": Counts(measured=2),
    }
    latencies = [latency.stage for latency in report.latencies]
    assert latencies == ["retrieve", "post_retrieve", "generate"]


FORMATTED = PostRetrieval(operators=(TopK(k=2), Template(template="- {text}", separator="\n")))


def test_generation_gets_the_formatted_text(tmp_path: Path) -> None:
    rag = Three()

    run(cases("a"), rag, tmp_path / "run", post_retrieval=FORMATTED)

    assert rag.contexts["a"] == ["- text x\n- text y"]


def test_a_trace_holds_the_texts_before_they_were_formatted(tmp_path: Path) -> None:
    run(cases("a"), Three(), tmp_path / "run", post_retrieval=FORMATTED)

    trace = next(open_traces(tmp_path / "run")).trace

    assert trace.context.value is not None
    assert trace.context.value.contexts == ["text x", "text y"]
    assert trace.generation.status is Status.MEASURED


# --- the same run again


@pytest.mark.parametrize(
    "stage",
    [KEEP_ONE, PostRetrieval(operators=(Template(),))],
    ids=["an operator", "a format"],
)
def test_the_same_command_again_computes_nothing(tmp_path: Path, stage: PostRetrieval) -> None:
    run(cases("a", "b"), Three(), tmp_path, post_retrieval=stage)
    rag = Three()

    report = run(cases("a", "b"), rag, tmp_path, post_retrieval=stage)

    assert rag.retrieved == []
    assert rag.generated == []
    assert counts(report)["post_retrieve"] == Counts(measured=2)


def test_another_stage_retrieves_nothing_again_and_generates_from_other_texts(
    tmp_path: Path,
) -> None:
    rag = Three()
    run(cases("a"), rag, tmp_path, post_retrieval=KEEP_ONE)

    run(cases("a"), rag, tmp_path, post_retrieval=PostRetrieval(operators=(TopK(k=2),)))

    assert rag.retrieved == ["a"]
    assert rag.generated == ["a", "a"]


def test_another_stage_that_leaves_the_same_texts_generates_nothing_again(tmp_path: Path) -> None:
    rag = Three()
    run(cases("a"), rag, tmp_path, post_retrieval=KEEP_ONE)
    twice = PostRetrieval(operators=(TopK(k=1), TopK(k=1)))

    run(cases("a"), rag, tmp_path, post_retrieval=twice)

    assert rag.generated == ["a"]


# --- an operator that fails


def test_an_operator_that_fails_is_counted_and_leaves_the_chunks(tmp_path: Path) -> None:
    stage = PostRetrieval(operators=(Failing(broken=[True]),))

    report = run(cases("a", "b"), Three(), tmp_path / "run", post_retrieval=stage)

    assert counts(report)["post_retrieve"] == Counts(measured=2)
    (group,) = report.failures
    assert group.stage == "custom.failing"
    assert group.message == "no model"
    assert group.count == 2
    assert rows(report)["a"].retrieved_ids == ("x", "y", "d-a")


def test_an_operator_that_failed_is_not_tried_again(tmp_path: Path) -> None:
    broken = [True]
    stage = PostRetrieval(operators=(Failing(broken=broken),))
    run(cases("a", "b"), Three(), tmp_path / "run", post_retrieval=stage)
    broken.clear()

    report = run(cases("a", "b"), Three(), tmp_path / "run", post_retrieval=stage)

    assert len(report.failures) == 1


def test_an_operator_that_failed_is_tried_again_on_request(tmp_path: Path) -> None:
    broken = [True]
    stage = PostRetrieval(operators=(Failing(broken=broken),))
    rag = Three()
    run(cases("a", "b"), rag, tmp_path / "run", post_retrieval=stage)
    broken.clear()

    report = run(cases("a", "b"), rag, tmp_path / "run", post_retrieval=stage, retry_failed=True)

    assert report.failures == ()
    assert rows(report)["a"].retrieved_ids == ("d-a",)
    assert rag.retrieved == ["a", "b"]  # once


@pytest.mark.parametrize("kind", [NotingRAG, AsyncRAG])
@pytest.mark.parametrize(
    ("on_error", "ended", "generated"),
    [("keep", Counts(measured=1), ["a"]), ("raise", Counts(failed=1), [])],
)
def test_on_error_raise_costs_the_case_of_functions_and_coroutines(
    tmp_path: Path,
    kind: Callable[[], Any],
    on_error: Any,
    ended: Counts,
    generated: list[str],
) -> None:
    rag = kind()
    stage = PostRetrieval(operators=(Failing(broken=[True]),), on_error=on_error)

    report = run(cases("a"), rag, tmp_path, post_retrieval=stage)

    assert counts(report)["post_retrieve"] == ended
    assert counts(report)["generate"] == ended
    assert getattr(rag, "plain", rag).generated == generated


# --- RAGs that it cannot be a part of


def test_a_rag_that_does_not_retrieve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not retrieve"):
        run(cases("a"), OnlyGenerates(), tmp_path / "run", post_retrieval=KEEP_ONE)

    assert not (tmp_path / "run").exists()


def test_a_rag_that_does_all_in_one_call_is_refused(tmp_path: Path) -> None:
    chain = as_rag(lambda query: {"answer": "A", "contexts": ["text"]})

    with pytest.raises(ConfigError, match=r"def ask\(question, contexts=None\)"):
        run(cases("a"), chain, tmp_path / "run", post_retrieval=KEEP_ONE)

    assert not (tmp_path / "run").exists()


def test_a_function_that_takes_contexts_answers_from_what_operators_leave(tmp_path: Path) -> None:
    def ask(query: str, contexts: list[str] | None = None) -> dict[str, object]:
        if contexts is None:
            contexts = ["one", "two"]
        return {"answer": " and ".join(contexts), "contexts": contexts}

    run(cases("a"), as_rag(ask), tmp_path / "run", post_retrieval=KEEP_ONE)

    trace = next(open_traces(tmp_path / "run")).trace
    assert trace.generation is not None
    assert trace.generation.value is not None
    assert trace.generation.value.response == "one"


# --- the RAG as a service for operators


class Linked(Three):
    """Knows what stands beside a chunk."""

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        return [Chunk(id=f"beside {chunk_id}", text="T.")][:top_k]


def test_a_rag_can_be_searched_again() -> None:
    service: Any = chunk_service(Three())

    assert service is not None
    chunks = service.search("a", 2)
    assert [chunk.id for chunk in chunks] == ["x", "y"]


def test_a_rag_can_be_asked_for_neighbours_where_it_knows_them() -> None:
    linked: object = chunk_service(Linked())

    assert isinstance(linked, ChunkNeighbours)
    neighbours: Any = linked.neighbours("x", 1)
    assert [chunk.id for chunk in neighbours] == ["beside x"]
    assert not isinstance(chunk_service(Three()), ChunkNeighbours)


@pytest.mark.parametrize("rag", [AsyncRAG(), OnlyGenerates()], ids=["coroutines", "no retrieval"])
def test_a_rag_that_cannot_be_searched_by_a_plain_call_is_no_service(rag: Any) -> None:
    assert chunk_service(rag) is None
