"""Whether people would call an answer right, from its words beside a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from ragbench.metrics.metric import metric
from ragbench.metrics.word_lists import correct_table, opposites, word_list
from ragbench.text.amounts import Amount, Wording, wording
from ragbench.text.citations import MARKS, without_citations

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
SAME = 0.9995
"""Of an answer in the words of the reference: people called all 2,023 of EVOUNA right, of which
Laplace's rule of succession makes 2024 / 2025."""

_LONGEST = 20_000
"""Characters of a text that are read: nobody answers at such a length."""
_LONGEST_PHRASE = 300
"""Characters that are compared letter by letter, which takes the product of both lengths."""
_LIKE = 0.75
"""From which likeness on two words may be one, spelled in two ways."""
_MOST_OF_A_SENTENCE = 0.6
"""Share of a sentence's words from which on the answer says the sentence."""
_MOST_WORDS_OF_FACT = 12
"""Telling words from which a reference is no longer one fact."""


@metric(group="generator", abstains=True, probability=True, cite=_CITE, version=6)
def answer_correct(query: str, response: str, references: Sequence[str]) -> float:
    """How likely people would call the answer right, given the references; by its words."""
    count = len(references)
    return max([probability(query, response, reference, count) for reference in references])


@lru_cache(maxsize=8192)
def probability(query: str, response: str, reference: str, reference_count: int = 1) -> float:
    """That people would call an answer right by one of the case's references: 0 to 1.

    An answer in the words of the reference is right. In others, what a reference says in a form
    that can be compared comes first: an amount, a date, yes or no, a name, a negation. An answer
    that contradicts it is wrong, whatever else it shares. Otherwise a logistic regression on words
    decides; the one for references of more than twelve telling words knows little more than how
    much of them is said, and rarely is sure.
    """
    if not MARKS.search(reference):  # else "[1, 3]" may be the answer
        response = without_citations(response[:_LONGEST])
    if response == reference or is_same(response, reference):
        return SAME
    comparison = AnswerBeside(query, response, reference, reference_count)
    weights = correct_table()["weights"]["long" if comparison.is_long else "short"]
    features = comparison.features()
    logit = sum([weights[name] * value for name, value in features.items()])
    likely = 1 / (1 + math.exp(-max(min(logit, 30.0), -30.0)))
    if comparison.contradiction():
        return min(likely, CONTRADICTED)
    if comparison.agrees():
        return max(likely, AGREED)
    return likely


def is_same(response: str, reference: str) -> bool:
    """Whether two texts have the same words, and at least one."""
    words = wording(reference[:_LONGEST]).tokens
    return bool(words) and wording(response[:_LONGEST]).tokens == words


def sure_verdict(probability: float) -> bool | None:
    """Whether an answer is right, where that is nearly sure: from 0.8 on, up to 0.2; else None."""
    if probability >= _LEAST_RIGHT:
        return True
    if probability <= _MOST_WRONG:
        return False
    return None


def is_long(reference: str) -> bool:
    """Whether a reference is more than one fact, of which words tell less."""
    return len(_telling_words(reference[:_LONGEST])) > _MOST_WORDS_OF_FACT


