"""What a reader said, kept on disk: reading takes minutes, what is learned from it seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from ragbench.text.onnx_model import OnnxTextModel, load_pair_classifier
from ragbench.text.pair_reader import PairReading, ReaderFiles
from ragbench.validators import local

_FIELDS = tuple(one.name for one in fields(PairReading))
"""What is kept of a reading, in order."""


class ScoreCache:
    """Remembers readings by query and text; stands before the function that asks the model."""

    def __init__(self, path: Path, *, only_known: bool) -> None:
        self._path = path
        self._only_known = only_known
        self._known: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                key, value = json.loads(line)
                self._known[key] = value
        self._real = local.readings_of

    def install(self) -> None:
        setattr(local, "readings_of", self.readings_of)  # noqa: B010 (a function of a module)

    def readings_of(
        self, files: ReaderFiles, query: str, texts: Sequence[str], **settings: Any
    ) -> tuple[list[PairReading], tuple[str, ...]]:
        kind = f"reader {local.digest_of(files.model)}"
        missing = [text for text in texts if _key(kind, query, text) not in self._known]
        if missing and self._only_known:
            raise LookupError(f"{len(missing)} readings are not known")
        found, told = self._real(files, query, missing, **settings) if missing else ([], ())
        for text, one in zip(missing, found, strict=True):
            self._put(_key(kind, query, text), [*astuple(one)])
        rows = [self._known[_key(kind, query, text)] for text in texts]
        return [PairReading(**dict(zip(_FIELDS, row, strict=False))) for row in rows], told

    def is_reader(self, files: ReaderFiles) -> bool:
        """Whether a model has spans, too."""
        return {"start", "end"} <= set(
            OnnxTextModel(files.model, files.tokenizer, kind="reader").outputs
        )

    def logits_of(self, files: ReaderFiles, query: str, texts: Sequence[str]) -> list[float]:
        """What a cross-encoder without spans says of texts: of a long one, of its best window."""
        kind = f"cross-encoder {local.digest_of(files.model)}"
        missing = [text for text in texts if _key(kind, query, text) not in self._known]
        if missing:
            model = load_pair_classifier(files.model, files.tokenizer, 2)
            for text in missing:
                windows = local.fitting_windows(model, query, text, 512)
                logits = model.logits([(query, text[slice(*one)]) for one in windows])
                self._put(_key(kind, query, text), [max(logits)])
        return [self._known[_key(kind, query, text)][0] for text in texts]

    def _put(self, key: str, value: list[Any]) -> None:
        self._known[key] = value
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, value]) + "\n")


def _key(kind: str, query: str, text: str) -> str:
    digest = hashlib.sha256("\0".join((query, text)).encode()).hexdigest()
    return f"{kind}:{digest[:24]}"
