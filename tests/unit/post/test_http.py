"""Reranking services: what is sent, what is understood, what is told when it fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragbench import rerank
from ragbench.errors import ConfigError, InterfaceError
from ragbench.post.operator import ranked
from ragbench.post.rerankers.models import HttpReranker
from tests.unit.post.builders import chunk, query
from tests.unit.post.rerank_server import Answer, serving

pytestmark = pytest.mark.extra("http")

TEXTS = ["xx", "xxxx", "xxx"]
CHUNKS = [chunk(name, text) for name, text in zip("abc", TEXTS, strict=True)]
ASKED = {"model": "m", "query": "q"}
SCORES = ((1, 0.9), (2, 0.5), (0, 0.1))


def results(key: str, **more: Any) -> list[dict[str, Any]]:
    return [{"index": at, key: score, **more} for at, score in SCORES]


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any] | list[Any]]] = {
    "cohere": (
        {**ASKED, "documents": TEXTS, "top_n": 3},
        {"id": "1", "results": results("relevance_score"), "meta": {"api_version": {}}},
    ),
    "jina": (
        {**ASKED, "documents": TEXTS, "top_n": 3, "return_documents": False},
        {"results": results("relevance_score")},
    ),
    "voyage": (
        {**ASKED, "documents": TEXTS, "top_k": 3, "return_documents": False, "truncation": True},
        {"object": "list", "data": results("relevance_score"), "usage": {"total_tokens": 26}},
    ),
    "nim": (
        {
            "model": "m",
            "query": {"text": "q"},
            "passages": [{"text": text} for text in TEXTS],
            "truncate": "END",
        },
        {"rankings": results("logit")},
    ),
    "mixedbread": (
        {**ASKED, "input": TEXTS, "top_k": 3, "return_input": False},
        {"usage": {"total_tokens": 1}, "data": results("score", object="rank_result")},
    ),
    "pinecone": (
        {
            **ASKED,
            "documents": [{"text": text} for text in TEXTS],
            "top_n": 3,
            "return_documents": False,
            "parameters": {"truncate": "END"},
        },
        {"model": "m", "data": results("score"), "usage": {"rerank_units": 1}},
    ),
    "tei": ({**ASKED, "texts": TEXTS, "truncate": True, "return_text": False}, results("score")),
}
"""What each service documents: a request and its answer."""


@pytest.mark.parametrize("shape", ANSWERS)
def test_each_service_gets_its_form_and_nothing_else(shape: Any) -> None:
    wanted, answer = ANSWERS[shape]

    def strict(payload: dict[str, Any]) -> Answer:
        return (200, json.dumps(answer).encode()) if payload == wanted else (422, b"unknown field")

    with serving(strict) as served:
        reranker = HttpReranker(url=served.url, shape=shape, model="m")
        assert list(reranker.score(query("q"), CHUNKS)) == [0.1, 0.9, 0.5]


def test_fields_of_the_request_are_free_and_long_chunks_can_be_cut() -> None:
    with serving() as served:
        free = {"raw_scores": True, "return_text": None}
        given: dict[str, Any] = {"shape": "tei", "truncate": False, "request": free}
        reranker = HttpReranker(url=served.url, max_characters=3, **given)
        scores = reranker.score(query("q"), CHUNKS)
    asked = {"query": "q", "texts": ["xx", "xxx", "xxx"], "truncate": False}
    assert served.requests[0] == {**asked, **free}
    assert scores.notes == ("1 of 3 chunks were cut to 3 characters",)
    with serving() as served:  # batches are put together again
        reranker = HttpReranker(url=served.url, shape="tei", batch_size=2)
        assert list(reranker.score(query("q"), CHUNKS)) == [0.002, 0.004, 0.003]
    assert [request["texts"] for request in served.requests] == [["xx", "xxxx"], ["xxx"]]


@pytest.mark.parametrize(
    ("shape", "header", "sent"),
    [("cohere", "authorization", "Bearer secret-key"), ("pinecone", "api-key", "secret-key")],
)
def test_the_key_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, shape: Any, header: str, sent: str
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-key")
    given: dict[str, Any] = {"shape": shape, "model": "m", "api_key_env": "MY_KEY"}
    answer = json.dumps(ANSWERS[shape][1]).encode()
    with serving(lambda _: (200, answer)) as served:
        reranker = HttpReranker(url=served.url, headers={"x-team": "search"}, **given)
        reranker.score(query("q"), CHUNKS)
    keys = {name: served.headers[0].get(name) for name in ("authorization", "api-key", "x-team")}
    assert {name: key for name, key in keys.items() if key} == {header: sent, "x-team": "search"}
    assert "secret-key" not in repr(reranker)
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(ConfigError, match="the environment variable MY_KEY is not set"):
        HttpReranker(url=served.url, **given)


def test_no_secret_in_errors_and_representations() -> None:
    def echo(payload: dict[str, Any]) -> Answer:
        return 401, b"the key secret-key is wrong"

    with serving(echo) as served:
        url = served.url.replace("http://", "http://me:hidden-word@")
        reranker = HttpReranker(url=url, headers={"Authorization": "Bearer secret-key"})
        done = rerank(query("q"), ranked(CHUNKS), reranker)
        assert done.failure is not None
        shown = f"{done.failure} {done.failure.traceback} {reranker!r}"
    assert "401" in shown
    assert "secret-key" not in shown
    assert "hidden-word" not in shown


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"result": []}, "a list of results"),
        ({"results": [{"index": 0, "score": 1}]}, "1 score for 3 chunks"),
        ([{"index": 0, "score": 1}] * 3, "the index 0 for 3 chunks"),
        ([{"index": 3, "score": 1}], "the index 3 for 3 chunks"),
        ([{"index": True, "score": 1}], "must hold 'index'"),
        ([{"index": 0, "score": "high"}], "must hold 'index'"),
        ([{"index": 0, "score": float("nan")}], "must hold 'index'"),
        (["first"], "must hold 'index'"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: object, message: str) -> None:
    with (
        serving(lambda payload: (200, answer)) as served,
        pytest.raises(InterfaceError, match=message),
    ):
        HttpReranker(url=served.url).score(query("q"), CHUNKS)
