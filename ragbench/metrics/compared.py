"""What an answer says otherwise than a reference, or the same, where that can be compared.

Amounts, dates, times, identifiers, yes and no, opposites, denials, people and lists are compared
by what they are. What cannot be compared is left open: only *different* makes an answer wrong, and
only *the same* makes it right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from ragbench.metrics.word_lists import affixes, opposites, phrases, word_list
from ragbench.text.amounts import Agreement, Amount, Wording, wording
from ragbench.text.declining import opens_with_refusal, read_answer
from ragbench.text.letters import as_written

LONGEST = 20_000
"""Characters of a text that are read: nobody answers at such a length."""
_MOST_WORDS_OF_FACT = 12
"""Telling words from which a reference is no longer one fact."""


class Comparison(NamedTuple):
    """What the comparison of an answer with a reference comes to."""

    agreement: Agreement
    reason: str = ""
    is_all: bool = False
    """The reference says nothing else: the comparison alone decides."""


_UNCLEAR = Comparison(Agreement.UNCLEAR)

_ENDINGS = ("ing", "ies", "es", "ed", "s", "ly")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without an English ending, if three letters stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def stems(words: Iterable[str]) -> set[str]:
    """Stems of the words, so that "pays" and "pay" are one."""
    return {stem(word) for word in words}


def _telling(tokens: Sequence[str], text: str) -> tuple[str, ...]:
    """The tokens that say something; all where none does.

    A common word says something where a text writes it as a name, as in "hepatitis A", "IT" and
    "WHO".

    Args:
        text: all that the case and the answer say, with its capitals.
    """
    common = word_list("common")
    names = {name.lower() for name in _CAPITALS.findall(text)}
    telling = [token for token in tokens if token not in common or token in names]
    return tuple(telling or tokens)


_CAPITALS = re.compile(r"(?<![.!?:\n]\s)(?<!^)\b[A-Z]+\b(?![.'’])")
"""A word in capitals within a sentence: at its beginning "A" is an article."""


class Beside:
    """An answer beside a reference."""

    def __init__(self, query: str, response: str, reference: str) -> None:
        self.query = query[:LONGEST]
        self.response = response[:LONGEST]
        self.reference = reference[:LONGEST]
        self.query_wording = wording(self.query)
        self.right = wording(self.reference)
        answer = wording(self.response)
        if not (self.response.isascii() and self.reference.isascii()):
            answer = answer._replace(tokens=as_written(answer.tokens, self.right.tokens))
        self.answer: Wording = answer
        is_shouted = self.response.isupper() or self.reference.isupper()
        text = "" if is_shouted else f"{self.reference} {self.response} {self.query}"
        self.right_words = _telling(self.right.tokens, text)
        self.answer_words = _telling(self.answer.tokens, text)
        self.is_long = len(self.right_words) > _MOST_WORDS_OF_FACT
        query_tokens = set(self.query_wording.tokens)
        new_words = tuple([word for word in self.right_words if word not in query_tokens])
        self.new_words = new_words or self.right_words
        """Words of the reference that the question does not hold; all where it holds them all."""

    def compared(self) -> Comparison:
        """What the comparison comes to: the first kind of statement that differs, or agrees."""
        side = _side(self.right.tokens)
        if self.right.is_typed and not side:
            return self._of_typed()
        if _CHOICE.fullmatch(self.reference):
            return self._of_choice()
        if self.is_long:
            return _UNCLEAR  # people called most of what looked like an opposite right
        for reason, differs in _DIFFERENCES.items():
            if differs(self):
                return Comparison(Agreement.DIFFERENT, reason)
        is_side_alone = len(self.right.tokens) == 1 and side
        if is_side_alone and side == self.side and not is_unsure(self.response.lower()):
            return Comparison(Agreement.SAME, "the same side", is_all=True)
        return _UNCLEAR

    def _of_choice(self) -> Comparison:
        """The comparison with a letter, as of a question with several to choose from."""
        choice = _CHOSEN.match(self.response)
        if choice is None:
            return _UNCLEAR
        if choice[1].upper() == self.right.tokens[0].upper():
            return Comparison(Agreement.SAME, "the same choice", is_all=True)
        return Comparison(Agreement.DIFFERENT, "another choice", is_all=True)

    # --- amounts, dates, identifiers

    def _of_typed(self) -> Comparison:
        """The comparison of a reference that is amounts, dates and identifiers alone."""
        expected = self._expected()
        agreements = {
            "another amount": [self._amount_in_answer(amount) for amount in expected],
            "another part or frequency": [
                _best(spoken, (*self.answer.spoken, *self.answer.amounts))
                for spoken in self.right.spoken
            ],
            "another identifier": [
                self._identifier_in_answer(identifier) for identifier in self.right.identifiers
            ],
            "another date": [self._dates()] if self.right.dates else [],
        }
        for reason, parts in agreements.items():
            if Agreement.DIFFERENT in parts:
                if self._is_between(expected, self._in_answer):
                    return Comparison(Agreement.UNCLEAR, is_all=True)
                return Comparison(Agreement.DIFFERENT, reason, is_all=True)
        if any(Agreement.UNCLEAR in parts for parts in agreements.values()):
            return Comparison(Agreement.UNCLEAR, is_all=True)
        if self._is_opposed():
            return Comparison(Agreement.DIFFERENT, "the opposite", is_all=True)
        if self.is_denied():
            return Comparison(Agreement.DIFFERENT, "the answer is denied", is_all=True)
        return Comparison(Agreement.SAME, "the same amounts and dates", is_all=True)

    def _expected(self) -> Sequence[Amount]:
        """The amounts of the reference that the question does not hold; all where it holds all."""
        in_query = self.query_wording.amounts
        new = [amount for amount in self.right.amounts if amount not in in_query]
        return new or self.right.amounts

    @cached_property
    def _in_answer(self) -> tuple[Amount, ...]:
        return (*self.answer.amounts, *years_of(self.answer))

    @cached_property
    def _asked(self) -> _Asked:
        return _Asked.of(self.query)

    def _amount_in_answer(self, amount: Amount) -> Agreement:
        """Whether the answer names an amount of the reference: what its nearest one says."""
        candidates: Sequence[Amount] = self._in_answer
        if amount.dimension in ("share", "times"):
            candidates = (*candidates, *self.answer.spoken)
        agreement = _best(amount, candidates)
        if agreement is Agreement.SAME and not self._is_share_mistaken(amount):
            return agreement
        # The reference may leave out what the question names: "in USD millions", "in percent".
        for reading in self._asked.readings(amount, is_share=self._names_share):
            if _best(reading, (*candidates, *self.answer.spoken)) is Agreement.SAME:
                return Agreement.SAME
        for candidate in candidates:
            for reading in self._asked.readings(candidate, is_share=amount.dimension == "share"):
                if amount.compared(reading) is Agreement.SAME:
                    return Agreement.SAME
        if agreement is Agreement.SAME:
            return Agreement.UNCLEAR if self._asked.is_percent else Agreement.DIFFERENT
        if amount.dimension in ("", "clock") and _is_hour(amount, candidates):
            return Agreement.SAME
        return agreement

    @cached_property
    def _names_share(self) -> bool:
        """Whether the answer gives a percentage, or another part of a whole."""
        return any(
            amount.dimension == "share" for amount in (*self.answer.amounts, *self.answer.spoken)
        )

    def _is_share_mistaken(self, amount: Amount) -> bool:
        """Whether a fraction is only the number of a percentage: .05 is not .05 %."""
        if amount.dimension or not 0 < abs(amount.number) < 1:
            return False
        same = [candidate for candidate in self._in_answer if amount.equals(candidate)]
        return bool(same) and all(candidate.dimension == "share" for candidate in same)

    def _identifier_in_answer(self, identifier: str) -> Agreement:
        if identifier in self.answer.identifiers:
            return Agreement.SAME
        return Agreement.DIFFERENT if self.answer.identifiers else Agreement.UNCLEAR

    def _dates(self) -> Agreement:
        """How the dates of the answer compare with those of the reference."""
        if not self.answer.dates:
            years = self.right.years
            has_years_alone = all(date.day is None for date in self.right.dates)
            if years and has_years_alone and years <= self.answer.years:
                return Agreement.UNCLEAR
            return Agreement.DIFFERENT if self._other_years() else Agreement.UNCLEAR
        for date in self.right.dates:
            if any(date.is_within(other) for other in self.answer.dates):
                continue
            if any(date.equals(other) for other in self.answer.dates):
                return Agreement.UNCLEAR
            return Agreement.DIFFERENT
        return Agreement.SAME

    def is_other_amount(self) -> bool:
        """The answer lacks an amount that is asked for, and has another of its kind."""
        if not self.right.amounts or not self._amounts_matter:
            return False
        in_query = self.query_wording.amounts
        expected = [amount for amount in self.right.amounts if amount not in in_query]
        if not _ASKS_AMOUNT.search(self.query.lower()):
            expected = [amount for amount in expected if not _may_be_year(amount)]
        known = (*self.right.amounts, *in_query, *years_of(self.right))
        others = [amount for amount in self._in_answer if not _equals_any(amount, known)]
        if not expected or not others or self._is_between(expected, others):
            return False
        agreements = [self._amount_in_answer(amount) for amount in expected]
        missing = [
            amount
            for amount, agreement in zip(expected, agreements, strict=True)
            if agreement is not Agreement.SAME
        ]
        if Agreement.DIFFERENT not in agreements:
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

    @property
    def _amounts_matter(self) -> bool:
        """Whether the amounts of the reference are what was asked for.

        "Corporate bonds (82 %)" answers which asset got the most without its amount. An answer in
        all other words of the reference says another amount all the same.
        """
        if self._says_all_but_numbers():
            return True
        if _ASKS_AMOUNT.search(self.query.lower()):
            return True
        if not self.query.strip():
            return True
        if _ASKS_OTHER.search(self.query.lower()):
            return False
        numbers = len([word for word in self.right_words if word[-1].isdecimal()])
        return 2 * numbers >= len(self.new_words)

    def _says_all_but_numbers(self) -> bool:
        """Whether the answer has each word of the reference that is no number."""
        words = [word for word in self.right_words if not word[-1].isdecimal()]
        return bool(words) and set(words) <= set(self.answer.tokens)

    def _is_between(self, expected: Sequence[Amount], others: Sequence[Amount]) -> bool:
        """Beside "1135-1154": what lies between is meant, too."""
        if len(expected) != 2 or expected[0].dimension != expected[1].dimension:
            return False
        low, high = sorted(amount.value for amount in expected)
        return any(
            low < amount.value < high and amount.dimension == expected[0].dimension
            for amount in others
        )

    def is_other_date(self) -> bool:
        """No date of the answer is one of the reference, or no year is."""
        if self.right.dates and self.answer.dates:
            for date in self.right.dates:
                if any(date.equals(answer_date) for answer_date in self.answer.dates):
                    return False
            return True
        if not self.right.amounts and not self.right.dates:
            return False
        return self._amounts_matter and self._other_years()

    def _other_years(self) -> bool:
        right_years = self.right.years - self.query_wording.years
        answer_years = self.answer.years - self.query_wording.years
        if len(right_years) == 2:
            first_year, last_year = sorted(right_years)
            if any(first_year < year < last_year for year in answer_years):
                return False  # within "1135-1154"
        return bool(right_years and answer_years and not right_years & answer_years)

    def is_other_identifier(self) -> bool:
        """Another version, address or phone number."""
        right = set(self.right.identifiers) - set(self.query_wording.identifiers)
        answer = set(self.answer.identifiers) - set(self.query_wording.identifiers)
        return bool(right and answer) and right.isdisjoint(answer)

    def is_other_frequency(self) -> bool:
        """Another part of a whole, or another frequency."""
        if not self.right.spoken or len(self.right_words) > 6:
            return False
        candidates = (*self.answer.spoken, *self.answer.amounts)
        agreements = [_best(spoken, candidates) for spoken in self.right.spoken]
        return Agreement.DIFFERENT in agreements and Agreement.SAME not in agreements

    # --- sides

    @property
    def side(self) -> int:
        """1 for a yes at the beginning of the answer, -1 for a no, else 0."""
        return _side(self.answer.tokens) or _side(wording(_PREAMBLE.sub("", self.response)).tokens)

    def is_other_side(self) -> bool:
        """A yes for a no, or a no for a yes."""
        return _side(self.right.tokens) * self.side < 0

    def is_opposite(self) -> bool:
        """The answer has the opposite of a word of the reference, and not the word."""
        return self._is_opposed()

    def _is_opposed(self) -> bool:
        answer_tokens = set(self.answer.tokens)
        query_tokens = set(self.query_wording.tokens)
        opposites_by_word = opposites()
        for word in self.right.tokens:
            if word in answer_tokens:
                continue
            opposed = opposites_by_word.get(word, frozenset()) & answer_tokens
            if opposed and not (opposed & query_tokens and word not in query_tokens):
                return True
        return self._has_opposed_affix(answer_tokens, query_tokens)

    def _has_opposed_affix(self, answer_tokens: set[str], query_tokens: set[str]) -> bool:
        """Says hypertension for hypotension, invalid for valid, lessee for lessor."""
        others = answer_tokens - query_tokens
        for word in self.new_words:
            if word not in answer_tokens and not others.isdisjoint(opposed_forms(word)):
                return True
        return False

    def is_other_letter(self) -> bool:
        """Another letter behind the same word: hepatitis B for hepatitis A, Annex C for Annex A."""
        letters = _LETTERED.findall(self.reference)
        if not letters:
            return False
        answer_letters = _LETTERED.findall(self.response)
        for word, letter in letters:
            beside = {other for name, other in answer_letters if name.lower() == word.lower()}
            if beside and letter not in beside:
                return True
        return False

    def counts_other_things(self) -> bool:
        """The same number of another thing: 12 seats for 12 tickets may be the same, or not."""
        things = _things_counted(self.right.tokens)
        answer_things = _things_counted(self.answer.tokens)
        answer_stems = stems(self.answer.tokens)
        for number, thing in things.items():
            other = answer_things.get(number)
            if other is None or stem(thing) in answer_stems or thing in self.query_wording.tokens:
                continue
            if stem(other) != stem(thing) and other not in self.query_wording.tokens:
                return True
        return False

    # --- people, denials, lists

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
        right_stems = stems(self.new_words)
        if not right_stems or not right_stems <= stems(self.answer.tokens):
            return False
        # Where no clause has all the right words, a whole sentence may.
        for separator in (_CLAUSE, _SENTENCE):
            clauses: list[tuple[str, ...]] = []
            for part in separator.split(self.response):
                tokens = wording(part).tokens
                if right_stems <= stems(tokens):
                    clauses.append(tokens)
            if clauses:
                return all(_denies(clause, right_stems, denials) for clause in clauses)
        return False

    def is_other_part(self) -> bool:
        """Of a list one part is replaced by another."""
        items = _items(self.reference)
        answer_items = _items(self.response)
        if len(items) < 2 or len(answer_items) != len(items):
            return False
        answer_tokens = set(self.answer.tokens)
        missing = [item for item in items if not item <= answer_tokens]
        if not missing or len(missing) == len(items):
            return False
        known = {*self.right.tokens, *self.query_wording.tokens}
        others = [
            item for item in answer_items if item - known and not item & set(self.right.tokens)
        ]
        return len(others) >= len(missing)

    def is_turned_round(self) -> bool:
        """The words of the reference in another order, which is no list: "B beat A"."""
        words = self.right_words
        answer = self.answer_words
        if words == answer or sorted(words) != sorted(answer) or len(words) < 3:
            return False
        items = _items(self.reference)
        return len(items) < 2 or sorted(map(sorted, items)) != sorted(
            map(sorted, _items(self.response))
        )

    def is_hedged(self) -> bool:
        """The answer offers what the reference says among others: "Ann, Bob or Carl"."""
        if " or " not in self.response or " or " in self.reference or " or " in self.query.lower():
            return False
        if len(self.answer_words) > 3 * len(self.right_words) + 8:
            return False
        right_words = set(self.right_words)
        items = _items(self.response, separator=_OR)
        return len(items) > 1 and any(right_words & item for item in items)

    def is_open(self) -> bool:
        """Whether the words of the reference are there, and may say something else."""
        return self.is_turned_round() or self.is_hedged() or self.counts_other_things()

    def declines(self) -> bool:
        """The answer begins with a refusal, and says little of the reference's own words."""
        return opens_with_refusal(self.response, self.query)

    def reference_declines(self) -> bool:
        """The reference itself says that there is no answer."""
        return read_answer(self.reference).opens

    def says_more_than_the_question(self) -> bool:
        """Whether the reference names an amount or a date that the question does not."""
        in_query = self.query_wording
        new_amounts = [amount for amount in self.right.amounts if amount not in in_query.amounts]
        new_dates = set(self.right.dates) - set(in_query.dates)
        return bool(new_amounts or new_dates or self.right.spoken or self.right.identifiers)


