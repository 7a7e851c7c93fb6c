"""The guide: its examples run, and its table is complete."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from ragbench import parse_metrics, read_labels
from ragbench.core.metric import Cost
from ragbench.llm.settings import resolve, resolve_embeddings
from ragbench.metrics.registry import definitions
from tests.llm_server import FaultServer

GUIDE = (Path(__file__).parents[3] / "docs" / "judging.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.extra("ragas")
def test_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    with FaultServer() as server:
        Path("guide.py").write_text(program.replace("http://localhost:8000/v1", server.url))
        runpy.run_path("guide.py", run_name="guide")
    assert capsys.readouterr().out == "1.0 None\n"


def test_the_labels_are_read(tmp_path: Path) -> None:
    (lines,) = blocks("json")
    (tmp_path / "labels.jsonl").write_text(lines, "utf-8")
    assert [claim.level for claim in read_labels(tmp_path / "labels.jsonl")] == [2, 0]
    assert all(json.loads(line) for line in lines.splitlines())


def test_the_sections_name_both_models() -> None:
    import yaml

    (text,) = blocks("yaml")
    sections = yaml.safe_load(text)
    chat = resolve({}, {}, section=sections["llm"], file="ragbench.yaml")
    other = resolve_embeddings({}, section=sections["embeddings"], chat=chat)
    assert other.endpoint.base_url == chat.endpoint.base_url
    assert (chat.endpoint.model, other.endpoint.model) == ("qwen3", "bge-m3")


def test_the_table_has_every_judged_metric() -> None:
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w:]+)`", row)}
    judged = [d.name for d in definitions() if d.cost is not Cost.FREE]
    assert [name for name in judged if not {name, name.partition(":")[2]} & named] == []


def test_the_commands_name_metrics_and_options_that_there_are() -> None:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    for line in lines:
        for metrics in re.findall(r"-m (\S+)", line):
            assert parse_metrics(metrics)
    help_page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
    for option in re.findall(r"`?(--[a-z][a-z-]+)", GUIDE):
        assert f"`{option}" in help_page, option
