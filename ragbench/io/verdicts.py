"""Verdicts of people in the cells of a table and in the fields of labels: yes, no, partly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ragbench.io.fields import field_names
from ragbench.io.values import ValueProblem, as_number


@cache
def verdict_words() -> Mapping[str, float | None]:
    """The number that each word of a verdict on an answer means: right 1, partly 0.5, wrong 0.

    None for words by which a person passed the answer over. ``fields.toml`` lists the words.
    """
    values = {"right": 1.0, "partly": 0.5, "wrong": 0.0, "skipped": None}
    value_of_word: dict[str, float | None] = {}
    for meaning, words in field_names("label_words").items():
        value_of_word.update(dict.fromkeys(words, values[meaning]))
    return value_of_word


def squashed_word(text: str) -> str:
    """The name of a field, or the word of a verdict, without case and with underscores inside.

    People write "Partly correct" in many ways; the tables of words have one form.
    """
    return re.sub("[ -]", "_", text.strip().casefold())


def is_verdict(value: object) -> bool:
    """Whether a value is a verdict on an answer: yes, no, partly, true, false, 1 or 0.

    By this a column of verdicts is recognised. Other words for these count, too. Words that pass an
    answer over are no verdict, and neither is another number, which may be a score.
    """
    if isinstance(value, str):
        word = squashed_word(value)
        return word in ("0", "1", "0.0", "1.0") or verdict_words().get(word) is not None
    return isinstance(value, (bool, int, float)) and value in (0, 1)


def label_value(value: object) -> float | None:
    """A person's label of an answer as a number on the metric's scale; None if it was passed over.

    Raises:
        ValueProblem: it is neither a number nor a word of a verdict.
    """
    if value is None:
        return None
    word = squashed_word(value) if isinstance(value, str) else ""
    if word in verdict_words():
        return verdict_words()[word]
    try:
        if word:
            # A number as text; "nan" is one to Python, and refused with the words.
            return as_number(float(word))
        return as_number(float(value) if value in (0, 1) else value)  # true and false, too
    except (ValueProblem, ValueError):
        raise ValueProblem(
            f"field 'value': {value!r} is not a label. Expected a number on the metric's scale, "
            "yes, no, partly or skip"
        ) from None
