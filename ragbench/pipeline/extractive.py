"""Answers quoted from the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragbench.core.result import GenerationResult
from ragbench.pipeline.sentence_support import (
    SupportedSentence,
    TermWeight,
    abstention,
    abstention_confidence,
    answer_confidence,
    rank_sentences,
)
from ragbench.post.operator import at_least, between, one_of, refuse
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveGenerator:
    """Quotes the best supported sentence, or what of it is asked for; no model.

    A question for a date, a number or a name gets that part of the sentence
    (`ragbench.text.answer_span`), any other the whole sentence. It abstains when no sentence is
    supported well enough. It reads no meaning: a question whose words all stand in a sentence is
    answered from that sentence, also when it says something else.
    """

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
    weight: TermWeight | None = field(default=None, compare=False, metadata={"setting": False})
    """What a word is worth in the corpus; None where that is not known."""

    def __post_init__(self) -> None:
        refuse(
            between("threshold", self.threshold, 0, 1),
            at_least("max_candidates", self.max_candidates, 1),
            one_of("answer", self.answer, ("span", "sentence")),
            one_of("word_weights", self.word_weights, ("corpus", "contexts")),
        )

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

        The metadata holds ``language``, ``support`` of the best sentence (in [0, 1]), ``evidence``
        (where the answer stands) and all ``candidates``.
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
        for sentence in rank_sentences(question, contexts, self.weight):
            context = contexts[sentence.context_index]
            one = self._answered(query, question, sentence, context)
            found.setdefault(normalise(context[one.start : one.end]), one)
            if len(found) == self.max_candidates:
                break
        return list(found.values())

    def _answered(
        self, query: str, question: ParsedQuestion, sentence: SupportedSentence, context: str
    ) -> _Answer:
        start, end = sentence.start, sentence.end
        span = answer_span(query, question, context[start:end]) if self.answer == "span" else None
        if span is None:
            return _Answer(sentence=sentence, start=start, end=end)
        return _Answer(sentence=sentence, start=start + span.start, end=start + span.end)
