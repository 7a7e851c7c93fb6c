"""The validator with a reader on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.errors import ConfigError
from ragbench.text.language import guess_language
from ragbench.text.onnx_model import OnnxFiles, find_onnx_files, is_hub_name
from ragbench.text.onnx_pairs import PairReading
from ragbench.text.sentences import SENTENCES_VERSION, Span
from ragbench.text.tokens import TOKENISER_VERSION
from ragbench.validators.calibration import (
    Absence,
    DecisionRule,
    ScoredPool,
    Weights,
    limits_for,
    logistic,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import LexicalValidator, Part, merge_parts, split_query
from ragbench.validators.lexical_features import LEXICAL_FEATURES, ScoredChunk, ask, read_in_windows
from ragbench.validators.reader import readings_of
from ragbench.validators.verdict import Finding, best_sentences

__all__ = [
    "LOCAL_FEATURES",
    "LocalValidator",
    "local_features",
    "shipped_reader",
]

LOCAL_FEATURES: tuple[str, ...] = ("lexical", "reader")
"""Names of the numbers of a chunk that the reader has read, in order. More of them (coverage, kinds
of answers, the span's score, how far a chunk lies behind the pool's best) were tried, and made
nothing better on articles that they were not learned from."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""


def local_features(
    chunks: Sequence[ScoredChunk], readings: Sequence[PairReading]
) -> list[tuple[float, ...]]:
    """Rows of `LOCAL_FEATURES`, one a chunk.

    Args:
        chunks: what words tell of the chunks that were read.
        readings: what the reader says of the same.
    """
    return [
        (chunk.logit / _LOGIT_SCALE, reading.logit / _LOGIT_SCALE)
        for chunk, reading in zip(chunks, readings, strict=True)
    ]


def shipped_reader() -> OnnxFiles:
    """Where its model and its tokenizer are; their card stands beside them.

    Raises:
        ConfigError: the installation lacks them.
    """
    return find_onnx_files(str(Path(str(files("ragbench.validators"))) / "reader"))


