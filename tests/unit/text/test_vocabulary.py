"""Whether two words that look alike are one word, misspelled, or two."""

from __future__ import annotations

import pytest

from ragbench.text.vocabulary import exists, is_spelling_of


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("amsterdam", "amsterdm"),
        ("receive", "recieve"),
        ("organisation", "organization"),
        ("colour", "color"),
        ("metre", "meter"),
    ],
)
def test_a_typo_and_another_spelling_are_the_same_word(word: str, other: str) -> None:
    assert is_spelling_of(word, other)
    assert is_spelling_of(other, word)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("sweden", "sweeten"),
        ("angola", "angora"),
        ("morning", "mourning"),
        ("affect", "effect"),
        ("iran", "iraq"),
        ("prednisone", "prednisolone"),
        ("berlin", "merlin"),
    ],
)
def test_two_words_that_exist_are_two_words(word: str, other: str) -> None:
    assert not is_spelling_of(word, other)


def test_a_word_of_the_question_s_language_exists() -> None:
    assert exists("lieferung", "de")
    assert not exists("lieferung")
    assert not exists("lieferunk", "de")
