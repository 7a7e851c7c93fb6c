"""The stage: operators one after the other, over chunks and over plain mappings; failures."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragbench import PostRetrieval, Query, RagbenchError, build_operator
from ragbench.errors import InputError, MissingExtraError
from ragbench.post.build import Resources
from ragbench.post.filter import Threshold, TopK
from ragbench.post.format import Template
from ragbench.post.operator import OperatorInput, OperatorOutput, RankedChunk
from ragbench.post.rerank import Rerank
from tests.unit.post.builders import Shelf, chunk, ids

CHUNKS = [chunk("a", "Ask HR.", 0.9), chunk("b", "Ask IT.", 0.5), chunk("c", "Ask us.", 0.1)]
QUERY = Query(text="Whom?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raising:
    error: BaseException
    name: str = "custom.raising"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        raise self.error


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenReranker:
    name: str = "broken"

    def score(self, query: Query, chunks: Any) -> list[float]:
        raise RuntimeError("no model")


def test_each_step_says_what_it_dropped() -> None:
    stage = PostRetrieval(operators=(Threshold(min_score=0.3), TopK(k=1)))
    done = stage.run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a"]
    first, second = done.steps
    assert (first.operator, first.dropped) == ("filter.threshold", ("c",))
    assert first.given == (("a", 0.9), ("b", 0.5), ("c", 0.1))
    assert (second.operator, second.dropped) == ("filter.top_k", ("b",))
    assert second.given == first.left


def test_without_a_format_the_text_is_that_of_the_chunks() -> None:
    done = PostRetrieval().run(QUERY, CHUNKS[:2])
    assert (done.history_text, done.formatted) == ("Ask HR.\n\nAsk IT.", False)
    assert done.texts == ["Ask HR.", "Ask IT."]
    assert done.steps == ()


def test_the_last_format_writes_the_text() -> None:
    stage = PostRetrieval(operators=(Template(), Template(template="- {text}", separator="\n")))
    done = stage.run(QUERY, CHUNKS[:2])
    assert (done.history_text, done.formatted) == ("- Ask HR.\n- Ask IT.", True)
    assert done.texts == ["- Ask HR.\n- Ask IT."]


# --- failures


def test_an_operator_that_raises_is_passed_over_and_reported() -> None:
    stage = PostRetrieval(operators=(Raising(error=RuntimeError("boom")), TopK(k=1)))
    done = stage.run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a"]
    assert [(failure.stage, failure.message) for failure in done.failures] == [
        ("custom.raising", "boom")
    ]
    assert done.steps[0].left == done.steps[0].given


def test_a_reranker_that_raises_leaves_the_order_and_its_cut() -> None:
    operators = (Rerank(reranker=BrokenReranker(), top_k=2),)
    done = PostRetrieval(operators=operators).run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a", "b"]
    assert [failure.message for failure in done.failures] == ["no model"]
    with pytest.raises(RagbenchError, match="no model"):
        PostRetrieval(operators=operators, on_error="raise").run(QUERY, CHUNKS)


@pytest.mark.parametrize(
    "error", [InputError("no such model"), MissingExtraError("x", "y"), KeyboardInterrupt()]
)
def test_what_would_fail_for_every_question_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        PostRetrieval(operators=(Raising(error=error),)).run(QUERY, CHUNKS)


@pytest.mark.parametrize("output", [None, [CHUNKS[0]], ""])
def test_an_operator_that_gives_something_else_is_passed_over(output: Any) -> None:
    odd: Any = SimpleNamespace(name="odd", apply=lambda context: output)
    done = PostRetrieval(operators=(odd,)).run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a", "b", "c"]
    assert f"odd.apply returned {type(output).__name__}" in done.failures[0].message


def test_an_operator_may_return_the_chunks_that_are_left() -> None:
    class Backwards:
        name = "backwards"

        def apply(self, context: OperatorInput) -> list[RankedChunk]:
            return [entry for entry in reversed(context.chunks) if entry.chunk.id != "b"]

    done = PostRetrieval(operators=(Backwards(),)).run("Which?", CHUNKS)
    assert [(one.chunk.id, one.rank, one.initial_rank) for one in done.chunks] == [
        ("c", 1, 3),
        ("a", 2, 1),
    ]
    assert done.steps[0].dropped == ("b",)
    assert done.failures == ()


# --- identity


@pytest.mark.extra("http")
def test_no_credential_is_part_of_the_identity() -> None:
    secret = build_operator(
        {
            "action": "rerank",
            "type": "http",
            "url": "https://bob:pw@host/rerank?api_key=s3cret",
            "headers": {"X-Api-Key": "s3cret"},
        }
    )
    identity = str(PostRetrieval(operators=(secret,)).identity)
    assert "s3cret" not in identity
    assert "pw@" not in identity


@pytest.mark.extra("tokens")
def test_a_tokenizer_of_the_same_name_with_another_vocabulary_is_another_one(
    tmp_path: Path,
) -> None:
    tokenizers: Any = import_module("tokenizers")
    file = tmp_path / "tokenizer.json"
    given = {"action": "filter", "type": "token_budget", "budget": 9}
    identities: set[str] = set()
    for words in ({"a": 0, "b": 1}, {"a": 0, "c": 1}):
        tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "a")).save(str(file))
        operator = build_operator({**given, "counter": f"tokenizers:{file}"})
        identities.add(str(PostRetrieval(operators=(operator,)).identity))
    assert len(identities) == 2


# --- execute(): the operators document's mappings in and out


def stage(*operators: dict[str, Any], score_field: str | None = None) -> PostRetrieval:
    resources = Resources(service=Shelf(linked={"e1": [chunk("new", "New.", 0.3)]}))
    return PostRetrieval(
        operators=tuple(build_operator(each, resources) for each in operators),
        score_field=score_field,
    )


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
    assert data["memory_data"][0] == {
        "text": "Near.",
        "score": pytest.approx(1.0),
        "tag": "t",
        "metadata": {"embedding": [1.0, 0.0]},
    }
    assert data["history_text"].startswith("Near.\n\n")


def test_the_score_goes_into_the_metadata_only_on_request() -> None:
    operator = {"action": "filter", "type": "top_k", "k": 1}
    assert stage(operator).execute(DATA)["memory_data"][0]["metadata"].keys() == {"embedding"}
    data = stage(operator, score_field="rerank_score").execute(DATA)
    assert data["memory_data"][0]["metadata"]["rerank_score"] == 0.9
    assert "rerank_score" not in DATA["memory_data"][0]["metadata"]


def test_what_the_service_adds_becomes_an_item() -> None:
    data = stage({"action": "merge", "type": "link_expand", "first": 1}).execute(DATA)
    assert data["memory_data"][-1] == {"id": "new", "text": "New.", "score": 0.3, "metadata": {}}


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


def test_items_that_share_an_id_keep_their_own_keys() -> None:
    found = sent(
        {"id": "x", "text": "One.", "source": "S1"}, {"id": "x", "text": "Two.", "source": "S2"}
    )
    assert [(item["id"], item["source"]) for item in found] == [("x", "S1"), ("x", "S2")]


def test_a_position_never_collides_with_a_given_id() -> None:
    items = [{"id": "1", "text": "A.", "src": "A"}, {"text": "B.", "src": "B"}]
    for given in (items, items[::-1]):
        found = sent(*given, operators=({"action": "filter", "type": "dedup"},))
        assert [(item["text"], item["src"]) for item in found] == [
            (item["text"], item["src"]) for item in given
        ]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, Fraction, int, float])
def test_scores_of_any_kind_of_number(kind: Any) -> None:
    (item,) = sent({"text": "A.", "score": kind(1)})
    assert item["score"] == 1.0
    assert type(item["score"]) is float
