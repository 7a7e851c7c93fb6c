"""A cross-encoder: a model that reads the query and a chunk together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ragbench.errors import ConfigError
from ragbench.models.onnx_files import find_onnx_files, is_hub_name
from ragbench.models.onnx_pairs import PairClassifier, load_pair_classifier
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.query_weights import QueryWeights, query_weights
from ragbench.postretrieval.reranker import NotedScores
from ragbench.postretrieval.rerankers.sentence_windows import best_windows
from ragbench.records.corpus import Chunk

__all__ = ["CrossEncoderReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossEncoderReranker:
    """Scores in (0, 1): the sigmoid of the model's logit (Nogueira and Cho 2019).

    Nothing of a chunk is cut off unseen: what does not fit the model is read in overlapping pieces,
    and the best piece counts (Dai and Callan 2019). Reading only what shares most with the query
    (``passages`` other than ``"whole"``) takes a fraction of the time.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("extra onnx",)

    model: str
    """A folder with model.onnx and tokenizer.json, or ``owner/name`` on the Hugging Face hub."""
    file: str | None = None
    """The ONNX file's path in there; None tries model.onnx, onnx/model.onnx and the quantised."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    passages: Literal["whole", "sentences", "words"] = "whole"
    """What is read of each chunk. ``"sentences"``: the run of whole sentences that shares most with
    the query. ``"words"``: the same, and of a sentence that is too long only its best stretch."""
    words: int = 24
    """But for ``"whole"``: how many words a run may have, at least 1."""
    windows: int = 1
    """But for ``"whole"``: how many runs of a chunk are read, at least 1; the best one counts."""
    first: int | None = None
    """How many candidates are read, at least 1; those behind them keep their order and get scores
    below 0. All are read when not given."""
    max_length: int = 512
    """Tokens of query and text together that the model takes."""
    overlap: int = 64
    """Tokens that neighbouring pieces of a long chunk share."""
    threads: int = 2
    """How many pairs are read side by side, each on one thread."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range and folders without a model."""
        if self.words < 1 or self.windows < 1 or self.threads < 1:
            raise ConfigError("cross_encoder: words, windows and threads must be at least 1")
        if self.first is not None and self.first < 1:
            raise ConfigError(f"cross_encoder: first must be at least 1, not {self.first}")
        if self.max_length < 16 or not 0 <= self.overlap <= self.max_length // 4:
            raise ConfigError(
                "cross_encoder: max_length must be at least 16 and overlap at most a quarter of it"
            )
        if not is_hub_name(self.model):
            find_onnx_files(self.model, file=self.file)

    @property
    def name(self) -> str:
        """``"cross_encoder"``."""
        return "cross_encoder"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Each chunk's best piece.

        Raises:
            ConfigError: the model cannot be found, downloaded or loaded.
            MissingExtraError: the extra ``onnx`` is not installed.
        """
        files = find_onnx_files(self.model, file=self.file, revision=self.revision)
        classifier = load_pair_classifier(files.model, files.tokenizer, self.threads)
        text, notes = self._question(classifier, query.text)
        read = self._read(query.text, [chunk.text for chunk in chunks])
        pieces = [
            (place, piece)
            for place, texts in enumerate(read)
            for one in texts
            for piece in self._fitting(classifier, text, one)
        ]
        best = [-math.inf] * len(read)
        logits = classifier.logits([(text, piece) for _, piece in pieces])
        for (place, _), logit in zip(pieces, logits, strict=True):
            best[place] = max(best[place], logit)
        unread = len(chunks) - len(read)
        if unread:
            notes = (*notes, f"{unread} of {len(chunks)} chunks were not read: they stand behind")
        behind = [-place / len(chunks) for place in range(1, unread + 1)]
        return NotedScores((*map(_sigmoid, best), *behind), notes)

    def _read(self, question: str, passages: list[str]) -> list[list[str]]:
        """What is read of each of the passages that are."""
        first = passages[: self.first]
        if self.passages == "whole":
            return [[passage] for passage in first]
        weights = query_weights(question, passages)
        return [self._windows(weights, place) for place in range(len(first))]

    def _question(self, classifier: PairClassifier, text: str) -> tuple[str, tuple[str, ...]]:
        """The question; one that leaves no room for a chunk is cut, and a note says so."""
        offsets = classifier.offsets(text)
        room = self.max_length // 2
        if len(offsets) <= room:
            return text, ()
        note = f"the question has {len(offsets)} tokens: only the first {room} were read"
        return text[: offsets[room - 1][1]], (note,)

    def _windows(self, query: QueryWeights, place: int) -> list[str]:
        text, cut = query.texts[place], self.passages == "words"
        spans = best_windows(query, place, words=self.words, count=self.windows, cut=cut)
        return [text[span.start : span.end] for span in spans] or [text]

    def _fitting(self, classifier: PairClassifier, question: str, passage: str) -> list[str]:
        """The passage, or overlapping pieces of it that the model can take."""
        # A token is at least a character: short texts need no counting.
        if len(question) + len(passage) + 8 <= self.max_length:
            return [passage]
        excess = classifier.length(question, passage) - self.max_length
        if excess <= 0:
            return [passage]
        offsets = classifier.offsets(passage)
        room = len(offsets) - excess
        starts = range(0, len(offsets) - self.overlap, max(1, room - self.overlap))
        return [
            piece
            for start in starts
            # A word that is cut in two may have more tokens than before: look again.
            for piece in self._fitting(
                classifier,
                question,
                passage[offsets[start][0] : offsets[min(start + room, len(offsets)) - 1][1]],
            )
        ]


def _sigmoid(logit: float) -> float:
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))
