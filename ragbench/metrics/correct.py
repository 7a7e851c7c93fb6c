"""Whether people would call an answer right, from its words beside a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from ragbench.metrics.compared import LONGEST, Beside, Comparison, is_unsure, stem, stems
from ragbench.metrics.metric import metric
from ragbench.metrics.word_lists import correct_table, word_list
from ragbench.text.amounts import Agreement, Amount, wording
from ragbench.text.citations import MARKS, without_citations
from ragbench.text.language import recognised_language
from ragbench.text.letters import as_written
from ragbench.text.tokens import tokenise
from ragbench.text.vocabulary import is_spelling_of

_CITE = (
    "logistic regression fitted on people's labels: EVOUNA (Wang et al. 2023, arXiv:2305.12421), "
    "for long references MTRAG's human evaluation (Katsis et al. 2025, arXiv:2501.03468)"
)


_LEAST_RIGHT = 0.8
_MOST_WRONG = 0.2
"""From and up to which probability an answer is called right and wrong: nearly sure."""
AGREED = 0.95
CONTRADICTED = 0.08
"""The probability at least and at most, where what can be compared decides."""
REFUSED = 0.12
"""At most, where an answer begins with a refusal: some say what they know all the same."""
UNSAID = 0.22
"""At least, where only words are missing: another wording says the same, and is not known."""
NOT_SAID = 0.45
"""At most, of an answer that says nothing of the reference but what the question says."""
OPEN = 0.5
"""At most, where the words of the reference are there in another order, or among others."""
NOT_COMPARABLE = 0.25
"""Of an answer to a reference of amounts alone, which names none that compares."""
SAME = 0.9995
"""Of an answer in the words of the reference: people called all 2,023 of EVOUNA right, of which
Laplace's rule of succession makes 2024 / 2025."""

_LONGEST_PHRASE = 300
"""Characters that are compared letter by letter, which takes the product of both lengths."""
_MASK = "\0"
_LIKE = 0.75
"""From which likeness on two words may be one, spelled in two ways."""
_MOST_OF_A_SENTENCE = 0.6
"""Share of a sentence's words from which on the answer says the sentence."""
_SAID_ALL_THE_SAME = 0.6
"""Share of the reference's new words from which on a refusal is none."""


@metric(group="generator", abstains=True, probability=True, cite=_CITE, version=7)
def answer_correct(query: str, response: str, references: Sequence[str]) -> float:
    """How likely people would call the answer right, given the references; by its words."""
    return verdict(query, response, references).probability


class AnswerVerdict(NamedTuple):
    """What the words of an answer say of it."""

    probability: float
    """That people would call it right: 0 to 1."""
    reason: str
    """Why it is right or wrong; empty where only its words were weighed."""


def verdict(query: str, response: str, references: Sequence[str]) -> AnswerVerdict:
    """The verdict by the reference that speaks most for the answer."""
    count = len(references)
    verdicts = [verdict_beside(query, response, reference, count) for reference in references]
    return max(verdicts, key=lambda verdict: verdict.probability)


def probability(query: str, response: str, reference: str, reference_count: int = 1) -> float:
    """That people would call an answer right by one of the case's references: 0 to 1."""
    return verdict_beside(query, response, reference, reference_count).probability


@lru_cache(maxsize=8192)
def verdict_beside(
    query: str, response: str, reference: str, reference_count: int = 1
) -> AnswerVerdict:
    """How likely people would call an answer right by one of the case's references, and why.

    An answer in the words of the reference is right. In others, what a reference says in a form
    that can be compared comes first: an amount, a date, yes or no, a name, a negation. An answer
    that contradicts it, or declines, is wrong, whatever else it shares. Otherwise a logistic
    regression on words decides, which calls no answer wrong for words that are missing: another
    wording may say the same.
    """
    if not MARKS.search(reference):  # else "[1, 3]" may be the answer
        response = without_citations(response[:LONGEST])
    if response == reference or is_same(response, reference):
        return AnswerVerdict(SAME, "the words of the reference")
    answer = AnswerBeside(query, response, reference, reference_count)
    if answer.comparison.is_all:
        return _by_comparison(answer)
    features = answer.features()
    return ruled(answer, features, answer.probability_by_words(features))


