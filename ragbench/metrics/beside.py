"""An answer beside a reference: their words, and what the comparison of both comes to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from ragbench.metrics.word_lists import word_list
from ragbench.text.amounts import Agreement, Amount
from ragbench.text.letters import as_written
from ragbench.text.tokens import tokenise
from ragbench.text.wording import Wording, wording

LONGEST = 20_000
"""Characters of a text that are read: nobody answers at such a length."""
_MOST_WORDS_OF_FACT = 12
"""Telling words from which a reference is no longer one fact."""
_ENDINGS = ("ing", "ies", "es", "ed", "s", "ly")
"""Of two that fit the first one is taken off: "es" before "s"."""


class Comparison(NamedTuple):
    """What the comparison of an answer with a reference comes to."""

    agreement: Agreement
    reason: str = ""
    is_all: bool = False
    """The reference says nothing else: the comparison alone decides."""


@lru_cache(maxsize=1 << 16)
def root(word: str) -> str:
    """What a word shares with all words that are made of it: "encapsulate" and "encapsulation".

    By roots a short answer that says "encapsulation" for "encapsulates" counts as the same fact.
    Among the hundreds of words of a long reference too many share a root: those are compared by
    `stem`. Another result for any answer needs a higher version of ``answer_correct``.
    """
    word_root = "".join(tokenise(word))
    if not word_root:  # the word is a mark alone
        return word
    return word_root


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without an English inflection, if three letters stay: "pays" and "pay" are one.

    By stems an answer may use another form of a reference's word. The stem of a word need be no
    word; it is only compared with other stems. The weights of `answer_correct` were fitted with
    these stems (benchmarks/answer_correct.py).
    """
    for ending in _ENDINGS:
        letters_left = len(word) - len(ending)
        # A word of five letters on "ing" may lose them all: three left are mostly still a stem.
        if letters_left >= 3 and word.endswith(ending):
            return word[:letters_left]
    return word


def stems(words: Iterable[str]) -> set[str]:
    """The stems of some words, as a set: texts are compared by which stems they share.

    Both sides of a comparison must go through it: a stem need be no word.
    """
    return set(map(stem, words))


class Beside:
    """An answer beside a reference."""

    def __init__(self, query: str, response: str, reference: str) -> None:
        """Takes an answer apart beside a reference: the words of both that say something.

        All comparisons of an answer read these fields: ``right...`` is of the reference,
        ``answer...`` of the answer, ``query...`` of the question. Where only an accent parts two
        words, the answer's is written as in the reference. Texts are cut after `LONGEST`
        characters.
        """
        self.query = query[:LONGEST]
        self.response = response[:LONGEST]
        self.reference = reference[:LONGEST]
        self.query_wording = wording(self.query)
        self.right = wording(self.reference)
        """The wording of the reference."""
        self.answer: Wording = wording(self.response)
        # Accents need letters beyond ASCII: most pairs have none, and skip the comparison.
        if not (self.response.isascii() and self.reference.isascii()):
            tokens = as_written(self.answer.tokens, self.right.tokens)
            self.answer = self.answer._replace(tokens=tokens)
        # Chosen once from all three texts, so that a word counts in all of them or in none.
        common = self._common_words()
        # In the order of the text, repeated ones too: their number and places count.
        self.right_words = _telling_words(self.right.tokens, common)
        self.answer_words = _telling_words(self.answer.tokens, common)
        self.query_words = _telling_words(self.query_wording.tokens, common)
        # A reference of so many words states several facts, which other rules and weights compare.
        self.is_long = len(self.right_words) > _MOST_WORDS_OF_FACT
        new_words = tuple([word for word in self.right_words if word not in self.query_tokens])
        self.new_words = new_words or self.right_words
        """Words of the reference that are not in the question; all of them where the question has
        each."""

    def _common_words(self) -> frozenset[str]:
        """The words that say nothing by themselves, such as "a" and "it", unless names here.

        In "hepatitis A", "IT department" and "WHO" the capitals show that the word says something,
        and a wrong letter must not be overlooked. Another result for any answer needs a higher
        version of ``answer_correct``.
        """
        common = word_list("common")
        is_shouted = self.response.isupper() or self.reference.isupper()
        if is_shouted:  # in a text that is all capitals they show no names
            return common
        text = f"{self.reference} {self.response} {self.query}"
        names = {name.lower() for name in _CAPITALS.findall(text)}
        if names.isdisjoint(common):
            return common
        return common - names

    @cached_property
    def query_tokens(self) -> frozenset[str]:
        """All words of the question, as tokens of its wording.

        What an answer only repeats from them is no answer yet, so the comparisons leave such words
        out.
        """
        return frozenset(self.query_wording.tokens)

    @cached_property
    def answer_tokens(self) -> frozenset[str]:
        """All words of the answer that lies beside a reference, common ones such as "the" too.

        The rules look here whether the answer says a word at all; ``answer_words`` has only the
        words that tell something.
        """
        return frozenset(self.answer.tokens)

    @cached_property
    def answer_amounts(self) -> tuple[Amount, ...]:
        """The answer's amounts, with the years of its dates: "1998" and "12 May 1998" compare.

        A reference that names the year alone is met by a whole date of the answer.
        """
        return (*self.answer.amounts, *self.answer.years_of_dates)


_CAPITALS = re.compile(r"[A-Z](?<!\w.)(?<![.!?:\n]\s.)(?<!^.)[A-Z]*\b(?![.'’])")
"""A word in capitals within a sentence: at its beginning "A" is an article.

What may not come before the word is looked for behind its first letter: most letters are small,
and need no look back.
"""


def _telling_words(tokens: Sequence[str], common: frozenset[str]) -> tuple[str, ...]:
    """The words of a text that say something; all of its words where none does.

    Without the exception, a reference such as "to be" would have no word to compare an answer by.
    Another result for any answer needs a higher version of ``answer_correct``.

    Args:
        common: the words that say nothing, such as "the".
    """
    telling = tuple([token for token in tokens if token not in common])
    if not telling:
        return tuple(tokens)
    return telling
