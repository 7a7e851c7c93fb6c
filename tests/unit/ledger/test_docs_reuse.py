"""docs/reuse.md: its code runs and does what the page says."""

from __future__ import annotations

import re
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragbench.ledger.origin import Reuse, asked_again_sentence, differences, may_reuse
from ragbench.ledger.project import Project
from ragbench.rag.load import describe_rag, stage_origin

PAGE = (Path(__file__).parents[3] / "docs" / "reuse.md").read_text("utf-8")
VOUCHED, SERVER = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def run(code: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "docs"}
    exec(code, space)
    return space


def test_the_note_is_the_one_that_the_report_holds() -> None:
    assert asked_again_sentence(Reuse(False, False, "prompts.py changed")) in PAGE


def test_a_version_replaces_everything_for_its_stage() -> None:
    search = run(VOUCHED)["Search"]

    def origin(stage: str) -> Any:
        rag = search()
        return stage_origin(rag, stage, Project([rag]), describe_rag(rag, "search.py:Search"))

    before = {stage: origin(stage) for stage in ("retrieve", "generate")}
    assert all(may_reuse(found, ()).allowed for found in before.values())
    search.prompt = "v8"
    assert origin("retrieve") == before["retrieve"]
    (change,) = differences(before["generate"], origin("generate"))
    assert change.sentence == 'stage_identity.named.0.prompt: "v7" -> "v8"'


def test_a_server_names_its_version() -> None:
    pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
    from ragbench.rag.http import http_rag

    space = run(SERVER)

    handler: Any = type("Handler", (space["Versioned"],), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        rag: Any = http_rag(f"http://127.0.0.1:{server.server_port}")
        found: Any = rag.stage_identity("retrieve")
        rag.close()
        server.shutdown()
        thread.join()
    assert found[0]["version"] == space["VERSION"]
