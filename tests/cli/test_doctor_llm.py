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


def test_each_setting_is_shown_with_where_it_comes_from(
    ragbench: Ragbench, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    monkeypatch.setenv("RAGBENCH_LLM_SEED", "7")
    Path("ragbench.yaml").write_text("llm:\n  model: from-file\n  api_key_env: MY_JUDGE_KEY\n")

    done = ragbench("doctor", "--llm", "--llm-base-url", server.url, "--json").ok()

    check_of = checks(done)
    expected = {
        "llm base_url": f"{server.url} (from option --llm-base-url)",
        "llm model": "from-file (from ragbench.yaml: llm.model)",
        "llm api_key": "environment variable MY_JUDGE_KEY (from ragbench.yaml: llm.api_key_env)",
        "llm seed": "7 (from RAGBENCH_LLM_SEED)",
        "llm temperature": "0.0 (from default)",
    }
    for name, detail in expected.items():
        assert check_of[name] == ("ok", detail)
    assert KEY not in done.out + done.err


def test_a_model_is_asked_whether_it_answers_in_a_structure_and_over_a_long_context(
    ragbench: Ragbench, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_LLM_API_KEY", KEY)

    done = ragbench("doctor", "--llm-model", "m", "--llm-base-url", server.url, "--json").ok()

    check_of = checks(done)
    assert check_of["llm price"][0] == "absent"
    assert check_of["llm answers"][0] == "ok"
    state, detail = check_of["llm structure"]
    assert state == "ok"
    assert "with json_schema" in detail
    assert check_of["llm context"][0] == "ok"
    assert len(server.calls) == 4


def test_where_no_model_is_named_the_settings_fail(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--llm", "--json").refused()

    state, detail = checks(done)["llm settings"]
    assert state == "failed"
    assert "no model is named" in detail


def test_a_model_without_its_key_is_reported_with_its_list_price(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--llm", "--llm-model", "gpt-4o-mini", "--json")

    check_of = checks(done)
    assert "variable OPENAI_API_KEY gives no API key" in check_of["llm opens"][1]
    assert "list price of api.openai.com" in check_of["llm price"][1]


def test_an_endpoint_where_nobody_answers_fails(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_LLM_BASE_URL", "http://127.0.0.1:9/v1")

    done = ragbench("doctor", "--llm-model", "m", "--json")

    state, detail = checks(done)["llm answers"]
    assert state == "failed"
    assert "no answer from m at http://127.0.0.1:9/v1" in detail


@pytest.fixture
def doctor_with_embeddings(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The command, where the environment names a model for embeddings."""
    monkeypatch.setenv("RAGBENCH_LLM_API_KEY", KEY)
    monkeypatch.setenv("RAGBENCH_EMBEDDINGS_MODEL", "e5")
    return ("doctor", "--json", "--llm-model", "m", "--llm-base-url", server.url)


def test_the_model_for_embeddings_is_asked_where_one_is_named(
    ragbench: Ragbench, server: FaultServer, doctor_with_embeddings: tuple[str, ...]
) -> None:
    check_of = checks(ragbench(*doctor_with_embeddings))

    assert check_of["embeddings"] == ("ok", f"e5 at {server.url}: 2 numbers a text")


def test_an_address_of_embeddings_that_is_none_fails(
    ragbench: Ragbench,
    doctor_with_embeddings: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGBENCH_EMBEDDINGS_BASE_URL", "no address")

    done = ragbench(*doctor_with_embeddings).refused()

    state, _ = checks(done)["embeddings"]
    assert state == "failed"


@pytest.fixture
def probe_of_o3() -> Generator[tuple[str, ...]]:
    """The command that tries what a model takes that has one temperature alone."""
    with PROVIDERS["o3"]() as provider:
        model = ("--llm-base-url", provider.url, "--llm-model", "o3")
        yield ("doctor", "--probe", *model, "--llm-api-key-env", "JUDGE_KEY", "--json")


def test_a_probe_prints_what_the_endpoint_needs(
    ragbench: Ragbench, probe_of_o3: tuple[str, ...]
) -> None:
    done = ragbench(*probe_of_o3)

    check_of = checks(done)
    state, detail = check_of["llm temperature"]
    assert state == "doubt"
    assert "Only the default (1) value is supported" in detail
    assert check_of["llm section"][1].endswith(": temperature: none")
    assert JUDGE_KEY not in done.out


def test_with_what_a_probe_printed_the_endpoint_needs_nothing_more(
    ragbench: Ragbench, probe_of_o3: tuple[str, ...]
) -> None:
    Path("ragbench.yaml").write_text("llm: {temperature: none}\n", "utf-8")

    check_of = checks(ragbench(*probe_of_o3))

    assert check_of["llm section"][1] == "needs nothing more"
