"""How much vectors count beside words, where nothing is labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ragbench.search.stores.memory import MemoryDatabase
from tests.unit.search.pipeline.builders import chunk

_SYLLABLES = ["ba", "de", "fi", "go", "lu", "mar", "ne", "pol", "ri", "sta", "tem", "vo"]


def texts(count: int) -> list[str]:
    draw = Random(1)
    words = ["".join(draw.choices(_SYLLABLES, k=3)) for _ in range(4 * count)]
    return [" ".join(draw.sample(words, 12)).capitalize() + "." for _ in range(count)]


class Confused(HashingEmbedder):
    """Takes all texts of a group of so many for the same."""

    group = 4
    agreeing_weight = 0.5
    places: Mapping[str, int]

    def _rows(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            words = set(text.lower().strip(".").split())
            row[next(at for one, at in self.places.items() if words <= set(one.split()))] = 1.0
        return rows


@pytest.mark.parametrize(
    ("group", "wanted"),
    # Of n that look alike each counts as the last: words find all, vectors 1 / n of it, cubed.
    [(1, 0.5), (2, 0.5 * (1 / 2) ** 3), (4, 0.5 * (1 / 4) ** 3), (60, round(0.5 / 60**3, 4))],
)
def test_the_weight_is_the_cube_of_how_well_vectors_find_passages(
    group: int, wanted: float
) -> None:
    every = texts(60)
    embedder = Confused(dimension=60)
    places = {one.lower().strip("."): at // group for at, one in enumerate(every)}
    object.__setattr__(embedder, "places", places)
    store = MemoryDatabase().create("c", dimension=60)
    store.upsert(
        [chunk(f"{at:02}", one) for at, one in enumerate(every)], embedder.embed_passages(every)
    )
    assert measured_weight(store, embedder) == pytest.approx(wanted, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab 苹果是水，。.\n1é\0")), min_size=50, max_size=60))
def test_any_texts_have_a_weight_or_none(given: list[str]) -> None:
    embedder = HashingEmbedder(dimension=16)
    store = MemoryDatabase().create("c", dimension=16)
    chunks = [chunk(f"{at:02}", one.replace("\0", "")) for at, one in enumerate(given)]
    store.upsert(chunks, embedder.embed_passages([one.text for one in chunks]))
    weight = measured_weight(store, embedder)
    assert weight is None or 0.0 <= weight <= embedder.agreeing_weight
    long = [replace(one, text=f"{one.text} 苹果是水果，员工每年有二十天年假。") for one in chunks]
    store.upsert(long, embedder.embed_passages([one.text for one in long]))
    assert measured_weight(store, embedder) is not None


def test_few_chunks_say_nothing_and_an_index_keeps_what_was_measured(tmp_path: Path) -> None:
    address = f"memory:{tmp_path}/index"
    weights: list[float] = []
    for count in (40, 60):
        documents = [Document(id=f"{at:02}", text=one) for at, one in enumerate(texts(count))]
        done = index(documents, address, f"c{count}", embedder="hashing:32")
        with open_engine(address) as engine:
            strategy = engine.collection(f"c{count}").strategy("hybrid")
        assert isinstance(strategy, HybridStrategy)
        weights.append(strategy.weights[0])
        assert done.dense_weight in (None, strategy.weights[0])
    assert weights[0] == 1.0  # the embedder's own
    assert 0.0 < weights[1] < 2.0  # 32 numbers do not tell 60 passages apart as words do
