"""Where a source is read from: kept if it is a stream, decoded, the run around one of its files."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.io.detect import JOURNAL_FILE, MANIFEST_FILE
from ragbench.io.encodings import decoded
from ragbench.io.source import STDIN, NotingReadErrors, Problems, Source


def placed(where: str | Path, split: str | None, encoding: str | None, stack: ExitStack) -> Source:
    """Where to read from; standard input is kept in a file, because it is read more than once."""
    found = Source.of(where, split=split, encoding=encoding)
    if where != STDIN:
        return _run_around(found) or decoded(found)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="ragbench-stdin-")))
    problems = Problems()
    with NotingReadErrors(found.name, problems), (folder / "stdin").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    problems.raise_if_any()
    return decoded(replace(found, path=folder / "stdin"))


_RUN_FILES = frozenset({"report.json", "cases.csv", "timings.json", "manifest.json", JOURNAL_FILE})


def _run_around(place: Source) -> Source | None:
    """The run's folder, for one of its files: it knows more than they do."""
    path = place.path
    if path is None or path.name not in _RUN_FILES:
        return None
    folder = path.parent
    if not all((folder / name).is_file() for name in (JOURNAL_FILE, MANIFEST_FILE)):
        return None
    return replace(place, name=str(folder), path=folder)
