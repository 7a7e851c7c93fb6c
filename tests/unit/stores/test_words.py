"""The words of chunks that a store ranks: their values, their numbers, and how Qdrant counts."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench import Chunk
from ragbench.stores.qdrant import QdrantServerDatabase
from ragbench.stores.record import WordsForm, word_number


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


@pytest.mark.extra("qdrant")
def test_a_server_counts_words_in_one_shard_and_soon_forgets_what_was_removed() -> None:
    from qdrant_client import QdrantClient, models

    made: list[dict[str, Any]] = []

    class Recording(QdrantClient):
        def create_collection(self, *args: Any, **settings: Any) -> bool:
            made.append(settings)
            return super().create_collection(*args, **settings)

    client = Recording(":memory:")
    database = QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)
    database.create("plain", dimension=2)
    database.create("kb", dimension=2, words=WordsForm(average=7.0))
    plain, words = made
    assert plain.keys() == {"vectors_config", "metadata"}
    assert words["sparse_vectors_config"]["words"].modifier is models.Modifier.IDF
    assert words["shard_number"] == 1
    assert words["optimizers_config"].deleted_threshold == 0.05
    assert database.open("kb").info().words == WordsForm(average=7.0)
    assert database.open("plain").info().words is None
