"""What a reader said of a question and a text, kept on disk: no pair is read twice.

Of a pair a digest and five numbers are kept, and neither question nor text. Another order, other
scores, another k, another retriever or dump then read only what is new. A place that cannot be
written costs time, never a verdict.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from functools import lru_cache, partial
from pathlib import Path

from ragbench.errors import RunError
from ragbench.ledger.scores import ScoreStore, digest, user_cache
from ragbench.text.onnx_model import PairReading

_LARGEST = 250_000_000
"""Bytes, about two million pairs: a file that has grown beyond them is begun anew."""
_NUMBERS = tuple(one.name for one in fields(PairReading))
Read = Callable[[Sequence[str]], tuple[list[PairReading], tuple[str, ...]]]
"""Reads texts, and says what of them it could not read."""


readings_file = partial(user_cache, "RAGBENCH_READINGS", "readings.sqlite")


def kept_readings(
    reader: str, query: str, texts: Sequence[str], read: Read
) -> tuple[list[PairReading], tuple[str, ...]]:
    """What is kept of the texts, and the rest read; ``reader`` names all else it depends on."""
    keys, asked, model = [*map(digest, texts)], digest(query), digest(reader).hex()
    store, known = _opened(readings_file(), os.getpid()), dict[bytes, PairReading]()
    if store is not None:
        with suppress(sqlite3.Error, ValueError, TypeError):
            for key, numbers in store.known(model, asked, ()).items():
                known[key] = PairReading(**dict(zip(_NUMBERS, numbers, strict=True)))
    missing = [at for at, key in enumerate(keys) if key not in known]
    found, notes = read([texts[at] for at in missing]) if missing else ([], ())
    fresh = {keys[at]: one for at, one in zip(missing, found, strict=True)}
    if store is not None and fresh and not notes:  # what was not read whole is said each time
        with suppress(sqlite3.Error):
            store.keep(model, asked, {key: astuple(one) for key, one in fresh.items()})
    known |= fresh
    return [known[key] for key in keys], notes


@lru_cache(maxsize=2)
def _opened(path: Path | None, process: int) -> ScoreStore | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.unlink()
        return ScoreStore(path)
    except (OSError, RunError):
        return None
