"""One reranking and the whole stage: order, cuts, failures, mappings in and out, stored scores."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
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

THREE = [
    chunk("a", score=3.0),
    chunk("b", score=2.0),
    chunk("c", score=1.0),
]
CHUNKS = [
    chunk("a", "Ask HR.", 0.9),
    chunk("b", "Ask IT.", 0.5),
    chunk("c", "Ask us.", 0.1),
]
QUERY = Query(text="Whom?")


class Raising:
    """A reranker and an operator in one, that always fails."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def apply(self, context: OperatorInput) -> list[RankedChunk]:
        raise self._error

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        raise self._error


def places(chunks: Sequence[RankedChunk]) -> list[tuple[str, int, float | None]]:
    """The id, rank and score of each."""
    return [(entry.chunk.id, entry.rank, entry.score) for entry in chunks]


def initial_places(chunks: Sequence[RankedChunk]) -> list[tuple[str, int | None, float | None]]:
    """The id of each, and the rank and score of before."""
    return [(entry.chunk.id, entry.initial_rank, entry.initial_score) for entry in chunks]


# --- one reranking


def test_chunks_come_best_first_and_remember_their_initial_places() -> None:
    reranker = FixedScores(0.1, 0.9, 0.5)

    reranking = rerank(query(), ranked(THREE), reranker, top_k=2)

    assert places(reranking.chunks) == [("b", 1, 0.9), ("c", 2, 0.5)]
    assert initial_places(reranking.chunks) == [("b", 2, 2.0), ("c", 3, 1.0)]
    assert reranking.failure is None


class PresentScores:
    """A reranker that gives each chunk the score that it has already."""

    name = "present"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        return [chunk.score or 0.0 for chunk in chunks]


def test_a_reranker_sees_the_scores_of_the_one_before_it() -> None:
    by_numbers = rerank(query(), ranked(THREE), FixedScores(7, 8, 9)).chunks

    by_present_scores = rerank(query(), by_numbers, PresentScores(), on_error="raise").chunks

    assert places(by_present_scores) == [("c", 1, 9), ("b", 2, 8), ("a", 3, 7)]


def test_chunks_of_equal_scores_keep_their_order() -> None:
    reversed_chunks = rerank(query(), ranked(THREE), FixedScores(7, 8, 9)).chunks

    reranking = rerank(query(), reversed_chunks, FixedScores(0, 0, 0))

    assert ids(reranking.chunks) == ["c", "b", "a"]


FAILING = pytest.mark.parametrize(
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
    ids=["raises", "exits", "too few", "too many", "nan", "infinite", "a word"],
)


@FAILING
def test_a_reranker_that_fails_keeps_the_order_and_is_recorded(
    reranker: Reranker, message: str
) -> None:
    reranking = rerank(query(), ranked(THREE), reranker, top_k=2)

    assert places(reranking.chunks) == [("a", 1, 3.0), ("b", 2, 2.0)]
    assert reranking.failure is not None
    assert reranking.failure.stage == f"rerank {reranker.name}"
    assert message in reranking.failure.message


@FAILING
def test_a_reranker_that_fails_is_raised_on_demand(reranker: Reranker, message: str) -> None:
    errors_of_rerankers = (RuntimeError, SystemExit, errors.InterfaceError, ValueError)

    with pytest.raises(errors_of_rerankers, match=message):
        rerank(query(), ranked(THREE), reranker, on_error="raise")


@FAILING
def test_a_stage_goes_on_without_a_reranker_that_fails(reranker: Reranker, message: str) -> None:
    stage = PostRetrieval(operators=(Rerank(reranker=reranker, top_k=2),))

    done = stage.run(QUERY, THREE)

    assert ids(done) == ["a", "b"]
    (failure,) = done.failures
    assert message in failure.message


