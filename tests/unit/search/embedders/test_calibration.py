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


class KnownCosines:
    """Belonging pairs have a cosine of 0.9, others of 0.7, give or take a little."""

    dimension = 400
    hybrid_weight = 1.0

    def __init__(self, own: float = 1.0) -> None:
        self.identity = {"embedder": "known"}
        self.queries: list[str] = []
        self._own = own

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.queries += texts
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
    scale = measure_calibration(KnownCosines(), ["en"])

    assert scale.unrelated == pytest.approx(0.71, abs=0.03)
    assert scale.unrelated < scale.background < scale.midpoint < scale.related
    assert scale.score(scale.background) == 0.0
    assert scale.score(scale.unrelated) < 0
    assert scale.score(scale.related) > 0.8
    assert scale.score(1.0) == 1.0
    assert scale.score(1.0000001) == 1.0

    # Of an embedder that knows nothing.
    line = measure_calibration(KnownCosines(own=0.0), ["en"])
    assert line.score(line.background) == 0.0
    assert line.score(1.0) == 1.0


def test_it_is_measured_in_the_language_of_the_corpus() -> None:
    measured_languages = {
        "zh": ["zh"],
        "xx": ["en"],
        "": ["en"],
        "zh en ko": ["en", "zh"],
    }
    for languages, measured in measured_languages.items():
        embedder = KnownCosines()

        measure_calibration(embedder, languages.split())

        questions: list[str] = []
        for language in measured:
            questions.extend(pair[0] for pair in _sample_pairs()[language])
        assert embedder.queries == questions


COSINES = st.floats(-1, 1)


@given(st.floats(-0.5, 0.95), st.floats(0, 60), st.floats(0, 1), COSINES, COSINES)
def test_a_higher_cosine_never_scores_lower(
    background: float, slope: float, midpoint: float, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    scale = CosineScale(background=background, slope=slope, midpoint=midpoint)

    low_score, high_score = scale.score(low), scale.score(high)

    assert low_score <= high_score <= 1 + 1e-9
    for cosine, score in ((low, low_score), (high, high_score)):
        assert (score >= 0) == (cosine >= background) or score == 0


def test_it_survives_being_stored() -> None:
    scale = measure_calibration(HashingEmbedder(), ["en"])

    assert CosineScale.from_json(scale.to_json()) == scale
    with pytest.raises(ConfigError, match="no calibration"):
        CosineScale.from_json({"background": 1})
