"""What a reader is trained on: each example's label is true, and each share is drawn."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from benchmarks.train_validator.near_miss_examples import (
    MIX,
    NEGATIVE,
    POSITIVE,
    Mixed,
    made_by_kind,
    mixed,
)
from benchmarks.train_validator.reader_sources import Example, Source
from benchmarks.train_validator.train_second_tower import MIX_WITH_WRITTEN
from benchmarks.train_validator.written_near_misses import Written
from benchmarks.validation_pools import Labelled

REST = "It burned down twice before the war. Three families from the valley lived there for long."


def sources() -> list[Source]:
    found: list[Source] = []
    for at, town in enumerate(("Tarn", "Ebro", "Ouse", "Loire", "Rhone", "Douro")):
        year = str(1901 + at)
        before = f"The first mill at {town} was built by {30 + at} men in "
        text = f"{before}{year}. {REST}"
        start = len(before)
        asked = Labelled(
            id=town,
            text=f"When was the first mill at {town} built by {30 + at} men?",
            gold=frozenset([town]),
            own=town,
            answers=(year,),
            spans=((town, start, start + 4),),
            reference=year,
        )
        positive = Example(asked.text, text, 1.0, start, start + 4)
        rest = Example(asked.text, REST, 0.0)
        found.append(Source(asked, (positive,), (rest,), (f"In {town} live 900 people today.",)))
    return found


def drawn(count: int = 4000) -> list[Mixed]:
    unanswerable = [Example("Who sold the mill?", REST, 0.0)]
    stream = mixed(sources(), unanswerable, random.Random(3), per_kind=20)
    return list(itertools.islice(stream, count))


def test_every_example_with_an_answer_points_at_it() -> None:
    years = {one.question.text: one.question.answers[0] for one in sources()}
    positive = [one.example for one in drawn() if one.example.label == 1]
    assert len(positive) > 1000
    for one in positive:
        assert one.text[one.start : one.end] == years[one.query]


def test_no_example_without_an_answer_holds_it_beside_its_own_question() -> None:
    years = {one.question.text: one.question.answers[0] for one in sources()}
    # What these change is not the answer, which stays where it is.
    changed = {one for one in NEGATIVE if one.startswith("passage")}
    for one in drawn():
        if one.example.label == 0 and one.kind not in changed and one.example.query in years:
            assert years[one.example.query] not in one.example.text, one


def test_shares_are_those_of_the_mix_and_only_what_was_known_before_is_kept() -> None:
    count = Counter(
        "negative" if one.kind in NEGATIVE else "positive" if one.kind in POSITIVE else one.kind
        for one in drawn()
    )
    for share in ("negative", "positive", "stranger"):
        assert count[share] / 4000 == pytest.approx(MIX[share], abs=0.04)
    assert {one.kind for one in drawn() if one.keep} == {"gold", "near", "stranger"}


def test_the_topic_is_told_where_it_is_sure() -> None:
    for one in drawn():
        if one.kind == "stranger":
            assert one.topic == 0.0
        elif one.example.label == 1:
            assert one.topic == 1.0
        else:
            assert one.topic in (None, 1.0)


def test_every_kind_that_applies_is_made() -> None:
    made = made_by_kind(sources(), random.Random(3), per_kind=4)
    lacking = {kind for kind, examples in made.items() if not examples}
    # No question names a year or has another one beside it, no other sentence is like the answer.
    assert lacking == {"year", "other unknown", "other echo", "other sentence"}
    assert all(len(examples) <= 4 for examples in made.values())


def test_written_near_misses_and_their_twins_have_their_shares() -> None:
    unanswerable = [Example("Who sold the mill?", REST, 0.0)]
    written = Written(
        without=(Example("Who lost the mill?", REST, 0.0),),
        answered=(Example("How often did it burn down?", REST, 1.0, 15, 20),),
    )
    stream = mixed(
        sources(),
        unanswerable,
        random.Random(3),
        per_kind=20,
        mix=MIX_WITH_WRITTEN,
        written=written,
    )
    found = list(itertools.islice(stream, 4000))
    count = Counter(one.kind for one in found)
    assert count["written"] / 4000 == pytest.approx(MIX_WITH_WRITTEN["written"], abs=0.03)
    assert count["twin"] / 4000 == pytest.approx(MIX_WITH_WRITTEN["twin"], abs=0.03)
    # Those that come with squad2_dev_half are drawn as often as the others, one by one.
    asked = Counter(one.example.query for one in found if one.kind == "written")
    assert asked["Who sold the mill?"] / count["written"] == pytest.approx(0.5, abs=0.06)
    assert {one.example.label for one in found if one.kind == "written"} == {0.0}
    assert {one.example.label for one in found if one.kind == "twin"} == {1.0}
