"""Words that the comparison of answers knows: denials, opposites; from metrics/correct.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ragbench.text.tables import table


@cache
def correct_table() -> Mapping[str, Any]:
    """The file ``correct.toml``: words that the comparison of answers knows, and fitted weights.

    benchmarks/answer_correct.py writes the weights; with another word they are fitted anew.
    """
    return table("ragbench.metrics", "correct")


@cache
def word_list(kind: str) -> frozenset[str]:
    """The words of a kind in ``correct.toml``, such as ``denials``.

    They decide comparisons of answers, and are in a file of their own so that a language can be
    added without code. Another word changes values of ``answer_correct``.
    """
    return frozenset(correct_table()["words"][kind].split())


@cache
def opposites() -> Mapping[str, frozenset[str]]:
    """For each word with opposites in ``correct.toml`` those: "hot" has cold and cool.

    A row is "hot warm | cold cool": each word is the opposite of all on the other side.
    """
    opposites_by_word: dict[str, frozenset[str]] = {}
    for row in correct_table()["words"]["opposites"]:
        words_of_row = frozenset(row.replace("|", " ").split())
        for side in row.split("|"):
            # Words on one side mean much the same, and are no opposites of each other.
            words_of_side = side.split()
            for word in words_of_side:
                opposites_by_word[word] = words_of_row.difference(words_of_side)
    return opposites_by_word


@cache
def phrases(kind: str) -> tuple[str, ...]:
    """The phrases of a kind in ``correct.toml``, such as ``yes_phrases``.

    Each has a blank behind it: a text that begins with it begins with whole words. The tuple is the
    form that `str.startswith` takes.
    """
    return tuple(f"{phrase} " for phrase in correct_table()["words"][kind])


@cache
def affixes() -> tuple[tuple[str, str, bool], ...]:
    """Pairs of beginnings, and of endings, that turn a word's meaning: ``("", "in", True)``.

    By them "non-smoking" and "smoking", "careful" and "careless" are told apart.

    Returns:
        The two affixes, of which one may be empty, and whether they are beginnings.
    """
    pairs: list[tuple[str, str, bool]] = []
    words = correct_table()["words"]
    # A row is "careful | careless" in endings: one of both may be empty.
    for kind, is_prefix in (("prefixes", True), ("suffixes", False)):
        for row in words[kind]:
            affix, opposite = row.split("|")
            pairs.append((affix.strip(), opposite.strip(), is_prefix))
    return tuple(pairs)
