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


def outputs_of(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The outputs of all cells, each with the id of its cell."""
    outputs: list[tuple[str, dict[str, Any]]] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            outputs.append((cell["id"], output["data"]))
    return outputs


def test_the_notebook_of_the_docs_gives_the_outputs_that_it_shows(tmp_path: Path) -> None:
    copy = shutil.copy(NOTEBOOK, tmp_path)
    program = [sys.executable, str(ROOT / ".ci" / "notebook.py"), str(copy)]

    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr + done.stdout
    shown = outputs_of(NOTEBOOK)
    repeated = outputs_of(Path(copy))
    assert [(id, [*data]) for id, data in repeated] == [(id, [*data]) for id, data in shown]
    # The tables of pandas differ between its versions; what ragbench shows does not.
    own = [(id, data) for id, data in shown if data.get("text/html", OWN_MARKUP)[:27] == OWN_MARKUP]
    assert own == [output for output in repeated if output[0] in dict(own)]


def test_the_notebook_shows_a_report_and_a_comparison() -> None:
    views = [data["text/html"] for _, data in outputs_of(NOTEBOOK) if "text/html" in data]
    own = [view for view in views if view.startswith(OWN_MARKUP)]

    assert ["ragbench evaluation" in own[0], "ragbench comparison" in own[1]] == [True, True]


def test_it_shows_the_progress_of_both_runs() -> None:
    lines = [data["text/plain"] for _, data in outputs_of(NOTEBOOK) if [*data] == ["text/plain"]]

    assert lines == ["retrieve 4/4, generate 4/4, score 4/4"] * 2
