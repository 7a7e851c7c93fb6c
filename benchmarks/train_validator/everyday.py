"""Questions of daily work with texts that answer them and texts that only seem to, as pairs for the
reader.

``everyday/*.jsonl`` holds them, a line a question, written for this by a language model
and by nobody else: the question, the same in other words or as typed into a search field, a short
and a long text that answer it, mostly without its words, and three that do not, mostly with them:
another aspect, a neighbouring section, and the answer for another thing or to another question.
Words alone would therefore tell the texts apart, the wrong way round; so answers stand beside other
texts and below their questions, too. Every tenth line is held out, to look at. Draws are seeded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.train_validator.asked_elsewhere import Pair

FOLDER = Path(__file__).parent / "everyday"
SOURCE = "everyday"
SEED, EVERY = 44, 10
BETWEEN = (" ", "\n", "\n\n")
POLITE = (
    "Hi, {}", "I would like to know: {}", "Please tell me {}", "Hello! Can you tell me {}",
    "Quick question: {}", "{} Thanks!",
)  # fmt: skip
AS_TYPED, POLITELY = 0.1, 0.06
"""Shares of the questions that stand without case and mark, and with a greeting."""


@dataclass(frozen=True, slots=True)
class Item:
    """A line."""

    kind: str
    """"yn" (yes or no), "how", "list", "wh" or "multi" (two parts)."""
    query: str
    other_query: str
    answers: tuple[str, str]
    """A short text and a long one."""
    others: tuple[str, str, str]
    """Of the same subject, short and long, and a near miss."""


def items(*, held_out: bool) -> list[list[Item]]:
    """Those of each file."""
    found: list[list[Item]] = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        taken = [one for at, one in enumerate(rows) if (at % EVERY == EVERY - 1) is held_out]
        found.append(
            [
                Item(one["kind"], one["q"], one["q2"], tuple(one["yes"]), tuple(one["no"]))
                for one in taken
            ]
        )
    return found


def everyday_pairs() -> list[Pair]:
    """What is learned from."""
    draw = random.Random(SEED)
    return [
        Pair(SOURCE, query, text, float(label))
        for together in items(held_out=False)
        for item in together
        for query, text, label in _pairs(item, together, draw)
    ]


def _pairs(
    item: Item, together: Sequence[Item], draw: random.Random
) -> Iterator[tuple[str, str, bool]]:
    short, long = item.answers
    aspect, section, near = item.others
    yield from ((item.query, short, True), (item.other_query, long, True))
    yield from ((item.query, aspect, False), (item.other_query, section, False))
    yield from ((item.query, near, False), (item.other_query, near, False))
    for share, query, text, label in (
        (0.7, item.other_query, short, True),
        (0.5, item.query, long, True),
        (0.5, item.other_query, aspect, False),
        (0.5, item.query, section, False),
    ):
        if draw.random() < share:
            yield query, text, label
    yield from _beside_others(item, draw)
    yield from _below_questions(item, together, draw)
    for other in draw.sample(together, 2):
        if other is not item:
            foreign = (
                *other.answers,
                other.others[0],
                joined(draw, other.answers[0], other.others[2]),
            )
            yield asked(item, draw), draw.choice(foreign), False


def _beside_others(item: Item, draw: random.Random) -> Iterator[tuple[str, str, bool]]:
    """Two texts as one chunk, in either order."""
    short, long = item.answers
    aspect, section, near = item.others
    yield asked(item, draw), joined(draw, short, aspect), True
    pair = (short, near) if draw.random() < 0.5 else (long, aspect)
    yield asked(item, draw), joined(draw, *pair), True
    if draw.random() < 0.5:
        yield asked(item, draw), joined(draw, short, section), True
    yield asked(item, draw), joined(draw, aspect, near), False
    if draw.random() < 0.3:
        yield asked(item, draw), joined(draw, section, near), False


def _below_questions(
    item: Item, together: Sequence[Item], draw: random.Random
) -> Iterator[tuple[str, str, bool]]:
    """A heading that asks, with its answer or with none; a list of nothing but questions."""
    query = item.query
    if draw.random() < 0.45:
        heads = query, item.other_query, query.rstrip("?"), f"## {query}", f"Q: {query}\nA:"
        yield asked(item, draw), f"{draw.choice(heads)}\n{draw.choice(item.answers)}", True
    if draw.random() < 0.2:
        aspect, _, near = item.others
        yield asked(item, draw), f"{query}\n{draw.choice((aspect, near))}", False
    if draw.random() < 0.15:
        listed = [query, *(one.query for one in draw.sample(together, draw.randint(2, 4)))]
        draw.shuffle(listed)
        yield asked(item, draw), "\n".join(listed), False


def joined(draw: random.Random, *texts: str) -> str:
    """Texts in any order, as one."""
    return draw.choice(BETWEEN).join(draw.sample(texts, len(texts)))


def asked(item: Item, draw: random.Random) -> str:
    """One of both wordings, some as people type, some with a greeting."""
    query = item.query if draw.random() < 0.6 else item.other_query
    chance = draw.random()
    if chance < AS_TYPED:
        return query.rstrip(" ?").lower()
    if chance < AS_TYPED + POLITELY:
        return draw.choice(POLITE).format(query[0].lower() + query[1:])
    return query
