"""The chunks of a collection ranked by words: the index, and where it is kept."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from ragbench.core.filters import Filter, matches
from ragbench.errors import StoreError, warn
from ragbench.pipeline.bm25 import Bm25Scores
from ragbench.stores.collection import OwnCollection
from ragbench.stores.record import searched_fields
from ragbench.text.language import function_words, guess_language
from ragbench.text.tokens import chunk_tokens, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INDEX_FORM = 2
"""Changes with what a kept index holds."""
_VARIABLE = "RAGBENCH_BM25_CACHE"
_MOST_KEPT = 2**30
"""Bytes that kept indexes may take together; those used longest ago are removed first."""


def sparse_cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Where BM25 indexes are kept: one folder per user, whatever the working directory.

    None where nothing is kept.
    """
    named = environ.get(_VARIABLE, "").strip()
    if named:
        return None if named == "off" else Path(named).expanduser()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "ragbench" / "bm25"
    except RuntimeError:  # a user without a home
        return None


def kept_index(folder: Path, build: Callable[[], SparseIndex]) -> SparseIndex:
    """The index that a folder holds, or one that is built and kept there.

    The folder's siblings are removed, those used longest ago first, while all of them take more
    than 1 GiB. A folder that cannot be written costs time, not the search.
    """
    index = SparseIndex.load(folder)
    if index is not None:
        os.utime(folder)
        return index
    index = build()
    try:
        index.save(folder)
        _prune(folder)
    except (StoreError, OSError):
        return index
    return index


def _prune(newest: Path) -> None:
    used = [(one.stat().st_mtime, _size(one), one) for one in newest.parent.iterdir()]
    total = sum(size for _, size, _ in used)
    for _, size, folder in sorted(used):
        if total <= _MOST_KEPT:
            return
        if folder != newest:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*"))


_BATCH = 1000
_IDS = "ids.json"
_METADATA = "metadata.json"


_LARGE = 100_000
"""Chunks from which on a warning says what an index takes."""
_BYTES = 50
"""Of memory that a token takes while an index is built (100,000 chunks of 30 and of 100 words)."""


def _told_size(chunks: int, seconds: float, tokens: float) -> str:
    minutes = max(1, round(chunks * seconds / 60))
    return (
        f"BM25 is built of all {chunks:,} chunks, once, in this process: about {minutes} "
        f"minute{'' if minutes == 1 else 's'} or more and {chunks * tokens * _BYTES / 1e9:.1f} GB "
        "of memory, by what the first thousand took. Where that is too much, index the corpus into "
        "Qdrant with --words store: Qdrant then ranks by the same scores, and nothing is built. Or "
        "let another store rank by its own formula, so with other scores and another order "
        "(PostgreSQL, Milvus, Elasticsearch, OpenSearch; docs/stores.md, 'Sparse and hybrid')"
    )


class SparseIndex:
    """Ranks the chunks of a collection by words.

    A score is the BM25 of a chunk divided by the inverse document frequencies of all words of the
    query: how much of the query's weight the chunk holds, in [0, 1). It is comparable between
    queries, which BM25 itself is not, and it never changes a ranking.

    A chunk that shares nothing with the query but words such as "the" and "is" does not match.
    """

    def __init__(
        self, ids: Sequence[str], metadata: Callable[[], Sequence[Any]], scores: Bm25Scores
    ) -> None:
        self._ids = ids
        self._metadata = metadata
        self._scores = scores
        self._passing = lru_cache(maxsize=8)(self._passes)

    @classmethod
    def build(
        cls, store: OwnCollection, *, k1: float = 1.2, b: float = 0.75, title_weight: int = 2
    ) -> SparseIndex:
        """Reads all chunks of a store and indexes them; see `ragbench.pipeline.bm25.Bm25Index`.

        From 100,000 chunks on, a warning says what that takes, by what the first thousand took.
        """
        begin = time.perf_counter()
        ids = sorted(store.digests())
        listed = time.perf_counter() - begin
        metadata: list[Any] = []
        tokens: list[list[str]] = []
        for start in range(0, len(ids), _BATCH):
            part = ids[start : start + _BATCH]
            chunks = store.get(part)
            for id_ in part:
                chunk = chunks[id_]
                metadata.append(dict(searched_fields(chunk)))
                tokens.append(chunk_tokens(chunk.text, chunk.metadata.get("title"), title_weight))
            if start == 0 and len(ids) >= _LARGE:
                took = time.perf_counter() - begin - listed
                warn(_told_size(len(ids), took / len(part), sum(map(len, tokens)) / len(part)))
        return cls(ids, lambda: metadata, Bm25Scores.build(tokens, k1=k1, b=b))

    def save(self, folder: Path) -> None:
        """Writes the index to a folder, which appears whole or not at all."""
        draft = folder.with_name(f".{folder.name}.{os.getpid()}.{uuid4().hex}")
        try:
            draft.mkdir(parents=True)
            self._scores.save(draft)
            _write(draft / _METADATA, list(self._metadata()))
            _write(draft / _IDS, list(self._ids))
            # A folder of that name was written by another process in the meantime: the same one.
            if not folder.exists():
                draft.rename(folder)
        except OSError as error:
            raise StoreError(f"the BM25 index cannot be written to '{folder}': {error}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    @classmethod
    def load(cls, folder: Path) -> SparseIndex | None:
        """Reads what `save` wrote; None where there is nothing, or nothing that can be read."""
        try:
            ids = cast("list[str]", _read(folder / _IDS))
            scores = Bm25Scores.load(folder, len(ids))
        except (OSError, ValueError, KeyError):
            return None
        return cls(ids, lambda: cast("list[Any]", _read(folder / _METADATA)), scores)

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token among the chunks; highest if unknown."""
        return self._scores.idf(token)

    def search(
        self, query: str, *, k: int, threshold: float = 0.0, filters: Filter | None = None
    ) -> list[tuple[str, float]]:
        """The ids of the chunks that share a word with the query, and their scores, best first."""
        tokens = tokenise(query)
        scores = self._scores.scores(tokens)
        if scores is None:
            return []
        if filters is not None:
            scores = scores * self._passing(filters)
        idle = function_tokens(query)
        telling = [token for token in tokens if token not in idle]
        if telling:
            matched = self._scores.scores(telling)
            if matched is None:
                return []
            scores = scores * (matched > 0)
        whole = sum(self._scores.idf(token) for token in tokens)
        found = [(self._ids[at], value / whole) for at, value in Bm25Scores.best(scores, k)]
        return [(id_, value) for id_, value in found if value >= threshold]

    def _passes(self, filters: Filter) -> NDArray[np.bool_]:
        import numpy as np

        return np.array([matches(filters, one) for one in self._metadata()], dtype=bool)


def function_tokens(query: str) -> frozenset[str]:
    """The tokens of words such as "the" and "is" in the language of a question."""
    return _function_tokens(guess_language(query))


@lru_cache(maxsize=16)
def _function_tokens(language: str) -> frozenset[str]:
    return frozenset(tokenise(function_words().get(language, "")))


def _write(path: Path, value: list[Any]) -> None:
    # Not by orjson: metadata may hold integers of any size, texts lone surrogates.
    path.write_text(json.dumps(value, separators=(",", ":")), "ascii")


def _read(path: Path) -> object:
    found: object = json.loads(path.read_text("ascii"))
    return found
