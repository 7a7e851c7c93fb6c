"""Texts and queries that a careless pattern would need hours for; each is read in a moment."""

import pytest

from ragbench import Chunk
from ragbench.text.sentences import split_sentences
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.parts import split_query

ANSWER = Chunk(id="answer", text="The company was founded in 1995.")
LONG = 400_000


@pytest.mark.parametrize(
    "piece", [".", "1", "a", " ", "\n", "A.B. ", "a-b-", "1,234.5 ", "[1]", "é", "|a|b|\n", "\x00"]
)
def test_a_long_chunk_does_not_hide_the_answer_of_another_one(piece: str) -> None:
    long = Chunk(id="long", text=piece * (LONG // len(piece)))
    verdict = LexicalValidator().validate("When was the company founded?", [long, ANSWER])
    assert verdict.relevant_chunk_ids == ("answer",)


@pytest.mark.parametrize(
    "query",
    [
        "What is the answer to this? " * 2000,
        "a.b-" * 12_000,
        "a" + " " * 48_000 + "b",
        "who is x and what is y " * 2000,
        "a" * 48_000,
        "x1 " * 16_000,
    ],
)
def test_a_long_query_is_read_whole(query: str) -> None:
    verdict = LexicalValidator().validate(query, [ANSWER])
    assert not verdict.answer_present


def test_a_query_that_asks_more_than_eight_things_is_read_as_one() -> None:
    asked = ["Who built the mill?", "When was it sold?"]
    assert len(split_query(" ".join(asked))) == 2
    assert len(split_query(" ".join(asked * 4))) == 8
    assert len(split_query(" ".join(asked * 5))) == 1


def test_a_long_run_of_marks_ends_one_sentence() -> None:
    text = "So it ends" + "." * 100_000 + " Then it goes on."
    assert [text[slice(*one)][-3:] for one in split_sentences(text)] == ["...", "on."]
    assert len(split_sentences("." * LONG + "x")) == 1
