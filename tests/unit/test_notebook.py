"""docs/notebook.ipynb runs to its end, and gives the outputs that it shows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import ROOT

pytestmark = pytest.mark.extra("dev", package="ipython")

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
OWN_MARKUP = '<div class="ragbench-view">'
SHOWING = ["report", "report", "lost", "summary", "second", "second", "changed"]
"""The cells of the outputs: a run has two, its progress and its report."""


def outputs_of(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The outputs of all cells, each with the id of its cell."""
    outputs: list[tuple[str, dict[str, Any]]] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            outputs.append((cell["id"], output["data"]))
    return outputs


def views_of(path: Path) -> dict[str, str]:
    """What ragbench itself shows, by the id of the cell; pandas' tables differ by its version."""
    views: dict[str, str] = {}
    for cell_id, data in outputs_of(path):
        html = data.get("text/html", "")
        if html.startswith(OWN_MARKUP):
            views[cell_id] = html
    return views


def test_the_notebook_of_the_docs_gives_the_outputs_that_it_shows(tmp_path: Path) -> None:
    copy = Path(shutil.copy(NOTEBOOK, tmp_path))
    program = [sys.executable, str(ROOT / ".ci" / "run_notebook.py"), str(copy)]

    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr + done.stdout
    assert [cell_id for cell_id, _ in outputs_of(copy)] == SHOWING
    assert views_of(copy) == views_of(NOTEBOOK)


def test_the_notebook_shows_a_report_and_a_comparison() -> None:
    views = views_of(NOTEBOOK)

    assert [*views] == ["report", "second"]
    assert "ragbench evaluation" in views["report"]
    assert "ragbench comparison" in views["second"]


def test_it_shows_the_progress_of_both_runs() -> None:
    lines = [data["text/plain"] for _, data in outputs_of(NOTEBOOK) if [*data] == ["text/plain"]]

    assert lines == ["retrieve 4/4, generate 4/4, score 4/4"] * 2
