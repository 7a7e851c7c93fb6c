"""Whether people would call an answer right, from its words beside a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from operator import mul
from typing import Any

from ragbench.metrics.metric import metric
from ragbench.metrics.word_lists import correct_table, opposites, word_list
from ragbench.text.amounts import Amount, Wording, wording
from ragbench.text.citations import MARKS, without_citations

_CITE = (
    "logistic regression fitted on people's labels: EVOUNA (Wang et al. 2023, arXiv:2305.12421), "
    "for long references MTRAG's human evaluation (Katsis et al. 2025, arXiv:2501.03468)"
)


@metric(group="generator", abstains=True, probability=True, cite=_CITE, version=6)
def answer_correct(query: str, response: str, references: Sequence[str]) -> float:
    """How likely people would call the answer right, given the references; by its words."""
    known = len(references)
    return max([probability(query, response, reference, known) for reference in references])


@lru_cache(maxsize=8192)
def probability(query: str, response: str, reference: str, known: int = 1) -> float:
    """That people would call an answer right, by one of the known references: 0 to 1.

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
    compared = AnswerBeside(query, response, reference, known)
    weights = correct_table()["weights"]["long" if compared.is_long else "short"]
    total = sum(map(mul, weights.values(), compared.features().values()))
    found = 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))
    if compared.contradiction():
        return min(found, CONTRADICTED)
    return max(found, AGREED) if compared.agrees() else found


def is_same(response: str, reference: str) -> bool:
    """Whether two texts have the same words, and at least one."""
    words = wording(reference[:_LONGEST]).tokens
    return bool(words) and wording(response[:_LONGEST]).tokens == words


def told(found: float) -> bool | None:
    """Whether an answer is right, where that is nearly sure: from 0.8 on, up to 0.2; else None."""
    return None if _WRONG < found < _RIGHT else found >= _RIGHT


def is_long(reference: str) -> bool:
    """Whether a reference is more than one fact, of which words tell less."""
    return len(_telling(reference[:_LONGEST])) > _LONG


_WRONG, _RIGHT = 0.2, 0.8
CONTRADICTED, AGREED = 0.08, 0.95
"""At most and at least, where what can be compared says so."""
SAME = 0.9995
"""Of an answer in the words of the reference: people called all 2,023 of EVOUNA right, of which
Laplace's rule of succession makes 2024 / 2025."""
_LONGEST = 20_000
"""Characters of a text that are read: nobody answers at such a length."""
_LONGEST_PHRASE = 300
"""Characters that are compared letter by letter, which takes the product of both lengths."""
_LIKE = 0.75
"""From which likeness on two words may be one, spelled in two ways."""
_LONG = 12
"""Telling words from which a reference is no longer one fact."""


_ENDINGS = ("ing", "ies", "es", "ed", "s", "ly")


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=4096)
def _telling(text: str) -> tuple[str, ...]:
    """The words of a text that say something; all where none does."""
    tokens, common = wording(text).tokens, word_list("common")
    return tuple([one for one in tokens if one not in common]) or tokens


