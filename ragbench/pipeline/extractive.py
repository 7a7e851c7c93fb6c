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
from ragbench.text.question import ParsedQuestion, parse_question
from ragbench.text.sentences import SENTENCES_VERSION
from ragbench.text.tokens import TOKENISER_VERSION, normalise

__all__ = [
    "DEFAULT_THRESHOLD",
    "ExtractiveGeneration",
    "ExtractiveGenerator",
]

_VERSION = "2"
DEFAULT_THRESHOLD = 0.26
"""Support below which no answer is given: where most of the decisions to answer or not are right on
the questions and weights that the confidence is fitted on (`sentence_support`)."""


class ExtractiveGenerator:
    """Answers with the sentence of the contexts that the question's words support best.

    It abstains when no sentence is supported well enough. It reads no meaning: a question whose
    words all stand in a sentence gets that sentence, also when it answers something else.
    """

    def __init__(
        self,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        max_candidates: int = 3,
        weight: TermWeight | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
            threshold: the least support of an answer, in [0, 1]; 0 answers whenever a sentence
                shares a word with the question.
            max_candidates: how many different sentences to return at most, at least 1.
            weight: what a token is worth, such as its inverse document frequency in a corpus; by
                default that among the sentences of the contexts at hand.

        Raises:
            ConfigError: a setting is out of its range.
        """
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold must lie in [0, 1], not {threshold}")
        if max_candidates < 1:
            raise ConfigError(f"max_candidates must be at least 1, not {max_candidates}")
        self.threshold = threshold
        self.max_candidates = max_candidates
        self._weight = weight

    @property
    def identity(self) -> dict[str, object]:
        """What the answers depend on besides contexts and term weights; JSON can hold it."""
        return {
            "method": "extractive",
            "version": _VERSION,
            "tokeniser": TOKENISER_VERSION,
            "sentences": SENTENCES_VERSION,
            "threshold": self.threshold,
            "max_candidates": self.max_candidates,
        }

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult:
        """Answers a question from its contexts.

        Args:
            query: the question.
            contexts: the texts that may answer it, best first; may be empty.

        Returns:
            The best sentence, an exact slice of a context, with up to ``max_candidates`` different
            sentences as ``multi_responses``; or the abstention in the question's language, alone.
            ``confidence`` is the chance that the response is right: of an answer, that it holds
            what was asked for; of an abstention, that there is no answer.
            ``metadata`` holds ``language``, ``support`` (of the best sentence, in [0, 1], 0 when
            there is none), ``threshold``, ``evidence`` (``context_index``, ``start`` and ``end`` of
            the response; None when abstaining) and ``candidates`` (the same, with ``support``, of
            the best sentences, also when abstaining).
        """
        question = parse_question(query)
        candidates = self._candidates(question, contexts)
        support = candidates[0].support if candidates else 0.0
        answered = bool(candidates) and support >= self.threshold
        responses = [contexts[one.context_index][one.start : one.end] for one in candidates]
        if not answered:
            responses = [abstention(question.language)]
        metadata: dict[str, Any] = {
            "language": question.language,
            "support": support,
            "threshold": self.threshold,
            "evidence": _place(candidates[0]) if answered else None,
            "candidates": [{**_place(one), "support": one.support} for one in candidates],
        }
        return GenerationResult(
            responses[0],
            multi_responses=responses,
            confidence=answer_confidence(support) if answered else abstention_confidence(support),
            abstained=not answered,
            metadata=metadata,
        )

    def _candidates(
        self, question: ParsedQuestion, contexts: Sequence[str]
    ) -> list[SupportedSentence]:
        """The best sentences, those that differ only in case or Unicode form once."""
        found: dict[str, SupportedSentence] = {}
        for one in rank_sentences(question, contexts, self._weight):
            text = contexts[one.context_index][one.start : one.end]
            found.setdefault(normalise(text), one)
            if len(found) == self.max_candidates:
                break
        return list(found.values())


def _place(sentence: SupportedSentence) -> dict[str, Any]:
    return {
        "context_index": sentence.context_index,
        "start": sentence.start,
        "end": sentence.end,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveGeneration:
    """The sentence of the contexts that the question's words support best; no model.

    Raises:
        ConfigError: a setting is out of its range.
    """

    threshold: float = DEFAULT_THRESHOLD
    """Support below which no answer is given, in [0, 1]."""
    max_candidates: int = 3
    """How many different sentences are given at most."""
    word_weights: Literal["corpus", "contexts"] = "corpus"
    """Where a word's rarity is counted: in the corpus, where retrieval knows it, or among the
    contexts at hand."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        if self.word_weights not in ("corpus", "contexts"):
            raise ConfigError(
                f"word_weights must be one of corpus, contexts, not {self.word_weights!r}"
            )
        self.open(None)

    def open(self, weights: WordWeights | None) -> ExtractiveGenerator:
        """The generator.

        Args:
            weights: what words are worth in the corpus, where that is known.
        """
        used = weights if self.word_weights == "corpus" else None
        return ExtractiveGenerator(
            threshold=self.threshold,
            max_candidates=self.max_candidates,
            weight=None if used is None else used.weight,
        )