_ENDINGS = ("ing", "ies", "es", "ed", "s", "ly")


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """A word without an English ending, if three letters stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _stems(words: Iterable[str]) -> set[str]:
    """Stems of the words, so that "pays" and "pay" are one."""
    return {_stem(word) for word in words}


@lru_cache(maxsize=4096)
def _telling_words(text: str) -> tuple[str, ...]:
    """The words of a text that say something; all where none does."""
    tokens = wording(text).tokens
    common = word_list("common")
    return tuple([token for token in tokens if token not in common]) or tokens


class AnswerBeside:
    """An answer beside a reference."""

    def __init__(self, query: str, response: str, reference: str, reference_count: int = 1) -> None:
        self.query = query[:_LONGEST]
        self.response = response[:_LONGEST]
        self.reference = reference[:_LONGEST]
        self.query_wording = wording(self.query)
        self.answer = wording(self.response)
        self.right = wording(self.reference)
        self.answer_words = _telling_words(self.response)
        self.right_words = _telling_words(self.reference)
        self.is_long = len(self.right_words) > _MOST_WORDS_OF_FACT
        query_tokens = set(self.query_wording.tokens)
        new_words = tuple([word for word in self.right_words if word not in query_tokens])
        self.new_words = new_words or self.right_words
        """Words of the reference that the question does not hold; all where it holds them all."""
        self.reference_count = reference_count
        """An answer like none of twenty references is wrong more often than one that is not like
        the only one."""

    # --- what a model weighs

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
        unsure = float(_is_unsure(self.response.lower()))
        if self.is_long:
            return {
                "bias": 1.0,
                "recall_of_new": recall_of_new,
                "sentences": self._share_of_sentences(_stems(answer_words)),
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
            likeness_of = _likeness_to(answer_words)
            likenesses = [
                1.0 if word in answer_words else likeness_of(word) for word in self.new_words
            ]
            nearest = max(likenesses)
            farthest = min(likenesses)
            average = sum(likenesses) / len(likenesses)
        denials = word_list("denials")
        answer_denies = not denials.isdisjoint(self.answer.tokens)
        right_denies = not denials.isdisjoint(self.right.tokens)
        return {
            "phrase": float(f" {phrase} " in f" {whole} "),
            "near_phrase": _phrase_likeness(phrase, whole),
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
            shared = len([word for word in words if _stem(word) in answer_stems])
            if shared / len(words) >= _MOST_OF_A_SENTENCE:
                said += 1
        return said / count if count else 0.0

    # --- what can be compared

    def contradiction(self) -> str | None:
        """What an answer says otherwise than the reference; None where nothing is seen.

        Beside a long reference nothing is: on MTRAG's answers, people called most of what looked
        like an opposite or another amount right.
        """
        if self.is_long:
            return None
        for description, contradicts in _CONTRADICTIONS.items():
            if contradicts(self):
                return description
        return None

    def agrees(self) -> bool:
        """Whether the answer has all of a reference that is nothing but amounts and dates.

        Of a reference that is a yes or a no, under any name, it begins with the same.
        """
        right = self.right
        if len(right.tokens) == 1:
            side = _side(right.tokens)
            if side:
                return side == _side(self.answer.tokens) and not _is_unsure(self.response.lower())
        if not right.amounts and not right.dates:
            return False  # most have none, and need no longer look
        return right.is_typed and right.is_named_by(self.answer)

    def is_other_side(self) -> bool:
        """A yes for a no, or a no for a yes."""
        return _side(self.right.tokens) * _side(self.answer.tokens) < 0

    def is_other_amount(self) -> bool:
        """The answer lacks an amount of the reference, and has another of its kind."""
        if not self.right.amounts:
            return False
        in_query = self.query_wording.amounts
        expected = [amount for amount in self.right.amounts if amount not in in_query]
        right_or_in_query = (*self.right.amounts, *in_query, *_years(self.right))
        in_answer = (*self.answer.amounts, *_years(self.answer))
        others = [amount for amount in in_answer if not _equals_any(amount, right_or_in_query)]
        if not expected or not others or self._is_between(expected, others):
            return False
        missing = [amount for amount in expected if not _equals_any(amount, in_answer)]
        if not missing:
            return False
        dimensions = {amount.dimension for amount in missing if amount.dimension}
        if any(amount.dimension in dimensions for amount in others):
            return True
        # Numbers without a unit are compared only where the answer is brief, or lacks every
        # amount: whoever says much names other numbers, too.
        is_brief = len(self.answer_words) <= 2 * len(self.right_words) + 4
        if not is_brief and len(missing) < len(expected):
            return False
        return any(not amount.dimension for amount in (*missing, *others))

    def _is_between(self, expected: Sequence[Amount], others: Sequence[Amount]) -> bool:
        """Beside "1135-1154": what lies between is meant, too."""
        if len(expected) != 2 or any(amount.dimension for amount in expected):
            return False
        low, high = sorted(amount.number for amount in expected)
        return any(low < amount.number < high for amount in others)

    def is_other_date(self) -> bool:
        """No date of the answer is one of the reference, or no year is."""
        if self.right.dates and self.answer.dates:
            for date in self.right.dates:
                if any(date.equals(answer_date) for answer_date in self.answer.dates):
                    return False
            return True
        if not self.right.amounts and not self.right.dates:
            return False
        right_years = self.right.years - self.query_wording.years
        answer_years = self.answer.years - self.query_wording.years
        if len(right_years) == 2:
            first_year, last_year = sorted(right_years)
            if any(first_year < year < last_year for year in answer_years):
                return False  # within "1135-1154"
        return bool(right_years and answer_years and not right_years & answer_years)

    def is_other_person(self) -> bool:
        """The family name is there with another first name, and the right one nowhere."""
        if self.reference.count(" ") not in (1, 2):
            return False
        names = _CAPITALISED.findall(self.reference)
        if not 2 <= len(names) <= 3 or " ".join(names) != self.reference.strip(" ."):
            return False
        first_name = names[0]
        family_name = names[-1]
        if family_name not in self.response:
            return False
        words = _CAPITALISED.findall(self.response)
        if any(word == first_name or word[0] + "." == first_name for word in words):
            return False
        words_before = _capitalised_before(family_name, self.response)
        if not words_before:
            return False
        names_and_query = {*names, *_CAPITALISED.findall(self.query)}
        titles = word_list("before_names")
        for word in words_before:
            if word in names_and_query or word.lower().rstrip(".") in titles:
                return False
            if first_name.startswith(word.rstrip(".")) or word.startswith(first_name):
                return False  # an initial, or a short form
        return True

    def is_denied(self) -> bool:
        """Every clause that holds the right words denies them: "is not X"."""
        denials = word_list("denials")
        if denials.isdisjoint(self.answer.tokens):
            return False
        # Who asks what may be done "without" something denies nothing.
        elsewhere = (*self.right.tokens, *self.query_wording.tokens)
        if not (denials - {"without"}).isdisjoint(elsewhere):
            return False
        right_stems = _stems(self.new_words)
        if not right_stems or not right_stems <= _stems(self.answer.tokens):
            return False
        # Where no clause has all the right words, a whole sentence may.
        for separator in (_CLAUSE, _SENTENCE):
            clauses: list[tuple[str, ...]] = []
            for part in separator.split(self.response):
                tokens = wording(part).tokens
                if right_stems <= _stems(tokens):
                    clauses.append(tokens)
            if clauses:
                return all(_denies(clause, right_stems, denials) for clause in clauses)
        return False

    def is_opposite(self) -> bool:
        """The answer has the opposite of a word of the reference, and not the word."""
        opposites_by_word = opposites()
        words = [word for word in self.right.tokens if word in opposites_by_word]
        if not words:
            return False
        answer_tokens = set(self.answer.tokens)
        query_tokens = set(self.query_wording.tokens)
        for word in words:
            if word in answer_tokens or word in query_tokens:
                continue
            opposite = opposites_by_word[word]
            if opposite & answer_tokens and not opposite & query_tokens:
                return True
        return False


_CONTRADICTIONS: Mapping[str, Callable[[AnswerBeside], bool]] = {
    "yes for no, or no for yes": AnswerBeside.is_other_side,
    "another amount": AnswerBeside.is_other_amount,
    "another date": AnswerBeside.is_other_date,
    "another person of that family name": AnswerBeside.is_other_person,
    "the answer is denied": AnswerBeside.is_denied,
    "the opposite": AnswerBeside.is_opposite,
}
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*\.?")
_REFERENCE_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE = re.compile(r"[.;!?\n]\s+|, |\bbut\b")
_UNSURE = re.compile(
    r"\b(?:unknown|unclear|unable|sorry|do(?:es)? not (?:know|mention|state|specify|provide)"
    r"|(?:cannot|could not|couldn.t) (?:find|determine|answer)"
    r"|not (?:sure|certain|known|clear|specified|mentioned|available)"
    r"|no (?:information|evidence|record|mention|answer)|as an ai)\b"
)
_HINTS = ("not ", "no ", "unknown", "unclear", "unable", "sorry", "couldn", "as an ai")
"""Every match of ``_UNSURE`` holds one of these: most answers hold none, and need no search."""


def _is_unsure(answer: str) -> bool:
    """Whether an answer in small letters says that it does not know."""
    if not any(hint in answer for hint in _HINTS):
        return False
    return _UNSURE.search(answer) is not None


def _years(wording: Wording) -> tuple[Amount, ...]:
    """The years of a text's dates, as numbers."""
    return tuple([Amount("", date.year, date.year) for date in wording.dates if date.year])