_DIFFERENCES: dict[str, Callable[[Beside], bool]] = {
    "yes for no, or no for yes": Beside.is_other_side,
    "another amount": Beside.is_other_amount,
    "another date": Beside.is_other_date,
    "another identifier": Beside.is_other_identifier,
    "another part or frequency": Beside.is_other_frequency,
    "another letter": Beside.is_other_letter,
    "another person of that family name": Beside.is_other_person,
    "the answer is denied": Beside.is_denied,
    "the opposite": Beside.is_opposite,
    "another part of the list": Beside.is_other_part,
}
_CHOICE = re.compile(r"\(?[A-Ha-h][.)]?")
_CHOSEN = re.compile(
    r"\s*(?:(?:the )?(?:correct |right )?(?:answer|option|choice)(?: is)?:?\s*)?"
    r"\(?([A-Ha-h])(?:[.):]|\s*$)",
    re.I,
)
_LETTERED = re.compile(r"\b(\w{2,}) ([A-Z])\b(?![.'’&-]?\w)")
"""A word with a capital letter behind it, which tells which one is meant."""
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*\.?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE = re.compile(r"[.;!?\n]\s+|, |\bbut\b")
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:many|much|long|far|old|often|tall|high|large|big|deep|wide|heavy|fast|hot|cold)\b"
    r"|\bhow (?:late|early)\b|\bwhen\b|\bin which year\b"
    r"|\bwhat (?:year|date|day|time|percent|percentage|number|amount|share|rate|price|age|size)\b"
    r"|\bwhat (?:distance\b|is the (?:\w+ ){0,4}(?:rate|ratio|number|amount|cost|price|share|margin"
    r"|percentage|limit|fee|deadline|date|length|height|width|size|speed|temperature|population"
    r"|average|total)\b)"
)
_ASKS_OTHER = re.compile(
    r"\b(?:who|whom|whose|which|where|why)\b|^\s*(?:is|are|was|were|does|do|did|has|have|had|can|could|may"
    r"|should|will|would)\b"
)
_PREAMBLE = re.compile(
    r"^\s*(?:based on|according to|from|given|as per|per|in|well|so)\b[^.,\n]{0,120},\s*", re.I
)
_ITEM = re.compile(r"[,;/\n•]|\band\b|\bor\b|\bund\b|\bet\b|\by\b|&|、|と|和")
_OR = re.compile(r"[,;/]|\bor\b")
_MOST_WORDS_OF_ITEM = 3
_HINTS = ("not ", "no ", "unknown", "unclear", "unable", "sorry", "couldn", "as an ai")
"""Every match of ``_UNSURE`` holds one of these: most answers hold none, and need no search."""
_UNSURE = re.compile(
    r"\b(?:unknown|unclear|unable|sorry|do(?:es)? not (?:know|mention|state|specify|provide)"
    r"|(?:cannot|could not|couldn.t) (?:find|determine|answer)"
    r"|not (?:sure|certain|known|clear|specified|mentioned|available)"
    r"|no (?:information|evidence|record|mention|answer)|as an ai)\b"
)


