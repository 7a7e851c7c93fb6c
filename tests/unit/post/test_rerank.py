"""Ordering and cutting, and what happens when a reranker fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from ragbench import Chunk, PostRetrieval, Query, rerank
from ragbench.errors import InterfaceError, MissingExtraError, RunError, StageTimeoutError
from ragbench.post.operator import ranked
from ragbench.post.rerank import NotedScores, Rerank, Reranker
from ragbench.post.rerankers.fusion import ReciprocalRankFusionReranker
from ragbench.post.score_store import ScoreStore, StoredReranker, with_stored_scores
from tests.unit.post.builders import FixedScores, chunk, ids, query

THREE = [chunk("a", score=3.0), chunk("b", score=2.0), chunk("c", score=1.0)]


class Raising:
    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        raise self._error


class Hanging:
    """Answers only when it is let go."""

    name = "hanging"

    def __init__(self) -> None:
        self.release = threading.Event()

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        self.release.wait(30)
        return [1.0] * len(chunks)


def test_best_first_with_new_and_initial_places() -> None:
    done = rerank(query(), ranked(THREE), FixedScores(0.1, 0.9, 0.5), top_k=2)
    assert [(one.chunk.id, one.rank, one.score) for one in done.chunks] == [
        ("b", 1, 0.9),
        ("c", 2, 0.5),
    ]
    assert [(one.initial_rank, one.initial_score) for one in done.chunks] == [(2, 2.0), (3, 1.0)]
    assert done.failure is None


def test_plain_chunks_and_a_plain_question_will_do() -> None:
    class Words:
        name = "words"

        def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
            return [float(query.text in one.text) for one in chunks]

    plain = [Chunk(id="a", text="no bees"), Chunk(id="b", text="ants", score=0.5)]
    done = rerank("ants", plain, Words())
    assert [(one.chunk, one.score, one.initial_rank) for one in done.chunks] == [
        (plain[1], 1.0, 2),
        (plain[0], 0.0, 1),
    ]


def test_equal_scores_keep_their_present_order() -> None:
    first = rerank(query(), ranked(THREE), FixedScores(1, 2, 3)).chunks
    again = rerank(query(), first, FixedScores(0, 0, 0)).chunks
    assert [one.chunk.id for one in again] == ["c", "b", "a"]


def test_a_reranker_sees_the_scores_of_the_one_before_it() -> None:
    class Given:
        name = "given"

        def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
            assert [one.text for one in chunks] == ["Text of c.", "Text of b.", "Text of a."]
            return [one.score or 0.0 for one in chunks]

    first = rerank(query(), ranked(THREE), FixedScores(7, 8, 9)).chunks
    again = rerank(query(), first, Given(), on_error="raise").chunks
    assert [one.score for one in again] == [9, 8, 7]


@pytest.mark.parametrize(
    ("reranker", "message"),
    [
        (Raising(RuntimeError("broken")), "broken"),
        (Raising(SystemExit(3)), "3"),
        (FixedScores(1, 2), "'fixed' gave 2 scores for 3 chunks"),
        (FixedScores(1, 2, 3, 4), "'fixed' gave 4 scores for 3 chunks"),
        (FixedScores(1, float("nan"), 3), "score nan for chunk 2 of 3"),
        (FixedScores(1, float("inf"), 3), "score inf for chunk 2 of 3"),
        (FixedScores(1, "many", 3), "many"),
    ],
)
def test_a_failure_keeps_the_order_and_is_recorded(reranker: Reranker, message: str) -> None:
    done = rerank(query(), ranked(THREE), reranker, top_k=2)
    assert [(one.chunk.id, one.rank, one.score) for one in done.chunks] == [
        ("a", 1, 3.0),
        ("b", 2, 2.0),
    ]
    assert done.failure is not None
    assert done.failure.stage == f"rerank {reranker.name}"
    with pytest.raises((RuntimeError, SystemExit, InterfaceError, ValueError), match=message):
        rerank(query(), ranked(THREE), reranker, on_error="raise")


@pytest.mark.parametrize("error", [MissingExtraError("onnxruntime", "onnx"), KeyboardInterrupt()])
def test_what_would_fail_for_every_query_and_an_interruption_are_raised(
    error: BaseException,
) -> None:
    with pytest.raises(type(error)):
        rerank(query(), ranked(THREE), Raising(error))


def test_a_reranker_that_hangs_is_left_behind() -> None:
    reranker = Hanging()
    try:
        done = rerank(query(), ranked(THREE), reranker, timeout=0.01)
        assert [one.chunk.id for one in done.chunks] == ["a", "b", "c"]
        assert done.failure is not None
        assert done.failure.type == "StageTimeoutError"
        with pytest.raises(StageTimeoutError):
            rerank(query(), ranked(THREE), reranker, timeout=0.01, on_error="raise")
    finally:
        reranker.release.set()


QUERY = Query(text="which?")
A, B, C = chunk("a", "x"), chunk("b", "xxx"), chunk("c", "xx")


@dataclass(frozen=True, kw_only=True, slots=True)
class Paid:
    """A score is the length of the text, times a factor."""

    scores_alone: ClassVar[bool] = True
    asks_elsewhere: ClassVar[bool] = True

    factor: int = 1
    asked: list[list[str]] = field(
        default_factory=list[list[str]], compare=False, metadata={"setting": False}
    )
    name: str = "paid"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        self.asked.append([chunk.id for chunk in chunks])
        scores = tuple(float(self.factor * len(chunk.text)) for chunk in chunks)
        return NotedScores(scores, (f"{len(chunks)} were asked",))


@dataclass(frozen=True, kw_only=True, slots=True)
class PaidTogether(Paid):
    scores_alone: ClassVar[bool] = False


def test_only_what_is_lacking_is_asked(tmp_path: Path) -> None:
    paid = Paid()
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        stored = StoredReranker(reranker=paid, store=store)
        assert list(stored.score(QUERY, [A, B])) == [1.0, 3.0]
        assert list(stored.score(QUERY, [B, C, A])) == [3.0, 2.0, 1.0]
        assert (store.asked, store.reused) == (3, 2)
    assert paid.asked == [["a", "b"], ["c"]]
    # Another process: what was stored before an interruption is there.
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        known = StoredReranker(reranker=paid, store=store).score(QUERY, [A, B])
        assert (list(known), known.notes) == ([1.0, 3.0], ("2 were asked",))
    assert len(paid.asked) == 2


@pytest.mark.parametrize(
    ("reranker", "query", "chunks"),
    [
        (Paid(factor=2), QUERY, [A]),
        (Paid(), Query(text="other?"), [A]),
        (Paid(), QUERY, [chunk("a", "changed")]),
    ],
)
def test_another_model_query_or_text_is_asked(
    reranker: Paid, query: Query, chunks: list[Chunk]
) -> None:
    with ScoreStore(None) as store:
        StoredReranker(reranker=Paid(), store=store).score(QUERY, [A])
        StoredReranker(reranker=reranker, store=store).score(query, chunks)
    assert reranker.asked == [["a"]]


def test_a_list_that_is_scored_together_is_asked_again_when_it_differs() -> None:
    paid = PaidTogether()
    with ScoreStore(None) as store:
        stored = StoredReranker(reranker=paid, store=store)
        for chunks in ([A, B], [A, B], [B, A], [A]):
            stored.score(QUERY, chunks)
    assert paid.asked == [["a", "b"], ["b", "a"], ["a"]]


def test_rerankers_within_rerankers_are_stored() -> None:
    paid = Paid()
    fused = ReciprocalRankFusionReranker(rerankers=[paid, paid])
    with ScoreStore(None) as store:
        stage = with_stored_scores(PostRetrieval(operators=(Rerank(reranker=fused),)), store)
        assert ids(stage.run(QUERY, [A, B, C])) == ["b", "c", "a"]
    assert len(paid.asked) == 1


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database" * 100)
    with pytest.raises(RunError, match="cannot be used as a store of scores"):
        ScoreStore(tmp_path / "notes.txt")