def ruled(answer: AnswerBeside, features: Mapping[str, float], likely: float) -> AnswerVerdict:
    """The verdict where words give a probability, and a comparison, a refusal or an order rule.

    Args:
        likely: the probability by its words alone.
    """
    comparison = answer.comparison
    if comparison.is_all:
        return _by_comparison(answer)
    if comparison.agreement is Agreement.DIFFERENT:
        return AnswerVerdict(min(likely, CONTRADICTED), comparison.reason)
    said = features["recall_of_new"]
    if answer.declines() and answer.reference_declines():
        return AnswerVerdict(max(likely, _LEAST_RIGHT), "both decline")
    if said < _SAID_ALL_THE_SAME and answer.declines():
        return AnswerVerdict(min(likely, REFUSED), "the answer declines")
    if not answer.is_long and answer.is_open():
        likely = min(likely, OPEN)
    is_nothing_said = not said and features.get("unlike", 1.0)
    if is_nothing_said or answer.only_repeats_question():
        likely = min(likely, NOT_SAID)
    return AnswerVerdict(max(likely, UNSAID), "by its words" if likely >= _LEAST_RIGHT else "")


def _by_comparison(answer: AnswerBeside) -> AnswerVerdict:
    """The verdict where the reference says nothing but what was compared."""
    comparison = answer.comparison
    is_same = comparison.agreement is Agreement.SAME
    # "state 0 if there is none": who declines may repeat a number of the question.
    if answer.declines() and not (is_same and answer.says_more_than_the_question()):
        return AnswerVerdict(REFUSED, "the answer declines")
    if is_same:
        return AnswerVerdict(AGREED, comparison.reason)
    if comparison.agreement is Agreement.DIFFERENT:
        return AnswerVerdict(CONTRADICTED, comparison.reason)
    return AnswerVerdict(OPEN if answer.names_any() else NOT_COMPARABLE, "")


def is_same(response: str, reference: str) -> bool:
    """Whether two texts have the same words, and at least one."""
    words = wording(reference[:LONGEST]).tokens
    answer_words = wording(response[:LONGEST]).tokens
    if len(words) != len(answer_words) or not words:
        return False
    return answer_words == words or as_written(answer_words, words) == words


def sure_verdict(probability: float) -> bool | None:
    """Whether an answer is right, where that is nearly sure: from 0.8 on, up to 0.2; else None."""
    if probability >= _LEAST_RIGHT:
        return True
    if probability <= _MOST_WRONG:
        return False
    return None


def is_long(reference: str) -> bool:
    """Whether a reference is more than one fact, of which words tell less."""
    return Beside("", "", reference).is_long


