"""Presets: each against a server that answers as the service's documentation says."""

import json
from typing import Any, NamedTuple

import pytest

from ragbench import as_rag
from ragbench.errors import ConfigError, ContractError
from ragbench.rag.service_mapping import TAKEN, presets
from ragbench.stages.rag import retrieve_stage
from tests.unit.rag.http_server import Answer, Server

pytestmark = pytest.mark.extra("http")

TURNS = [{"role": "user", "content": "Hello"}]
QUESTION = {"role": "user", "content": "Do bees fly?"}


class Example(NamedTuple):
    """A service as its documentation shows it, shortened."""

    preset: str
    path: str
    sent: dict[str, Any]
    response: Any
    contexts: list[str] | None
    ids: list[str] | None
    send: tuple[str, ...] = ()
    response_path: str = ""


EXAMPLES = [
    Example(
        preset="openai-chat",
        path="/v1/chat/completions",
        send=("model=gpt-4o-mini",),
        sent={"model": "gpt-4o-mini", "messages": [*TURNS, QUESTION], "stream": False},
        response={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "logprobs": None}
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        },
        contexts=None,
        ids=None,
    ),
    Example(
        preset="openai-chat",
        path="/v1/chat/completions",
        send=("model=azure-on-your-data",),
        sent={"model": "azure-on-your-data", "messages": [*TURNS, QUESTION], "stream": False},
        response={
            "choices": [
                {
                    "message": {
                        "content": "Yes [doc1].",
                        "context": {
                            "citations": [
                                {"content": "Bees fly.", "title": "Bees", "filepath": "bees.md"}
                            ],
                            "intent": '["bees"]',
                        },
                    }
                }
            ]
        },
        contexts=["Bees fly."],
        ids=["bees.md"],
    ),
    Example(
        preset="openai-responses",
        path="/v1/responses",
        send=("model=gpt-4o-mini", 'tools=[{"type":"file_search","vector_store_ids":["vs_1"]}]'),
        sent={
            "model": "gpt-4o-mini",
            "input": [*TURNS, QUESTION],
            "include": ["file_search_call.results"],
            "stream": False,
            "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}],
        },
        response={
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {
                    "type": "file_search_call",
                    "id": "fs_1",
                    "status": "completed",
                    "queries": ["bees"],
                    "results": [
                        {
                            "file_id": "file-1",
                            "filename": "bees.md",
                            "score": 0.9,
                            "text": "Bees fly.",
                            "attributes": {},
                        }
                    ],
                },
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
                },
            ],
            "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
        },
        contexts=["Bees fly."],
        ids=["bees.md"],
    ),
    Example(
        preset="langserve",
        path="/rag/invoke",
        response_path="/rag",
        send=('input={"input": "{query}"}',),
        sent={"input": {"input": "Do bees fly?"}},
        response={
            "output": {
                "input": "Do bees fly?",
                "context": [
                    {
                        "id": None,
                        "page_content": "Bees fly.",
                        "metadata": {"source": "bees.md"},
                        "type": "Document",
                    }
                ],
                "answer": "Yes.",
            },
            "metadata": {"run_id": "5f9c", "feedback_tokens": []},
        },
        contexts=["Bees fly."],
        ids=["bees.md"],
    ),
    Example(
        preset="langserve",
        path="/invoke",
        sent={"input": "Do bees fly?"},
        response={"output": "Yes.", "metadata": {"run_id": "5f9c"}},
        contexts=None,
        ids=None,
    ),
    Example(
        preset="dify",
        path="/v1/chat-messages",
        response_path="/v1",
        sent={
            "inputs": {},
            "query": "Do bees fly?",
            "response_mode": "blocking",
            "user": "ragbench",
        },
        response={
            "event": "message",
            "task_id": "c3800678",
            "message_id": "9da23599",
            "conversation_id": "45701982",
            "mode": "chat",
            "answer": "Yes.",
            "metadata": {
                "usage": {
                    "prompt_tokens": 1033,
                    "completion_tokens": 135,
                    "total_tokens": 1168,
                    "total_price": "0.0012890",
                    "currency": "USD",
                    "latency": 1.38,
                },
                "retriever_resources": [
                    {
                        "position": 1,
                        "dataset_name": "bees",
                        "document_id": "a1",
                        "document_name": "bees.md",
                        "segment_id": "s1",
                        "score": 0.98,
                        "content": "Bees fly.",
                    }
                ],
            },
            "created_at": 1705407629,
        },
        contexts=["Bees fly."],
        ids=["s1"],
    ),
    Example(
        preset="flowise",
        path="/api/v1/prediction/ID",
        response_path="/api/v1/prediction/ID",
        sent={"question": "Do bees fly?", "streaming": False, "overrideConfig": {}},
        response={
            "text": "Yes.",
            "question": "Do bees fly?",
            "chatId": "7d4",
            "chatMessageId": "8a1",
            "sourceDocuments": [
                {"pageContent": "Bees fly.", "metadata": {"source": "bees.md", "loc": {}}}
            ],
        },
        contexts=["Bees fly."],
        ids=["bees.md"],
    ),
    Example(
        preset="n8n",
        path="/webhook/ID/chat",
        response_path="/webhook/ID/chat",
        sent={"action": "sendMessage", "chatInput": "Do bees fly?"},
        response=[{"output": "Yes."}],
        contexts=None,
        ids=None,
    ),
    Example(
        preset="open-webui",
        path="/api/chat/completions",
        send=("model=bees",),
        sent={"model": "bees", "messages": [*TURNS, QUESTION], "stream": False},
        response={
            "sources": [
                {
                    "source": {"id": "file-1", "name": "bees.md"},
                    "document": ["Bees fly.", "Fish swim."],
                    "metadata": [{"source": "bees.md"}, {"source": "fish.md"}],
                    "distances": [0.9, 0.2],
                }
            ],
            "choices": [{"message": {"role": "assistant", "content": "Yes."}}],
        },
        contexts=["Bees fly.", "Fish swim."],
        ids=["bees.md", "fish.md"],
    ),
]


