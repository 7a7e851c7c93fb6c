"""One reranking and the whole stage: order, cuts, failures, mappings in and out, kept scores."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk, PostRetrieval, Query, build_operator, errors, rerank
from ragbench.errors import InputError, RunError, StageTimeoutError
from ragbench.ledger.scores import ScoreStore
from ragbench.post.build import Resources
from ragbench.post.filter import Threshold, TopK
from ragbench.post.format import Template
from ragbench.post.operator import OperatorInput, RankedChunk, ranked
from ragbench.post.rerank import Rerank, Reranker, StoredReranker
from ragbench.post.rerankers.fusion import ReciprocalRankFusionReranker
from ragbench.post.stage import with_stored_scores
from tests.unit.post.builders import FixedScores, Paid, PaidTogether, Shelf, chunk, ids, query

THREE = [chunk("a", score=3.0), chunk("b", score=2.0), chunk("c", score=1.0)]
CHUNKS = [chunk("a", "Ask HR.", 0.9), chunk("b", "Ask IT.", 0.5), chunk("c", "Ask us.", 0.1)]
QUERY = Query(text="Whom?")


class Raising:
    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def apply(self, context: OperatorInput) -> list[RankedChunk]:
        raise self._error

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        raise self._error


def places(chunks: Sequence[RankedChunk]) -> list[tuple[str, int, float | None]]:
    return [(one.chunk.id, one.rank, one.score) for one in chunks]


# --- one reranking


def test_best_first_with_new_and_initial_places() -> None:
    done = rerank(query(), ranked(THREE), FixedScores(0.1, 0.9, 0.5), top_k=2)
    assert places(done.chunks) == [("b", 1, 0.9), ("c", 2, 0.5)]
    assert [(one.initial_rank, one.initial_score) for one in done.chunks] == [(2, 2.0), (3, 1.0)]
    assert done.failure is None


def test_a_reranker_sees_the_scores_of_the_one_before_it_and_equals_keep_their_order() -> None:
    given: Any = SimpleNamespace(
        name="given", score=lambda query, chunks: [one.score or 0.0 for one in chunks]
    )
    first = rerank(query(), ranked(THREE), FixedScores(7, 8, 9)).chunks
    again = rerank(query(), first, given, on_error="raise").chunks
    assert places(again) == [("c", 1, 9), ("b", 2, 8), ("a", 3, 7)]
    assert ids(rerank(query(), again, FixedScores(0, 0, 0)).chunks) == ["c", "b", "a"]


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
    assert places(done.chunks) == [("a", 1, 3.0), ("b", 2, 2.0)]
    assert done.failure is not None
    assert done.failure.stage == f"rerank {reranker.name}"
    raised = (RuntimeError, SystemExit, errors.InterfaceError, ValueError)
    with pytest.raises(raised, match=message):
        rerank(query(), ranked(THREE), reranker, on_error="raise")
    operators = (Rerank(reranker=reranker, top_k=2),)
    kept = PostRetrieval(operators=operators).run(QUERY, THREE)
    assert (ids(kept), len(kept.failures)) == (["a", "b"], 1)
    with pytest.raises(errors.RagbenchError, match=message):
        PostRetrieval(operators=operators, on_error="raise").run(QUERY, THREE)


EXTRA = errors.MissingExtraError("onnxruntime", "onnx")


@pytest.mark.parametrize("error", [EXTRA, InputError("no"), KeyboardInterrupt()])
def test_what_would_fail_for_every_query_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        rerank(query(), ranked(THREE), Raising(error))
    with pytest.raises(type(error)):
        PostRetrieval(operators=(Raising(error),)).run(QUERY, CHUNKS)


def test_a_reranker_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    hanging: Any = SimpleNamespace(name="hanging", score=lambda *_: release.wait(30))
    try:
        done = rerank(query(), ranked(THREE), hanging, timeout=0.01)
        assert ids(done.chunks) == ["a", "b", "c"]
        assert done.failure is not None
        assert done.failure.type == "StageTimeoutError"
        with pytest.raises(StageTimeoutError):
            rerank(query(), ranked(THREE), hanging, timeout=0.01, on_error="raise")
    finally:
        release.set()


# --- the stage


def test_each_step_says_what_it_dropped() -> None:
    stage = PostRetrieval(operators=(Threshold(min_score=0.3), TopK(k=1)))
    done = stage.run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a"]
    first, second = done.steps
    assert (first.operator, first.dropped) == ("filter.threshold", ("c",))
    assert first.given == (("a", 0.9), ("b", 0.5), ("c", 0.1))
    assert (second.operator, second.dropped) == ("filter.top_k", ("b",))
    assert second.given == first.left


def test_the_last_format_writes_the_text_and_without_one_it_is_that_of_the_chunks() -> None:
    plain = PostRetrieval().run(QUERY, CHUNKS[:2])
    assert (plain.history_text, plain.formatted) == ("Ask HR.\n\nAsk IT.", False)
    assert (plain.texts, plain.steps) == (["Ask HR.", "Ask IT."], ())
    stage = PostRetrieval(operators=(Template(), Template(template="- {text}", separator="\n")))
    done = stage.run(QUERY, CHUNKS[:2])
    assert (done.history_text, done.formatted) == ("- Ask HR.\n- Ask IT.", True)
    assert done.texts == ["- Ask HR.\n- Ask IT."]


@pytest.mark.parametrize("output", [None, [CHUNKS[0]], ""])
def test_an_operator_that_gives_something_else_is_passed_over(output: Any) -> None:
    odd: Any = SimpleNamespace(name="odd", apply=lambda context: output)
    done = PostRetrieval(operators=(odd,)).run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a", "b", "c"]
    assert f"odd.apply returned {type(output).__name__}" in done.failures[0].message


def test_an_operator_may_return_the_chunks_that_are_left() -> None:
    odd: Any = SimpleNamespace(name="backwards", apply=lambda context: context.chunks[::-2])
    done = PostRetrieval(operators=(odd,)).run("Which?", CHUNKS)
    found = [(one.chunk.id, one.rank, one.initial_rank) for one in done.chunks]
    assert found == [("c", 1, 3), ("a", 2, 1)]
    assert (done.steps[0].dropped, done.failures) == (("b",), ())


# --- identity


@pytest.mark.extra("http")
def test_no_credential_is_part_of_the_identity() -> None:
    given = {"url": "https://bob:pw@host/rerank?token=s3cret", "headers": {"X-Api-Key": "s3cret"}}
    secret = build_operator({"action": "rerank", "type": "http", **given})
    identity = str(PostRetrieval(operators=(secret,)).identity)
    assert "s3cret" not in identity
    assert "pw@" not in identity


# --- execute(): the operators document's mappings in and out


def stage(*operators: dict[str, Any], score_field: str | None = None) -> PostRetrieval:
    resources = Resources(service=Shelf(linked={"e1": [chunk("new", "New.", 0.3)]}))
    built = tuple(build_operator(each, resources) for each in operators)
    return PostRetrieval(operators=built, score_field=score_field)


DATA: dict[str, Any] = {
    "question": "Whom?",
    "query_embedding": [1.0, 0.0],
    "session": 7,
    "memory_data": [
        {"text": "Far.", "score": 0.9, "entry_id": "e1", "metadata": {"embedding": [0.0, 1.0]}},
        {"text": "Near.", "score": 0.1, "tag": "t", "metadata": {"embedding": [1.0, 0.0]}},
        {"text": "Bare."},
    ],
}


def test_items_are_reranked_by_the_embeddings_given_and_keep_their_keys() -> None:
    before = copy.deepcopy(DATA)
    data = stage({"action": "rerank", "type": "semantic", "top_k": 2}).execute(DATA)
    assert before == DATA
    assert data["session"] == 7
    near = {**DATA["memory_data"][1], "score": pytest.approx(1.0)}
    assert data["memory_data"][0] == near
    assert data["history_text"].startswith("Near.\n\n")
    data = stage({"action": "merge", "type": "link_expand", "first": 1}).execute(DATA)
    added = {"id": "new", "text": "New.", "score": 0.3, "metadata": {}}
    assert data["memory_data"][-1] == added
    operator = {"action": "filter", "type": "top_k", "k": 1}
    data = stage(operator, score_field="rerank_score").execute(DATA)
    assert data["memory_data"][0]["metadata"]["rerank_score"] == 0.9
    assert "rerank_score" not in DATA["memory_data"][0]["metadata"]


def test_execute_reports_each_step_and_warns_of_one_that_failed() -> None:
    operators = (Raising(RuntimeError("broken")), TopK(k=1))
    with pytest.warns(errors.RagbenchWarning) as warned:
        data = PostRetrieval(operators=operators).execute(DATA)
    assert data["history_text"] == "Far."
    assert data["steps"] == [
        {
            "operator": "raising",
            "acted": False,
            "notes": [],
            "failures": ["raising: RuntimeError: broken"],
        },
        {"operator": "filter.top_k", "acted": True, "notes": [], "failures": []},
    ]
    (warning,) = warned
    assert warning.filename == __file__
    expected = "raising failed, and the chunks went on without it: RuntimeError: broken"
    assert str(warning.message) == expected


def test_execute_warns_of_a_step_that_did_nothing_and_notes_why() -> None:
    bare = {"question": "Whom?", "memory_data": [{"text": "A."}, {"text": "B."}]}
    expected = r"rerank\.semantic changed nothing: .*embedding"
    with pytest.warns(errors.RagbenchWarning, match=expected):
        data = stage({"action": "rerank", "type": "semantic"}).execute(bare)
    (step,) = data["steps"]
    assert not step["acted"]
    assert "embedding" in step["notes"][0]


def test_execute_without_a_problem_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    stage({"action": "filter", "type": "top_k", "k": 9}).execute(DATA)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("data", "items"),
    [
        ({}, []),
        ({"memory_data": None}, []),
        ({"memory_data": []}, []),
        # An item that nothing else is known of stays bare.
        ({"memory_data": [{"text": "Bare."}]}, [{"text": "Bare.", "metadata": {}}]),
    ],
)
def test_what_is_hardly_anything_stays_so(data: dict[str, Any], items: list[Any]) -> None:
    found = stage({"action": "none"}).execute(data)
    assert (found["memory_data"], found["history_text"]) == (items, "Bare." * len(items))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"memory_data": "text"}, "memory_data must be a list, not str"),
        ({"memory_data": ["text"]}, r"memory_data\[0\] must be a mapping, not str"),
        ({"memory_data": [{"text": "a"}, {}]}, r"memory_data\[1\]: text must be a text, not None"),
        ({"memory_data": [{"text": "a", "score": "x"}]}, "score must be a finite number, not 'x'"),
        ({"memory_data": [{"text": "a", "score": float("nan")}]}, "finite number, not nan"),
        ({"memory_data": [{"text": "a", "metadata": 3}]}, "metadata must be a mapping, not int"),
        ({"question": 3}, "question must be a text, not int"),
    ],
)
def test_what_is_no_memory_is_refused_with_its_place(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        stage({"action": "none"}).execute(data)


def sent(*items: dict[str, Any], operators: tuple[dict[str, Any], ...] = ()) -> list[Any]:
    done = stage(*operators).execute({"question": "?", "memory_data": list(items)})
    return list(done["memory_data"])


def test_items_that_share_an_id_or_have_none_keep_their_own_keys() -> None:
    first: dict[str, Any] = {"id": "x", "text": "One.", "source": "S1"}
    for other in ({"id": "x", "text": "Two.", "source": "S2"}, {"text": "Two.", "source": "S2"}):
        for given in ([first, other], [other, {**first, "id": "1"}]):
            found = sent(*given, operators=({"action": "none"},))
            shown = [(item["text"], item["source"]) for item in found]
            assert shown == [(item["text"], item["source"]) for item in given]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, Fraction, int, float])
def test_scores_of_any_kind_of_number(kind: Any) -> None:
    (item,) = sent({"text": "A.", "score": kind(1)})
    assert item["score"] == 1.0
    assert type(item["score"]) is float


# --- scores that are kept

ASKED = Query(text="which?")
A, B, C = chunk("a", "x"), chunk("b", "xxx"), chunk("c", "xx")


def test_only_what_is_lacking_is_asked(tmp_path: Path) -> None:
    paid = Paid()
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        stored = StoredReranker(reranker=paid, store=store)
        assert list(stored.score(ASKED, [A, B])) == [1.0, 3.0]
        assert list(stored.score(ASKED, [B, C, A])) == [3.0, 2.0, 1.0]
        assert (store.asked, store.reused) == (3, 2)
    assert paid.asked == [["a", "b"], ["c"]]
    # Another process: what was stored before an interruption is there.
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        known = StoredReranker(reranker=paid, store=store).score(ASKED, [A, B])
        assert (list(known), known.notes) == ([1.0, 3.0], ("2 were asked",))
    assert len(paid.asked) == 2


@pytest.mark.parametrize(
    ("reranker", "query", "chunks"),
    [
        (Paid(factor=2), ASKED, [A]),
        (Paid(), Query(text="other?"), [A]),
        (Paid(), ASKED, [chunk("a", "changed")]),
    ],
)
def test_another_model_query_or_text_is_asked_and_so_is_another_list_scored_together(
    reranker: Paid, query: Query, chunks: list[Chunk]
) -> None:
    together = PaidTogether()
    with ScoreStore(None) as store:
        StoredReranker(reranker=Paid(), store=store).score(ASKED, [A])
        StoredReranker(reranker=reranker, store=store).score(query, chunks)
        for several in ([A, B], [A, B], [B, A], [A]):
            StoredReranker(reranker=together, store=store).score(ASKED, several)
    assert reranker.asked == [["a"]]
    assert together.asked == [["a", "b"], ["b", "a"], ["a"]]


def test_rerankers_within_rerankers_are_stored() -> None:
    paid = Paid()
    fused = ReciprocalRankFusionReranker(rerankers=[paid, paid])
    with ScoreStore(None) as store:
        stage = with_stored_scores(PostRetrieval(operators=(Rerank(reranker=fused),)), store)
        assert ids(stage.run(ASKED, [A, B, C])) == ["b", "c", "a"]
    assert len(paid.asked) == 1


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database" * 100)
    with pytest.raises(RunError, match="cannot be used as a store of scores"):
        ScoreStore(tmp_path / "notes.txt")