def is_unsure(answer: str) -> bool:
    """Whether an answer in small letters says that it does not know."""
    if not any(hint in answer for hint in _HINTS):
        return False
    return _UNSURE.search(answer) is not None


class _Asked(NamedTuple):
    """The unit and the scale that a question asks for."""

    scale: float
    """1e6 of "in USD millions"; 1 where it names none."""
    is_percent: bool

    @classmethod
    def of(cls, query: str) -> _Asked:
        lower = query.lower()
        match = _SCALE.search(lower)
        scale = 1.0
        if match is not None:
            scale = _SCALES[match[1][:4]]
        return cls(scale, "%" in lower or "percent" in lower or "per cent" in lower)

    def readings(self, amount: Amount, *, is_share: bool) -> Iterable[Amount]:
        """What a number without a unit may mean beside the question."""
        if amount.dimension:
            if self.scale != 1 and amount.place < self.scale and amount.number < self.scale:
                yield _scaled(amount, self.scale)
            return
        if self.scale != 1:
            yield _scaled(amount, self.scale)
        if is_share and abs(amount.number) <= 2:
            yield Amount(
                "share", amount.number, amount.number * 100, amount.place * 100, amount.place
            )


_SCALE = re.compile(
    r"\b(?:in|how many) (?:[a-z$€£]+ )?(thousand|million|billion|thousands|millions|billions)\b"
)
_SCALES = {"thou": 1e3, "mill": 1e6, "bill": 1e9}


