"""What a validator's word is worth: how often it was true, over domains that it did not learn from.

A reader's own probability is twice too steep outside the texts that it learned from, so a curve
over several domains flattens it (`Level`), and the words of its verdicts are cut there. The shares
that were true are those of domains that the curve was not fitted on. All numbers are in
``worth.toml``, which ``python -m benchmarks.validation_worth`` writes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ragbench.core.record import Record
from ragbench.core.validation import AnswerWord, AnswerWorth
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import table

_FILE = ("ragbench.validators", "worth")
"""The package and the name of the table that holds all numbers."""
LARGEST_POOL = 20
"""Chunks of the largest pools that were measured: more chunks count as so many."""


class WordLimit(Record):
    """Where a word begins, and how often it was true."""

    word: AnswerWord
    at_least: float
    """The lowest probability of it."""
    share: float
    """The share of its pools that held the answer, each in a domain that was left out."""
    low: float
    """That share in the worst domain with at least eight such pools."""
    high: float
    """That share in the best of these domains."""
    pools: int
    """How many pools had the word."""


class Worth(Record):
    """What the words of one validator are worth."""

    slope: float
    """Of the curve through all domains, by which a logit is multiplied; below 1 it flattens."""
    offset: float
    """What is then added to the logit."""
    size: float
    """What is added for each unit of the logarithm of how many chunks there are: of many chunks
    without the answer, some chunk looks like one more often than of few."""
    present: float
    """The probability from which on the answer is called present."""
    words: tuple[WordLimit, ...]
    """The surest word first; the last one begins at 0."""

    def logit(self, steep: float, chunks: int) -> float:
        """A validator's own logit of its best chunk, flattened by the curve over all domains.

        Unflattened, its probability would promise more than came true on texts that the validator
        was not trained on.

        Args:
            steep: the validator's own logit.
            chunks: among how many chunks it is the best one.
        """
        # Pools of more chunks than `LARGEST_POOL` were never measured.
        pool_size = min(chunks, LARGEST_POOL)
        return self.slope * steep + self.offset + self.size * math.log(pool_size)


@lru_cache(maxsize=8)
def shipped_worth(name: str) -> Worth:
    """The measured worth of a validator's words and probabilities, from ``worth.toml``.

    A measurement writes that file: its numbers are not to be changed by hand.
    """
    return msgspec.convert(table(*_FILE)[name], Worth)


def word_limit(words: tuple[WordLimit, ...], probability: float) -> WordLimit | None:
    """The limit of the word, such as Yes, for a probability; None if no words were measured.

    The order of the limits matters: the first one that the probability reaches is taken.
    """
    for limit in words:  # the surest word first
        if probability >= limit.at_least:
            return limit
    return None


def answer_worth(limit: WordLimit, probability: float, labels: int) -> AnswerWorth:
    """The share of a word's verdicts that were true; with a calibration, the probability itself.

    A reader of a verdict sees by it how far the word can be relied on.

    Args:
        labels: how many labels a calibration was learned from; 0 without one.
    """
    # On the user's own labels a probability comes true as often as it says.
    if labels:
        return AnswerWorth(share=round(probability, 4), labels=labels)
    return AnswerWorth(share=limit.share, low=limit.low, high=limit.high)


# --- where a Yes is worth little whatever its probability

_MOST_WORDS_OF_GREETING = 2
"""A sentence of so few words before a question ("Good morning!") makes it no longer one."""
_ROWS = 4
"""Rows of figures from which on they are a table: in a few short ones the answer is found."""
_FIGURE = r"[-+(]?[$€£¥]?\d[\d.,]*(?:%|\)|[kKmMbB]n?)?"
_ROW = re.compile(rf"(?:(?:.*\s)?{_FIGURE}\s+)?{_FIGURE}\W*")
"""A line that ends with two figures, its columns, or is one figure: a cell with a line of its
own."""
_BORDERS = re.compile(r"[|\t;]|</?t[dhr][^>]*>|\s%|[$€£¥](?=\s)")
"""Marks between the cells of a row, and units set apart from their figures."""
_LONGEST_LABEL = 8
"""Words of a line that may be a label or a heading within a table."""
_ENDS_SENTENCE = re.compile(r"[.!?]\W*\Z")


def unreliable(question: str, text: str, spans: Sequence[Span]) -> str:
    """The reason why a Yes on a question and a text is not reliable; empty where it is reliable.

    On some questions and texts a Yes of a validator that reads words or short texts was measured to
    be worth little, whatever its probability.

    Args:
        question: empty where each of its sentences is a question that is judged by itself.
        text: of the chunk that seems to answer.
        spans: the places of it that seem to answer.
    """
    sentences = 0
    for span in split_sentences(question):
        words = question[span.start : span.end].split()
        # "Good morning!" before a question is none of its sentences.
        if len(words) > _MOST_WORDS_OF_GREETING:
            sentences += 1
    if sentences > 1:
        return "the question has several sentences"
    # One place in a table is enough.
    if any(_is_in_table(text, span) for span in spans):
        return "the answer would be in a table of figures"
    return ""


def _is_in_table(text: str, span: Span) -> bool:
    """Whether a part of a text touches a table of figures: its rows, or labels among them.

    A table counts from `_ROWS` rows on.

    Validators that read sentences are often wrong on rows of figures.
    """
    # Rows of the table so far.
    rows = 0
    touches = False
    start = 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        # Borders and units apart are taken out, and a row is figures at its end.
        is_row = _ROW.fullmatch(_BORDERS.sub(" ", line).strip()) is not None
        is_long = len(line.split()) > _LONGEST_LABEL
        if is_row:
            rows += 1
        # Short lines without a full stop may be labels within the table.
        if not is_row and (is_long or _ENDS_SENTENCE.search(line)):
            rows = 0  # a sentence: what is above it is another table
            touches = False
        elif start < span.end and span.start < end:
            # The line and the place overlap.
            touches = True
        # The place may be touched before or after the rows are enough: looked at after each line.
        if rows >= _ROWS and touches:
            return True
        start = end
    return False