def without_session(body: Any) -> Any:
    """A body without what is new in every request."""
    stable = dict(body)
    stable.pop("sessionId", None)
    if "overrideConfig" in stable:
        stable["overrideConfig"] = without_session(stable["overrideConfig"])
    return stable


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.preset)
def test_a_preset_asks_and_reads_as_the_service_is_documented(
    server: Server, example: Example
) -> None:
    server.then(Answer(example.response))
    url = f"{example.preset}:{server.url}{example.response_path}"
    rag: Any = as_rag(url, send=list(example.send) or None)
    stage = retrieve_stage(rag, b"", None)
    assert stage.call is not None

    if example.contexts is None:
        with pytest.raises(Exception, match="the answer came without contexts"):
            stage.call([("Do bees fly?", TURNS)])
    else:
        (retrieval,) = stage.call([("Do bees fly?", TURNS)])
        assert retrieval.contexts == example.contexts
        assert retrieval.context_ids == example.ids
    answer = rag.generate_with_metadata("Do bees fly?", example.contexts or [])

    assert answer.response.startswith("Yes")
    assert server.requests[0].path == example.path
    assert without_session(server.requests[0].body) == example.sent


def test_every_preset_has_an_example_and_a_source() -> None:
    assert {example.preset for example in EXAMPLES} == set(presets())
    for preset in presets().values():
        assert preset.source.startswith("https://")


def test_what_is_taken_of_a_preset_has_a_name() -> None:
    for preset in presets().values():
        names = {name.removesuffix("?") for name in preset.take}
        assert names <= set(TAKEN)


@pytest.mark.parametrize("base", ["", "/v1", "/v1/chat/completions", "/openai/chat/completions"])
def test_the_path_of_a_preset_is_added_once(server: Server, base: str) -> None:
    server.then(Answer({"choices": [{"message": {"content": "Yes."}}]}))
    rag: Any = as_rag(f"openai-chat:{server.url}{base}?api-version=1", send=["model=m"])

    rag.generate("Do bees fly?", [])

    path = base if base.endswith("completions") else "/v1/chat/completions"
    assert server.requests[0].path == f"{path}?api-version=1"


def test_a_preset_names_what_it_needs() -> None:
    with pytest.raises(ConfigError, match="openai-chat needs --send model="):
        as_rag("openai-chat:http://127.0.0.1:1")


def test_what_the_user_says_goes_before_a_preset(server: Server) -> None:
    stream = [
        {"event": "message", "answer": "Ye"},
        {"event": "message", "answer": "s."},
        {"event": "message_end", "metadata": {"retriever_resources": [{"content": "Bees fly."}]}},
    ]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in stream)
    server.then(Answer(text=text, headers={"content-type": "text/event-stream"}))
    rag: Any = as_rag(
        f"dify:{server.url}/v1",
        send=["response_mode=streaming"],
        take=["ids=.metadata.retriever_resources[].content"],
    )

    retrieval = rag.retrieve_with_metadata("Do bees fly?")

    assert retrieval.context_ids == ["Bees fly."]
    assert rag.generate("Do bees fly?", retrieval.contexts) == "Yes."
    assert server.requests[0].body["response_mode"] == "streaming"


def test_a_preset_names_the_variable_that_its_key_is_usually_in(server: Server) -> None:
    server.then(Answer(status=401))
    rag = as_rag(f"dify:{server.url}/v1")

    with pytest.raises(ContractError, match=r"'Authorization=Bearer \$\{DIFY_API_KEY\}'"):
        rag.retrieve("Do bees fly?")
