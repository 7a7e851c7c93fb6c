"""``ragbench validate --self-test``: where a validator breaks, by kind of near miss."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk
from ragbench.core.validation import Verdict
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.near_misses import NEAR_MISS_KINDS, AnsweredQuestion, NearMissRules
from ragbench.validators.self_test import ANSWER_KINDS, questions_in, self_test

Ragbench = Callable[..., Any]
PELLORIN = Path(__file__).parents[2] / "datasets" / "pellorin"
MILL = "The mill at Tarn was built in 1910. It burned down twice, and three families lived there."


def pairs() -> list[AnsweredQuestion]:
    found: list[AnsweredQuestion] = []
    for town, number in (("Tarn", 30), ("Ebro", 40), ("Ouse", 50), ("Loire", 60)):
        before = f"In the {number} year plan of 1900 the first mill at {town} was built in "
        rest = " It burned down twice, and three families lived there for a long time."
        found.append(
            AnsweredQuestion(
                question=f"When was the first mill at {town} built in the {number} year plan?",
                text=f"{before}1910.{rest}",
                start=len(before),
                end=len(before) + 4,
                document=town,
            )
        )
    return found


class Always:
    """Says what it was made to say."""

    name = "always"
    identity = "always"

    def __init__(self, present: bool) -> None:
        self._present = present

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        verdict = LexicalValidator().validate(query, chunks)
        from dataclasses import replace

        return replace(verdict, answer_present=self._present)


@pytest.mark.parametrize("present", [True, False])
def test_who_always_says_the_same_is_right_about_one_half(present: bool) -> None:
    found = self_test(Always(present), pairs(), limit=3)
    for one in found.kinds:
        assert one.answers == (one.kind in ANSWER_KINDS)
        assert one.right.count == (one.right.total if one.answers is present else 0)
        assert len(one.wrong) == one.right.total - one.right.count


@pytest.mark.parametrize("kind", NEAR_MISS_KINDS)
def test_each_rule_changes_what_it_says(kind: str) -> None:
    import random

    rules = NearMissRules(pairs())
    pair = pairs()[0]
    made = rules.make(kind, pair, random.Random(3))
    if kind == "year":  # the question has none
        assert made is None
        return
    assert made is not None
    assert made != (pair.question, pair.text)
    if kind in ("echo", "index-page", "says-unknown", "injection"):
        assert "1910" not in made.text
    else:
        assert made.text in pair.text
        assert made.question != pair.question


def test_questions_are_made_of_sentences() -> None:
    (made,) = questions_in(MILL, "mills")
    assert made.question == "When was the mill at Tarn built?"
    assert made.answer == "1910"


def test_a_dataset_and_a_corpus_give_a_figure_a_kind(ragbench: Ragbench, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": town, "text": MILL.replace("Tarn", town)} for town in ("Tarn", "Ebro", "Ouse")]
    corpus.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for source, by_rule in ((PELLORIN, False), (corpus, True)):
        options = ("--self-test", "--limit", "3", "--validator", "lexical", "--json")
        done = ragbench("validate", str(source), *options)
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert found["made_by_rule"] is by_rule
        assert [one["kind"] for one in found["kinds"]] == [*NEAR_MISS_KINDS, *ANSWER_KINDS]
        assert ragbench("validate", str(source), *options).out == done.out
    text = ragbench("validate", str(PELLORIN), *options[:-1])
    assert "no answer: right is a No" in text.out
    assert "says-unknown" in text.out


def test_what_says_nothing_of_answers_is_refused(ragbench: Ragbench, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "a", "text": "Rain."}) + "\n", encoding="utf-8")
    done = ragbench("validate", str(corpus), "--self-test")
    assert done.code == 2
    assert "no near misses can be made of it" in done.err
