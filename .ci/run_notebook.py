"""Runs the cells of a notebook in a kernel of Jupyter, and writes their outputs into it.

    python .ci/run_notebook.py [NOTEBOOK]

The notebook is docs/notebook.ipynb unless another one is named. Its cells run in an empty folder,
where they may write.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
SECONDS = 60
"""How long a cell may take."""


def execute(path: Path) -> None:
    """Runs a notebook and writes it with its outputs.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    # The kernel adds its version, and with it every machine would write another file.
    metadata = notebook.metadata.copy()
    with TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=SECONDS,
            record_timing=False,
            resources={"metadata": {"path": folder}},
            # No history: it would be written into the user's home.
            extra_arguments=["--HistoryManager.enabled=False"],
        ).execute()
    notebook.metadata = metadata
    nbformat.write(notebook, path)


if __name__ == "__main__":
    execute(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else NOTEBOOK)