def _scaled(amount: Amount, scale: float) -> Amount:
    """So many thousands, or millions, of it."""
    return amount._replace(
        value=amount.value * scale,
        number=amount.number * scale,
        place=amount.place * scale,
        step=amount.step * scale,
    )


def _best(amount: Amount, candidates: Iterable[Amount]) -> Agreement:
    """What the candidate that agrees most says; not comparable where there is none to compare."""
    agreements = {amount.compared(candidate) for candidate in candidates}
    for agreement in (Agreement.SAME, Agreement.DIFFERENT):
        if agreement in agreements:
            return agreement
    return Agreement.UNCLEAR


def _things_counted(tokens: Sequence[str]) -> dict[str, str]:
    """The words right behind numbers, by number."""
    common = word_list("common")
    things: dict[str, str] = {}
    for number, word in pairwise(tokens):
        if number[-1].isdecimal() and word not in common and not word[-1].isdecimal():
            things[number] = word
    return things


def _is_hour(amount: Amount, candidates: Sequence[Amount]) -> bool:
    """Whether one is a number, and the other the time of day of that hour: 13 and 1 pm."""
    for candidate in candidates:
        is_pair = {amount.dimension, candidate.dimension} == {"", "clock"}
        if is_pair and amount.number == candidate.number:
            return True
    return False


