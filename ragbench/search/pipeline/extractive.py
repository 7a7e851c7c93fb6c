"""Answers quoted from the contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, pairwise
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

ABSTENTIONS: Mapping[str, str] = MappingProxyType(
    {
        "en": "I don't know.",
        "de": "Ich weiß es nicht.",
        "es": "No lo sé.",
        "fr": "Je ne sais pas.",
        "it": "Non lo so.",
        "ja": "わかりません。",
        "ko": "모르겠습니다.",
        "nl": "Ik weet het niet.",
        "pt": "Não sei.",
        "ru": "Я не знаю.",
        "zh": "我不知道。",
    }
)
"""The sentence that declines to answer, by language (ISO 639-1)."""


def abstention(language: str) -> str:
    """The sentence that declines to answer, in a language (ISO 639-1); in English for any other.

    A model that is to decline is given this sentence, and its answer is compared with it.
    """
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
"""The same, where a part of the sentence is the answer."""
ANSWERABLE = (-1.128, 5.141)
"""That the corpus has an answer."""


class Sentence(NamedTuple):
    """A sentence of a context, with all that questions are compared with: it is kept for them."""

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
        """The span of the answer in its context.

        The part that the question wants, else the sentence. A question for a date, a number or a
        name is answered by that part.
        """
        return self.part or Span(self.start, self.end)

    @property
    def place(self) -> dict[str, Any]:
        """The place of the answer in the contexts as JSON, and of its sentence if longer.

        Results store it as evidence, so that a reader sees where an answer comes from.
        """
        start, end = self.answer
        place: dict[str, Any] = {"context_index": self.context_index, "start": start, "end": end}
        if self.part is not None:
            place["sentence"] = {"start": self.start, "end": self.end}
        return place


def rank_sentences(
    question: ParsedQuestion, contexts: Sequence[str], weight: TermWeight | None = None
) -> list[SupportedSentence]:
    """All sentences that share a content token with the question, best supported first.

    The support of a sentence is ``(2 * coverage + neighbourhood + phrases) / 4``, each in [0, 1]:
    coverage is the share of the question's content tokens that the sentence holds, weighted by
    their worth; neighbourhood is the same of the sentence with the one before and the one behind
    it; phrases is the share of the question's adjacent pairs that are side by side in it. Tokens
    worth as much as five of the rarest, and five pairs, count as all of a longer question. A
    sentence without a number loses a fifth of that when the question wants one. Thresholds and
    confidences are fitted on this formula (benchmarks/baseline.py).

    Args:
        contexts: the passages whose sentences may answer.
        weight: the worth of a token; None counts its rarity among these contexts.
    """
    analysed = [analyse(context) for context in contexts]
    if weight is None:
        weight = _rarity_among(list(chain.from_iterable(analysed)))
    weights = {token: weight(token) for token in question.tokens}
    supported: list[SupportedSentence] = []
    for index, sentences in enumerate(analysed):
        for position, sentence in enumerate(sentences):
            if sentence.tokens.isdisjoint(weights):
                continue
            # With the sentence before and the one behind: a name may stand in one of them.
            neighbourhood = sentences[max(0, position - 1) : position + 2]
            candidate = SupportedSentence(
                context_index=index,
                start=sentence.start,
                end=sentence.end,
                support=_support(question, weights, sentence, neighbourhood),
            )
            supported.append(candidate)
    # Sorting keeps the order of equals, also when reversed.
    return sorted(supported, key=lambda candidate: candidate.support, reverse=True)


def _rarity_among(sentences: Sequence[Sentence]) -> TermWeight:
    """A function for the worth of a token: the fewer of these sentences hold it, the more.

    The function takes the place of the words' rarity in a corpus, where that is not known.
    """
    return partial(_rarity, sentences)


def _rarity(sentences: Sequence[Sentence], token: str) -> float:
    """The rarity of a token among sentences: BM25's inverse document frequency of it.

    A sentence counts as a document. Answers are chosen by it where no corpus is known.
    """
    count = sum(token in sentence.tokens for sentence in sentences)
    return math.log(1 + (len(sentences) - count + 0.5) / (count + 0.5))


def logistic(curve: tuple[float, float], support: float) -> float:
    """The chance that an answer is right, by the support of its sentence: a logistic curve.

    Confidences of quoted answers are made with it.

    Args:
        curve: offset and slope, fitted by ``benchmarks/baseline.py fit``.
        support: of the best sentence, in [0, 1].
    """
    offset, slope = curve
    return 1 / (1 + math.exp(-(offset + slope * support)))


# The same contexts come back for many questions.
@lru_cache(maxsize=2048)
def analyse(context: str) -> tuple[Sentence, ...]:
    """The sentences of a context with their tokens, pairs and whether they hold a number.

    Questions are compared with these; the last contexts are kept, since many questions share them.
    """
    sentences: list[Sentence] = []
    for start, end in split_sentences(context):
        text = context[start:end]
        tokens = tokenise(text)
        sentence = Sentence(
            start=start,
            end=end,
            tokens=frozenset(tokens),
            pairs=frozenset(pairwise(tokens)),
            has_number=holds_number(text),
        )
        sentences.append(sentence)
    # A tuple, as it is kept and shared by all questions.
    return tuple(sentences)


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
    """How well a sentence supports an answer to the question, in [0, 1]; see `rank_sentences`.

    Thresholds and confidences are fitted on the formula: it changes only with them.

    Args:
        weights: the worth of each token of the question.
        neighbourhood: the sentence, the one before and the one behind it.
    """
    coverage = _coverage(weights, sentence.tokens)
    tokens_around = set(sentence.tokens)
    for neighbour in neighbourhood:
        tokens_around |= neighbour.tokens
    around = _coverage(weights, tokens_around)
    phrases = coverage  # a question of a single token has no pairs: its coverage says all
    if question.pairs:
        shared = len(question.pairs & sentence.pairs)
        enough = min(len(question.pairs), _ENOUGH)
        phrases = min(1.0, shared / enough)
    support = (2 * coverage + around + phrases) / 4
    if question.wants_number and not sentence.has_number:
        support *= _WITHOUT_NUMBER
    return support


def _coverage(weights: dict[str, float], tokens: AbstractSet[str]) -> float:
    """The share of the question's weight that these tokens hold, in [0, 1].

    Of a long question, five of its rarest words count as all of it.

    Args:
        weights: the worth of each token of the question.
        tokens: of a sentence.
    """
    rarest = max(weights.values(), default=0.0)
    total = min(sum(weights.values()), _ENOUGH * rarest)
    if total <= 0:  # no token is worth anything: nothing can be covered
        return 0.0
    covered = sum(weight for token, weight in weights.items() if token in tokens)
    return min(1.0, covered / total)


_VERSION = "3"
"""A part of the generator's identity; raise it when the same contexts give another answer."""
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
        """All that the answers depend on besides contexts and word weights, as JSON.

        Stored answers are used again only while it is the same.
        """
        identity: dict[str, object] = {
            "method": "extractive",
            "sentences": SENTENCES_VERSION,
            "version": _VERSION,
            "tokeniser": TOKENISER_VERSION,
        }
        if self.answer == "span":  # whole sentences do not depend on how parts are found
            identity["spans"] = SPANS_VERSION
        identity["answer"] = self.answer
        identity["threshold"] = self.threshold
        identity["max_candidates"] = self.max_candidates
        return identity

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult:
        """The answer to a question, quoted from its contexts.

        The generator declines where no sentence supports an answer. The metadata holds
        ``language``, ``support`` of the best sentence (in [0, 1]), ``evidence`` (the place of the
        answer) and all ``candidates``. The confidence is the chance that the answer, or declining,
        is right.
        """
        question = parse_question(query)
        candidates = self._candidates(query, question, contexts)
        best = candidates[0] if candidates else None
        support = 0.0 if best is None else best.support
        is_answered = False
        evidence = None
        responses = [abstention(question.language)]
        confidence = 1 - logistic(ANSWERABLE, support)  # that it is right to decline
        if best is not None and support >= self.threshold:
            is_answered = True
            evidence = best.place
            responses = [_answer_text(candidate, contexts) for candidate in candidates]
            curve = RIGHT if best.part is None else RIGHT_SPAN
            confidence = logistic(curve, support)
        places: list[dict[str, Any]] = []
        for candidate in candidates:
            places.append({**candidate.place, "support": candidate.support})
        metadata: dict[str, Any] = {
            "language": question.language,
            "support": support,
            "threshold": self.threshold,
            "evidence": evidence,
            "candidates": places,
        }
        return GenerationResult(
            responses[0],
            multi_responses=responses,
            confidence=confidence,
            abstained=not is_answered,
            metadata=metadata,
        )

    def _candidates(
        self, query: str, question: ParsedQuestion, contexts: Sequence[str]
    ) -> list[SupportedSentence]:
        """The best supported answers, at most `max_candidates`; equal texts count once.

        Texts that differ only in case or Unicode form are equal. The best of them is the answer;
        the others are in the result, too.
        """
        candidates: dict[str, SupportedSentence] = {}
        # Best supported first, so that of equal texts the best one is kept.
        for sentence in rank_sentences(question, contexts, self.weight):
            if self.answer == "span":
                sentence = _narrowed(sentence, query, question, contexts)
            text = normalise(_answer_text(sentence, contexts))
            candidates.setdefault(text, sentence)
            if len(candidates) == self.max_candidates:
                break
        return list(candidates.values())


def _narrowed(
    sentence: SupportedSentence, query: str, question: ParsedQuestion, contexts: Sequence[str]
) -> SupportedSentence:
    """The sentence with the part that the question wants, such as a date.

    As it is without such a part. A question for a date, a number or a name needs no more of it.
    """
    text = contexts[sentence.context_index][sentence.start : sentence.end]
    span = answer_span(query, question, text)
    if span is None:
        return sentence
    part = Span(sentence.start + span.start, sentence.start + span.end)
    # The whole sentence is the part: then it is no part, and has the sentences' curve.
    if part == sentence.answer:
        return sentence
    return replace(sentence, part=part)


def _answer_text(sentence: SupportedSentence, contexts: Sequence[str]) -> str:
    """The words of an answer, cut out of its context.

    The answer is quoted: no word in it is of ragbench's own.
    """
    start, end = sentence.answer
    return contexts[sentence.context_index][start:end]
