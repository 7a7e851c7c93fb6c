"""Yes and no, opposites, denials, letters and people: what an answer may say otherwise in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise

from ragbench.metrics.beside import Beside, stem, stems
from ragbench.metrics.word_lists import affixes, opposites, phrases, word_list
from ragbench.text.wording import wording

# --- yes and no

_PREAMBLE = re.compile(
    r"^\s*(?:based on|according to|from|given|as per|per|in|well|so)\b[^.,\n]{0,120},\s*", re.I
)
"""What comes before an answer: "According to the handbook, yes"."""
_MOST_WORDS_OF_SIDE = 4
"""Words of the longest phrase that is a yes or a no: "i am afraid not"."""
_LONGEST_SIDE = 80
"""Characters in which such a phrase is looked for behind a preamble."""


def side_of_words(tokens: Sequence[str]) -> int:
    """1 for a yes at the beginning, -1 for a no, else 0.

    A side is yes or no. The answer "Of course not, ..." is wrong where the reference says "yes",
    whatever follows. The phrases are in ``correct.toml``; without the order of the checks here "of
    course not" would be a yes.
    """
    if not tokens:
        return 0
    # Each phrase ends with a space, so that "sure" does not begin "surely".
    beginning = " ".join(tokens[:_MOST_WORDS_OF_SIDE]) + " "
    # Phrases come first: "of course not" begins with the "of course" of a yes. So those for no are
    # tried before those for yes; of single words none begins another.
    if beginning.startswith(phrases("no_phrases")):
        return -1
    if beginning.startswith(phrases("yes_phrases")):
        return 1
    if tokens[0] in word_list("yes"):
        return 1
    if tokens[0] in word_list("no"):
        return -1
    return 0


def side_of_answer(beside: Beside) -> int:
    """1 for a yes at the beginning of the answer, or behind a preamble, -1 for a no, else 0.

    A side is yes or no. Many answers begin with where they have it from: "According to the
    handbook, yes". Another result for any answer needs a higher version of ``answer_correct``.
    """
    # The beginning of the answer goes before a preamble: "Yes, according to ..." needs no search.
    side = side_of_words(beside.answer.tokens)
    if side:
        return side
    preamble = _PREAMBLE.match(beside.response)
    if preamble is None:
        return 0
    beginning = beside.response[preamble.end() :][:_LONGEST_SIDE]
    return side_of_words(wording(beginning).tokens)


_HINTS_OF_UNSURE = ("not ", "no ", "unknown", "unclear", "unable", "sorry", "couldn", "as an ai")
"""Every match of ``_UNSURE`` holds one of these: most answers hold none, and need no search."""
_UNSURE = re.compile(
    r"\b(?:unknown|unclear|unable|sorry|do(?:es)? not (?:know|mention|state|specify|provide)"
    r"|(?:cannot|could not|couldn.t) (?:find|determine|answer)"
    r"|not (?:sure|certain|known|clear|specified|mentioned|available)"
    r"|no (?:information|evidence|record|mention|answer)|as an ai)\b"
)


def is_unsure(answer: str) -> bool:
    """Whether an answer says somewhere that it does not know, as in "the date is not specified".

    A "yes" with such a remark is no clear yes; and ``answer_correct`` has a weight for it.
    """
    lower = answer.lower()
    if not any(hint in lower for hint in _HINTS_OF_UNSURE):
        return False
    return _UNSURE.search(lower) is not None


# --- opposites


def is_opposite(beside: Beside) -> bool:
    """Whether an answer has the opposite of a word of the reference, and not the word.

    "Prices fell" shares most words with "prices rose" and is wrong. Opposites are rows of
    ``correct.toml``, and words with opposed beginnings or endings. Another result for any answer
    needs a higher version of ``answer_correct``.
    """
    opposites_by_word = opposites()
    for word in beside.right.tokens:
        if word not in opposites_by_word or word in beside.answer_tokens:
            continue
        opposed = opposites_by_word[word] & _added_words(beside)
        if not opposed:
            continue
        # A question that names the opposite alone asks about it: the answer repeats it.
        names_opposite = not opposed.isdisjoint(beside.query_tokens)
        is_repeated = names_opposite and word not in beside.query_tokens
        if not is_repeated:
            return True
    return _has_opposed_affix(beside)


def _added_words(beside: Beside) -> set[str]:
    """The words that an answer has more often than the reference: only these can be opposites.

    Of "red, white and green" the red is no opposite of the green. But of "pressure falls when
    volume falls" one more falls than of "pressure rises when volume falls".
    """
    return set(Counter(beside.answer.tokens) - Counter(beside.right.tokens))


def _has_opposed_affix(beside: Beside) -> bool:
    """Whether an answer says hypertension for hypotension, invalid for valid, lessee for lessor.

    A list of opposites cannot hold all such pairs; their beginnings and endings are few. Another
    result for any answer needs a higher version of ``answer_correct``.
    """
    # Words of the question are repeated by many answers, and say nothing of their own.
    new_in_answer = beside.answer_tokens - beside.query_tokens
    for word in beside.new_words:
        is_missing = word not in beside.answer_tokens
        if is_missing and not new_in_answer.isdisjoint(opposed_forms(word)):
            return True
    return False


_SHORTEST_BASE = 3
"""Letters beside a beginning or ending that turns a word."""
_SHORTEST_PLAIN = 5
"""Letters of a word that a beginning is put before: of shorter ones too many are another word
with such letters before it, as "act" and "exact"."""


@lru_cache(maxsize=1 << 14)
def opposed_forms(word: str) -> frozenset[str]:
    """The forms of a word with the opposite beginning or ending: "invalid" of "valid".

    Most forms are no words of English, which does no harm: they are only compared with the words of
    an answer. The pairs of beginnings and endings are in ``correct.toml``.
    """
    forms: set[str] = set()
    for left_affix, right_affix, is_prefix in affixes():
        shortest = _SHORTEST_BASE
        if not left_affix:
            shortest = _SHORTEST_PLAIN  # one of the two words has no beginning, as "valid"
        for affix, opposed in ((left_affix, right_affix), (right_affix, left_affix)):
            if is_prefix and word.startswith(affix):
                base = word.removeprefix(affix)
                if len(base) >= shortest:
                    forms.add(opposed + base)
            elif not is_prefix and word.endswith(affix):
                base = word.removesuffix(affix)
                if len(base) >= _SHORTEST_BASE:
                    forms.add(base + opposed)
    return frozenset(forms)


# --- letters, people, things

_LETTERED = re.compile(r"\b(\w{2,}) ([A-Z])\b(?![.'’&-]?\w)")
"""A word with a capital letter behind it, which tells which thing is meant: Annex A."""
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*\.?")


def has_other_letter(beside: Beside) -> bool:
    """Whether an answer has another letter behind a word of the reference: hepatitis B for A.

    The letter is the whole difference between two things, and lost among the words that are the
    same. Another result for any answer needs a higher version of ``answer_correct``.
    """
    lettered = _LETTERED.findall(beside.reference)
    if not lettered:
        return False
    lettered_in_answer = _LETTERED.findall(beside.response)
    for word, letter in lettered:
        # The letters that the answer has behind the same word; it may name several such things.
        letters_in_answer: set[str] = set()
        for answer_word, answer_letter in lettered_in_answer:
            if answer_word.lower() == word.lower():
                letters_in_answer.add(answer_letter)
        # No letter behind the word is no contradiction: the answer may just leave it out.
        if letters_in_answer and letter not in letters_in_answer:
            return True
    return False


def is_other_person(beside: Beside) -> bool:
    """Whether an answer gives the reference's family name another first name: Emily Brontë.

    Half of the words are right then, and the person is another one. Not where the first name is in
    the answer, too, or where title, question or a short form explain the other word. Another result
    for any answer needs a higher version of ``answer_correct``.
    """
    names = _CAPITALISED.findall(beside.reference)
    is_name_alone = " ".join(names) == beside.reference.strip(" .")
    # A first and a family name, perhaps with one between them.
    if not is_name_alone or not 2 <= len(names) <= 3:
        return False
    first_name = names[0]
    family_name = names[-1]
    if family_name not in beside.response:
        return False
    for word in _CAPITALISED.findall(beside.response):
        has_its_initial = f"{word[0]}." == first_name
        if word == first_name or has_its_initial:
            return False
    words_before = _capitalised_before(family_name, beside.response)
    names_and_query = {*names, *_CAPITALISED.findall(beside.query)}
    titles = word_list("before_names")
    for word in words_before:
        plain_word = word.rstrip(".")
        if word in names_and_query or plain_word.lower() in titles:
            return False
        # "Rob Smith" may be short for "Robert Smith", or the other way round.
        if first_name.startswith(plain_word) or word.startswith(first_name):
            return False
    return bool(words_before)


def _capitalised_before(name: str, text: str) -> set[str]:
    """The words with a capital letter right before a name in a text: first names, or titles.

    They show which person of a family is meant.

    Args:
        name: a family name, as it is written.
    """
    words_before: set[str] = set()
    for before, match in pairwise(_CAPITALISED.finditer(text)):
        # One sign between the two words at most, the blank: a period ends the first sentence.
        is_adjacent = before.end() + 1 >= match.start()
        if match[0] == name and is_adjacent:
            words_before.add(before[0])
    return words_before


def counts_other_things(beside: Beside) -> bool:
    """Whether an answer counts other things with a number: 12 seats for 12 tickets.

    Both may be words for the same thing: that is no contradiction, and the answer is left open. A
    question that names one of the two ("How many tickets?") says what is counted, so that the other
    word is likely another word for it. Another result for any answer needs a higher version of
    ``answer_correct``.
    """
    things = _things_by_number(beside.right.tokens)
    if not things:
        return False
    things_in_answer = _things_by_number(beside.answer.tokens)
    answer_stems = stems(beside.answer_tokens)
    for number, thing in things.items():
        thing_in_answer = things_in_answer.get(number)
        if thing_in_answer is None:
            continue
        # As written, not by stems: whether the question names one of the two things.
        is_in_question = not beside.query_tokens.isdisjoint((thing, thing_in_answer))
        if stem(thing) not in answer_stems and not is_in_question:
            return True
    return False


def _things_by_number(tokens: Sequence[str]) -> dict[str, str]:
    """The word right behind each number of a text, by that number: ``{"12": "tickets"}``.

    Such a word says what is counted. Common words ("12 of the") and further numbers are none.
    """
    common = word_list("common")
    # Of a number that comes twice the last thing counts: one is enough to find a difference.
    things: dict[str, str] = {}
    for number, word in pairwise(tokens):
        is_number = number[-1].isdecimal()
        is_thing = word not in common and not word[-1].isdecimal()
        if is_number and is_thing:
            things[number] = word
    return things


# --- denials

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE = re.compile(r"[.;!?\n]\s+|, |\bbut\b")
_REACH_OF_DENIAL = 4
"""Words between a denial and what it denies."""


def is_denied(beside: Beside) -> bool:
    """Whether every clause of an answer with the reference's words denies them: "is not X".

    Such an answer has all the right words and says the contrary. Words of denial are in
    ``correct.toml``; where the reference or the question denies itself, nothing is decided. Another
    result for any answer needs a higher version of ``answer_correct``.
    """
    denials = word_list("denials")
    if denials.isdisjoint(beside.answer_tokens):
        return False
    # "without" in a question or reference denies nothing: "What may be done without a permit?"
    denials_elsewhere = denials - {"without"}
    if not denials_elsewhere.isdisjoint((*beside.right.tokens, *beside.query_tokens)):
        return False
    right_stems = stems(beside.new_words)
    if not right_stems or not right_stems <= stems(beside.answer_tokens):
        return False
    # Where no clause has all the right words, a whole sentence may.
    for separator in (_CLAUSE, _SENTENCE):
        clauses: list[tuple[str, ...]] = []
        for part in separator.split(beside.response):
            tokens = wording(part).tokens
            if right_stems <= stems(tokens):
                clauses.append(tokens)
        if clauses:
            return all(_denies(clause, right_stems, denials) for clause in clauses)
    return False


def _denies(
    clause: Sequence[str], right_stems: AbstractSet[str], denials: AbstractSet[str]
) -> bool:
    """Whether a word such as "not" is right before the first of the reference's words in a clause.

    Up to `_REACH_OF_DENIAL` words may be between: "is not the capital". A denial further away
    belongs to something else.

    Args:
        clause: its words, in their order.
        right_stems: of the words of the reference.
        denials: words that deny, such as "not" and "never".
    """
    for position, word in enumerate(clause):
        if stem(word) in right_stems:
            words_before = clause[max(position - _REACH_OF_DENIAL, 0) : position]
            return not denials.isdisjoint(words_before)
    return False
