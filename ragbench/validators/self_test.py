"""Where a validator breaks: near misses made by rule from questions with answers, by kind."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Share
from ragbench.stats.mean import proportion_interval
from ragbench.text.sentences import split_sentences
from ragbench.validators.near_misses import (
    NEAR_MISS_KINDS,
    AnsweredQuestion,
    NearMissRules,
    QuestionAndText,
    answering_sentence,
)
from ragbench.validators.validator import Validator

ANSWER_KINDS = ("passage", "sentence", "question-and-answer")
"""What does hold the answer: a validator that always says No is wrong about it."""
_OTHERS = 3
"""Passages of other documents beside the one that is tested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindResult:
    """How often a validator is right about one kind."""

    kind: str
    answers: bool
    """Whether the answer is there: a Yes is right. Else a No is, Partial or Poor."""
    right: Share
    wrong: tuple[str, ...]
    """The first queries that it is wrong about, each with the chunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfTest:
    """What a validator makes of near misses and of answers."""

    validator: str
    questions: int
    """With an answer, from which the near misses were made."""
    made_by_rule: bool
    """Whether the questions, too, were made by rule, from sentences of the corpus."""
    seed: int
    kinds: tuple[KindResult, ...]


def self_test(
    validator: Validator,
    pairs: Sequence[AnsweredQuestion],
    *,
    limit: int = 40,
    seed: int = 7,
    made_by_rule: bool = False,
) -> SelfTest:
    """Asks a validator about near misses and answers, each beside passages of other documents."""
    rules = NearMissRules(pairs)
    results: list[KindResult] = []
    for kind in (*NEAR_MISS_KINDS, *ANSWER_KINDS):
        draw = random.Random(f"{seed}:{kind}")  # one kind more changes no other one
        order = draw.sample(list(pairs), len(pairs))
        right = 0
        wrong: list[str] = []
        total = 0
        for pair in order:
            made = _made(kind, pair, rules, draw)
            if made is None:
                continue
            total += 1
            verdict = validator.validate(made.question, _pool(pair, made.text, pairs, draw))
            if verdict.answer_present is (kind in ANSWER_KINDS):
                right += 1
            else:
                wrong.append(f"{made.question} <- {made.text}")
            if total == limit:
                break
        results.append(
            KindResult(
                kind=kind,
                answers=kind in ANSWER_KINDS,
                right=_share(right, total),
                wrong=tuple(wrong[:3]),
            )
        )
    return SelfTest(
        validator=validator.name,
        questions=len(pairs),
        made_by_rule=made_by_rule,
        seed=seed,
        kinds=tuple(results),
    )


def _made(
    kind: str, pair: AnsweredQuestion, rules: NearMissRules, draw: random.Random
) -> QuestionAndText | None:
    if kind in NEAR_MISS_KINDS:
        return rules.make(kind, pair, draw)
    sentence = answering_sentence(pair)
    if kind == "passage" or sentence is None:
        return QuestionAndText(pair.question, pair.text) if kind == "passage" else None
    said = pair.text[slice(*sentence)]
    text = said if kind == "sentence" else f"Question: {pair.question} Answer: {said}"
    return QuestionAndText(pair.question, text)


def _pool(
    pair: AnsweredQuestion, text: str, pairs: Sequence[AnsweredQuestion], draw: random.Random
) -> list[Chunk]:
    others = [one for one in pairs if one.document != pair.document]
    drawn = draw.sample(others, min(_OTHERS, len(others)))
    texts = [text, *(one.text for one in drawn if pair.answer.lower() not in one.text.lower())]
    return [Chunk(id=f"c{at}", text=one) for at, one in enumerate(texts)]


def _share(count: int, total: int) -> Share:
    if not total:
        return Share(count=0, total=0, share=None, low=None, high=None)
    low, high = proportion_interval(count, total)
    return Share(count=count, total=total, share=count / total, low=low, high=high)


_HAPPENED = re.compile(
    r"(?P<thing>(?:The |A |An )?[A-Z]?[\w'’ -]{3,60}?) (?P<verb>was|were)"
    r" (?P<done>\w+(?:ed|en|wn|ilt|ld)) (?:in|on) (?P<answer>(?:\d{1,2} )?(?:[A-Z]\w+ )?\d{4})\b"
)
_IS = re.compile(
    r"The (?P<thing>[\w'’ -]{3,60}?) (?P<verb>is|are|was|were) (?P<answer>[^.;,]{2,60})[.;,]"
)


def questions_in(text: str, document: str) -> Iterator[AnsweredQuestion]:
    """Questions that sentences of a text answer, made by rule ("The mill was built in 1910")."""
    for span in split_sentences(text):
        sentence = text[slice(*span)]
        if (found := _HAPPENED.match(sentence)) is not None:
            question = f"When {found['verb']} {_small(found['thing'])} {found['done']}?"
        elif (found := _IS.match(sentence)) is not None:
            question = f"What {found['verb']} the {found['thing']}?"
        else:
            continue
        start, end = found.span("answer")
        yield AnsweredQuestion(
            question=question,
            text=text,
            start=span.start + start,
            end=span.start + end,
            document=document,
        )


def _small(thing: str) -> str:
    """A subject as it stands inside of a sentence."""
    first, space, rest = thing.partition(" ")
    return f"{first.lower()}{space}{rest}" if first in ("The", "A", "An") else thing
