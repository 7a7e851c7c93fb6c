"""How much vectors count beside words, where nothing is labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragbench import Document, index, open_engine
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.pipeline.agreement import measured_weight
from ragbench.search.pipeline.strategies import HybridStrategy
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.memory import MemoryDatabase
from tests.unit.search.pipeline.builders import chunk

SYLLABLES = ["ba", "de", "fi", "go", "lu", "mar", "ne", "pol", "ri", "sta", "tem", "vo"]


def random_texts(count: int) -> list[str]:
    """Sentences of twelve words, as good as none of which is in a second sentence."""
    draw = Random(1)
    words = ["".join(draw.choices(SYLLABLES, k=3)) for _ in range(4 * count)]
    sentences: list[str] = []
    for _ in range(count):
        sentence = " ".join(draw.sample(words, 12))
        sentences.append(sentence.capitalize() + ".")
    return sentences


def words_of(text: str) -> set[str]:
    return set(text.lower().strip(".").split())


class Confused(HashingEmbedder):
    """Takes all texts of a group for the same; a question belongs to the text of its words."""

    agreeing_weight = 0.5
    group_of_text: Mapping[str, int]

    def _rows(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            group = self._group(text)
            row[group] = 1.0
        return rows

    def _group(self, question: str) -> int:
        for text, group in self.group_of_text.items():
            if words_of(question) <= words_of(text):
                return group
        raise AssertionError(f"no text has the words of {question!r}")


def filled(texts: Sequence[str], embedder: HashingEmbedder) -> OwnCollection:
    store = MemoryDatabase().create("c", dimension=embedder.dimension)
    chunks = [chunk(f"{position:02}", text) for position, text in enumerate(texts)]
    store.upsert(chunks, embedder.embed_passages(texts))
    return store


@pytest.mark.parametrize(
    ("group_size", "weight"),
    # Of n that look alike each counts as the last: words find all, vectors 1 / n of it, cubed.
    [
        (1, 0.5),
        (2, 0.5 * (1 / 2) ** 3),
        (4, 0.5 * (1 / 4) ** 3),
        (60, 0.5 * (1 / 60) ** 3),
    ],
)
def test_the_weight_is_the_cube_of_how_well_vectors_find_passages(
    group_size: int, weight: float
) -> None:
    texts = random_texts(60)
    embedder = Confused(dimension=60)
    groups = {text: position // group_size for position, text in enumerate(texts)}
    object.__setattr__(embedder, "group_of_text", groups)  # embedders are frozen
    store = filled(texts, embedder)

    assert measured_weight(store, embedder) == pytest.approx(weight, abs=1e-4)


ANY_TEXTS = st.lists(st.text(st.sampled_from("ab 苹果是水，。.\n1é")), min_size=50, max_size=60)


@settings(max_examples=25, deadline=None)
@given(ANY_TEXTS)
def test_any_texts_have_a_weight_within_bounds_or_none(texts: list[str]) -> None:
    embedder = HashingEmbedder(dimension=16)
    store = filled(texts, embedder)

    weight = measured_weight(store, embedder)

    assert weight is None or 0.0 <= weight <= embedder.agreeing_weight


@settings(max_examples=25, deadline=None)
@given(ANY_TEXTS)
def test_texts_with_a_sentence_that_is_long_enough_have_a_weight(texts: list[str]) -> None:
    embedder = HashingEmbedder(dimension=16)
    sentence = "苹果是水果，员工每年有二十天年假。"
    store = filled([text + sentence for text in texts], embedder)

    assert measured_weight(store, embedder) is not None


def hybrid_weights(folder: Path, count: int) -> tuple[float | None, float]:
    """What indexing so many documents reports, and what a search of the index then uses."""
    documents: list[Document] = []
    for position, text in enumerate(random_texts(count)):
        documents.append(Document(id=f"{position:02}", text=text))
    address = f"memory:{folder}/index"
    indexed = index(documents, address, "c", embedder="hashing:32")
    with open_engine(address) as engine:
        strategy = engine.collection("c").strategy("hybrid")
    assert isinstance(strategy, HybridStrategy)
    return indexed.dense_weight, strategy.weights[0]


def test_few_chunks_say_nothing_and_the_embedder_s_own_weight_holds(tmp_path: Path) -> None:
    measured, used = hybrid_weights(tmp_path, 40)

    assert measured is None
    assert used == 1.0


def test_an_index_keeps_the_weight_that_was_measured(tmp_path: Path) -> None:
    measured, used = hybrid_weights(tmp_path, 60)

    assert used == measured
    # 32 numbers do not tell 60 passages apart as words do.
    assert 0.0 < used < 2.0
