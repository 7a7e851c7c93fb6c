"""docs/retrieval.md: its code runs, its commands work, its tables name what there is."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk
from ragbench.embedders.embedder import EMBEDDERS
from ragbench.io.dumps.read import dump_row
from ragbench.pipeline.documents import CHUNKERS
from ragbench.pipeline.strategies import RetrievalSettings
from ragbench_cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "retrieval.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.extra("embeddings")
def test_the_code_runs() -> None:
    [code] = blocks("python")
    known: dict[str, Any] = {}
    exec(compile(code, "docs/retrieval.md", "exec"), known)


def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "gate.md").write_text((ROOT / "docs" / "gate.md").read_text("utf-8"))
    (tmp_path / "questions.txt").write_text("What does the gate decide?\nopen runs\n")
    lines = "".join(blocks("console")).replace("\\\n", "").splitlines()
    assert len(lines) == 6
    for line in lines:
        command = shlex.split(line)
        assert command.pop(0) == "ragbench"
        if "--embedder" in command:  # would be downloaded
            at = command.index("--embedder")
            del command[at:]
        if command[0] == "index":  # without loading a model
            command += ["--embedder", "hashing", "--quiet"]
        assert main(command) == 0, capsys.readouterr().err
    rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    shown = json.loads("".join(blocks("json")))
    assert [row["query"] for row in rows] == ["What does the gate decide?", "open runs"]
    assert set(rows[0]) == set(shown)
    assert set(rows[0]["chunks"][0]) == set(shown["chunks"][0])


def test_the_dump_s_example_is_what_is_written() -> None:
    shown = json.loads("".join(blocks("json")))
    chunks = [Chunk(**chunk) for chunk in shown["chunks"]]
    assert dump_row(shown["query_id"], shown["query"], chunks) == shown


def test_tables_name_every_chunker_embedder_and_setting() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name.partition(":")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert set(CHUNKERS.builtin) <= named
    assert set(EMBEDDERS.builtin) <= named
    for setting in RetrievalSettings.__dataclass_fields__:
        spelled = (f"--{setting.replace('_', '-')}", f"RAGBENCH_{setting.upper()}")
        assert any(name in PAGE for name in spelled), setting
