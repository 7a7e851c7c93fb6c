"""A stored run as the source of another evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench import open_source, open_traces
from ragbench.errors import DataError, InterruptedRunError, RunMismatchError
from ragbench.stages.stored import entries
from tests.behaviour.rags import NotingRAG, cases, run


def test_what_was_not_asked_yet_is_not_recorded(tmp_path: Path) -> None:
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(cases("a", "b"), rag, tmp_path, stopped=lambda: bool(rag.generated))
    found = list(entries(tmp_path))
    assert [sorted(entry.recorded) for entry in found] == [["generate", "retrieve"], ["retrieve"]]
    took = next(open_traces(tmp_path)).trace.generation.seconds
    assert took and found[0].recorded["generate"].seconds == took


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="not a run folder"):
        list(entries(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"no journal")
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    with open_source(tmp_path) as source, pytest.raises(DataError, match="not a manifest"):
        list(source)
