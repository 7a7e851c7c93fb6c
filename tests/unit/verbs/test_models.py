"""Language models from Python: opened late, closed at the end, capped where a price is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench import open_chat
from ragbench.core.chat import Message
from ragbench.errors import ConfigError
from tests.llm_server import FaultServer

pytestmark = pytest.mark.extra("llm")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept beside the runs, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("MODEL", "BASE_URL"):
        monkeypatch.delenv(f"RAGBENCH_LLM_{name}", raising=False)


def test_a_model_is_connected_to_when_it_is_asked() -> None:
    with FaultServer() as server:
        with open_chat(base_url=server.url, model="m") as chat:
            assert chat.receipt() is None
            assert chat.complete([Message(role="user", content="hello")]) == "hello"
            receipt = chat.receipt()
        assert receipt is not None
        assert sum(line.calls for line in receipt.lines) == 1
        assert len(server.calls) == 1


def test_a_cap_needs_a_price() -> None:
    settings = {"base_url": "http://localhost:1/v1", "model": "m"}
    with pytest.raises(ConfigError, match="the cost cannot be capped"):
        open_chat(**settings, max_cost="1")
    assert open_chat(**settings, max_cost="1", price_input=0, price_output=0).name == "m"
    with pytest.raises(ConfigError, match="max_cost must be a number, not 'much'"):
        open_chat(**settings, max_cost="much")
    with pytest.raises(ConfigError, match="there is no setting 'modle'"):
        open_chat(**settings, modle="x")
