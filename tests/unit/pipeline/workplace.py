"""A folder to work in: a small corpus and a dataset, as `ragbench init` writes them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def furnish(folder: Path) -> None:
    """Writes data/corpus.jsonl and data/cases.jsonl."""
    templates = files("ragbench_cli") / "templates"
    (folder / "data").mkdir()
    for name in ("corpus.jsonl", "cases.jsonl"):
        (folder / "data" / name).write_bytes((templates / name).read_bytes())
