"""Runs the cells of a notebook in IPython, and writes their outputs into it.

    python .ci/run_notebook.py [NOTEBOOK]

The notebook is docs/notebook.ipynb unless another one is named. Its cells run as in Jupyter: inside
an event loop, in a shell with a kernel. They run in an empty folder, where they may write.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from IPython.core.display_trap import DisplayTrap
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


class NotebookShell(InteractiveShell):
    """A shell that ragbench takes for one of Jupyter."""

    kernel = "this process"


async def run_cells(notebook: dict[str, Any]) -> None:
    """Runs the cells of code in their order; each gets its outputs.

    Raises:
        BaseException: that of the first cell that fails.
    """
    # No history: it would be written into the user's home.
    config = Config({"HistoryManager": {"enabled": False}})
    shell = NotebookShell.instance(config=config)
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        cell["outputs"] = await outputs_of(shell, "".join(cell["source"]), number)


async def outputs_of(shell: InteractiveShell, source: str, number: int) -> list[dict[str, Any]]:
    """Runs a cell: the text that it prints, what it displays, and its last value."""
    values: list[dict[str, Any]] = []
    shell.display_trap = DisplayTrap(hook=CapturingDisplayHook(shell, values))
    publisher = CapturingDisplayPublisher()
    shell.display_pub = publisher
    printed = StringIO()
    with redirect_stdout(printed):
        result = await shell.run_cell_async(source, transformed_cell=shell.transform_cell(source))
    result.raise_error()

    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    for data in latest_displays(publisher.outputs):
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    for value in values:
        output = {"output_type": "execute_result", "data": value["data"], "metadata": {}}
        outputs.append({**output, "execution_count": number})
    return outputs


def latest_displays(displays: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What is displayed in the end: an update takes the place of the display with its id."""
    latest: dict[str, dict[str, str]] = {}
    for position, display in enumerate(displays):
        display_id = (display["transient"] or {}).get("display_id", str(position))
        latest[display_id] = display["data"]
    return list(latest.values())


def execute(path: Path) -> None:
    """Runs a notebook and writes it with its outputs."""
    notebook = json.loads(path.read_text("utf-8"))
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            asyncio.run(run_cells(notebook))
        finally:
            os.chdir(before)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    execute(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else NOTEBOOK)
