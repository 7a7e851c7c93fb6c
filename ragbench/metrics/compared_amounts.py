"""Amounts, dates, identifiers and frequencies of an answer beside those of a reference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from ragbench.core.record import Record
from ragbench.metrics.beside import Beside, Comparison
from ragbench.metrics.compared_words import is_denied, is_opposite
from ragbench.text.amounts import Agreement, Amount
from ragbench.text.wording import amount_is_among

# --- a reference of amounts, dates and identifiers alone


def compared_by_amounts(beside: Beside) -> Comparison:
    """How an answer compares with a reference that says nothing but amounts, dates and identifiers.

    Such a comparison decides alone (``is_all``): "14 days" beside "two weeks" is right without a
    word in common, and "15 days" wrong with one. One different amount is enough to be wrong; an
    amount within the reference's range is left open. The order of the kinds decides which reason is
    shown. Another result for any answer needs a higher version of ``answer_correct``.
    """
    expected: Sequence[Amount] = _new_amounts(beside)
    if not expected:
        # The question names all amounts of the reference, as in "Is it 5 or 6 days?": the answer
        # must choose.
        expected = beside.right.amounts
    dates: list[Agreement] = []
    if beside.right.dates:
        dates.append(_dates_in_answer(beside))
    agreements_by_reason: Mapping[str, Sequence[Agreement]] = {
        "another amount": [_amount_in_answer(beside, amount) for amount in expected],
        "another part or frequency": _frequencies_in_answer(beside),
        "another identifier": _identifiers_in_answer(beside),
        "another date": dates,
    }
    for reason, agreements in agreements_by_reason.items():
        if Agreement.DIFFERENT in agreements:
            if _is_any_between(expected, beside.answer_amounts):
                return Comparison(Agreement.UNCLEAR, is_all=True)
            return Comparison(Agreement.DIFFERENT, reason, is_all=True)
    for agreements in agreements_by_reason.values():
        if Agreement.UNCLEAR in agreements:
            return Comparison(Agreement.UNCLEAR, is_all=True)
    if is_opposite(beside):
        return Comparison(Agreement.DIFFERENT, "the opposite", is_all=True)
    if is_denied(beside):
        return Comparison(Agreement.DIFFERENT, "the answer is denied", is_all=True)
    return Comparison(Agreement.SAME, "the same amounts and dates", is_all=True)


def says_more_than_question(beside: Beside) -> bool:
    """Whether a reference names an amount, a date or an identifier that the question does not.

    If it only repeats the question's, an answer with the same amount may still lack the answer: "5
    days are too few" of "Are 5 days enough?". Another result for any answer needs a higher version
    of ``answer_correct``.
    """
    if beside.right.spoken or beside.right.identifiers:
        return True
    new_dates = set(beside.right.dates) - set(beside.query_wording.dates)
    return bool(new_dates) or bool(_new_amounts(beside))


def _new_amounts(beside: Beside) -> list[Amount]:
    """The amounts of the reference that are not in the question: the ones that are asked for.

    An amount that the question names is repeated by right and wrong answers alike.
    """
    in_query = beside.query_wording.amounts
    return [amount for amount in beside.right.amounts if amount not in in_query]


def _amount_in_answer(beside: Beside, amount: Amount) -> Agreement:
    """Whether an answer names an amount of the reference; UNCLEAR where nothing compares.

    The nearest amount of the answer decides, once units, scales and hours that question or answer
    leave out are taken into account: "5" is right where the question says "in millions" and the
    reference "$5 million". Another result for any answer needs a higher version of
    ``answer_correct``.

    Args:
        amount: of the reference.
    """
    candidates = beside.answer_amounts
    if amount.dimension in ("share", "times"):
        # Shares and multiples may be said in words: "half" and "twice".
        candidates = (*candidates, *beside.answer.spoken)
    agreement = _best_agreement(amount, candidates)
    is_same = agreement is Agreement.SAME
    if is_same and not _is_number_of_percentage(beside, amount):
        return Agreement.SAME
    if _is_same_as_asked(beside, amount, candidates):
        return Agreement.SAME
    if is_same:  # the same number, and one of the two is in percent
        if _asked_unit(beside.query).is_percent:
            return Agreement.UNCLEAR
        return Agreement.DIFFERENT
    if _is_hour(amount, candidates):
        return Agreement.SAME
    return agreement


def _is_same_as_asked(beside: Beside, amount: Amount, candidates: Sequence[Amount]) -> bool:
    """Whether an answer has an amount, once the unit or scale that the question names is added.

    Reference or answer may leave out what the question says already: "in USD millions", "in
    percent". Another result for any answer needs a higher version of ``answer_correct``.

    Args:
        amount: of the reference.
        candidates: the amounts of the answer.
    """
    asked = _asked_unit(beside.query)
    answer_amounts = (*beside.answer.amounts, *beside.answer.spoken)
    # Whether the other side names a share: only then may a bare number be read as percent.
    has_share = any(candidate.dimension == "share" for candidate in answer_amounts)
    all_candidates = (*candidates, *beside.answer.spoken)
    # First the reference's amount with the question's unit added, then each of the answer's: either
    # side may be the one that left it out.
    for reading in asked.readings(amount, is_share=has_share):
        if _best_agreement(reading, all_candidates) is Agreement.SAME:
            return True
    is_share = amount.dimension == "share"
    for candidate in candidates:
        for reading in asked.readings(candidate, is_share=is_share):
            if amount.compared(reading) is Agreement.SAME:
                return True
    return False


def _is_number_of_percentage(beside: Beside, amount: Amount) -> bool:
    """Whether a fraction of the reference is in the answer only as a percentage: .05 as .05 %.

    The two are a hundredfold apart, though their figures are the same. Without this check an answer
    that is wrong by the factor 100 would count as right.

    Args:
        amount: of the reference.
    """
    # Only a bare fraction can be misread so: a unit would show in the answer, too.
    if amount.dimension or not 0 < abs(amount.number) < 1:
        return False
    equal_dimensions: set[str] = set()
    for candidate in beside.answer_amounts:
        if amount.equals(candidate):
            equal_dimensions.add(candidate.dimension)
    return equal_dimensions == {"share"}


def _is_hour(amount: Amount, candidates: Sequence[Amount]) -> bool:
    """Whether an amount and a candidate are a number and the time of day of that hour: 13 and 1 pm.

    "At 13" for "1 pm" would else be another amount, and the answer wrong.

    Args:
        amount: of the reference.
        candidates: the amounts of the answer.
    """
    for candidate in candidates:
        # One of the two amounts is a plain number, the other a time of day.
        is_number_and_time = {amount.dimension, candidate.dimension} == {"", "clock"}
        if is_number_and_time and amount.number == candidate.number:
            return True
    return False


def _frequencies_in_answer(beside: Beside) -> list[Agreement]:
    """For each part and frequency of the reference whether the answer names it: half, twice a year.

    In the order of the reference; UNCLEAR where the answer has nothing that compares.
    """
    candidates = (*beside.answer.spoken, *beside.answer.amounts)
    return [_best_agreement(frequency, candidates) for frequency in beside.right.spoken]


def _identifiers_in_answer(beside: Beside) -> list[Agreement]:
    """For each identifier of the reference whether the answer names it, or names another one.

    Identifiers are versions, addresses and phone numbers, which differ as soon as a letter does. An
    answer without any identifier may say in words which thing is meant: UNCLEAR.
    """
    agreements: list[Agreement] = []
    for identifier in beside.right.identifiers:
        if identifier in beside.answer.identifiers:
            agreements.append(Agreement.SAME)
        elif beside.answer.identifiers:
            agreements.append(Agreement.DIFFERENT)
        else:
            agreements.append(Agreement.UNCLEAR)
    return agreements


def _dates_in_answer(beside: Beside) -> Agreement:
    """How the dates of the answer compare with those of the reference.

    SAME where each date of the reference is in the answer, at least as exactly; DIFFERENT where one
    of them, or all of its years, are replaced; UNCLEAR where the answer is only less exact ("May"
    for "12 May"). Another result for any answer needs a higher version of ``answer_correct``.
    """
    right = beside.right
    answer = beside.answer
    if not answer.dates:
        has_months_alone = all(date.day is None for date in right.dates)
        has_years = bool(right.years) and right.years <= answer.years
        if has_months_alone and has_years:
            return Agreement.UNCLEAR  # "in 1998" for "May 1998"
        if _is_other_year(beside):
            return Agreement.DIFFERENT
        return Agreement.UNCLEAR
    for date in right.dates:
        if any(date.is_within(answer_date) for answer_date in answer.dates):
            continue
        if any(date.equals(answer_date) for answer_date in answer.dates):
            return Agreement.UNCLEAR  # "May" for "12 May"
        return Agreement.DIFFERENT
    return Agreement.SAME


def _best_agreement(amount: Amount, candidates: Iterable[Amount]) -> Agreement:
    """How an amount compares with the candidate that agrees with it most; UNCLEAR without a rival.

    An answer names many amounts, of which one is the answer: the others must not make it wrong.

    Args:
        amount: of the reference.
        candidates: the amounts of the answer.
    """
    # DIFFERENT is kept until the end: a later candidate may still be the same.
    agreement = Agreement.UNCLEAR
    for candidate in candidates:
        agreement_of_candidate = amount.compared(candidate)
        if agreement_of_candidate is Agreement.SAME:
            return Agreement.SAME
        if agreement_of_candidate is Agreement.DIFFERENT:
            agreement = Agreement.DIFFERENT
    return agreement


# --- a reference that says something else, too


def is_other_amount(beside: Beside) -> bool:
    """Whether an answer lacks an amount that is asked for, and has another amount in its place.

    Such an answer is wrong, however much of its text is right. An amount within a range of the
    reference is left to the words. Another result for any answer needs a higher version of
    ``answer_correct``.
    """
    if not beside.right.amounts or not _amounts_matter(beside):
        return False
    expected = _new_amounts(beside)
    if not _ASKS_AMOUNT.search(beside.query.lower()):
        # A year that is not asked for may be left out.
        expected = [amount for amount in expected if not _may_be_year(amount)]
    if not expected:
        return False
    amounts_of_case = (
        *beside.right.amounts,
        *beside.query_wording.amounts,
        *beside.right.years_of_dates,
    )
    others: list[Amount] = []
    for amount in beside.answer_amounts:
        if not amount_is_among(amount, amounts_of_case):
            others.append(amount)
    if not others or _is_any_between(expected, others):
        return False
    return _are_others_instead(beside, expected, others)


def _are_others_instead(
    beside: Beside, expected: Sequence[Amount], others: Sequence[Amount]
) -> bool:
    """Whether other amounts of the answer are in the place of those that are expected.

    An answer may name further numbers beside the right ones. They count against it only if they are
    of the kind that is missing. Another result for any answer needs a higher version of
    ``answer_correct``.

    Args:
        expected: the amounts of the reference that are asked for.
        others: amounts of the answer that neither reference nor question names.
    """
    is_any_different = False
    missing: list[Amount] = []
    for amount in expected:
        agreement = _amount_in_answer(beside, amount)
        if agreement is not Agreement.SAME:
            missing.append(amount)
        if agreement is Agreement.DIFFERENT:
            is_any_different = True
    if not is_any_different:
        return False
    dimensions = {amount.dimension for amount in missing if amount.dimension}
    if any(amount.dimension in dimensions for amount in others):
        return True
    # Numbers without a unit are compared only where the answer is brief, or lacks every amount:
    # whoever says much names other numbers, too. Brief is about twice the reference's length; the 4
    # leave room beside a reference of one word.
    is_brief = len(beside.answer_words) <= 2 * len(beside.right_words) + 4
    if not is_brief and len(missing) < len(expected):
        return False
    return any(not amount.dimension for amount in (*missing, *others))


def _amounts_matter(beside: Beside) -> bool:
    """Whether the question asks for the amounts of the reference, so that another one is a mistake.

    "Corporate bonds (82 %)" answers which asset got the most without its amount. An answer in all
    other words of the reference says another amount all the same. Another result for any answer
    needs a higher version of ``answer_correct``.
    """
    if _says_all_but_numbers(beside):
        return True
    query = beside.query.lower()
    if _ASKS_AMOUNT.search(query) or not query.strip():
        return True
    if _ASKS_OTHER.search(query):
        return False
    # Else where half of the reference's own words are numbers.
    numbers = [word for word in beside.right_words if _is_number_token(word)]
    return 2 * len(numbers) >= len(beside.new_words)


def _says_all_but_numbers(beside: Beside) -> bool:
    """Whether an answer has each word of the reference that is no number, and at least one.

    Then the answer makes the reference's statement, and another amount in it is a mistake whatever
    the question asks.
    """
    words = {word for word in beside.right_words if not _is_number_token(word)}
    return bool(words) and words <= beside.answer_tokens


def _is_number_token(word: str) -> bool:
    """Whether a token is a number, such as "$5" or "v2": it ends with a digit.

    Tokens of units stay words: they say what is counted.
    """
    return word[-1].isdecimal()


def _may_be_year(amount: Amount) -> bool:
    """Whether an amount may be a year: a whole number from 1500 to 2100 without a unit.

    A year says when something was, and not how much: an answer may leave it out unless it is asked
    for.
    """
    if amount.dimension:
        return False
    is_whole = amount.place == 1.0
    # Before 1500 a bare number is seldom a year, and 2100 leaves room for plans.
    return is_whole and 1500 <= amount.number <= 2100


def _is_any_between(bounds: Sequence[Amount], amounts: Iterable[Amount]) -> bool:
    """Whether one of some amounts is within a range of two: 1140 beside "1135-1154".

    An answer within the reference's range is neither its amounts nor a contradiction.

    Args:
        bounds: a range only where they are two, of one dimension.
    """
    if len(bounds) != 2:
        return False
    begin, end = bounds
    if begin.dimension != end.dimension:
        return False
    low = min(begin.value, end.value)
    high = max(begin.value, end.value)
    for amount in amounts:
        # The bounds themselves do not count: they are amounts of the reference, compared elsewhere.
        if amount.dimension == begin.dimension and low < amount.value < high:
            return True
    return False


def is_other_date(beside: Beside) -> bool:
    """Whether no date of the answer is one of the reference's, or no year of it is.

    A year alone counts only where the question asks for a time or an amount: see `_amounts_matter`.
    Another result for any answer needs a higher version of ``answer_correct``.
    """
    if beside.right.dates and beside.answer.dates:
        for date in beside.right.dates:
            if any(date.equals(answer_date) for answer_date in beside.answer.dates):
                return False
        return True
    # A year of the reference is among its dates or its amounts: without both it names none.
    if not beside.right.amounts and not beside.right.dates:
        return False
    return _amounts_matter(beside) and _is_other_year(beside)


def _is_other_year(beside: Beside) -> bool:
    """Whether reference and answer name years that the question does not, and have none in common.

    A year within the two of the reference ("1135-1154") is no other one. Another result for any
    answer needs a higher version of ``answer_correct``.
    """
    right_years = beside.right.years - beside.query_wording.years
    answer_years = beside.answer.years - beside.query_wording.years
    if not right_years or not answer_years:
        return False
    if len(right_years) == 2:
        begin, end = sorted(right_years)
        if any(begin < year < end for year in answer_years):
            return False  # a year within the reference's span, as "1135-1154"
    return right_years.isdisjoint(answer_years)


def is_other_identifier(beside: Beside) -> bool:
    """Whether the answer names another version, address or phone number than the reference.

    Identifiers of the question are left out: whoever answers it repeats them.
    """
    in_query = set(beside.query_wording.identifiers)
    right = set(beside.right.identifiers) - in_query
    answer = set(beside.answer.identifiers) - in_query
    # One side names no identifier but the question's own: then none is another one.
    if not right or not answer:
        return False
    return right.isdisjoint(answer)


_MOST_WORDS_AROUND_FREQUENCY = 6
"""Telling words of a reference in which "half" and "twice" are what it says."""


def is_other_frequency(beside: Beside) -> bool:
    """Whether the answer names another part of a whole, or another frequency, than the reference.

    Only of a brief reference, since in a long one "half" or "twice" is seldom the point. Another
    result for any answer needs a higher version of ``answer_correct``.
    """
    if len(beside.right_words) > _MOST_WORDS_AROUND_FREQUENCY:
        return False
    agreements = _frequencies_in_answer(beside)
    return Agreement.DIFFERENT in agreements and Agreement.SAME not in agreements


# --- what the question asks for

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
"""Questions of persons, places and reasons, and of yes or no: their answers are no amounts."""
_ASKED_SCALE = re.compile(r"\b(?:in|how many) (?:[a-z$€£]+ )?(thousand|million|billion)s?\b")
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_LARGEST_FRACTION = 2
"""The largest number without a unit that may be a percentage as a fraction: 1.15 for 115 %."""


class _Asked(Record):
    """The unit and the scale that a question asks for."""

    scale: float
    """1e6 of "in USD millions"; 1 where it names none."""
    is_percent: bool

    def readings(self, amount: Amount, *, is_share: bool) -> Iterator[Amount]:
        """What an amount may mean beside a question that names a scale or a unit.

        "74" answers "how much in USD millions" with 74 million. Each reading is compared: one that
        fits is enough to be right.

        Args:
            is_share: it is compared with a percentage, so that .12 may be 12 %.
        """
        is_scaled = self.scale != 1
        if amount.dimension:
            # "$74" of "in millions" may be 74 million; "$74,000,000" may not.
            is_small = amount.place < self.scale and amount.number < self.scale
            if is_scaled and is_small:
                yield amount.times(self.scale)
            return
        if is_scaled:
            yield amount.times(self.scale)
        if is_share and abs(amount.number) <= _LARGEST_FRACTION:
            # The number of .12 is read as 12, of percent.
            yield Amount(
                dimension="share",
                value=amount.number,
                number=amount.number * 100,
                place=amount.place * 100,
                step=amount.place,
            )


@lru_cache(maxsize=1024)
def _asked_unit(query: str) -> _Asked:
    """The scale and unit that a question asks for, read once for all answers to it.

    Without the scale "74" would be another amount than the "$74 million" of a reference.
    """
    lower = query.lower()
    scale = 1.0
    match = _ASKED_SCALE.search(lower)
    if match is not None:
        scale = _SCALES[match[1]]
    is_percent = "%" in lower or "percent" in lower or "per cent" in lower
    return _Asked(scale=scale, is_percent=is_percent)
