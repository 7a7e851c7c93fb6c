"""Lists beside lists, and words beside the same words in another order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ragbench.metrics.beside import Beside
from ragbench.metrics.word_lists import word_list
from ragbench.text.wording import wording

_ITEM = re.compile(r"[,;/\n•]|\band\b|\bor\b|\bund\b|\bet\b|\by\b|&|、|と|和")
"""What parts the items of a list."""
_ALTERNATIVE = re.compile(r"[,;/]|\bor\b")
"""What parts alternatives, of which an answer offers several."""
_MOST_WORDS_OF_ITEM = 3
"""Telling words of an item: a text with longer parts is sentences, and no list."""


@lru_cache(maxsize=1024)
def list_items(text: str, separator: re.Pattern[str] = _ITEM) -> tuple[frozenset[str], ...]:
    """The items of a list, each by its telling words; none where the text is no list.

    A list in an answer is compared item by item: one replaced item makes it wrong, another order
    does not. Text with long parts is sentences, and compared otherwise.
    """
    common = word_list("common")
    items: list[frozenset[str]] = []
    for part in separator.split(text.strip(" .")):
        words = frozenset(wording(part).tokens) - common
        # One long part makes the whole text sentences: half a list is not compared.
        if len(words) > _MOST_WORDS_OF_ITEM:
            return ()
        if words:
            items.append(words)
    # A single item is a fact, which words compare better.
    if len(items) < 2:
        return ()
    return tuple(items)


def is_other_part(beside: Beside) -> bool:
    """Whether an answer's list has another item in the place of one: Portugal for Spain.

    Most words of such an answer are right, and the answer is wrong. An item that may be a short
    form, or only repeats the question, replaces nothing. Another result for any answer needs a
    higher version of ``answer_correct``.
    """
    items = list_items(beside.reference)
    if not items:
        return False
    answer_items = list_items(beside.response)
    if len(answer_items) != len(items):
        return False
    missing = _missing_items(beside, items)
    # Where none of the items is there, the list may be the same in other words.
    if not missing or len(missing) == len(items):
        return False
    right_tokens = set(beside.right.tokens)
    missing_words = frozenset[str]().union(*missing)
    replacements = 0
    for item in answer_items:
        is_foreign = item.isdisjoint(right_tokens)
        is_repeated = item <= beside.query_tokens
        if is_foreign and not is_repeated and not _is_short_form(item, missing_words):
            replacements += 1
    return replacements >= len(missing)


def _missing_items(beside: Beside, items: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The items of a reference's list that an answer does not name in full.

    An answer without any of them has the list in other words, and one without some of them may have
    replaced these.

    Args:
        items: of the reference, each by its words.
    """
    return [item for item in items if not item <= beside.answer_tokens]


def _is_short_form(item: Iterable[str], words: Iterable[str]) -> bool:
    """Whether a word of an item begins one of some words, or the other way round: Vince, Vincent.

    Such an item may be the same in another form, and is no replacement of it.

    Args:
        words: those of the items that seem to be missing.
    """
    for word in words:
        for word_of_item in item:
            if word.startswith(word_of_item) or word_of_item.startswith(word):
                return True
    return False


def lacks_part(beside: Beside) -> bool:
    """Whether an answer's list has fewer items than the reference: "red, white" of three colours.

    The shorter list may be enough: words do not show which items matter. So the answer is left
    open. Another result for any answer needs a higher version of ``answer_correct``.
    """
    items = list_items(beside.reference)
    if not items:
        return False
    answer_items = list_items(beside.response)
    # An item that comes twice is one.
    is_shorter = 0 < len(set(answer_items)) < len(set(items))
    return is_shorter and bool(_missing_items(beside, items))


def lacks_part_asked_for(beside: Beside) -> bool:
    """Whether an answer's list lacks an item, and the question asks for the reference's number.

    "Which three colours ..." makes two colours a wrong answer, which `lacks_part` alone leaves
    open. Another result for any answer needs a higher version of ``answer_correct``.
    """
    if not lacks_part(beside):
        return False
    count = len(list_items(beside.reference))
    return str(count) in beside.query_tokens


def is_turned_round(beside: Beside) -> bool:
    """Whether the words of the reference are in another order, as in "B beat A".

    The items of a list may come in any order. All words are right then, and the statement may be
    the opposite: the answer is left open. Another result for any answer needs a higher version of
    ``answer_correct``.
    """
    words = beside.right_words
    answer_words = beside.answer_words
    has_same_words = sorted(words) == sorted(answer_words)
    # Two words are a name, which may be turned round: "Lovelace, Ada".
    if len(words) < 3 or words == answer_words or not has_same_words:
        return False
    items = list_items(beside.reference)
    if not items:
        return True
    return set(items) != set(list_items(beside.response))


def is_hedged(beside: Beside) -> bool:
    """Whether an answer offers the reference among alternatives: "Ann, Bob or Carl".

    An answer that names several may be right by chance, so it is left open. Where the reference or
    the question has an "or" itself, the answer only repeats it. Another result for any answer needs
    a higher version of ``answer_correct``.
    """
    if " or " not in beside.response:
        return False
    if " or " in beside.reference or " or " in beside.query.lower():
        return False
    # Among many other words an "or" parts something else. Three times the reference leaves room for
    # three alternatives, and the 8 for the words around them.
    most_words = 3 * len(beside.right_words) + 8
    if len(beside.answer_words) > most_words:
        return False
    alternatives = list_items(beside.response, separator=_ALTERNATIVE)
    return any(not item.isdisjoint(beside.right_words) for item in alternatives)
