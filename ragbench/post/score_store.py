"""Scores of rerankers that are slow or paid, kept by model, query and chunk."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
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

_TABLE = """
CREATE TABLE IF NOT EXISTS known (
    model TEXT NOT NULL, query BLOB NOT NULL, key BLOB NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (model, query, key)) WITHOUT ROWID;
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
            self._db.executescript(_TABLE)
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

    def known(self, model: str, query: bytes, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """What is kept of a query, by key; those that are given are counted as used again."""
        with self._lock:
            rows = self._db.execute(
                "SELECT key, value FROM known WHERE model = ? AND query = ?", (model, query)
            ).fetchall()
            found = {bytes(key): json.loads(value) for key, value in rows}
            self.reused += sum(key in found for key in set(keys))
        return found

    def keep(self, model: str, query: bytes, values: Mapping[bytes, object]) -> None:
        rows = [(model, query, key, json.dumps(value)) for key, value in values.items()]
        with self._lock:
            # One transaction: a commit a row would take longer than most rerankers.
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
            self.asked += sum(isinstance(value, float) for value in values.values())


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
        noted = b"notes" + whole
        if lacking:
            found = checked_scores(self.reranker, query, list(lacking.values()))
            new: dict[bytes, Any] = dict(zip(lacking, found, strict=True))
            new |= {noted: found.notes} if found.notes else {}
            self.store.keep(self.model, asked, new)
            known |= {noted: found.notes, **new}
        return NotedScores([known[key] for key in keys], known.get(noted, ()))


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
