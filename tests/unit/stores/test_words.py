"""The words of chunks that a store ranks: their values and their numbers."""

from __future__ import annotations

import pytest

from ragbench import Chunk
from ragbench.stores.words import WordsForm, word_number


def test_a_word_has_the_value_that_can_be_worked_out_by_hand() -> None:
    form = WordsForm(average=4.0)
    found = form.vector(Chunk(id="a", text="rent fee rent"))
    # Three words of four on average: 1.2 * (0.25 + 0.75 * 3 / 4) = 0.975.
    assert found[word_number("rent")] == pytest.approx(2 / 2.975)
    assert found[word_number("fee")] == pytest.approx(1 / 1.975)
    # A title counts twice: rent three times, four words: 1.2 * (0.25 + 0.75) = 1.2.
    found = form.vector(Chunk(id="a", text="rent fee", metadata={"title": "Rent"}))
    assert found[word_number("rent")] == pytest.approx(3 / 4.2)
    assert found[word_number("fee")] == pytest.approx(1 / 2.2)


def test_chinese_is_kept_as_pairs_and_what_has_no_word_as_nothing() -> None:
    form = WordsForm(average=2.0)
    found = form.vector(Chunk(id="a", text="合同条款"))
    assert set(found) == {word_number(pair) for pair in ("合同", "同条", "条款")}
    assert form.vector(Chunk(id="a", text=" ... ")) == {}


def test_the_number_of_a_word_never_changes() -> None:
    # The first four bytes of BLAKE2b of that length, the lowest first.
    assert word_number("rent") == 1224338906
    assert 0 <= word_number("\ud800") < 2**32
