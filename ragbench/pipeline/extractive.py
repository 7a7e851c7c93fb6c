"""Answers quoted from the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragbench.core.result import GenerationResult
from ragbench.errors import ConfigError
from ragbench.pipeline.sentence_support import (
    SupportedSentence,
    TermWeight,
    abstention,
    abstention_confidence,
    answer_confidence,
    rank_sentences,
)
from ragbench.pipeline.stages import WordWeights
from ragbench.text.question import SPANS_VERSION, ParsedQuestion, answer_span, parse_question
from ragbench.text.sentences import SENTENCES_VERSION
from ragbench.text.tokens import TOKENISER_VERSION, normalise

_VERSION = "3"
DEFAULT_THRESHOLD = 0.26
"""Support below which no answer is given: where most of the decisions to answer or not are right on
the questions and weights that the confidence is fitted on (`sentence_support`)."""


AnswerPart = Literal["span", "sentence"]
"""What of a sentence is the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """A sentence, and what of it is the answer."""

    sentence: SupportedSentence
    start: int
    """Offset of the answer's first character in the context."""
    end: int

    @property
    def is_span(self) -> bool:
        return (self.start, self.end) != (self.sentence.start, self.sentence.end)

    @property
    def place(self) -> dict[str, Any]:
        place = {"context_index": self.sentence.context_index, "start": self.start, "end": self.end}
        sentence = {"start": self.sentence.start, "end": self.sentence.end}
        return {**place, "sentence": sentence} if self.is_span else place


class ExtractiveGenerator:
    """Answers out of the sentence of the contexts that the question's words support best.

    A question for a date, a number or a name gets that part of the sentence
    (`ragbench.text.question`), any other the whole sentence. It abstains when no sentence is
    supported well enough. It reads no meaning: a question whose words all stand in a sentence is
    answered from that sentence, also when it says something else.
    """

    def __init__(
        self,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        max_candidates: int = 3,
        answer: AnswerPart = "span",
        weight: TermWeight | None = None,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold must lie in [0, 1], not {threshold}")
        if max_candidates < 1:
            raise ConfigError(f"max_candidates must be at least 1, not {max_candidates}")
        if answer not in ("span", "sentence"):
            raise ConfigError(f"answer must be one of span, sentence, not {answer!r}")
        self.threshold = threshold
        self.max_candidates = max_candidates
        self.answer: AnswerPart = answer
        self._weight = weight

    @property
    def identity(self) -> dict[str, object]:
        """What the answers depend on besides contexts and term weights; JSON can hold it."""
        return {
            "method": "extractive",
            "version": _VERSION,
            "tokeniser": TOKENISER_VERSION,
            "sentences": SENTENCES_VERSION,
            "answer": self.answer,
            **({"spans": SPANS_VERSION} if self.answer == "span" else {}),
            "threshold": self.threshold,
            "max_candidates": self.max_candidates,
        }

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult:
        """Answers a question from its contexts.

        Returns:
            ``metadata`` holds ``language``, ``support`` (of the best sentence, in [0, 1], 0 when
        """
        question = parse_question(query)
        candidates = self._candidates(query, question, contexts)
        support = candidates[0].sentence.support if candidates else 0.0
        answered = bool(candidates) and support >= self.threshold
        responses = [
            contexts[one.sentence.context_index][one.start : one.end] for one in candidates
        ]
        confidence = abstention_confidence(support)
        if answered:
            confidence = answer_confidence(support, is_span=candidates[0].is_span)
        else:
            responses = [abstention(question.language)]
        metadata: dict[str, Any] = {
            "language": question.language,
            "support": support,
            "threshold": self.threshold,
            "evidence": candidates[0].place if answered else None,
            "candidates": [{**one.place, "support": one.sentence.support} for one in candidates],
        }
        return GenerationResult(
            responses[0],
            multi_responses=responses,
            confidence=confidence,
            abstained=not answered,
            metadata=metadata,
        )

    def _candidates(
        self, query: str, question: ParsedQuestion, contexts: Sequence[str]
    ) -> list[_Answer]:
        """The best answers, those that differ only in case or Unicode form once."""
        found: dict[str, _Answer] = {}
        for sentence in rank_sentences(question, contexts, self._weight):
            context = contexts[sentence.context_index]
            one = self._answer(query, question, sentence, context)
            found.setdefault(normalise(context[one.start : one.end]), one)
            if len(found) == self.max_candidates:
                break
        return list(found.values())

    def _answer(
        self, query: str, question: ParsedQuestion, sentence: SupportedSentence, context: str
    ) -> _Answer:
        start, end = sentence.start, sentence.end
        span = answer_span(query, question, context[start:end]) if self.answer == "span" else None
        if span is None:
            return _Answer(sentence=sentence, start=start, end=end)
        return _Answer(sentence=sentence, start=start + span.start, end=start + span.end)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveGeneration:
    """Quotes the best supported sentence, or what of it is asked for; no model."""

    threshold: float = DEFAULT_THRESHOLD
    """Support below which no answer is given, in [0, 1]."""
    max_candidates: int = 3
    """How many different answers are given at most."""
    answer: AnswerPart = "span"
    """Whether a question for a date, a number or a name gets that part of the sentence alone
    (``span``), or the whole sentence like any other (``sentence``)."""
    word_weights: Literal["corpus", "contexts"] = "corpus"
    """Where a word's rarity is counted: in the corpus, where retrieval knows it, or among the
    contexts at hand."""

    def __post_init__(self) -> None:
        if self.word_weights not in ("corpus", "contexts"):
            raise ConfigError(
                f"word_weights must be one of corpus, contexts, not {self.word_weights!r}"
            )
        self.open(None)

    def open(self, weights: WordWeights | None) -> ExtractiveGenerator:
        used = weights if self.word_weights == "corpus" else None
        return ExtractiveGenerator(
            threshold=self.threshold,
            max_candidates=self.max_candidates,
            answer=self.answer,
            weight=None if used is None else used.weight,
        )
