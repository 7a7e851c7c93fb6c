"""The texts of a corpus by id, on the disk: a run names documents in any order."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.data.problems import Problems
from ragbench.data.read import read_documents
from ragbench.data.source import Source
from ragbench.errors import DataError, Problem
from ragbench.records.corpus import Document

__all__ = ["CorpusTexts", "corpus_texts"]

_BATCH = 5000


@dataclass(frozen=True, slots=True)
class CorpusTexts:
    """Finds the text of a document."""

    _db: sqlite3.Connection

    def get(self, ids: Iterable[str]) -> dict[str, str]:
        """The texts of those documents that there are."""
        found: dict[str, str] = {}
        for id in ids:
            row = self._db.execute("SELECT text FROM texts WHERE id = ?", (id,)).fetchone()
            if row is not None:
                found[id] = row[0]
        return found


@contextmanager
def corpus_texts(path: str | Path) -> Generator[CorpusTexts, None, None]:
    """Reads a corpus into a temporary file, which is gone when the block ends.

    Args:
        path: a file or folder that `ragbench.data.read.read_documents` reads.

    Raises:
        DataError: it cannot be read, or holds no document.
    """
    with (
        TemporaryDirectory(prefix="ragbench-corpus-") as folder,
        closing(sqlite3.connect(Path(folder) / "texts.sqlite")) as db,
    ):
        # The file is thrown away: it need not survive a crash.
        db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
        )
        problems = Problems()
        documents = read_documents(path, problems=problems)
        count = 0
        while batch := list(islice(documents, _BATCH)):
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", map(_row, batch))
            count += len(batch)
        problems.raise_if_any()
        if not count:
            name = Source.of(path).name
            raise DataError([Problem(message="the corpus holds no document", path=name)])
        yield CorpusTexts(db)


def _row(document: Document) -> tuple[str, str]:
    return document.id, document.text
