"""docs/notebook.ipynb runs to its end in a kernel of Jupyter; its outputs are those of the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import ROOT

pytestmark = pytest.mark.extra("dev", package="ipykernel")

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
OWN_MARKUP = '<div class="ragbench-view">'
SHOWING = ["report", "report", "lost", "summary", "second", "second", "changed"]
"""The cells of the outputs: a run has two, its progress and its report."""
PROGRESS = "retrieve 4/4, generate 4/4, score 4/4"
ASYNC_SYSTEM = """
import asyncio


class AsyncDesk(Desk):
    async def generate(self, query, contexts):
        await asyncio.sleep(0)
        return contexts[0]


print(asyncio.get_running_loop().is_running())
report = evaluate(cases, AsyncDesk(), out="runs/async", metrics="token_f1", version="3")
"""


def outputs_of(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The outputs of all cells, each with the id of its cell."""
    import nbformat

    outputs: list[tuple[str, dict[str, Any]]] = []
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            outputs.append((cell["id"], output.get("data", output)))
    return outputs


def views_of(path: Path) -> dict[str, str]:
    """What ragbench itself shows, by the id of the cell; pandas' tables differ by its version."""
    views: dict[str, str] = {}
    for cell_id, data in outputs_of(path):
        html = data.get("text/html", "")
        if html.startswith(OWN_MARKUP):
            views[cell_id] = html
    return views


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebook, run anew, with a cell that evaluates an async system."""
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(ASYNC_SYSTEM, id="async"))
    copy = tmp_path_factory.mktemp("notebook") / "copy.ipynb"
    nbformat.write(notebook, copy)
    program = [sys.executable, str(ROOT / ".ci" / "run_notebook.py"), str(copy)]

    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr + done.stdout
    return copy


def test_the_notebook_of_the_docs_gives_the_outputs_that_it_shows(executed: Path) -> None:
    cell_ids = [cell_id for cell_id, _ in outputs_of(executed) if cell_id != "async"]

    assert cell_ids == SHOWING
    assert views_of(executed) == views_of(NOTEBOOK)


def test_an_async_system_is_evaluated_in_the_loop_of_the_kernel(executed: Path) -> None:
    loop, progress = [data for cell_id, data in outputs_of(executed) if cell_id == "async"]

    assert (loop.get("text") or loop.get("text/plain")) == "True\n"
    assert (progress.get("text") or progress.get("text/plain")) == PROGRESS


def test_the_notebook_shows_a_report_and_a_comparison() -> None:
    views = views_of(NOTEBOOK)

    assert list(views) == ["report", "second"]
    assert "ragbench evaluation" in views["report"]
    assert "ragbench comparison" in views["second"]


def test_it_shows_the_progress_of_both_runs() -> None:
    lines = []
    for _, data in outputs_of(NOTEBOOK):
        if list(data) == ["text/plain"]:
            lines.append(data["text/plain"])

    assert lines == [PROGRESS, PROGRESS]
