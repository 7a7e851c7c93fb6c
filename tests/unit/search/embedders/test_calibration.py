"""What a cosine means, measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragbench.errors import ConfigError
from ragbench.search.embedders.embedder import (
    CosineScale,
    _sample_pairs,
    measure_calibration,
    unit_rows,
)
from ragbench.search.embedders.local import HashingEmbedder


class Known:
    """Cosines that are known: belonging pairs 0.9, others 0.7, give or take a little."""

    dimension = 400
    hybrid_weight = 1.0

    def __init__(self, own: float = 1.0) -> None:
        self.identity = {"embedder": "known"}
        self.asked: list[str] = []
        self._own = own

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        return self._rows(len(texts), 1)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(len(texts), 2)

    def _rows(self, count: int, seed: int) -> NDArray[np.float32]:
        noise = np.random.default_rng(seed).normal(size=(count, 300)) * 0.01
        rows = np.zeros((count, 400))
        rows[:, 0] = 1.6
        rows[np.arange(count), 1 + np.arange(count)] = self._own
        rows[:, 100:] = noise
        return unit_rows(rows)

    def close(self) -> None:
        pass


def test_the_background_is_above_almost_all_unrelated_pairs() -> None:
    found = measure_calibration(Known(), ["en"])
    assert found.unrelated == pytest.approx(0.71, abs=0.03)
    assert found.unrelated < found.background < found.midpoint < found.related
    assert found.score(found.background) == 0.0
    assert found.score(found.unrelated) < 0
    assert found.score(found.related) > 0.8
    assert found.score(1.0) == found.score(1.0000001) == 1.0
    line = measure_calibration(Known(own=0.0), ["en"])  # of an embedder that knows nothing
    assert (line.score(line.background), line.score(1.0)) == (0.0, 1.0)


def test_it_is_measured_in_the_language_of_the_corpus() -> None:
    for said, wanted in {"zh": ["zh"], "xx": ["en"], "": ["en"], "zh en ko": ["en", "zh"]}.items():
        embedder = Known()
        measure_calibration(embedder, said.split())
        assert embedder.asked == [
            pair[0] for language in wanted for pair in _sample_pairs()[language]
        ]


COSINES = st.floats(-1, 1)


@given(st.floats(-0.5, 0.95), st.floats(0, 60), st.floats(0, 1), COSINES, COSINES)
def test_a_higher_cosine_never_scores_lower(
    background: float, slope: float, midpoint: float, low: float, high: float
) -> None:
    scale = CosineScale(background=background, slope=slope, midpoint=midpoint)
    assert scale.score(min(low, high)) <= scale.score(max(low, high)) <= 1 + 1e-9
    assert (scale.score(low) >= 0) == (low >= background) or scale.score(low) == 0


def test_it_survives_being_stored() -> None:
    found = measure_calibration(HashingEmbedder(), ["en"])
    assert CosineScale.from_json(found.to_json()) == found
    with pytest.raises(ConfigError, match="no calibration"):
        CosineScale.from_json({"background": 1})
