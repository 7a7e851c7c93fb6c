"""execute(): the operators document's mappings in and out."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ragbench import PostRetrieval, build_operator
from ragbench.errors import InputError
from ragbench.post.build import Resources
from tests.unit.post.operators.builders import Shelf, chunk


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


def test_an_item_that_nothing_was_known_of_stays_bare() -> None:
    data = stage({"action": "none"}).execute({"memory_data": [{"text": "Bare."}]})
    assert data["memory_data"] == [{"text": "Bare.", "metadata": {}}]
    assert data["history_text"] == "Bare."


@pytest.mark.parametrize("data", [{}, {"memory_data": None}, {"memory_data": []}])
def test_nothing_is_a_history_without_text(data: dict[str, Any]) -> None:
    found = stage({"action": "filter", "type": "top_k", "k": 3}).execute(data)
    assert (found["memory_data"], found["history_text"]) == ([], "")


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
    first = {"id": "x", "text": "One.", "source": "S1"}
    second = {"id": "x", "text": "Two.", "source": "S2"}
    found = sent(first, second)
    assert [(item["id"], item["text"], item["source"]) for item in found] == [
        ("x", "One.", "S1"),
        ("x", "Two.", "S2"),
    ]


def test_a_position_never_collides_with_a_given_id() -> None:
    items = [{"id": "1", "text": "A.", "src": "A"}, {"text": "B.", "src": "B"}]
    found = sent(*items, operators=({"action": "filter", "type": "dedup"},))
    assert [(item["text"], item["src"]) for item in found] == [("A.", "A"), ("B.", "B")]
    turned = sent(*reversed(items), operators=({"action": "filter", "type": "dedup"},))
    assert [(item["text"], item["src"]) for item in turned] == [("B.", "B"), ("A.", "A")]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, Fraction, int, float])
def test_scores_of_any_kind_of_number(kind: Any) -> None:
    (item,) = sent({"text": "A.", "score": kind(1)})
    assert item["score"] == 1.0
    assert type(item["score"]) is float
