"""Compresses: shorter texts, word for word or in a model's words."""

from __future__ import annotations

import pytest

from ragbench import Chunk
from ragbench.errors import ConfigError, LLMReplyError
from ragbench.post.compress import SUMMARY_ID, Abstractive, Extractive
from tests.unit.post.operators.builders import PIECES, Scripted, apply, chunk, ids, texts

QUESTION = "How many vacation days?"
LEAVE = chunk("a", "The sky is blue. You get 27 vacation days. Grass is green. Vacation is fun.")
OTHER = chunk("b", "Nothing at all. Days are long.")
NONE = chunk("c", "Unrelated words only.")


def test_the_sentences_that_share_most_with_the_question_stay() -> None:
    output = apply(Extractive(budget=100, counter=PIECES), LEAVE, OTHER, NONE, question=QUESTION)
    assert texts(output) == ["You get 27 vacation days. Vacation is fun.", "Days are long."]
    spans = output.chunks[0].chunk.metadata["derived"][0]["spans"]
    assert [LEAVE.text[start:end] for start, end in spans] == [
        "You get 27 vacation days.",
        "Vacation is fun.",
    ]


# "You get 27 vacation days." has 6 estimated tokens, each of the other two 4.
@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (3, []),
        (4, ["Vacation is fun."]),
        (6, ["You get 27 vacation days."]),
        (10, ["You get 27 vacation days. Vacation is fun."]),
        (14, ["You get 27 vacation days. Vacation is fun.", "Days are long."]),
    ],
)
def test_sentences_are_taken_by_relevance_while_they_fit(budget: int, expected: list[str]) -> None:
    output = apply(Extractive(budget=budget, counter=PIECES), LEAVE, OTHER, NONE, question=QUESTION)
    assert texts(output) == expected


def test_sentences_side_by_side_stay_one_stretch() -> None:
    given = chunk("a", "Vacation one.\n\nVacation two. Grass.")
    assert texts(apply(Extractive(budget=50, counter=PIECES), given, question="vacation")) == [
        "Vacation one.\n\nVacation two."
    ]


def test_a_chunk_that_is_kept_whole_is_the_same_object() -> None:
    given = chunk("a", "Vacation one. Vacation two.")
    output = apply(Extractive(budget=50, counter=PIECES), given, question="vacation")
    assert output.chunks[0].chunk is given


def test_offsets_in_the_document_follow_the_cut() -> None:
    given = Chunk(id="a", text="Grass. Vacation!", document_id="d", start=100, end=116)
    new = apply(Extractive(budget=50, counter=PIECES), given, question="vacation").chunks[0].chunk
    assert (new.text, new.document_id, new.start, new.end) == ("Vacation!", "d", 107, 116)


def test_where_no_word_is_shared_the_first_sentences_stay_and_a_note_says_so() -> None:
    output = apply(Extractive(budget=9, counter=PIECES), NONE, OTHER, question="\u4f11\u5047")
    assert texts(output) == ["Unrelated words only.", "Nothing at all."]
    assert "no sentence shares a word" in output.notes[-1]


def test_nothing_compressed_is_nothing() -> None:
    assert apply(Extractive(budget=8, counter=PIECES), question=QUESTION).chunks == ()
    with pytest.raises(ConfigError, match="budget must be at least 1"):
        Extractive(budget=0)


# --- abstractive


def test_each_text_becomes_its_summary() -> None:
    model = Scripted(["27 days.", "NOTHING", "Far longer than what stood there before it."])
    output = apply(Abstractive(chat=model), LEAVE, OTHER, NONE, question=QUESTION)
    assert ids(output) == ["a", "c"]
    assert texts(output) == ["27 days.", NONE.text]
    assert output.chunks[1].chunk is NONE
    assert output.chunks[0].chunk.metadata["derived"] == [
        {"by": "compress.abstractive", "from": ["a"]}
    ]


def test_all_texts_become_one_summary() -> None:
    model = Scripted(["27 days."])
    output = apply(Abstractive(chat=model, scope="all"), LEAVE, OTHER, question=QUESTION)
    assert (ids(output), texts(output)) == ([SUMMARY_ID], ["27 days."])
    assert output.chunks[0].chunk.metadata["derived"][0]["from"] == ["a", "b"]
    assert len(model.heard) == 1


def test_a_summary_beyond_the_budget_is_cut_behind_a_sentence() -> None:
    model = Scripted(["27 days. And much more."])
    output = apply(
        Abstractive(chat=model, scope="all", budget=4, counter=PIECES), LEAVE, question=QUESTION
    )
    assert texts(output) == ["27 days."]


def test_a_summary_of_nothing_is_no_chunk() -> None:
    output = apply(Abstractive(chat=Scripted(["NOTHING."]), scope="all"), LEAVE)
    assert output.chunks == ()
    assert apply(Abstractive(chat=Scripted([]))).chunks == ()


def test_abstractive_refuses_an_empty_answer_and_bad_settings() -> None:
    with pytest.raises(LLMReplyError, match="empty"):
        apply(Abstractive(chat=Scripted([""])), LEAVE)
    with pytest.raises(ConfigError, match="budget must be at least 1"):
        Abstractive(chat=Scripted([]), budget=0)


@pytest.mark.parametrize(
    "answer",
    ["Nothing.", "**NOTHING**", "nothing", "<think>Is it 27? No.</think>NOTHING", '"Nothing"'],
)
def test_nothing_is_understood_as_models_write_it(answer: str) -> None:
    assert texts(apply(Abstractive(chat=Scripted([answer])), chunk("a", "A long text. " * 9))) == []


def test_a_summary_holds_nothing_of_what_the_model_thought() -> None:
    model = Scripted(["<think>The passage says a lot.</think>27 days."])
    assert texts(apply(Abstractive(chat=model), chunk("a", "A long text. " * 9))) == ["27 days."]
