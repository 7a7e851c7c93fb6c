"""What a reader learns near misses from: rule-made pairs that do not answer, and counterweights.

Each shortcut that a rule would teach has a counterweight that does answer: the question with its
answer behind it, "unknown" of another question beside the answer, a claim beside the answer. The
*kind* is drawn first, from reservoirs: otherwise the rules that always apply (echoes) would be all
that is learned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.train_validator.near_miss_changes import CHANGES, WORDING, answering, window
from benchmarks.train_validator.near_misses import NearMissRules
from benchmarks.train_validator.reader_sources import Example, Source
from ragbench.validators.self_test import AnsweredQuestion

NEGATIVE: Mapping[str, float] = {
    "entity": 12, "year": 5, "number": 4, "quantifier": 7, "attribute": 9, "negation": 5,
    "echo": 3, "index-page": 2, "says-unknown": 8, "injection": 5,
    "passage entity": 7, "passage number": 4, "passage opposite": 4, "passage negated": 2,
    "answer unknown": 8, "answer deleted": 10, "echo in text": 6, "removed": 2,
    "other sentence": 8,
}  # fmt: skip
"""Kinds of pairs without an answer, by weight; those whose labels are less sure count less."""
POSITIVE: Mapping[str, float] = {
    "sentence": 1.2, "sentences": 2.5, "passage": 1.0, "question and answer": 1.0,
    "claim and answer": 0.6, "other unknown": 1.0, "other echo": 0.7,
}  # fmt: skip
"""Kinds of pairs with an answer, by weight."""
MIX: Mapping[str, float] = {"negative": 0.6, "positive": 0.4}

_POINTED = frozenset({"answer unknown", "answer deleted", "attribute"})
"""Kinds that need the answer's own place, not that of its sentence."""


def mixed(
    sources: Sequence[Source], draw: random.Random, *, per_kind: int
) -> Iterator[tuple[str, Example]]:
    """Kinds and examples without end, in the shares of `MIX`.

    Args:
        sources: questions with answers.
        draw: the source of chance.
        per_kind: how many examples are made of each kind.
    """
    reservoirs = made_by_kind(sources, draw, per_kind=per_kind)
    places = dict.fromkeys(reservoirs, 0)
    while True:
        (share,) = draw.choices(list(MIX), list(MIX.values()))
        weights = NEGATIVE if share == "negative" else POSITIVE
        kinds = [kind for kind in weights if reservoirs[kind]]
        (kind,) = draw.choices(kinds, [weights[kind] for kind in kinds])
        made = reservoirs[kind]
        yield kind, made[places[kind] % len(made)]
        places[kind] += 1


def made_by_kind(
    sources: Sequence[Source], draw: random.Random, *, per_kind: int
) -> dict[str, list[Example]]:
    """At most so many examples of each kind of `NEGATIVE` and `POSITIVE`."""
    pairs = {_pair(source): source for source in sources}
    rules = NearMissRules(list(pairs), WORDING)
    order = list(pairs)
    draw.shuffle(order)
    found: dict[str, list[Example]] = {kind: [] for kind in (*NEGATIVE, *POSITIVE)}
    for pair in order:
        pointed = pairs[pair].positives[0].start >= 0
        open_kinds = [kind for kind, made in found.items() if len(made) < per_kind]
        if not open_kinds:
            break
        for kind in open_kinds:
            if not pointed and kind in _POINTED:
                continue
            if (one := _made(kind, pair, pairs[pair], rules, draw)) is not None:
                found[kind].append(one if pointed else Example(one.query, one.text, one.label))
    for made in found.values():
        draw.shuffle(made)
    return found


def _pair(source: Source) -> AnsweredQuestion:
    _, start, end = source.question.spans[0]
    return AnsweredQuestion(
        question=source.question.text.strip(),
        text=source.positives[0].text,
        start=start,
        end=end,
        document=source.question.own,
    )


def _made(
    kind: str, pair: AnsweredQuestion, source: Source, rules: NearMissRules, draw: random.Random
) -> Example | None:
    if kind in POSITIVE:
        return answering(kind, pair, rules, draw)
    if kind in CHANGES:
        made = CHANGES[kind](pair, source, rules, draw)
    else:
        cropped = pair if draw.random() < 0.3 else window(pair, draw, 1, 3)
        made = rules.make(kind, cropped or pair, draw)
    return None if made is None else Example(made.question, made.text, 0.0)