@FAILING
def test_a_stage_raises_what_a_reranker_raises_on_demand(reranker: Reranker, message: str) -> None:
    stage = PostRetrieval(operators=(Rerank(reranker=reranker, top_k=2),), on_error="raise")

    with pytest.raises(errors.RagbenchError, match=message):
        stage.run(QUERY, THREE)


FAILS_EVERY_QUERY = pytest.mark.parametrize(
    "error",
    [errors.MissingExtraError("onnxruntime", "onnx"), InputError("no"), KeyboardInterrupt()],
    ids=["missing extra", "wrong input", "interrupted"],
)


@FAILS_EVERY_QUERY
def test_a_reranker_that_would_fail_for_every_query_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        rerank(query(), ranked(THREE), Raising(error))


@FAILS_EVERY_QUERY
def test_an_operator_that_would_fail_for_every_query_is_raised(error: BaseException) -> None:
    stage = PostRetrieval(operators=(Raising(error),))

    with pytest.raises(type(error)):
        stage.run(QUERY, CHUNKS)


@pytest.fixture
def hanging() -> Iterator[Any]:
    """A reranker that answers only when the test is over."""
    release = threading.Event()
    yield SimpleNamespace(name="hanging", score=lambda *_: release.wait(30))
    release.set()


def test_a_reranker_that_hangs_is_left_behind(hanging: Any) -> None:
    reranking = rerank(query(), ranked(THREE), hanging, timeout=0.01)

    assert ids(reranking.chunks) == ["a", "b", "c"]
    assert reranking.failure is not None
    assert reranking.failure.type == "StageTimeoutError"


def test_a_reranker_that_hangs_is_raised_on_demand(hanging: Any) -> None:
    with pytest.raises(StageTimeoutError):
        rerank(query(), ranked(THREE), hanging, timeout=0.01, on_error="raise")


# --- the stage


def test_each_step_says_what_it_dropped() -> None:
    stage = PostRetrieval(operators=(Threshold(min_score=0.3), TopK(k=1)))

    done = stage.run(QUERY, CHUNKS)

    assert ids(done.chunks) == ["a"]
    threshold, top_k = done.steps
    assert threshold.operator == "filter.threshold"
    assert threshold.dropped == ("c",)
    assert threshold.given == (("a", 0.9), ("b", 0.5), ("c", 0.1))
    assert (top_k.operator, top_k.dropped) == ("filter.top_k", ("b",))
    assert top_k.given == threshold.left


def test_without_a_format_the_text_is_that_of_the_chunks() -> None:
    done = PostRetrieval().run(QUERY, CHUNKS[:2])

    assert done.history_text == "Ask HR.\n\nAsk IT."
    assert not done.formatted
    assert done.texts == ["Ask HR.", "Ask IT."]
    assert done.steps == ()


def test_the_last_format_writes_the_text() -> None:
    stage = PostRetrieval(operators=(Template(), Template(template="- {text}", separator="\n")))

    done = stage.run(QUERY, CHUNKS[:2])

    assert done.history_text == "- Ask HR.\n- Ask IT."
    assert done.formatted
    assert done.texts == ["- Ask HR.\n- Ask IT."]


@pytest.mark.parametrize("output", [None, [CHUNKS[0]], ""], ids=["None", "bare chunks", "a text"])
def test_an_operator_that_returns_no_ranked_chunks_is_passed_over(output: Any) -> None:
    operator: Any = SimpleNamespace(name="odd", apply=lambda context: output)

    done = PostRetrieval(operators=(operator,)).run(QUERY, CHUNKS)

    assert ids(done.chunks) == ["a", "b", "c"]
    assert f"odd.apply returned {type(output).__name__}" in done.failures[0].message


