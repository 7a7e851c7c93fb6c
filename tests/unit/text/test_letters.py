"""Letters as words are compared by: marks that carry meaning stay, accents may be left out."""

from __future__ import annotations

import pytest

from ragbench.metrics.correct import is_same
from ragbench.text.letters import as_written, bare, plain_letters


@pytest.mark.parametrize(
    ("word", "other"),
    [
        pytest.param("パリ", "バリ", id="Japanese: Paris and Bali"),
        pytest.param("かき", "がき", id="Japanese: persimmon and brat"),
        pytest.param("राम", "रोम", id="Hindi: Rama and Rome"),
        pytest.param("হাত", "হাতি", id="Bengali: hand and elephant"),
        pytest.param("மரம்", "மாரம்", id="Tamil: a vowel"),
        pytest.param("เสือ", "เสื้อ", id="Thai: tiger and shirt"),
        pytest.param("ไกล", "ใกล้", id="Thai: far and near"),
        pytest.param("Thùy", "Thúy", id="Vietnamese: two names"),
        pytest.param("мой", "мои", id="Russian: my, of one and of several"),
        pytest.param("달", "탈", id="Korean: moon and mask"),
        pytest.param("ሰላም", "ሰላማ", id="Amharic: a vowel"),
    ],
)
def test_words_that_differ_in_a_mark_alone_are_two(word: str, other: str) -> None:
    assert not is_same(word, other)
    assert not is_same(other, word)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("Müller", "Muller"),
        ("Müller", "Mueller"),
        ("café", "CAFE"),
        ("Straße", "strasse"),
        ("ё", "е"),
        ("Ｔｏｋｙｏ", "Tokyo"),
        ("ｶﾞ", "ガ"),
        ("كِتَاب", "كتاب"),
        ("Cafe\u0301", "Café"),
    ],
)
def test_a_word_may_be_written_without_its_accents(word: str, other: str) -> None:
    assert is_same(word, other)
    assert is_same(other, word)


def test_an_accent_of_another_letter_is_another_word() -> None:
    assert as_written(["thuy", "thúy"], ["thùy"]) == ("thùy", "thúy")


def test_marks_of_scripts_without_accents_stay() -> None:
    assert bare("éàü") == "eau"
    assert bare("が") == "が"
    assert bare("й") == "й"


def test_narrow_blanks_between_digits_are_signs_of_groups() -> None:
    assert plain_letters("67\u202f000\u202f000") == "67,000,000"
