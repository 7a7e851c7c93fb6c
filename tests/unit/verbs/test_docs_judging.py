"""The guides to models and judging: their examples run, and their tables are complete."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_labels
from ragbench.core.metric import Cost
from ragbench.llm.settings import SETTING_NAMES, resolve, resolve_embeddings
from ragbench.metrics.registry import definitions
from tests.cli.runs import ROOT, fenced
from tests.llm_server import FaultServer, Payload, said_by_default

DOCS = ROOT / "docs"
GUIDE = (DOCS / "judging.md").read_text("utf-8")
MODELS = (DOCS / "llm.md").read_text("utf-8")


def graded(payload: Payload) -> str:
    """Grade 3 for a prompt with the text about bees, else 0."""
    grade = 3 if "Bees fly." in str(payload["messages"]) else 0
    return json.dumps({"grade": grade})


@pytest.mark.extra("ragas")
@pytest.mark.parametrize(
    ("guide", "say", "printed"),
    [(GUIDE, said_by_default, "1.0 None\n"), (MODELS, graded, "['b', 'a']\nNone\n")],
    ids=["judging", "models"],
)
def test_the_program_runs(
    guide: str,
    say: Callable[[Payload], str],
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = fenced(guide, "python")

    with FaultServer(say=say) as server:
        program = program.replace("http://localhost:8000/v1", server.url)
        Path("guide.py").write_text(program)
        runpy.run_path("guide.py", run_name="guide")

    assert capsys.readouterr().out == printed


def test_the_labels_are_read(tmp_path: Path) -> None:
    (lines,) = fenced((DOCS / "judge_card.md").read_text("utf-8"), "json")
    file = tmp_path / "labels.jsonl"
    file.write_text(lines, "utf-8")

    claims = read_labels(file)

    assert [claim.level for claim in claims] == [2, 0]


def test_the_sections_name_both_models() -> None:
    import yaml

    sections: dict[str, Any] = {}
    for text in fenced(GUIDE, "yaml"):
        sections |= yaml.safe_load(text)

    chat = resolve({}, {}, section=sections["llm"], file="ragbench.yaml")
    embeddings = resolve_embeddings({}, section=sections["embeddings"], chat=chat)

    assert chat.endpoint.model == "qwen3"
    assert embeddings.endpoint.model == "bge-m3"
    assert embeddings.endpoint.base_url == chat.endpoint.base_url


def names_in_table(guide: str) -> set[str]:
    """The names in the first column of a guide's tables."""
    names: set[str] = set()
    for line in guide.splitlines():
        if line.startswith("| `"):
            cell = line.split("|")[1]
            names.update(re.findall(r"`([\w:]+)`", cell))
    return names


def test_the_tables_have_every_setting_and_every_judged_metric() -> None:
    assert names_in_table(MODELS) == set(SETTING_NAMES)

    names = names_in_table(GUIDE)
    missing = []
    for definition in definitions():
        _, _, name_without_package = definition.name.partition(":")
        is_listed = definition.name in names or name_without_package in names
        if definition.cost is not Cost.FREE and not is_listed:
            missing.append(definition.name)
    assert missing == []