class AnswerBeside(Beside):
    """An answer beside a reference, as a model weighs it."""

    def __init__(self, query: str, response: str, reference: str, reference_count: int = 1) -> None:
        super().__init__(query, response, reference)
        self.reference_count = reference_count
        """An answer like none of twenty references is wrong more often than one that is not like
        the only one."""

    @cached_property
    def language(self) -> str:
        """The language of the question, where it is clear; else English."""
        return recognised_language(f"{self.query} {self.reference}") or "en"

    @cached_property
    def comparison(self) -> Comparison:
        """What can be compared says."""
        return self.compared()

    def only_repeats_question(self) -> bool:
        """Whether the question has all words of the answer, and not all of the reference."""
        asked = stems(self.query_wording.tokens)
        said = stems(self.answer_words)
        return bool(said) and said <= asked and not stems(self.new_words) <= asked

    def contradiction(self) -> str | None:
        """What the answer says otherwise than the reference; None where nothing is seen."""
        comparison = self.comparison
        return comparison.reason if comparison.agreement is Agreement.DIFFERENT else None

    def probability_by_words(self, features: Mapping[str, float]) -> float:
        """By the weights for a reference of its length."""
        weights = correct_table()["weights"]["long" if self.is_long else "short"]
        logit = sum([weights[name] * value for name, value in features.items()])
        return 1 / (1 + math.exp(-max(min(logit, 30.0), -30.0)))

    def names_any(self) -> bool:
        """Whether the answer names an amount, a date or an identifier at all."""
        answer = self.answer
        return bool(answer.amounts or answer.dates or answer.spoken or answer.identifiers)

    def features(self) -> dict[str, float]:
        """By name, each about 0 to 1."""
        answer_words = set(self.answer_words)
        right_words = set(self.right_words)
        missing = [word for word in self.new_words if word not in answer_words]
        recall_of_new = 0.0
        if self.new_words:
            unlike = [word for word in missing if not _is_among(word, answer_words)]
            recall_of_new = 1 - len(unlike) / len(self.new_words)
        common = [word for word in self.answer_words if word in right_words]
        precision = len(common) / max(len(self.answer_words), 1)
        unsure = float(is_unsure(self.response.lower()))
        if self.is_long:
            return {
                "bias": 1.0,
                "recall_of_new": recall_of_new,
                "sentences": self._share_of_sentences(stems(answer_words)),
                "precision": precision,
                "unsure": unsure,
            }
        recalled = [word for word in self.right_words if word in answer_words]
        recall = len(recalled) / max(len(self.right_words), 1)
        f1 = 0.0
        if recall + precision:
            f1 = 2 * recall * precision / (recall + precision)
        size = min(len(self.right_words), 10) / 10
        return {
            "bias": 1.0,
            "recall": recall,
            "recall_of_new": recall_of_new,
            "precision": precision,
            "f1": f1,
            "size": size,
            "recall_by_size": recall * size,
            "length": min(len(self.answer_words), 60) / 60,
            "unsure": unsure,
            **self._features_of_amounts(),
            **self._features_of_phrase(answer_words, missing),
        }

    def _features_of_phrase(
        self, answer_words: set[str], missing: Sequence[str]
    ) -> dict[str, float]:
        """How much of a short reference the answer has as it is, or nearly.

        The names are those of the weights that `correct_table` reads: each feature needs one.
        """
        right_words = self.right_words
        phrase = " ".join(right_words)
        whole = " ".join(self.answer_words)
        # How alike each new word and its nearest of the answer are.
        nearest = farthest = average = float(bool(self.new_words))
        if missing:
            likeness_of = _likeness_to(answer_words, self.language)
            likenesses = [
                1.0 if word in answer_words else likeness_of(word) for word in self.new_words
            ]
            nearest = max(likenesses)
            farthest = min(likenesses)
            average = sum(likenesses) / len(likenesses)
            unlike_words = {
                word
                for word, likeness in zip(self.new_words, likenesses, strict=True)
                if likeness <= _OTHER_WORD
            }
            if unlike_words:
                # A word of which the answer has only a look-alike is not in the phrase.
                masked = [
                    _MASK * len(word) if word in unlike_words else word for word in right_words
                ]
                phrase = " ".join(masked)
        denials = word_list("denials")
        answer_denies = not denials.isdisjoint(self.answer.tokens)
        right_denies = not denials.isdisjoint(self.right.tokens)
        return {
            "phrase": float(f" {phrase} " in f" {whole} "),
            "near_phrase": max(_phrase_likeness(phrase, whole), _OTHER_WORD if whole else 0.0),
            "near": average,
            "least_near": farthest,
            "first": float(bool(right_words) and right_words[0] in answer_words),
            "last": float(bool(right_words) and right_words[-1] in answer_words),
            "in_question": float(len(self.new_words) < len(right_words)),
            "turned": float(answer_denies != right_denies),
            "unlike": float(nearest < _LIKE),
            "few": 1 / self.reference_count,
        }

    def _features_of_amounts(self) -> dict[str, float]:
        """How many of the reference's amounts the answer has, and how many others."""
        in_answer = self.answer.amounts
        right = self.right.amounts
        in_query = self.query_wording.amounts
        if not right and not in_answer:
            return _NO_AMOUNTS
        # What the question says already shows nothing, unless it says them all.
        new = [amount for amount in right if amount not in in_query] or right
        held_count = 0
        for amount in new:
            if amount in in_answer or _equals_any(amount, in_answer):
                held_count += 1
        other_numbers = {amount.number for amount in in_answer}
        other_numbers.difference_update([amount.number for amount in right + in_query])
        return {
            "amounts": float(held_count > 0 and held_count == len(new)),
            "amounts_missing": float(held_count < len(new)),
            "amounts_held": held_count / len(new) if new else 0.0,
            "other_amounts": min(len(other_numbers), 5) / 5,
        }

    def _share_of_sentences(self, answer_stems: set[str]) -> float:
        """Share of the reference's sentences of which the answer says most."""
        common = word_list("common")
        said = 0
        count = 0
        for sentence in _REFERENCE_SENTENCE.split(self.reference):
            words = [word for word in wording(sentence).tokens if word not in common]
            if not words:
                continue
            count += 1
            shared = len([word for word in words if stem(word) in answer_stems])
            if shared / len(words) >= _MOST_OF_A_SENTENCE:
                said += 1
        return said / count if count else 0.0


