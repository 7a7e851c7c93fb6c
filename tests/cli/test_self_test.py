"""``ragbench validate --self-test``: where a validator breaks, by kind of near miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import Verdict
from ragbench.validators.self_test import ANSWER_KINDS, KINDS, AnsweredQuestion, self_test
from tests.cli.runs import PELLORIN, Ragbench

AFTER_THE_ANSWER = "It burned down twice, and three families lived there for a long time."
MILLS = [("Tarn", 31), ("Ebro", 42), ("Ouse", 53), ("Loire", 64)]


def answered_questions() -> list[AnsweredQuestion]:
    """Of four mills; the answer is always 1910."""
    questions = []
    for town, number in MILLS:
        before = f"In the {number} year plan of 1900 mill M{number}, at {town}, was built in "
        question = AnsweredQuestion(
            question=f"When was mill M{number} at {town} built in the {number} year plan?",
            text=f"{before}1910. {AFTER_THE_ANSWER}",
            start=len(before),
            end=len(before) + len("1910"),
            document=town,
        )
        questions.append(question)
    return questions


class Always:
    """A validator that always says the same, and keeps what it was asked."""

    name = identity = "always"

    def __init__(self, answer_present: bool) -> None:
        self.answer_present = answer_present
        self.asked: list[tuple[str, str]] = []

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.asked.append((query, chunks[0].text))
        verdict = build_validator("lexical").validate(query, chunks)
        return replace(verdict, answer_present=self.answer_present)


# --- validators that always say the same


@pytest.mark.parametrize("answer_present", [True, False], ids=["yes", "no"])
def test_every_kind_is_tried_as_often_as_the_limit_says(answer_present: bool) -> None:
    report = self_test(Always(answer_present), answered_questions(), limit=3)

    assert [result.kind for result in report.kinds] == list(KINDS)
    assert {result.right.total for result in report.kinds} == {3}


def test_a_yes_is_right_where_the_answer_is_there_and_only_there() -> None:
    report = self_test(Always(answer_present=True), answered_questions(), limit=3)

    for result in report.kinds:
        assert result.answers == (result.kind in ANSWER_KINDS)
        right, wrong = (3, 0) if result.answers else (0, 3)
        assert result.right.count == right
        assert len(result.wrong) == wrong


def test_a_no_is_right_where_the_answer_is_not_there_and_only_there() -> None:
    report = self_test(Always(answer_present=False), answered_questions(), limit=3)

    for result in report.kinds:
        right, wrong = (0, 3) if result.answers else (3, 0)
        assert result.right.count == right
        assert len(result.wrong) == wrong


# --- what a rule changes

# In the text: no answer is left in it, and the question stays.
KINDS_WITHOUT_ANSWER = ("echo", "says-unknown", "injection")
# In the text as well: an answer to something else is.
KINDS_OF_ANOTHER_PASSAGE = ("identifier", "template")


def asked_by_kind() -> dict[str, list[tuple[str, str]]]:
    """The questions and texts that a validator is shown, in their order, by kind."""
    validator = Always(answer_present=True)
    report = self_test(validator, answered_questions(), limit=4)
    questions = iter(validator.asked)
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for result in report.kinds:
        by_kind[result.kind] = [next(questions) for _ in range(result.right.total)]
    return by_kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_takes_the_answer_out_of_the_text_or_leaves_it(kind: str) -> None:
    for _, text in asked_by_kind()[kind]:
        assert ("1910" in text) is (kind not in KINDS_WITHOUT_ANSWER)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_changes_the_question_or_leaves_it(kind: str) -> None:
    questions = [pair.question for pair in answered_questions()]
    changes_the_text = {*KINDS_WITHOUT_ANSWER, *KINDS_OF_ANOTHER_PASSAGE, *ANSWER_KINDS}

    for question, _ in asked_by_kind()[kind]:
        assert (question in questions) is (kind in changes_the_text)


# --- from the command line

SELF_TEST = (str(PELLORIN), "--self-test", "--limit", "3", "--validator", "lexical")


def test_a_dataset_gives_a_figure_per_kind(ragbench: Ragbench) -> None:
    document = ragbench("validate", *SELF_TEST, "--json").ok().json

    assert [row["kind"] for row in document["kinds"]] == list(KINDS)


def test_the_same_command_gives_the_same_figures(ragbench: Ragbench) -> None:
    command = ("validate", *SELF_TEST, "--json")

    done = ragbench(*command).ok()
    repeated = ragbench(*command)

    assert repeated.out == done.out


def test_figures_are_told_in_words(ragbench: Ragbench) -> None:
    done = ragbench("validate", *SELF_TEST)

    done.ok("no answer: right is a No", "says-unknown")
