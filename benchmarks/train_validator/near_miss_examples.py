"""What a reader learns near misses from: rule-made pairs that do not answer, and counterweights.

Each shortcut that a rule would teach has a counterweight that does answer: the question with its
answer behind it, "unknown" of another question beside the answer, a claim beside the answer. The
*kind* is drawn first, from reservoirs: otherwise the rules that always apply (echoes) would be all
that is learned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.train_validator.near_miss_changes import CHANGES, WORDING, answering, window
from benchmarks.train_validator.near_misses import NearMissRules
from benchmarks.train_validator.reader_sources import Example, Source
from benchmarks.train_validator.written_near_misses import Written
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
MIX: Mapping[str, float] = {"ordinary": 0.33, "negative": 0.23, "positive": 0.27, "stranger": 0.17}
"""Without passages on other topics a reader forgets what a question is about."""

_UNSURE_TOPIC = frozenset({"entity", "passage entity", "other sentence", "removed", "echo in text"})
"""Kinds whose text may speak of something else than what is asked."""
_POINTED = frozenset({"answer unknown", "answer deleted", "attribute"})
"""Kinds that need the answer's own place, not that of its sentence."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """An example, and whether what the reader said before is to be kept."""

    kind: str
    example: Example
    keep: bool
    topic: float | None = None
    """1 where the text speaks of what is asked, 0 where it does not, None where that is unsure."""


def mixed(
    sources: Sequence[Source],
    unanswerable: Sequence[Example],
    draw: random.Random,
    *,
    per_kind: int,
    mix: Mapping[str, float] = MIX,
    written: Written | None = None,
) -> Iterator[Mixed]:
    """Examples without end, in the shares of ``mix``.

    Args:
        sources: questions with answers.
        unanswerable: pairs of a question that people wrote to have no answer and its passage.
        draw: the source of chance.
        per_kind: how many examples are made of each kind.
        mix: shares of "ordinary", "negative", "positive" and "stranger"; and of "written" and
            "twin", where further pairs are given.
        written: near misses that people wrote, beside ``unanswerable``, and their twins.
    """
    reservoirs = made_by_kind(sources, draw, per_kind=per_kind)
    places = dict.fromkeys(reservoirs, 0)
    people = (*unanswerable, *(written.without if written else ()))
    texts = [one.text for pairs in reservoirs.values() for one in pairs]
    while True:
        (share,) = draw.choices(list(mix), list(mix.values()))
        if share == "ordinary":
            yield _ordinary(draw.choice(sources), unanswerable, draw)
        elif share == "written" and written is not None:
            yield Mixed("written", draw.choice(people), keep=False, topic=1.0)
        elif share == "twin" and written is not None:
            yield Mixed("twin", draw.choice(written.answered), keep=False, topic=1.0)
        elif share == "stranger":
            if (one := _stranger(draw.choice(sources), sources, texts, draw)) is not None:
                yield one
        else:
            weights = NEGATIVE if share == "negative" else POSITIVE
            kinds = [kind for kind in weights if reservoirs[kind]]
            (kind,) = draw.choices(kinds, [weights[kind] for kind in kinds])
            made = reservoirs[kind]
            on_topic = None if kind in _UNSURE_TOPIC else 1.0
            yield Mixed(kind, made[places[kind] % len(made)], keep=False, topic=on_topic)
            places[kind] += 1


def _ordinary(source: Source, unanswerable: Sequence[Example], draw: random.Random) -> Mixed:
    """As they were learned from before: what the reader said of the first two stays its aim."""
    part = draw.random()
    if part < 0.42:
        first = draw.random() < 0.7
        positive = source.positives[0] if first else draw.choice(source.positives)
        return Mixed("gold", positive, keep=True, topic=1.0)
    if part < 0.75 and source.near:
        place = min(draw.randrange(len(source.near)), draw.randrange(len(source.near)))
        return Mixed("near", Example(source.question.text, source.near[place], 0.0), keep=True)
    if part < 0.82 and source.without_answer:
        return Mixed("without", source.without_answer[0], keep=False)
    return Mixed("unanswerable", draw.choice(unanswerable), keep=False, topic=1.0)


def _stranger(
    source: Source, sources: Sequence[Source], texts: Sequence[str], draw: random.Random
) -> Mixed | None:
    part = draw.random()
    if part < 0.35 and source.near:
        text = source.near[-1]
    else:
        text = draw.choice(sources).positives[0].text if part < 0.75 else draw.choice(texts)
    if any(answer.lower() in text.lower() for answer in source.question.answers):
        return None
    return Mixed("stranger", Example(source.question.text, text, 0.0), keep=True, topic=0.0)


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
