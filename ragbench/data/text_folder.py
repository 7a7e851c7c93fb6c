"""Plain text: a folder of .txt and .md files, or one such file. Documents only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.text import Line, decode_line, read_bytes

__all__ = ["SUFFIXES", "read", "text_files"]

SUFFIXES = frozenset({".txt", ".md", ".markdown"})


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a file, in the order of their paths; the id is the path in the folder.

    A Markdown file's first heading of the first level is its title. Memory holds one file.
    """
    if kind != "documents":
        problems.add("text files hold documents, not cases", path=source.name)
        return
    for name, file in _files(source):
        text = _text(file, problems)
        if text is not None:
            title = None if file.suffix == ".txt" else _heading(text)
            yield Row(file.name, None, {"id": name, "text": text, "title": title})


def text_files(folder: Path) -> Iterator[str]:
    """Paths of the text files below a folder, relative to it; hidden ones are left out."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _files(source: Source) -> Iterator[tuple[str, Source]]:
    if source.path is None or not source.is_folder:
        yield (source.name if source.path is None else source.path.name), source
        return
    for name in text_files(source.path):
        file = source.child(name)
        if file is not None:
            yield name, file


def _text(file: Source, problems: Problems) -> str | None:
    raw = read_bytes(file, problems)
    return None if raw is None else decode_line(Line(1, 0, raw), file.name, problems)


def _heading(text: str) -> str | None:
    for line in text.splitlines():
        if line.startswith("# ") and line[2:].strip():
            return line[2:].strip()
    return None
