"""Whether two texts give the same answer, judged by their words alone."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from ragbench.text.tokens import multilingual_tokens

_SHORT = 12
"""Tokens up to which an answer is expected to be quoted as it is."""
_AGREES = 0.5
"""Token F1 from which two answers say the same."""
_COVERED = 0.7
"""Share of a long text's distinct tokens from which another text holds it."""
_RELATED = 0.15
"""Share of a long reference's distinct tokens from which a response may be a paraphrase of it."""
_NUMBER = re.compile(r"\d+")
_UNTELLING = frozenset({"yes", "no", "true", "false", "none", "both", "neither", "ja", "nein"})
"""Answers that stand in any chunk: their presence says nothing."""


def is_telling(answer: str) -> bool:
    """Whether finding a normalised answer in a text says anything."""
    return len(answer.encode()) >= 4 and answer.strip(".!") not in _UNTELLING


@lru_cache(maxsize=8192)
def holds_answer(chunk: str, answer: str) -> bool:
    """Whether a chunk holds an answer, both normalised: a short one verbatim, a long one mostly."""
    plain = answer.rstrip(".")
    at = chunk.find(plain)
    while at >= 0:
        before, after = chunk[max(at - 1, 0) : at], chunk[at + len(plain) : at + len(plain) + 1]
        if not (before.isalnum() and plain[:1].isalnum()) and not after.isdigit():
            return True
        at = chunk.find(plain, at + 1)
    wanted = set(multilingual_tokens(answer))
    if len(wanted) <= _SHORT:
        return False
    return len(wanted & set(multilingual_tokens(chunk))) >= _COVERED * len(wanted)


@lru_cache(maxsize=8192)
def answer_is_right(response: str, reference: str) -> bool | None:
    """Whether a response says what a reference does, judged by their words.

    It does when both share half of their tokens (F1), when it holds a short reference word for
    word, or when it holds most of a long one. Every number of the reference must stand in it: a
    wrong number is the one mistake that words hardly show.

    None where words cannot tell: the reference is a plain yes or no, the response neither.
    """
    given, wanted = multilingual_tokens(response), multilingual_tokens(reference)
    if not given or not wanted:
        return given == wanted
    if given == wanted or _is_within(wanted, given):
        return True
    if len(wanted) == 1 and wanted[0] in _UNTELLING:
        return None if _UNTELLING.isdisjoint(given[:1]) else False
    distinct = set(wanted)
    common = len(distinct & set(given)) / len(distinct)
    has_numbers = set(_NUMBER.findall(reference)) <= set(_NUMBER.findall(response))
    shared = (Counter(given) & Counter(wanted)).total()
    agrees = 2 * shared >= _AGREES * (len(given) + len(wanted))
    if has_numbers and (agrees or common >= _COVERED):
        return True
    return None if len(wanted) > _SHORT and common >= _RELATED else False


def _is_within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    if len(part) > len(whole):
        return False
    return any(
        whole[at : at + len(part)] == part
        for at, token in enumerate(whole[: len(whole) - len(part) + 1])
        if token == part[0]
    )
