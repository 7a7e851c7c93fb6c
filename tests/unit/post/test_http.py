"""Reranking services: what is sent, what is understood, what is said when it fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
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
CHUNKS = [
    chunk("a", TEXTS[0]),
    chunk("b", TEXTS[1]),
    chunk("c", TEXTS[2]),
]
ASKED = {"model": "m", "query": "q"}


def results(key: str, **facts: Any) -> list[dict[str, Any]]:
    """What a service answers: the scores .1, .9 and .5 of the three texts, the best one first."""
    return [
        {"index": 1, key: 0.9, **facts},
        {"index": 2, key: 0.5, **facts},
        {"index": 0, key: 0.1, **facts},
    ]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What a service documents."""

    request: dict[str, Any]
    answer: dict[str, Any] | list[Any]


EXCHANGES = {
    "cohere": Exchange(
        request={**ASKED, "documents": TEXTS, "top_n": 3},
        answer={"id": "1", "results": results("relevance_score"), "meta": {"api_version": {}}},
    ),
    "jina": Exchange(
        request={**ASKED, "documents": TEXTS, "top_n": 3, "return_documents": False},
        answer={"results": results("relevance_score")},
    ),
    "voyage": Exchange(
        request={
            **ASKED,
            "documents": TEXTS,
            "top_k": 3,
            "return_documents": False,
            "truncation": True,
        },
        answer={
            "object": "list",
            "data": results("relevance_score"),
            "usage": {"total_tokens": 26},
        },
    ),
    "nim": Exchange(
        request={
            "model": "m",
            "query": {"text": "q"},
            "passages": [{"text": text} for text in TEXTS],
            "truncate": "END",
        },
        answer={"rankings": results("logit")},
    ),
    "mixedbread": Exchange(
        request={**ASKED, "input": TEXTS, "top_k": 3, "return_input": False},
        answer={"usage": {"total_tokens": 1}, "data": results("score", object="rank_result")},
    ),
    "pinecone": Exchange(
        request={
            **ASKED,
            "documents": [{"text": text} for text in TEXTS],
            "top_n": 3,
            "return_documents": False,
            "parameters": {"truncate": "END"},
        },
        answer={"model": "m", "data": results("score"), "usage": {"rerank_units": 1}},
    ),
    "tei": Exchange(
        request={**ASKED, "texts": TEXTS, "truncate": True, "return_text": False},
        answer=results("score"),
    ),
}


@pytest.mark.parametrize("shape", EXCHANGES)
def test_each_service_gets_its_form_and_nothing_else(shape: Any) -> None:
    exchange = EXCHANGES[shape]

    def strict(payload: dict[str, Any]) -> Answer:
        if payload != exchange.request:
            return 422, b"unknown field"
        return 200, json.dumps(exchange.answer).encode()

    with serving(strict) as server:
        reranker = HttpReranker(url=server.url, shape=shape, model="m")
        scores = reranker.score(query("q"), CHUNKS)

    assert list(scores) == [0.1, 0.9, 0.5]


def test_fields_of_the_request_can_be_set() -> None:
    """To null, too."""
    with serving() as server:
        reranker = HttpReranker(
            url=server.url,
            shape="tei",
            truncate=False,
            request={"raw_scores": True, "return_text": None},
        )
        reranker.score(query("q"), CHUNKS)

    assert server.requests[0] == {
        "query": "q",
        "texts": TEXTS,
        "truncate": False,
        "raw_scores": True,
        "return_text": None,
    }


def test_long_chunks_are_cut_and_that_is_noted() -> None:
    with serving() as server:
        reranker = HttpReranker(url=server.url, shape="tei", max_characters=3)
        scores = reranker.score(query("q"), CHUNKS)

    assert server.requests[0]["texts"] == ["xx", "xxx", "xxx"]
    assert scores.notes == ("1 of 3 chunks were cut to 3 characters",)


def test_batches_are_put_together_again() -> None:
    """The server scores a text by its length."""
    with serving() as server:
        reranker = HttpReranker(url=server.url, shape="tei", batch_size=2)
        scores = reranker.score(query("q"), CHUNKS)

    assert list(scores) == [0.002, 0.004, 0.003]
    assert [request["texts"] for request in server.requests] == [["xx", "xxxx"], ["xxx"]]


@pytest.mark.parametrize(
    ("shape", "header", "value", "absent_header"),
    [
        ("cohere", "authorization", "Bearer secret-key", "api-key"),
        ("pinecone", "api-key", "secret-key", "authorization"),
    ],
)
def test_the_key_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, shape: Any, header: str, value: str, absent_header: str
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-key")
    answer = json.dumps(EXCHANGES[shape].answer).encode()

    with serving(lambda _: (200, answer)) as server:
        reranker = HttpReranker(
            url=server.url,
            shape=shape,
            model="m",
            api_key_env="MY_KEY",
            headers={"x-team": "search"},
        )
        reranker.score(query("q"), CHUNKS)

    (headers,) = server.headers
    assert headers[header] == value
    assert headers["x-team"] == "search"
    assert absent_header not in headers
    assert "secret-key" not in repr(reranker)


def test_a_key_that_is_not_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)

    with pytest.raises(ConfigError, match="the environment variable MY_KEY is not set"):
        HttpReranker(url="http://localhost:1", shape="cohere", model="m", api_key_env="MY_KEY")


def test_no_secret_in_errors_and_representations() -> None:
    def echo(payload: dict[str, Any]) -> Answer:
        return 401, b"the key secret-key is wrong"

    with serving(echo) as server:
        url = server.url.replace("http://", "http://me:hidden-word@")
        reranker = HttpReranker(url=url, headers={"Authorization": "Bearer secret-key"})
        reranking = rerank(query("q"), ranked(CHUNKS), reranker)

    assert reranking.failure is not None
    shown = f"{reranking.failure} {reranking.failure.traceback} {reranker!r}"
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
    with serving(lambda payload: (200, answer)) as server:
        reranker = HttpReranker(url=server.url)

        with pytest.raises(InterfaceError, match=message):
            reranker.score(query("q"), CHUNKS)
