"""A cross-encoder's logits, kept on disk: a benchmark that is run again does not wait for them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from ragbench.post.rerankers import models as cross_encoder
from ragbench.text.onnx_model import PairClassifier, load_pair_classifier

__all__ = ["KeptLogits", "kept_logits"]


class KeptLogits:
    """A `PairClassifier` that reads no pair twice."""

    def __init__(self, classifier: PairClassifier, file: Path, model: str) -> None:
        """Opens the file, or makes it; ``model`` tells apart what several models said."""
        self._classifier = classifier
        self._model = model
        file.parent.mkdir(parents=True, exist_ok=True)
        self._kept = sqlite3.connect(file, timeout=600)
        self._kept.execute("CREATE TABLE IF NOT EXISTS logits (pair BLOB PRIMARY KEY, logit REAL)")

    def length(self, first: str, second: str) -> int:
        return self._classifier.length(first, second)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return self._classifier.offsets(text)

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        keys = [self._key(*pair) for pair in pairs]
        known = {key: value for key in keys if (value := self._known(key)) is not None}
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        found = zip(new, self._classifier.logits(list(new.values())), strict=True)
        fresh = dict(found)
        with self._kept:
            self._kept.executemany("INSERT OR IGNORE INTO logits VALUES (?, ?)", fresh.items())
        known.update(fresh)
        return [known[key] for key in keys]

    def _key(self, first: str, second: str) -> bytes:
        return hashlib.blake2b("\0".join((self._model, first, second)).encode()).digest()[:16]

    def _known(self, key: bytes) -> float | None:
        row = self._kept.execute("SELECT logit FROM logits WHERE pair = ?", (key,)).fetchone()
        return None if row is None else float(row[0])


@contextmanager
def kept_logits(file: Path) -> Generator[None]:
    """Within it, cross-encoders take what the file knows and add what it does not."""
    load = load_pair_classifier
    loaded: dict[Path, KeptLogits] = {}

    def kept(model: Path, tokenizer: Path, threads: int) -> KeptLogits:
        if model not in loaded:
            classifier = load(model, tokenizer, threads)
            loaded[model] = KeptLogits(classifier, file, f"{model.parent.name}/{model.name}")
        return loaded[model]

    with mock.patch.object(cross_encoder, "load_pair_classifier", kept):
        yield