class AnswerBeside:
    """An answer beside a reference."""

    def __init__(self, query: str, response: str, reference: str, known: int = 1) -> None:
        self.query, self.response = query[:_LONGEST], response[:_LONGEST]
        self.reference = reference[:_LONGEST]
        self.asked, self.said = wording(self.query), wording(self.response)
        self.right = wording(self.reference)
        self.given, self.wanted = _telling(self.response), _telling(self.reference)
        """The telling words of the answer, and of the reference."""
        self.is_long = len(self.wanted) > _LONG
        in_question = set(self.asked.tokens)
        new = tuple([one for one in self.wanted if one not in in_question])
        self.new = new or self.wanted
        """Those of the reference that the question does not hold; all where it holds them all."""
        self.known = known
        """References of the case: an answer like none of twenty is wrong more often than one that
        is not like the only one."""

    # --- what a model weighs

    def features(self) -> dict[str, float]:
        """By name, each about 0 to 1; in the order of the weights."""
        given, wanted, new = set(self.given), self.wanted, self.new
        right = set(wanted)
        lacking = [one for one in new if one not in given]
        unlike = len([one for one in lacking if not _is_among(one, given)])
        recall_of_new = 1 - unlike / len(new) if new else 0.0
        recall = len([one for one in wanted if one in given]) / max(len(wanted), 1)
        precision = len([one for one in self.given if one in right]) / max(len(self.given), 1)
        unsure = float(_is_unsure(self.response.lower()))
        if self.is_long:
            return {
                "bias": 1.0,
                "recall_of_new": recall_of_new,
                "sentences": self._of_sentences({_stem(one) for one in given}),
                "precision": precision,
                "unsure": unsure,
            }
        size = min(len(wanted), 10) / 10
        return {
            "bias": 1.0,
            "recall": recall,
            "recall_of_new": recall_of_new,
            "precision": precision,
            "f1": 2 * recall * precision / (recall + precision) if recall + precision else 0.0,
            "size": size,
            "recall_by_size": recall * size,
            "length": min(len(self.given), 60) / 60,
            "unsure": unsure,
            **self._of_amounts(),
            **self._of_a_phrase(given, lacking),
        }

    def _of_a_phrase(self, given: set[str], lacking: Sequence[str]) -> dict[str, float]:
        """How much of a short reference stands in the answer as it is, or nearly."""
        wanted, phrase, whole = self.wanted, " ".join(self.wanted), " ".join(self.given)
        alike = 100.0 if phrase in whole else _rapidfuzz()[0](phrase[:_LONGEST_PHRASE], whole)
        nearest = farthest = average = float(bool(self.new))
        if lacking:
            likeness = _likeness_to(given)
            near = [1.0 if one in given else likeness(one) for one in self.new]
            nearest, farthest, average = max(near), min(near), sum(near) / len(near)
        denials = word_list("denials")
        # One of both denies something, and the other does not.
        turned = denials.isdisjoint(self.said.tokens) != denials.isdisjoint(self.right.tokens)
        return {
            "phrase": float(f" {phrase} " in f" {whole} "),
            "near_phrase": alike * bool(phrase and whole) / 100,
            "near": average,
            "least_near": farthest,
            "first": float(bool(wanted) and wanted[0] in given),
            "last": float(bool(wanted) and wanted[-1] in given),
            "in_question": float(len(self.new) < len(wanted)),
            "turned": float(turned),
            "unlike": float(nearest < _LIKE),
            "few": 1 / self.known,
        }

    def _of_amounts(self) -> dict[str, float]:
        said, right, asked = self.said.amounts, self.right.amounts, self.asked.amounts
        if not right and not said:
            return _NO_AMOUNTS
        wanted = [one for one in right if one not in asked] or right
        held = len([one for one in wanted if one in said or any(map(one.equals, said))])
        numbers = {one.number for one in right + asked}
        more = len({one.number for one in said} - numbers)
        return {
            "amounts": float(bool(held) and held == len(wanted)),
            "amounts_missing": float(held < len(wanted)),
            "amounts_held": held / len(wanted) if wanted else 0.0,
            "other_amounts": min(more, 5) / 5,
        }

    def _of_sentences(self, stems: set[str]) -> float:
        """Share of the reference's sentences of which most is said."""
        common = word_list("common")
        parts = [
            [one for one in wording(part).tokens if one not in common]
            for part in re.split(r"(?<=[.!?;])\s+|\n+", self.reference)
        ]
        return _share(_share(_stem(one) in stems for one in part) >= 0.6 for part in parts if part)

    # --- what can be compared

    def contradiction(self) -> str | None:
        """What an answer says otherwise than the reference; None where nothing is seen.

        Beside a long reference nothing is: on MTRAG's answers, people called most of what looked
        like an opposite or another amount right.
        """
        if self.is_long:
            return None
        return next((what for what, says_so in _CONTRADICTIONS.items() if says_so(self)), None)

    def is_other_side(self) -> bool:
        right, said = _side(self.right.tokens), _side(self.said.tokens)
        return right * said < 0

    def is_other_amount(self) -> bool:
        """One of the reference lacks, and another of its kind stands there."""
        if not self.right.amounts:
            return False
        wanted = [one for one in self.right.amounts if one not in self.asked.amounts]
        known = (*self.right.amounts, *self.asked.amounts, *_years(self.right))
        named = (*self.said.amounts, *_years(self.said))
        given = [one for one in named if not any(map(one.equals, known))]
        if not wanted or not given or self._is_between(wanted, given):
            return False
        lacking = [one for one in wanted if not any(map(one.equals, named))]
        kinds = {one.dimension for one in lacking if one.dimension}
        if any(one.dimension in kinds for one in given):
            return True
        # Whoever says much names other numbers, too.
        brief = len(self.given) <= 2 * len(self.wanted) + 4 or len(lacking) == len(wanted)
        return brief and any(not one.dimension for one in (*lacking, *given)) and bool(lacking)

    def _is_between(self, wanted: Sequence[Amount], given: Sequence[Amount]) -> bool:
        """Beside "1135-1154": what lies between is meant, too."""
        low, high = (limit(one.number for one in wanted) for limit in (min, max))
        bare = len(wanted) == 2 and not any(one.dimension for one in wanted)
        return bare and any(low < one.number < high for one in given)

    def agrees(self) -> bool:
        """Whether the answer has all of a reference that is nothing but amounts and dates.

        Of a reference that is a yes or a no, under any name, it begins with the same.
        """
        right = self.right
        if len(right.tokens) == 1 and (side := _side(right.tokens)):
            return side == _side(self.said.tokens) and not _is_unsure(self.response.lower())
        has_any = bool(right.amounts or right.dates)  # most have none, and need no longer look
        return has_any and right.is_typed and right.is_named_by(self.said)

    def is_other_date(self) -> bool:
        if self.right.dates and self.said.dates:
            return not any(a.equals(b) for a in self.right.dates for b in self.said.dates)
        if not self.right.amounts and not self.right.dates:
            return False
        right, said = self.right.years - self.asked.years, self.said.years - self.asked.years
        if len(right) == 2 and any(min(right) < year < max(right) for year in said):
            return False
        return bool(right and said and not right & said)

    def is_other_person(self) -> bool:
        """Another first name stands before the family name, and the right one nowhere."""
        if self.reference.count(" ") not in (1, 2):
            return False
        names = _CAPITAL.findall(self.reference)
        if not 2 <= len(names) <= 3 or " ".join(names) != self.reference.strip(" ."):
            return False
        first, family = names[0], names[-1]
        if family not in self.response:
            return False
        found = list(_CAPITAL.finditer(self.response))
        words = [one[0] for one in found]
        if family not in words or any(w == first or w[0] + "." == first for w in words):
            return False
        before = {
            words[at - 1]
            for at, word in enumerate(words)
            if word == family and at and found[at - 1].end() + 1 >= found[at].start()
        }
        known = {*names, *_CAPITAL.findall(self.query)}
        return bool(before) and not any(
            one in known
            or first.startswith(one.rstrip("."))
            or one.startswith(first)
            or one.lower().rstrip(".") in word_list("before_names")
            for one in before
        )

    def is_denied(self) -> bool:
        """Every clause that holds the right words denies them: "is not X"."""
        denials = word_list("denials")
        if denials.isdisjoint(self.said.tokens):
            return False
        # Who asks what may be done "without" something denies nothing.
        if not (denials - {"without"}).isdisjoint((*self.right.tokens, *self.asked.tokens)):
            return False
        wanted = {_stem(one) for one in self.new if one}
        if not wanted or not wanted <= {_stem(one) for one in self.said.tokens}:
            return False
        for parts in (_CLAUSE, _SENTENCE):
            clauses = [wording(part).tokens for part in parts.split(self.response)]
            holding = [one for one in clauses if wanted <= {_stem(word) for word in one}]
            if holding:
                break
        return bool(holding) and all(_denies(one, wanted, denials) for one in holding)

    def is_opposite(self) -> bool:
        known = opposites()
        words = [word for word in self.right.tokens if word in known]
        given, asked = set(self.said.tokens if words else ()), set(self.asked.tokens)
        for word in words:
            other = known[word]
            if word not in given | asked and other & given and not other & asked:
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
_CAPITAL = re.compile(r"[A-Z][\w'’-]*\.?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE = re.compile(r"[.;!?\n]\s+|, |\bbut\b")
_UNSURE = re.compile(
    r"\b(?:unknown|unclear|unable|sorry|do(?:es)? not (?:know|mention|state|specify|provide)"
    r"|(?:cannot|could not|couldn.t) (?:find|determine|answer)"
    r"|not (?:sure|certain|known|clear|specified|mentioned|available)"
    r"|no (?:information|evidence|record|mention|answer)|as an ai)\b"
)


_HINTS = ("not ", "no ", "unknown", "unclear", "unable", "sorry", "couldn", "as an ai")
"""Of which every match holds one: most answers hold none, and need no search."""


def _is_unsure(answer: str) -> bool:
    for hint in _HINTS:
        if hint in answer:
            return _UNSURE.search(answer) is not None
    return False


def _years(found: Wording) -> tuple[Amount, ...]:
    return tuple(Amount("", one.year, one.year) for one in found.dates if one.year)


_NO_AMOUNTS: dict[str, float] = dict.fromkeys(
    ("amounts", "amounts_missing", "amounts_held", "other_amounts"), 0.0
)


def _share(found: Any) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 0.0


def _is_among(word: str, given: set[str]) -> bool:
    """Whether one of the words has the same stem, which has three letters of it at least."""
    head, stem = word[:3], _stem(word)
    return any([_stem(one) == stem for one in given if one.startswith(head)])


@cache
def _rapidfuzz() -> tuple[Callable[..., float], Callable[..., Any], Callable[..., float]]:
    from rapidfuzz import fuzz, process

    return fuzz.partial_ratio, process.extractOne, fuzz.ratio


def _likeness_to(given: set[str]) -> Callable[[str], float]:
    """How alike the most similar of the words is, 0 to 1; a number is itself or not."""
    _, nearest, ratio = _rapidfuzz()
    others = [one[:_LONGEST_PHRASE] for one in given if not one[-1].isdecimal()]

    def likeness(word: str) -> float:
        if word[-1].isdecimal():
            return 0.0
        found = nearest(word[:_LONGEST_PHRASE], others, scorer=ratio)
        return 0.0 if found is None else found[1] / 100

    return likeness


def _side(tokens: Sequence[str]) -> int:
    """1 for a yes at the beginning, -1 for a no, else 0."""
    first = tokens[0] if tokens else ""
    return int(first in word_list("yes")) - int(first in word_list("no"))


def _denies(clause: Sequence[str], wanted: set[str], denials: frozenset[str]) -> bool:
    """Whether a denial stands at most four words before the first of the right words."""
    first = next(at for at, word in enumerate(clause) if _stem(word) in wanted)
    return any(word in denials for word in clause[max(first - 4, 0) : first])
