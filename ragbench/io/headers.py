"""What the header of a column suggests that people wrote for people, such as ``Bot reply``.

`ragbench.io.proposals` makes options of it, for its user to check. Nothing is read by it alone,
because a wrong role gives wrong scores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache

from ragbench.io.fields import field_names, name_words

_FILE = "headers.toml"
_MIN_TYPO = 5
"""Letters of a word in which a typing error is looked for: shorter words resemble too many."""
_TYPO_CUTOFF = 0.8
"""Similarity of a word with a typing error: two swapped letters of six (``anwser``) have 0.83."""
_LETTERS = {"q": "question", "a": "answer"}
"""Nouns in headers such as ``Customer Q`` and ``Bot A``."""
_NUMBER = re.compile(r"(\d{1,3})(?:st|nd|rd|th)?", re.IGNORECASE)
_NUMBER_SIGN = re.compile(r"[#№](?!\s*\d)|\bn[°º](?!\s*\d)", re.IGNORECASE)
"""A sign for a number that the header does not have: the cells have it."""
_NOUNS = frozenset({"question", "answer", "hit", "source", "result", "time", "other"})
"""Kinds of words beside which a letter is no noun but a position, such as in ``Source A``."""

SIDES_OF: dict[str, tuple[str, str]] = {
    "answer": ("reference", "response"),
    "source": ("reference_contexts", "retrieved_contexts"),
}
"""A noun that leaves open whose it is, with the field of a person and the field of a system."""


@cache
def header_meaning(name: str) -> str:
    """The field that a column's header suggests, a key of `SIDES_OF`, or an empty text.

    A suggestion is only shown to the user, as an option to copy: no column is read by it alone.

    Example:
        >>> [header_meaning(name) for name in ("Question asked", "Bot reply", "Antwort", "Topic")]
        ['query', 'response', 'answer', '']
    """
    if _NUMBER_SIGN.search(name):
        return ""
    words = header_words(name)
    kinds: set[str] = set()
    for word in words:
        kinds |= _kinds_of(word)
    # Only where no word is a noun: in "Source A" the letter is a position.
    if kinds.isdisjoint(_NOUNS) and words and words[-1] in _LETTERS:
        kinds.add(_LETTERS[words[-1]])
    if "time" in kinds:
        # A time counts only if its header names the unit.
        units = kinds & {"seconds", "milliseconds"}
        return units.pop() if len(units) == 1 else ""
    if "other" in kinds:
        return ""
    if "answer" in kinds:
        return _field_of_noun(kinds, "answer")
    if "question" in kinds:
        return "" if kinds & {"hit", "source"} else "query"
    return _field_of_noun(kinds, _noun_without_question(kinds))


def _noun_without_question(kinds: set[str]) -> str:
    """The noun of a header without question or answer: hit, source or answer; empty for none.

    Args:
        kinds: the kinds of the header's words.
    """
    if kinds & {"hit", "source"}:
        return "hit" if "hit" in kinds else "source"
    if kinds & {"right", "system"}:
        # "Expected" and "Expected result" beside "Actual": answers.
        return "answer"
    return "source" if "result" in kinds else ""


def _field_of_noun(kinds: set[str], noun: str) -> str:
    """The field that a noun in a header means, by its owner: a person (right) or a system.

    The noun itself where the header leaves the owner open: only the user knows it then.

    Args:
        kinds: the kinds of the header's words.
        noun: ``answer``, ``source``, ``hit``, or empty.
    """
    if not noun:
        return ""
    right_field, system_field = SIDES_OF["source" if noun == "hit" else noun]
    is_right = "right" in kinds
    is_of_system = not kinds.isdisjoint({"system", "model"})
    if is_right and is_of_system:
        return "source" if noun == "hit" else noun
    if is_right:
        return right_field
    # A header that speaks of hits is of a system: only a system finds any.
    if is_of_system or noun == "hit":
        return system_field
    return noun


def numbered_headers(names: Sequence[str]) -> list[list[str]]:
    """Groups of headers that differ in a position alone, such as ``Hit 1`` and ``Hit 2``.

    Their columns are one list, in the order of the positions. A position is a number (``Hit 1``), a
    letter (``Source A``) or a word (``First source``). Only names of sources are grouped: a
    numbered answer is one of several systems.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        stem_and_position = _without_position(name)
        if stem_and_position is None:
            continue
        stem, position = stem_and_position
        if header_meaning(stem) in ("source", "retrieved_contexts"):
            groups.setdefault(stem, []).append((position, name))
    groups_in_order: list[list[str]] = []
    for group in groups.values():
        if len(group) > 1:  # a single number is a part of the name
            groups_in_order.append([name for _, name in sorted(group)])
    return groups_in_order


