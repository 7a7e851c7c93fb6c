"""Scores that are known are not asked again: by variants, by a later run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from ragbench import Chunk, PostRetrieval, Query
from ragbench.errors import RunError
from ragbench.post.rerank import NotedScores, Rerank
from ragbench.post.rerankers.fusion import ReciprocalRankFusionReranker
from ragbench.post.score_store import ScoreStore, StoredReranker, with_stored_scores
from tests.unit.post.builders import chunk, ids

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