def years_of(wording: Wording) -> tuple[Amount, ...]:
    """The years of a text's dates, as numbers."""
    years = [date.year for date in wording.dates if date.year]
    return tuple([Amount("", year, year, 1.0, 1.0) for year in years])


def _may_be_year(amount: Amount) -> bool:
    """Whether a number alone may be a year, which says when something was and not how much."""
    return not amount.dimension and 1500 <= amount.number <= 2100 and amount.place == 1.0


def _equals_any(amount: Amount, amounts: Sequence[Amount]) -> bool:
    """Whether one of the amounts is the same, in whatever unit it is written."""
    return any(map(amount.equals, amounts))


def _side(tokens: Sequence[str]) -> int:
    """1 for a yes at the beginning, -1 for a no, else 0."""
    if not tokens:
        return 0
    beginning = " ".join(tokens[:4]) + " "
    if beginning.startswith(phrases("no_phrases")):
        return -1
    if beginning.startswith(phrases("yes_phrases")):
        return 1
    if tokens[0] in word_list("yes"):
        return 1
    if tokens[0] in word_list("no"):
        return -1
    return 0


@lru_cache(maxsize=1 << 14)
def opposed_forms(word: str) -> frozenset[str]:
    """What a word would be with the opposite beginning or ending: valid and invalid."""
    forms: set[str] = set()
    for first, second, is_prefix in affixes():
        for mine, other in ((first, second), (second, first)):
            if is_prefix and word.startswith(mine):
                rest = word[len(mine) :]
                # Of short words too many are another word with such letters before it.
                if len(rest) >= (_SHORTEST_REST if first else _SHORTEST_PLAIN):
                    forms.add(other + rest)
            elif not is_prefix and word.endswith(mine):
                rest = word.removesuffix(mine)
                if len(rest) >= _SHORTEST_REST:
                    forms.add(rest + other)
    return frozenset(forms)


