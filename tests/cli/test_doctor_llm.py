"""``ragbench doctor --llm``: where each setting comes from, and whether the model answers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, checks
from tests.llm_server import FaultServer
from tests.provider_mocks import KEY as JUDGE_KEY
from tests.provider_mocks import PROVIDERS

pytestmark = pytest.mark.extra("llm")
KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", JUDGE_KEY)


@pytest.fixture
def server() -> Generator[FaultServer]:
    with FaultServer(key=KEY) as running:
        yield running


def test_all_is_reported_and_the_key_is_not(
    ragbench: Ragbench, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    monkeypatch.setenv("RAGBENCH_LLM_SEED", "7")
    Path("ragbench.yaml").write_text("llm:\n  model: from-file\n  api_key_env: MY_JUDGE_KEY\n")
    done = ragbench("doctor", "--llm", "--llm-base-url", server.url, "--json")
    found = checks(done)
    assert done.code == 0
    for name, shown in {
        "base_url": f"{server.url} (from option --llm-base-url)",
        "model": "from-file (from ragbench.yaml: llm.model)",
        "api_key": "environment variable MY_JUDGE_KEY (from ragbench.yaml: llm.api_key_env)",
        "seed": "7 (from RAGBENCH_LLM_SEED)",
        "temperature": "0.0 (from default)",
    }.items():
        assert found[f"llm {name}"] == ("ok", shown)
    assert (found["llm price"][0], found["llm answers"][0]) == ("absent", "ok")
    assert found["llm structure"][0] == "ok" and "with json_schema" in found["llm structure"][1]
    assert KEY not in done.out + done.err
    assert found["llm context"][0] == "ok" and len(server.calls) == 4


def test_no_model_no_key_and_no_endpoint_are_reported(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, detail = checks(ragbench("doctor", "--llm", "--json").refused())["llm settings"]
    assert state == "failed" and "no model is named" in detail
    found = checks(ragbench("doctor", "--llm", "--llm-model", "gpt-4o-mini", "--json"))
    assert "variable OPENAI_API_KEY gives no API key" in found["llm opens"][1]
    assert "list price of api.openai.com" in found["llm price"][1]
    monkeypatch.setenv("RAGBENCH_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    nobody = checks(ragbench("doctor", "--llm-model", "m", "--json"))
    assert nobody["llm answers"][0] == "failed"
    assert "no answer from m at http://127.0.0.1:9/v1" in nobody["llm answers"][1]


def test_the_model_for_embeddings_is_asked_where_one_is_named(
    ragbench: Ragbench, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_LLM_API_KEY", KEY)
    monkeypatch.setenv("RAGBENCH_EMBEDDINGS_MODEL", "e5")
    asked = ("doctor", "--json", "--llm-model", "m", "--llm-base-url", server.url)
    assert checks(ragbench(*asked))["embeddings"] == ("ok", f"e5 at {server.url}: 2 numbers a text")
    monkeypatch.setenv("RAGBENCH_EMBEDDINGS_BASE_URL", "no address")
    assert checks(ragbench(*asked).refused())["embeddings"][0] == "failed"


def test_a_probe_prints_what_the_endpoint_needs(ragbench: Ragbench) -> None:
    with PROVIDERS["o3"]() as provider:
        model = ("--llm-base-url", provider.url, "--llm-model", "o3")
        key = ("--llm-api-key-env", "JUDGE_KEY")
        done = ragbench("doctor", "--probe", *model, *key, "--json")
        found = checks(done)
        assert found["llm temperature"][0] == "doubt"
        assert "Only the default (1) value is supported" in found["llm temperature"][1]
        assert found["llm section"][1].endswith(": temperature: none")
        assert JUDGE_KEY not in done.out
        # With that it needs nothing more.
        Path("ragbench.yaml").write_text("llm: {temperature: none}\n", "utf-8")
        found = checks(ragbench("doctor", "--probe", *model, *key, "--json"))
        assert found["llm section"][1] == "needs nothing more"
