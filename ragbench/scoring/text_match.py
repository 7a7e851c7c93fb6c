"""Whether a retrieved text holds a gold text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from ragbench.records.cases import Case
from ragbench.scoring.tokenise import multilingual_tokens

__all__ = ["gold_texts", "holds", "normalised"]

_LONG = 40
"""Characters from which a text is long enough to be recognised when it is not verbatim."""
_SHARED = 0.5
"""Smallest share of the shorter text's words that the longer one has: tells most pairs apart before
their characters are compared, which takes a millisecond."""
_SIMILAR = 90.0
"""Smallest partial ratio (0 to 100) of two texts that count as the same passage."""
_TELLING = 20
"""UTF-8 bytes from which a span hardly turns up by chance: 20 Latin or 7 Chinese letters."""
_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=4096)
def normalised(text: str) -> str:
    """The text in NFKC, without regard to case and kind of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def gold_texts(case: Case) -> tuple[str, ...] | None:
    """The normalised texts that a relevant chunk holds, each once.

    These are the evidence spans, as they do not depend on how documents were cut; but the
    reference contexts where a span is so short that it turns up by chance. Short spans alone are
    used as they are: a passage with the answer in it counts as relevant (Karpukhin et al. 2020,
    arXiv:2004.04906).

    Returns:
        None when neither is known; empty when it is known that there is none.
    """
    spans = _distinct(evidence.text for evidence in case.evidence)
    if spans and all(len(span.encode()) >= _TELLING for span in spans):
        return spans
    if case.reference_contexts is not None:
        return _distinct(case.reference_contexts)
    return spans or None


def holds(chunk: str, gold: str) -> bool:
    """Whether a chunk holds a gold text, both normalised.

    It does when the gold text stands in it. Of two long texts it is enough that the shorter one
    resembles a part of the longer one (half of its words, and rapidfuzz's partial ratio at least
    90), so that chunks cut elsewhere and small changes of wording are recognised; but every number
    of the shorter must stand in the longer, since near-duplicates often differ in just those.
    """
    if gold in chunk:
        return True
    shorter, longer = sorted((gold, chunk), key=len)
    if len(shorter) < _LONG:
        return False
    words, others = _words(shorter), _words(longer)
    if len(words & others) < _SHARED * len(words):
        return False
    if not set(_NUMBER.findall(shorter)) <= set(_NUMBER.findall(longer)):
        return False
    from rapidfuzz.fuzz import partial_ratio

    return bool(partial_ratio(shorter, longer, score_cutoff=_SIMILAR))


@lru_cache(maxsize=512)
def _words(text: str) -> frozenset[str]:
    return frozenset(multilingual_tokens(text))


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found for text in texts if (found := normalised(text))))