_SHORTEST_REST = 3
_SHORTEST_PLAIN = 5
"""Letters beside an affix that turns a word, and of a word that an affix is put before."""


@lru_cache(maxsize=1024)
def _items(text: str, separator: re.Pattern[str] = _ITEM) -> tuple[frozenset[str], ...]:
    """The parts of a list by their words; empty where a part is more than a few words."""
    common = word_list("common")
    items: list[frozenset[str]] = []
    for part in separator.split(text.strip(" .")):
        tokens = wording(part).tokens
        words = frozenset(token for token in tokens if token not in common)
        if words:
            items.append(words)
    if len(items) < 2:
        return ()
    # The first and the last part may hold the rest of a sentence.
    if any(len(item) > _MOST_WORDS_OF_ITEM for item in items):
        return ()
    return tuple(items)


def _capitalised_before(name: str, text: str) -> set[str]:
    """The words with a capital right before a name."""
    words_before: set[str] = set()
    for previous, match in pairwise(_CAPITALISED.finditer(text)):
        if match[0] == name and previous.end() + 1 >= match.start():
            words_before.add(previous[0])
    return words_before


def _denies(clause: Sequence[str], right_stems: set[str], denials: frozenset[str]) -> bool:
    """Whether a denial is among the four words before the first of the right words."""
    for position, word in enumerate(clause):
        if stem(word) in right_stems:
            before = clause[max(position - 4, 0) : position]
            return not denials.isdisjoint(before)
    return False
