"""Scores of models, kept on disk: reading takes minutes, what is learned from it seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragbench.models.onnx_reader import PairReading
from ragbench.validation import local, local_models


class ScoreCache:
    """Remembers scores by kind, query and text; stands before the functions that ask models."""

    def __init__(self, path: Path, *, only_known: bool) -> None:
        self._path = path
        self._only_known = only_known
        self._known: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                key, value = json.loads(line)
                self._known[key] = value
        self._real = (
            local_models.cross_logits,
            local_models.readings_of,
        )

    def install(self) -> None:
        for name in ("cross_logits", "readings_of"):
            setattr(local, name, getattr(self, name))

    def put(self, kind: str, query: str, text: str, value: Any) -> None:
        self._known[_key(kind, query, text)] = value

    def write(self) -> None:
        lines = (json.dumps(pair) for pair in self._known.items())
        self._path.write_text("\n".join(lines) + "\n", "utf-8")

    def cross_logits(
        self, model: str, query: str, texts: Sequence[str], **settings: Any
    ) -> tuple[list[float], str | None]:
        ask = self._real[0]
        found = self._all(
            "cross", query, texts, lambda missing: ask(model, query, missing, **settings)[0]
        )
        return found, None

    def readings_of(
        self, model: str, query: str, texts: Sequence[str], **settings: Any
    ) -> list[PairReading]:
        ask = self._real[1]
        rows = self._all(
            "reader",
            query,
            texts,
            lambda missing: [
                [one.logit, one.span, one.start, one.end]
                for one in ask(model, query, missing, **settings)
            ],
        )
        return [PairReading(logit=a, span=b, start=c, end=d) for a, b, c, d in rows]

    def _all(
        self,
        kind: str,
        query: str,
        texts: Sequence[str],
        ask: Callable[[list[str]], list[Any]],
    ) -> list[Any]:
        missing = [text for text in texts if _key(kind, query, text) not in self._known]
        if missing and self._only_known:
            raise LookupError(f"{len(missing)} scores of kind {kind} are not known")
        for text, value in zip(missing, ask(missing) if missing else [], strict=True):
            self.put(kind, query, text, value)
        return [self._known[_key(kind, query, text)] for text in texts]


def _key(kind: str, query: str, text: str) -> str:
    digest = hashlib.sha256("\0".join((query, text)).encode()).hexdigest()
    return f"{kind}:{digest[:24]}"
