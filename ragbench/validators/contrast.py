"""Whether a chunk answers another question better: the same one, but for one word.

All words of "Why was the mill built?" fit "The mill was built in 1810", and a reader is near a Yes.
It is nearer to one when it is asked "When was the mill built?": that is what the sentence answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ragbench.text.sentences import Span
from ragbench.validators.objections import ANTONYMS, Objection

_WORDS = ("when", "where", "why", "how")
_ASKS = re.compile(
    r"\s*(when|where|why|how)(?= (?:is|are|was|were|do|does|did|has|have|had|can|could|will|would"
    r"|should)\b)",
    re.IGNORECASE,
)
_FIRST_NAME = re.compile(r"\b(?:first|last) names?\b", re.IGNORECASE)
_BY_WORD = 1.0
_BY_OPPOSITE = 0.5
"""By how much the logit of another question must be above that of the one that is asked. Chosen on
rule-made near misses and answers of the held-out articles of squad2_dev_half and of covidqa
(`benchmarks/contrast_margins.py`)."""


class OtherQuestion(NamedTuple):
    """A question that differs in one word."""

    text: str
    margin: float
    """By how much better it must be answered to count, in logits of the reader that comes along."""


def other_questions(query: str) -> tuple[OtherQuestion, ...]:
    """The question with another question word, and with the opposite of one of its words."""
    found: list[OtherQuestion] = []
    asks = _ASKS.match(query)
    if asks is not None:
        asked = asks[1]
        for word in _WORDS:
            if word != asked.lower():
                said = word.capitalize() if asked[0].isupper() else word
                text = f"{query[: asks.start(1)]}{said}{query[asks.end(1) :]}"
                found.append(OtherQuestion(text, _BY_WORD))
    words = dict.fromkeys(re.findall(r"[a-z]+", _FIRST_NAME.sub(" ", query)))
    for word in words:
        # "The south or the north" asks for either.
        for other in (one for one in ANTONYMS.get(word, ()) if one not in words):
            text = re.sub(rf"\b{word}\b", other, query, count=1)
            found.append(OtherQuestion(text, _BY_OPPOSITE))
    return tuple(found)


class Told(NamedTuple):
    """What a reader makes of a question and a chunk."""

    logit: float
    answer: Span
    """Where the answer is, if there is one."""


def told_of_another(
    questions: Sequence[OtherQuestion], asked: Told, read: Callable[[str], Told]
) -> Objection | None:
    """Objects where one of other questions is answered better by the very same words.

    A chunk may well answer both: "in 1810 in Tarn" says when and where.
    """
    for one in questions:
        other = read(one.text)
        overlap = other.answer.start < asked.answer.end and asked.answer.start < other.answer.end
        if overlap and other.logit > asked.logit + one.margin:
            return Objection(kind="other question", text=f"it rather answers '{one.text.strip()}'")
    return None
