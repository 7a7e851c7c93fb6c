"""Doctor's probes against providers that behave as they document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from ragbench.llm.endpoint import ApiKey, Endpoint
from ragbench.llm.probe import Finding, probe
from ragbench.llm.transport import OpenAITransport
from tests.llm_server import Payload
from tests.provider_mocks import KEY, PROVIDERS, Server, Told
from tests.unit.llm.builders import FastClock

pytestmark = pytest.mark.extra("llm")


def reads(name: str, keep: int | None = None) -> Server:
    """The provider with a model that finds what is hidden in what it is shown of a prompt."""

    def say(payload: Payload) -> str | None:
        reported: str = payload["messages"][-1]["content"]
        if "three codes" not in reported:
            return None
        words = reported.split()
        if keep is not None and len(words) > keep:  # the middle is dropped
            words = [*words[: keep // 4], *words[-(3 * keep // 4) :]]
        return " ".join(re.findall(r"Code \d is (\d+)", " ".join(words)))

    return PROVIDERS[name](say=say)


def probed(server: Server, **changes: Any) -> dict[str, Finding]:
    endpoint = Endpoint(
        base_url=server.url, model=server.row.model, key=ApiKey(variable="KEY"), **changes
    )
    transport = OpenAITransport(endpoint, timeout=30.0, environ={"KEY": KEY})

    async def scenario() -> dict[str, Finding]:
        found = probe(endpoint, transport=transport, clock=FastClock())
        return {finding.name: finding async for finding in found}

    return asyncio.run(scenario())


def test_an_endpoint_that_does_all_as_it_should_needs_nothing() -> None:
    with reads("openai") as server:
        found = probed(server)
    assert all(finding.good and not finding.settings for finding in found.values())
    assert set(found) == {"temperature", "limit", "structure", "context", "rate"}
    assert "json_schema is followed" in found["structure"].detail
    assert "all of" in found["context"].detail


def test_what_a_reasoning_model_refuses_becomes_a_setting() -> None:
    with reads("o3") as server:
        found = probed(server)
    assert found["temperature"].settings == {"temperature": None}
    assert "max_completion_tokens; the model thinks" in found["limit"].detail


@pytest.mark.parametrize(
    ("name", "mode", "reported"),
    [
        ("anthropic", "json_object+schema", "json_schema is accepted and not followed"),
        ("deepseek", "json_object+schema", "json_schema is refused (400)"),
        ("llama-cpp-python", "json_object+schema", "json_schema is refused"),
    ],
)
def test_structure_is_followed_not_only_accepted(name: str, mode: str, reported: str) -> None:
    with reads(name) as server:
        found = probed(server)["structure"]
    assert not found.good
    assert found.settings == {"structured": mode}
    assert reported in found.detail and f"{mode} is followed" in found.detail


def test_the_real_context_is_found_by_what_is_hidden_in_it() -> None:
    with reads("ollama", keep=1_500) as server:
        found = probed(server)["context"]
    assert "a prompt of 8,000 words is read in part: code 2 of 3 is not found" in found.detail
    assert 2_000 <= found.settings["context"] <= 4_096
    with reads("llama.cpp") as server:
        found = probed(server)["context"]
    assert "a prompt of 8,000 words is refused (400)" in found.detail


def test_a_server_that_counts_only_what_was_not_kept_is_distinguished_from_one_that_cuts() -> None:
    with reads("ollama") as server:  # reads everything, and tells few tokens
        found = probed(server)
    assert found["prompt tokens"].settings == {"prompt_check": False}
    assert found["context"].good


def test_a_limit_of_the_rate_becomes_fewer_calls_at_once() -> None:
    with reads("openai") as server:
        before = server.checked

        def checked(payload: Payload, headers: Mapping[str, str]) -> Told:
            if "Reply with the number" in payload["messages"][-1]["content"]:
                server.limited = 1 if payload["messages"][-1]["content"][-2] in "05" else 0
            return before(payload, headers)

        server.checked = checked  # type: ignore[method-assign]
        found = probed(server)["rate"]
    assert not found.good and "12 of 16 calls" in found.detail
    assert found.settings == {"concurrency": 6}
