"""What an answer says otherwise than a reference, or the same, where that can be compared.

Amounts, dates, times, identifiers, yes and no, opposites, denials, people and lists are compared
by what they are. What cannot be compared is left open: only *different* makes an answer wrong, and
only *the same* makes it right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ragbench.metrics.beside import Beside, Comparison
from ragbench.metrics.compared_amounts import (
    compared_by_amounts,
    is_other_amount,
    is_other_date,
    is_other_frequency,
    is_other_identifier,
)
from ragbench.metrics.compared_lists import (
    is_hedged,
    is_other_part,
    is_turned_round,
    lacks_part,
    lacks_part_asked_for,
)
from ragbench.metrics.compared_words import (
    counts_other_things,
    has_other_letter,
    is_denied,
    is_opposite,
    is_other_person,
    is_unsure,
    side_of_answer,
    side_of_words,
)
from ragbench.text.amounts import Agreement

_DIFFERENCES: Mapping[str, Callable[[Beside], bool]] = {
    "another amount": is_other_amount,
    "another date": is_other_date,
    "another identifier": is_other_identifier,
    "another part or frequency": is_other_frequency,
    "another letter": has_other_letter,
    "another person of that family name": is_other_person,
    "the answer is denied": is_denied,
    "another part of the list": is_other_part,
    "part of the list is missing": lacks_part_asked_for,
    "the opposite": is_opposite,
}
"""By their reasons: the first that holds is the one that is shown."""
_CHOICE = re.compile(r"\(?[A-Ha-h][.)]?")
_CHOSEN = re.compile(
    r"\s*(?:(?:the )?(?:correct |right )?(?:answer|option|choice)(?: is)?:?\s*)?"
    r"\(?([A-Ha-h])(?:[.):]|\s*$)",
    re.I,
)
_UNCLEAR = Comparison(Agreement.UNCLEAR)


def compared(beside: Beside) -> Comparison:
    """How an answer compares with a reference by the first kind of statement that can be compared.

    A kind is an amount, a date, yes or no, a choice, an opposite. DIFFERENT makes the answer wrong
    and SAME right, whatever words they share; UNCLEAR leaves it to the words
    (`ragbench.metrics.correct`). The order of the checks decides which reason is shown: a change of
    it needs a higher version of ``answer_correct``.
    """
    right_side = side_of_words(beside.right.tokens)
    # A yes or no at the beginning goes before the amounts behind it.
    if beside.right.is_typed and not right_side:
        return compared_by_amounts(beside)
    # A reference of one letter goes before words: it has none that could be compared.
    if _CHOICE.fullmatch(beside.reference):
        return _compared_by_choice(beside)
    if beside.is_long:
        return _UNCLEAR  # people called most of what looked like an opposite right
    if right_side:
        side = side_of_answer(beside)
        if side == -right_side:
            return Comparison(Agreement.DIFFERENT, "yes for no, or no for yes")
    else:
        side = 0
    for reason, differs in _DIFFERENCES.items():
        if differs(beside):
            return Comparison(Agreement.DIFFERENT, reason)
    # With more words than "yes" the reference gives a reason, which words must compare.
    is_side_alone = bool(right_side) and len(beside.right.tokens) == 1
    if is_side_alone and side == right_side and not is_unsure(beside.response):
        return Comparison(Agreement.SAME, "the same side", is_all=True)
    return _UNCLEAR


def _compared_by_choice(beside: Beside) -> Comparison:
    """How an answer compares with a reference that is a letter, one of a question's choices.

    The letter is the whole answer: "B" for "C" is wrong however many words are shared. Open where
    the answer does not begin with a letter; it may repeat the text of the choice.
    """
    choice = _CHOSEN.match(beside.response)
    if choice is None:
        return _UNCLEAR
    # `is_all`: the letter decides alone, without the words around it.
    if choice[1].upper() == beside.right.tokens[0].upper():
        return Comparison(Agreement.SAME, "the same choice", is_all=True)
    return Comparison(Agreement.DIFFERENT, "another choice", is_all=True)


def may_say_otherwise(beside: Beside) -> bool:
    """Whether an answer has the reference's words, and may say something else with them, or less.

    Words alone would call such an answer right: "B beat A" for "A beat B". None of these checks
    proves a mistake, so the answer is left open (`OPEN` in `ragbench.metrics.correct`), not called
    wrong.
    """
    # One of these doubts is enough to leave the answer open.
    return (
        is_turned_round(beside)
        or is_hedged(beside)
        or lacks_part(beside)
        or counts_other_things(beside)
    )