_LANGUAGE = "en"
"""What the reader that comes along was taught."""
_ANSWER_BONUS = 2.0
"""What a reader's answer adds to the score of the sentence that holds it: it decides."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What the reader made of chunks; each list in the order of the chunks."""

    logits: list[float]
    answers: list[Span]
    told: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalValidator:
    """Words find the best chunks; a reader says whether they answer the query, and where.

    The weights were learned and measured with the reader that comes with ragbench. Other models
    want a calibration. To queries that are not English words alone answer, and it is said, where
    no other reader is given.
    """

    reader: str | None = None
    """None for the one that comes along; else a folder with model.onnx and tokenizer.json, or
    ``owner/name`` on the Hugging Face hub: a model of question and text with the outputs logits,
    start and end."""
    read: int = 20
    """How many chunks the reader reads, the best by words; no other one is ever relevant."""
    max_length: int = 512
    """Tokens of query and text together that the model takes; longer texts are read in windows."""
    threads: int = 2
    """How many texts are read side by side."""
    calibration: str | None = None
    """A file that ``ragbench calibrate`` wrote; None for what was measured on public data."""
    relevant: float | None = None
    """Probability from which on a chunk is relevant; None for the measured one."""
    present: float | None = None
    """Probability from which on the answer is present; None for the measured one."""
    absence: Absence = "document-absent"
    """As of the lexical validator."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range, and folders without a model."""
        if min(self.read, self.threads) < 1 or self.max_length < 64:
            raise ConfigError("local: read and threads must be at least 1, max_length at least 64")
        if self.reader is not None and not is_hub_name(self.reader):
            find_onnx_files(self.reader)
        _ = self.limits

    @property
    def name(self) -> str:
        """``"local"``."""
        return "local"

    @property
    def identity(self) -> str:
        """Names the rules, the weights, the limits, and the reader by its bytes."""
        reader = _digest(self._files.model)
        learned = f"{self._words.digest}.{self._weights.digest}"
        numbers = f"{self.read}.{self.max_length}"
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        return f"local:{versions}:{learned}:{reader}:{numbers}:{self.limits.identity}"

    @property
    def limits(self) -> DecisionRule:
        """Its calibration and thresholds."""
        return limits_for(
            self.name,
            self._weights.thresholds(self.absence),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """Judges what was retrieved for one query; see `ragbench.validators.validator`.

        Raises:
            ConfigError: a model cannot be found, downloaded or loaded.
            MissingExtraError: the extra ``onnx`` is not installed.
        """
        if self.reader is None and guess_language(query) != _LANGUAGE:
            return self._by_words(query, chunks)
        intake = inspect_chunks(query, chunks)
        warnings: list[str] = []
        parts: list[Part] = []
        for text in split_query(query):
            part, told = self._part(text, intake.chunks)
            parts.append(part)
            warnings += told
        findings, probability, reasons = merge_parts(parts)
        judgement = ScoredPool(
            query=query,
            intake=intake,
            findings=findings,
            answer_probability=probability,
            reasons=reasons,
            warnings=list(dict.fromkeys(warnings)),
            details={"read_by_models": float(min(self.read, len(intake.chunks)))},
        )
        return judgement.verdict(self.limits, self.name)

    def _by_words(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """What words say, where the reader would guess."""
        words = LexicalValidator(relevant=self.relevant, present=self.present, absence=self.absence)
        verdict = words.validate(query, chunks)
        return replace(
            verdict,
            validator=self.name,
            warnings=(*verdict.warnings, "the reader knows English only: words alone decided"),
            details={**verdict.details, "read_by_models": 0.0},
        )

    def _part(self, query: str, chunks: Sequence[Chunk]) -> tuple[Part, tuple[str, ...]]:
        asked = ask(query, shipped_rarity())
        words = read_in_windows(asked, [chunk.text for chunk in chunks], self._words.chunk)
        # Sorting keeps the order of equals: the retriever's.
        ranked = sorted(range(len(chunks)), key=lambda at: -words[at].logit)[: self.read]
        chosen = [at for at in sorted(ranked) if words[at].sentences and asked.weights]
        found = self._read(query, [chunks[at].text for at in chosen], [words[at] for at in chosen])
        # What no model has read is never called relevant.
        unread = self.limits.thresholds.relevant / 2
        probabilities = [min(logistic(one.logit), unread) for one in words]
        answers: list[Span | None] = [None] * len(chunks)
        for place, at in enumerate(chosen):
            probabilities[at] = logistic(found.logits[place])
            answers[at] = found.answers[place]
        findings = [
            Finding(
                chunk=chunk, probability=probabilities[at], spans=_quoted(words[at], answers[at])
            )
            for at, chunk in enumerate(chunks)
        ]
        probability = self._weights.answer_probability(found.logits)
        part = Part(text=query, findings=findings, answer_probability=probability)
        return part, found.told

    def _read(self, query: str, texts: Sequence[str], words: Sequence[ScoredChunk]) -> _Read:
        if not texts:
            return _Read([], [], ())
        readings, told = readings_of(
            self._files, query, texts, max_length=self.max_length, threads=self.threads
        )
        logits = [self._weights.chunk.logit(row) for row in local_features(words, readings)]
        answers = [Span(one.start, one.end) for one in readings]
        return _Read(logits, answers, told)

    @property
    def _files(self) -> OnnxFiles:
        return shipped_reader() if self.reader is None else find_onnx_files(self.reader)

    @property
    def _words(self) -> Weights:
        return shipped_weights("lexical", LEXICAL_FEATURES)

    @property
    def _weights(self) -> Weights:
        return shipped_weights("local", LOCAL_FEATURES)


def _quoted(words: ScoredChunk, answer: Span | None) -> tuple[Span, ...]:
    """The sentences to quote; the one that holds the reader's answer always."""
    if answer is None:
        return best_sentences(words.sentences, words.scores)
    sentences = list(words.sentences)
    scores = list(words.scores)
    if not any(_overlap(one, answer) for one in sentences):
        return (answer,)  # it stands in another window than the words found best
    for at, sentence in enumerate(sentences):
        if _overlap(sentence, answer):
            scores[at] += _ANSWER_BONUS
    return best_sentences(sentences, scores, most=2, share=0.0)


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


@lru_cache(maxsize=16)
def _digest(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()[:12]