_REFERENCE_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NO_AMOUNTS = {"amounts": 0.0, "amounts_missing": 0.0, "amounts_held": 0.0, "other_amounts": 0.0}


def _equals_any(amount: Amount, amounts: Sequence[Amount]) -> bool:
    """Whether one of the amounts is the same, in whatever unit it is written."""
    return any(map(amount.equals, amounts))


def _is_among(word: str, words: set[str]) -> bool:
    """Whether one of the words has the same stem, which has three letters of it at least."""
    beginning = word[:3]
    stem_of_word = stem(word)
    candidates = [candidate for candidate in words if candidate.startswith(beginning)]
    return any(stem(candidate) == stem_of_word for candidate in candidates)


@cache
def _rapidfuzz() -> tuple[Callable[..., float], Callable[..., Any], Callable[..., float]]:
    """Comparisons by letters: the best part, the best of several, the whole."""
    # Imported when an answer is first compared by letters: most runs never do.
    from rapidfuzz import fuzz, process

    return fuzz.partial_ratio, process.extractOne, fuzz.ratio


def _phrase_likeness(phrase: str, text: str) -> float:
    """How alike a phrase and the nearest stretch of a text are, 0 to 1."""
    if not phrase or not text:
        return 0.0
    if f" {phrase} " in f" {text} ":
        return 1.0
    partial_ratio, _, _ = _rapidfuzz()
    return partial_ratio(phrase[:_LONGEST_PHRASE], text) / 100


def _likeness_to(words: set[str], language: str) -> Callable[[str], float]:
    """How alike the most similar of the words is, 0 to 1; a number is itself or not.

    Another word that exists is no more alike than any other, however near its letters are.
    """
    _, extract_one, ratio = _rapidfuzz()
    candidates = [word[:_LONGEST_PHRASE] for word in words if not word[-1].isdecimal()]

    def likeness(word: str) -> float:
        if word[-1].isdecimal():
            return 0.0
        nearest = extract_one(word[:_LONGEST_PHRASE], candidates, scorer=ratio)
        if nearest is None:
            return 0.0
        likeness = float(nearest[1]) / 100
        if likeness <= _OTHER_WORD or is_spelling_of(word, nearest[0], language):
            return likeness
        is_form = tokenise(word) == tokenise(nearest[0])  # encapsulate, encapsulation
        return likeness if is_form else _OTHER_WORD

    return likeness


_OTHER_WORD = 0.5
"""How alike the nearest word of an answer to a word that it lacks is on EVOUNA, in the mean."""