def _without_position(name: str) -> tuple[str, int] | None:
    """A header without its position, and the position; None unless it has exactly one.

    A position is a number, a letter at the end or a word such as ``first``: columns that differ in
    it alone form one list of sources.
    """
    numbers = _NUMBER.findall(name)
    if len(numbers) == 1:
        return " ".join(header_words(_NUMBER.sub(" ", name))), int(numbers[0])
    words = header_words(name)
    for place, word in enumerate(words):
        if word in _ordinals():
            return " ".join([*words[:place], *words[place + 1 :]]), _ordinals()[word]
    # A letter within a name is a word: "texte a lire".
    if not numbers and len(words) > 1 and words[-1] in _POSITION_LETTERS:
        return " ".join(words[:-1]), 1 + _POSITION_LETTERS.index(words[-1])
    return None


_POSITION_LETTERS = "abcdefgh"


@cache
def _ordinals() -> dict[str, int]:
    """The position, from 1, that each word such as ``second`` stands for, in several languages.

    The words come from ``headers.toml``, a row for each position.
    """
    position_of: dict[str, int] = {}
    for position, words in enumerate(field_names("positions", _FILE).values(), start=1):
        position_of.update(dict.fromkeys(words, position))
    return position_of


def header_words(name: str) -> list[str]:
    """The words of a header without case and accents: people type ``Réponse`` and ``reponse``.

    Words of tables such as ``headers.toml`` are in the same form: change the two together.
    """
    letters = unicodedata.normalize("NFKD", name)
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return name_words(plain)


@cache
def _vocabulary() -> dict[str, frozenset[str]]:
    """The words that people's headers are made of, each with its kinds.

    A kind is a noun such as ``question``, an owner such as ``system``, a unit, or ``other``.
    """
    kinds_of: dict[str, set[str]] = {}
    for table in ("nouns", "sides", "units"):
        for kind, words in field_names(table, _FILE).items():
            for word in words:
                kinds_of.setdefault(word, set()).add(kind)
    for word in field_names("others", _FILE)["words"]:
        kinds_of.setdefault(word, set()).add("other")
    return {word: frozenset(kinds) for word, kinds in kinds_of.items()}


@cache
def _kinds_of(word: str) -> frozenset[str]:
    """The kinds of a header's word; of a compound those of its parts.

    A misspelled word has the kinds of the known word that it resembles; any other word has none.
    """
    vocabulary = _vocabulary()
    if word in vocabulary:
        return vocabulary[word]
    for part in field_names("compounds", _FILE)["words"]:
        if word.endswith(part):
            return vocabulary[part] | _kinds_of_part(word.removesuffix(part))
        if word.startswith(part):
            return vocabulary[part] | _kinds_of_part(word.removeprefix(part))
    if len(word) < _MIN_TYPO:
        return frozenset()
    similar_words = get_close_matches(word, _long_words(), n=1, cutoff=_TYPO_CUTOFF)
    return vocabulary[similar_words[0]] if similar_words else frozenset()


def _kinds_of_part(part: str) -> frozenset[str]:
    """The kinds of the rest of a compound word, which may end with a linking ``s`` or ``n``.

    German joins nouns so: ``Antwortszeit`` has the parts ``antwort`` and ``zeit``.
    """
    vocabulary = _vocabulary()
    for spelling in (part, part.removesuffix("s"), part.removesuffix("n")):
        if spelling in vocabulary:
            return vocabulary[spelling]
    return frozenset()


@cache
def _long_words() -> tuple[str, ...]:
    """The known words of headers that are long enough to be recognised with a typing error.

    Short words resemble too many others. Words of other columns are left out, because they would
    hide a question behind a likeness.
    """
    words: list[str] = []
    for word, kinds in _vocabulary().items():
        if len(word) >= _MIN_TYPO and "other" not in kinds:
            words.append(word)
    return tuple(words)