def test_an_operator_may_return_fewer_chunks_in_another_order() -> None:
    every_second_from_the_end = slice(None, None, -2)
    operator: Any = SimpleNamespace(
        name="backwards", apply=lambda context: context.chunks[every_second_from_the_end]
    )

    done = PostRetrieval(operators=(operator,)).run("Which?", CHUNKS)

    assert places(done.chunks) == [("c", 1, 0.1), ("a", 2, 0.9)]
    assert initial_places(done.chunks) == [("c", 3, 0.1), ("a", 1, 0.9)]
    assert done.steps[0].dropped == ("b",)
    assert done.failures == ()


# --- identity


@pytest.mark.extra("http")
def test_no_credential_is_part_of_the_identity() -> None:
    operator = build_operator(
        {
            "action": "rerank",
            "type": "http",
            "url": "https://bob:pw@host/rerank?token=s3cret",
            "headers": {"X-Api-Key": "s3cret"},
        }
    )

    identity = str(PostRetrieval(operators=(operator,)).identity)

    assert "s3cret" not in identity
    assert "pw@" not in identity


# --- execute(): the operators document's mappings in and out


def stage(*operators: dict[str, Any], score_field: str | None = None) -> PostRetrieval:
    """The stage of these operators, beside a store where e1 leads to a new chunk."""
    resources = Resources(service=Shelf(linked={"e1": [chunk("new", "New.", 0.3)]}))
    built = tuple(build_operator(operator, resources) for operator in operators)
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


def test_items_are_reranked_by_their_embeddings_and_keep_their_keys() -> None:
    data = stage({"action": "rerank", "type": "semantic", "top_k": 2}).execute(DATA)

    assert data["session"] == 7
    near = {**DATA["memory_data"][1], "score": pytest.approx(1.0)}
    assert data["memory_data"][0] == near
    assert data["history_text"].startswith("Near.\n\n")


def test_execute_changes_nothing_of_what_it_is_called_with() -> None:
    before = copy.deepcopy(DATA)

    stage({"action": "rerank", "type": "semantic"}, score_field="rerank_score").execute(DATA)

    assert before == DATA


def test_an_item_that_an_operator_adds_has_its_id_text_and_score() -> None:
    data = stage({"action": "merge", "type": "link_expand", "first": 1}).execute(DATA)

    added = {"id": "new", "text": "New.", "score": 0.3, "metadata": {}}
    assert data["memory_data"][-1] == added


def test_the_score_is_written_into_the_metadata_where_a_field_is_named() -> None:
    operator = {"action": "filter", "type": "top_k", "k": 1}

    data = stage(operator, score_field="rerank_score").execute(DATA)

    assert data["memory_data"][0]["metadata"]["rerank_score"] == 0.9


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
    ("data", "items", "text"),
    [
        ({}, [], ""),
        ({"memory_data": None}, [], ""),
        ({"memory_data": []}, [], ""),
        ({"memory_data": [{"text": "Bare."}]}, [{"text": "Bare.", "metadata": {}}], "Bare."),
    ],
    ids=["nothing", "memory is null", "no item", "an item of a text alone"],
)
def test_execute_adds_no_keys_to_bare_items(
    data: dict[str, Any], items: list[Any], text: str
) -> None:
    done = stage({"action": "none"}).execute(data)

    assert done["memory_data"] == items
    assert done["history_text"] == text


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


