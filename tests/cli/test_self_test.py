"""``ragbench validate --self-test``: where a validator breaks, by kind of near miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import Verdict
from ragbench.validators.self_test import ANSWER_KINDS, KINDS, AnsweredQuestion, self_test
from tests.cli.runs import PELLORIN, Ragbench

REST = "It burned down twice, and three families lived there for a long time."


def pairs() -> list[AnsweredQuestion]:
    found: list[AnsweredQuestion] = []
    for town, number in (("Tarn", 31), ("Ebro", 42), ("Ouse", 53), ("Loire", 64)):
        before = f"In the {number} year plan of 1900 mill M{number}, at {town}, was built in "
        question = f"When was mill M{number} at {town} built in the {number} year plan?"
        place: Any = {"start": len(before), "end": len(before) + 4, "document": town}
        found.append(AnsweredQuestion(question=question, text=f"{before}1910. {REST}", **place))
    return found


class Always:
    """Says what it was made to say, and keeps what it was asked."""

    name = identity = "always"

    def __init__(self, present: bool) -> None:
        self._present = present
        self.asked: list[tuple[str, str]] = []

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.asked.append((query, chunks[0].text))
        verdict = build_validator("lexical").validate(query, chunks)
        return replace(verdict, answer_present=self._present)


@pytest.mark.parametrize("present", [True, False])
def test_who_always_says_the_same_is_right_about_one_half(present: bool) -> None:
    found = self_test(Always(present), pairs(), limit=3)
    assert [one.kind for one in found.kinds] == [*KINDS]
    for one in found.kinds:
        assert one.answers == (one.kind in ANSWER_KINDS)
        assert one.right.total == 3
        assert one.right.count == (3 if one.answers is present else 0)
        assert len(one.wrong) == 3 - one.right.count


def test_each_rule_changes_one_thing() -> None:
    questions = {one.question for one in pairs()}
    validator = Always(present=True)
    kinds = {one.kind: one for one in self_test(validator, pairs(), limit=4).kinds}
    asked = iter(validator.asked)
    for kind, one in kinds.items():
        for _ in range(one.right.total):
            question, text = next(asked)
            emptied = kind in ("echo", "says-unknown", "injection")
            assert ("1910" in text) is not emptied
            of_passage = kind in ("identifier", "template")
            assert (question in questions) is (emptied or of_passage or kind in ANSWER_KINDS)


def test_a_dataset_gives_a_figure_per_kind(ragbench: Ragbench) -> None:
    options = ("--self-test", "--limit", "3", "--validator", "lexical")
    done = ragbench("validate", str(PELLORIN), *options, "--json").ok()
    assert [one["kind"] for one in done.json["kinds"]] == [*KINDS]
    assert ragbench("validate", str(PELLORIN), *options, "--json").out == done.out
    said = ("no answer: right is a No", "says-unknown")
    ragbench("validate", str(PELLORIN), *options).ok(*said)
