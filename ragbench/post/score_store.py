"""Scores of rerankers that are slow or paid, kept by model, query and chunk."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from ragbench.core.chunk import Chunk
from ragbench.errors import RunError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.identity import described
from ragbench.post.build import Variant
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores, Rerank, Reranker, checked_scores, with_members
from ragbench.post.stage import PostRetrieval

_TABLES = """
CREATE TABLE IF NOT EXISTS scores (
    model TEXT NOT NULL, query BLOB NOT NULL, chunk BLOB NOT NULL, score REAL NOT NULL,
    PRIMARY KEY (model, query, chunk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    model TEXT NOT NULL, query BLOB NOT NULL, chunks BLOB NOT NULL, notes TEXT NOT NULL,
    PRIMARY KEY (model, query, chunks)) WITHOUT ROWID;
"""


class ScoreStore:
    """A file of scores, for any number of threads; what is known is not asked again.

    A score is stored as soon as it is given: an interrupted command goes on where it ended.
    """

    def __init__(self, path: Path | None) -> None:
        self.asked = 0
        """Scores that a reranker was asked for."""
        self.reused = 0
        """Scores that were known."""
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(
                path or ":memory:", isolation_level=None, check_same_thread=False
            )
            self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise RunError(f"{path} cannot be used as a store of scores: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._db.close()

    def known(self, model: str, query: bytes, chunks: Sequence[bytes]) -> dict[bytes, float]:
        wanted = set(chunks)
        with self._lock:
            rows = self._db.execute(
                "SELECT chunk, score FROM scores WHERE model = ? AND query = ?", (model, query)
            ).fetchall()
            found = {bytes(chunk): float(score) for chunk, score in rows if bytes(chunk) in wanted}
            self.reused += len(found)
        return found

    def keep(self, model: str, query: bytes, scores: dict[bytes, float]) -> None:
        rows = [(model, query, chunk, score) for chunk, score in scores.items()]
        with self._lock:
            # One transaction: a commit a row would take longer than most rerankers.
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
            self.asked += len(rows)

    def notes(self, model: str, query: bytes, chunks: bytes) -> tuple[str, ...]:
        """The reranker's notes when it was asked for just these chunks."""
        with self._lock:
            row = self._db.execute(
                "SELECT notes FROM notes WHERE model = ? AND query = ? AND chunks = ?",
                (model, query, chunks),
            ).fetchone()
        return () if row is None else tuple(json.loads(row[0]))

    def keep_notes(self, model: str, query: bytes, chunks: bytes, notes: Sequence[str]) -> None:
        with self._lock:
            self._db.execute(
                "INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)",
                (model, query, chunks, json.dumps(list(notes))),
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredReranker:
    """A reranker that is asked only for scores that the store lacks.

    Where a chunk's score depends on it and the query alone (``scores_alone``), each is stored by
    itself. Else a list of chunks is one question: other chunks, or another order, are asked anew.
    """

    reranker: Reranker
    store: ScoreStore = field(compare=False, metadata={"setting": False})
    model: str = field(init=False)
    """Digest of all that its scores depend on besides query and chunk."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", fingerprint(described(self.reranker)))

    @property
    def name(self) -> str:
        return self.reranker.name

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        texts = [chunk.text for chunk in chunks]
        whole = _digest(*texts)
        asked = _digest(query.text)
        if getattr(self.reranker, "scores_alone", False):
            keys = [_digest(text) for text in texts]
        else:
            keys = [whole + at.to_bytes(4, "big") for at in range(len(texts))]
        known = self.store.known(self.model, asked, keys)
        lacking = {key: chunk for key, chunk in zip(keys, chunks, strict=True) if key not in known}
        if not lacking:
            notes = self.store.notes(self.model, asked, whole)
            return NotedScores(tuple(known[key] for key in keys), notes)
        found = checked_scores(self.reranker, query, list(lacking.values()))
        new = dict(zip(lacking, found.values, strict=True))
        self.store.keep(self.model, asked, new)
        if found.notes:
            self.store.keep_notes(self.model, asked, whole, found.notes)
        known |= new
        return NotedScores(tuple(known[key] for key in keys), found.notes)


def _digest(*texts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def with_stored_scores(stage: PostRetrieval, store: ScoreStore) -> PostRetrieval:
    """The stage with a store before each reranker that is slow or paid (``asks_elsewhere``).

    Rerankers within rerankers are found, too. All others are as they were: computing their scores
    costs less than looking them up.
    """
    operators = tuple(
        replace(one, reranker=_stored(one.reranker, store)) if isinstance(one, Rerank) else one
        for one in stage.operators
    )
    return replace(stage, operators=operators)


def _stored(reranker: Reranker, store: ScoreStore) -> Reranker:
    if getattr(reranker, "asks_elsewhere", False):
        return StoredReranker(reranker=reranker, store=store)
    holder: Any = reranker
    if is_dataclass(holder) and any(one.name == "rerankers" for one in fields(holder)):
        inner = cast("Sequence[Reranker]", getattr(reranker, "rerankers"))  # noqa: B009
        members = [_stored(one, store) for one in inner]
        return cast("Reranker", replace(cast("Any", holder), rerankers=members))
    return reranker


def rerankers_of(stage: PostRetrieval) -> list[Reranker]:
    """The rerankers of a stage, those within others too."""
    found = [one.reranker for one in stage.operators if isinstance(one, Rerank)]
    return [member for reranker in found for member in with_members(reranker)]


def needs_store(variants: Sequence[Variant]) -> bool:
    """Whether a reranker of any variant is slow or paid."""
    rerankers = [one for variant in variants for one in rerankers_of(variant.stage)]
    return any(getattr(one, "asks_elsewhere", False) for one in rerankers)
