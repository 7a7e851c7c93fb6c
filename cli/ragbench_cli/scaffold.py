"""The files that ``ragbench init`` writes: a project that runs as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.errors import InputError

__all__ = ["EXTRAS", "FILES", "write_scaffold"]

FILES = {
    "ragbench.yaml": "ragbench.yaml",
    "my_rag.py": "my_rag.py",
    "data/cases.jsonl": "cases.jsonl",
    "data/corpus.jsonl": "corpus.jsonl",
    ".github/workflows/ragbench.yml": "github.yml",
    ".gitlab/ragbench.yml": "gitlab.yml",
}
"""Path in the folder, and the template beside this module."""

EXTRAS = {"pipeline": {"pipeline.yaml": "pipeline.yaml"}}
"""Further files by what they are asked for with."""


def write_scaffold(
    folder: Path, *, force: bool = False, extras: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Writes the files that are not there yet.

    Args:
        folder: where to; made when it does not exist.
        force: overwrite what is there.
        extras: names of `EXTRAS` whose files are written too.

    Returns:
        Files that were written, and files that were left as they are.

    Raises:
        InputError: the folder cannot be written.
    """
    from importlib.resources import files

    templates = files("ragbench_cli") / "templates"
    written: list[str] = []
    kept: list[str] = []
    try:
        wanted = FILES | {name: item for extra in extras for name, item in EXTRAS[extra].items()}
        for name, template in wanted.items():
            path = folder / name
            if path.exists() and not force:
                kept.append(name)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((templates / template).read_bytes())
            written.append(name)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder} cannot be written: {error.strerror}"
        ) from error
    return written, kept