_NO_AMOUNTS = {"amounts": 0.0, "amounts_missing": 0.0, "amounts_held": 0.0, "other_amounts": 0.0}


def _equals_any(amount: Amount, amounts: Sequence[Amount]) -> bool:
    """Whether one of the amounts is the same, in whatever unit it is written."""
    return any(map(amount.equals, amounts))


def _capitalised_before(name: str, text: str) -> set[str]:
    """The words with a capital right before a name."""
    words_before: set[str] = set()
    for previous, match in pairwise(_CAPITALISED.finditer(text)):
        if match[0] == name and previous.end() + 1 >= match.start():
            words_before.add(previous[0])
    return words_before


def _is_among(word: str, words: set[str]) -> bool:
    """Whether one of the words has the same stem, which has three letters of it at least."""
    beginning = word[:3]
    stem = _stem(word)
    candidates = [candidate for candidate in words if candidate.startswith(beginning)]
    return any(_stem(candidate) == stem for candidate in candidates)


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
    if phrase in text:
        return 1.0
    partial_ratio, _, _ = _rapidfuzz()
    return partial_ratio(phrase[:_LONGEST_PHRASE], text) / 100


def _likeness_to(words: set[str]) -> Callable[[str], float]:
    """How alike the most similar of the words is, 0 to 1; a number is itself or not."""
    _, extract_one, ratio = _rapidfuzz()
    candidates = [word[:_LONGEST_PHRASE] for word in words if not word[-1].isdecimal()]

    def likeness(word: str) -> float:
        if word[-1].isdecimal():
            return 0.0
        nearest = extract_one(word[:_LONGEST_PHRASE], candidates, scorer=ratio)
        return 0.0 if nearest is None else nearest[1] / 100

    return likeness


def _side(tokens: Sequence[str]) -> int:
    """1 for a yes at the beginning, -1 for a no, else 0."""
    if not tokens:
        return 0
    if tokens[0] in word_list("yes"):
        return 1
    if tokens[0] in word_list("no"):
        return -1
    return 0


def _denies(clause: Sequence[str], right_stems: set[str], denials: frozenset[str]) -> bool:
    """Whether a denial is among the four words before the first of the right words."""
    for position, word in enumerate(clause):
        if _stem(word) in right_stems:
            before = clause[max(position - 4, 0) : position]
            return not denials.isdisjoint(before)
    return False