def executed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items after a stage that changes nothing."""
    done = stage({"action": "none"}).execute({"question": "?", "memory_data": items})
    return list(done["memory_data"])


@pytest.mark.parametrize(
    "items",
    [
        [{"id": "x", "text": "A.", "source": "S1"}, {"id": "x", "text": "B.", "source": "S2"}],
        [{"id": "x", "text": "A.", "source": "S1"}, {"text": "B.", "source": "S2"}],
        [{"text": "A.", "source": "S1"}, {"id": "x", "text": "B.", "source": "S2"}],
        # An item without an id is called by its position, 1 for the second: the first has this id.
        [{"id": "1", "text": "A.", "source": "S1"}, {"text": "B.", "source": "S2"}],
        [{"id": "x", "text": "A.", "source": "S1"}, {"id": "1", "text": "B.", "source": "S2"}],
    ],
    ids=["the same id", "second without", "first without", "the id of a position", "two ids"],
)
def test_items_that_share_an_id_or_have_none_keep_their_own_keys(
    items: list[dict[str, Any]],
) -> None:
    item_a, item_b = executed(items)

    assert (item_a["text"], item_a["source"]) == ("A.", "S1")
    assert (item_b["text"], item_b["source"]) == ("B.", "S2")


@pytest.mark.parametrize("number", [np.float32, np.float64, np.int64, Fraction, int, float])
def test_a_score_of_any_kind_of_number_becomes_a_float(number: Any) -> None:
    (item,) = executed([{"text": "A.", "score": number(1)}])

    assert item["score"] == 1.0
    assert type(item["score"]) is float


# --- scores that are stored

WHICH = Query(text="which?")
# A paid reranker's score is the length of the text: 1, 3 and 2.
A = chunk("a", "x")
B = chunk("b", "xxx")
C = chunk("c", "xx")


def test_only_chunks_without_a_stored_score_are_asked() -> None:
    paid = Paid()
    with ScoreStore(None) as store:
        reranker = StoredReranker(reranker=paid, store=store)

        scores_of_two = list(reranker.score(WHICH, [A, B]))
        scores_of_three = list(reranker.score(WHICH, [B, C, A]))

        assert scores_of_two == [1.0, 3.0]
        assert scores_of_three == [3.0, 2.0, 1.0]
        assert store.asked == 3
        assert store.reused == 2
    assert paid.requests == [["a", "b"], ["c"]]


def test_stored_scores_and_their_notes_outlast_the_process(tmp_path: Path) -> None:
    paid = Paid()
    path = tmp_path / "scores.sqlite"
    with ScoreStore(path) as store:
        StoredReranker(reranker=paid, store=store).score(WHICH, [A, B])

    with ScoreStore(path) as store:
        scores = StoredReranker(reranker=paid, store=store).score(WHICH, [A, B])

    assert list(scores) == [1.0, 3.0]
    assert scores.notes == ("2 were asked",)
    assert paid.requests == [["a", "b"]]


@pytest.mark.parametrize(
    ("reranker", "query", "chunk"),
    [
        (Paid(factor=2), WHICH, A),
        (Paid(), Query(text="other?"), A),
        (Paid(), WHICH, chunk("a", "changed")),
    ],
    ids=["another model", "another query", "another text"],
)
def test_another_model_query_or_text_is_asked(reranker: Paid, query: Query, chunk: Chunk) -> None:
    with ScoreStore(None) as store:
        StoredReranker(reranker=Paid(), store=store).score(WHICH, [A])

        StoredReranker(reranker=reranker, store=store).score(query, [chunk])

    assert reranker.requests == [["a"]]


def test_scores_of_a_list_are_stored_for_the_same_list_alone() -> None:
    """A reranker that scores chunks together may score one otherwise beside others."""
    together = PaidTogether()
    with ScoreStore(None) as store:
        reranker = StoredReranker(reranker=together, store=store)

        for chunks in ([A, B], [A, B], [B, A], [A]):
            reranker.score(WHICH, chunks)

    assert together.requests == [["a", "b"], ["b", "a"], ["a"]]


def test_rerankers_within_rerankers_are_stored() -> None:
    paid = Paid()
    fused = ReciprocalRankFusionReranker(rerankers=[paid, paid])
    with ScoreStore(None) as store:
        stage = with_stored_scores(PostRetrieval(operators=(Rerank(reranker=fused),)), store)

        done = stage.run(WHICH, [A, B, C])

    assert ids(done) == ["b", "c", "a"]
    assert len(paid.requests) == 1


def test_a_file_that_is_no_store_of_scores_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database" * 100)

    with pytest.raises(RunError, match="cannot be used as a store of scores"):
        ScoreStore(path)
