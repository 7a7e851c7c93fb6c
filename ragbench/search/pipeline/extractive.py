"""Answers quoted from the contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ragbench.core.checked import Checked, Positive, Share
from ragbench.core.record import Record, replace
from ragbench.core.result import GenerationResult
from ragbench.text.question import (
    SPANS_VERSION,
    ParsedQuestion,
    answer_span,
    holds_number,
    parse_question,
)
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences
from ragbench.text.tokens import TOKENISER_VERSION, normalise, tokenise

ABSTENTIONS: Mapping[str, str] = MappingProxyType({
    "en": "I don't know.", "de": "Ich weiß es nicht.", "es": "No lo sé.",
    "fr": "Je ne sais pas.", "it": "Non lo so.", "ja": "わかりません。", "ko": "모르겠습니다.",
    "nl": "Ik weet het niet.", "pt": "Não sei.", "ru": "Я не знаю.", "zh": "我不知道。",
})  # fmt: skip
"""The sentence by language."""


def abstention(language: str) -> str:
    """The sentence in a language (ISO 639-1); in English when there is none in that language."""
    return ABSTENTIONS.get(language, ABSTENTIONS["en"])


TermWeight = Callable[[str], float]
"""What a token is worth, at least 0: rare ones more than common ones."""


# Logistic regressions on the support of the best sentence over half of SQuAD 2.0's development
# set: 2,910 answerable questions (weight 0.85), the same with all passages of their article left
# out (0.075), and 3,168 that people wrote to have no answer (0.075). Questions that get a sentence
# and those that get a part of it have a curve each. Offset and slope, as printed by
# benchmarks/baseline.py fit.
RIGHT = (-2.831, 5.475)
"""That the best sentence holds the right answer."""
RIGHT_SPAN = (-2.760, 4.229)
ANSWERABLE = (-1.128, 5.141)
"""That the corpus has an answer."""


class Sentence(NamedTuple):
    """A sentence of a context, with its tokens."""

    start: int
    """Offset of its first character in the context."""
    end: int
    """Offset behind its last character."""
    tokens: frozenset[str]
    """Its distinct tokens."""
    pairs: frozenset[tuple[str, str]]
    """Its tokens that stand side by side."""
    has_number: bool
    """Whether it holds a number or a date."""


class SupportedSentence(Record):
    """A sentence as an answer to a question."""

    context_index: int
    """The context that it stands in, from 0."""
    start: int
    """Offset of its first character in that context."""
    end: int
    """Offset behind its last character."""
    support: float
    """How well it supports the answer, in [0, 1]."""
    part: Span | None = None
    """What of it is the answer, in that context; None for all of it."""

    @property
    def answer(self) -> Span:
        return self.part or Span(self.start, self.end)

    @property
    def place(self) -> dict[str, Any]:
        """Where the answer stands, as JSON."""
        start, end = self.answer
        place = {"context_index": self.context_index, "start": start, "end": end}
        sentence = {"start": self.start, "end": self.end}
        return place if self.part is None else {**place, "sentence": sentence}


def rank_sentences(
    question: ParsedQuestion, contexts: Sequence[str], weight: TermWeight | None = None
) -> list[SupportedSentence]:
    """All sentences that share a content token with the question, best supported first.

    The support of a sentence is ``(2 * coverage + neighbourhood + phrases) / 4``, each in [0, 1]:
    coverage is the share of the question's content tokens that the sentence holds, weighted by
    what each is worth; neighbourhood is the same of the sentence with the one before and the one
    behind it; phrases is the share of the question's adjacent pairs that stand side by side in it.
    Tokens worth as much as five of the rarest, and five pairs, count as all of a longer question.
    A sentence without a number loses a fifth of that when the question asks for one.
    """
    analysed = [analyse(context) for context in contexts]
    every = [] if weight else [one.tokens for sentences in analysed for one in sentences]

    def rarity(token: str) -> float:
        count = sum(token in one for one in every)
        return math.log(1 + (len(every) - count + 0.5) / (count + 0.5))

    weights = {token: (weight or rarity)(token) for token in question.tokens}
    found = [
        SupportedSentence(
            context_index=index,
            start=sentence.start,
            end=sentence.end,
            support=_support(question, weights, sentence, sentences[max(0, at - 1) : at + 2]),
        )
        for index, sentences in enumerate(analysed)
        for at, sentence in enumerate(sentences)
        if not sentence.tokens.isdisjoint(weights)
    ]
    # Sorting keeps the order of equals, also when reversed.
    return sorted(found, key=lambda one: one.support, reverse=True)


def logistic(curve: tuple[float, float], support: float) -> float:
    """The chance that rises with the best sentence's support, by a curve's offset and slope."""
    offset, slope = curve
    return 1 / (1 + math.exp(-(offset + slope * support)))


# The same contexts come back for many questions.
@lru_cache(maxsize=2048)
def analyse(context: str) -> tuple[Sentence, ...]:
    """Cuts a context into sentences with their tokens."""
    found: list[Sentence] = []
    for start, end in split_sentences(context):
        text = context[start:end]
        tokens = tokenise(text)
        words, pairs = frozenset(tokens), frozenset(pairwise(tokens))
        found.append(Sentence(start, end, words, pairs, holds_number(text)))
    return tuple(found)


_WITHOUT_NUMBER = 0.8
"""What is left of the support of a sentence without a number when the question asks for one."""


_ENOUGH = 5
"""Rare words, or adjacent pairs, that are enough: a long question tells a story beside what it asks
for, and no sentence holds all of its words."""


def _support(
    question: ParsedQuestion,
    weights: dict[str, float],
    sentence: Sentence,
    neighbourhood: Sequence[Sentence],
) -> float:
    coverage = _coverage(weights, sentence.tokens)
    around = _coverage(weights, sentence.tokens.union(*(one.tokens for one in neighbourhood)))
    # A question of a single token has no pairs: its coverage says all.
    pairs = question.pairs
    held = len(pairs & sentence.pairs)
    phrases = min(1.0, held / min(len(pairs), _ENOUGH)) if pairs else coverage
    support = (2 * coverage + around + phrases) / 4
    if question.wants_number and not sentence.has_number:
        support *= _WITHOUT_NUMBER
    return support


def _coverage(weights: dict[str, float], tokens: frozenset[str]) -> float:
    total = min(sum(weights.values()), _ENOUGH * max(weights.values(), default=0.0))
    if total <= 0:
        return 0.0
    return min(1.0, sum(worth for token, worth in weights.items() if token in tokens) / total)


_VERSION = "3"
DEFAULT_THRESHOLD = 0.26
"""Support below which no answer is given: where most of the decisions to answer or not are right on
the questions and weights that the confidence is fitted on."""


AnswerPart = Literal["span", "sentence"]
"""What of a sentence is the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveGenerator(Checked):
    """Quotes the best supported sentence, or what of it is asked for; no model.

    A question for a date, a number or a name gets that part of the sentence
    (`ragbench.text.answer_span`), any other the whole sentence. It abstains when no sentence is
    supported well enough. It reads no meaning: a question whose words all stand in a sentence is
    answered from that sentence, also when it says something else.
    """

    threshold: Share = DEFAULT_THRESHOLD
    """Support below which no answer is given, in [0, 1]."""
    max_candidates: Positive = 3
    """How many different answers are given at most."""
    answer: AnswerPart = "span"
    """Whether a question for a date, a number or a name gets that part of the sentence alone
    (``span``), or the whole sentence like any other (``sentence``)."""
    word_weights: Literal["corpus", "contexts"] = "corpus"
    """Where a word's rarity is counted: in the corpus, where retrieval knows it, or among the
    contexts at hand."""
    weight: TermWeight | None = field(default=None, compare=False, metadata={"setting": False})
    """What a word is worth in the corpus; None where that is not known."""

    @property
    def identity(self) -> dict[str, object]:
        """What the answers depend on besides contexts and term weights; JSON can hold it."""
        versions = {"version": _VERSION, "tokeniser": TOKENISER_VERSION}
        versions |= {"spans": SPANS_VERSION} if self.answer == "span" else {}
        own = {name: getattr(self, name) for name in ("answer", "threshold", "max_candidates")}
        return {"method": "extractive", "sentences": SENTENCES_VERSION, **versions, **own}

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult:
        """Answers a question from its contexts.

        The metadata holds ``language``, ``support`` of the best sentence (in [0, 1]), ``evidence``
        (where the answer stands) and all ``candidates``.
        """
        question = parse_question(query)
        candidates = self._candidates(query, question, contexts)
        support = candidates[0].support if candidates else 0.0
        answered = bool(candidates) and support >= self.threshold
        responses = [contexts[one.context_index][slice(*one.answer)] for one in candidates]
        confidence = 1 - logistic(ANSWERABLE, support)
        if answered:
            confidence = logistic(RIGHT if candidates[0].part is None else RIGHT_SPAN, support)
        else:
            responses = [abstention(question.language)]
        metadata: dict[str, Any] = {
            "language": question.language,
            "support": support,
            "threshold": self.threshold,
            "evidence": candidates[0].place if answered else None,
            "candidates": [{**one.place, "support": one.support} for one in candidates],
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
    ) -> list[SupportedSentence]:
        """The best answers, those that differ only in case or Unicode form once."""
        found: dict[str, SupportedSentence] = {}
        for one in rank_sentences(question, contexts, self.weight):
            context = contexts[one.context_index]
            if self.answer == "span":
                span = answer_span(query, question, context[one.start : one.end])
                if span is not None:
                    part = Span(one.start + span.start, one.start + span.end)
                    one = one if part == one.answer else replace(one, part=part)
            found.setdefault(normalise(context[slice(*one.answer)]), one)
            if len(found) == self.max_candidates:
                break
        return list(found.values())
