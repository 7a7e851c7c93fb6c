"""What the cosine of an embedder means.

Raw cosines do not compare: with one model unrelated texts score 0.02, with another 0.7. So each
embedder is measured on a small sample of questions and passages that ragbench brings, in which it
is known which belong together:

1. ``background`` is the cosine that 98 of 100 pairs which do not belong together stay below.
2. A logistic curve is fitted through the pairs that do and those that do not (Platt 1999,
   "Probabilistic Outputs for Support Vector Machines"): how probable it is that a pair with this
   cosine belongs together, where as many pairs do as do not.
3. The curve is moved and stretched so that the background scores 0 and equal vectors score 1.

The score is a strictly rising function of the cosine: it never changes a ranking. It is measured in
the language of the corpus, because a model that knows only English sees all Chinese texts alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

from ragbench.embedders.embedder import Embedder
from ragbench.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE_LANGUAGES = ("en", "zh", "de", "fr", "es")
"""Languages that the sample holds, by ISO 639-1."""
_QUANTILE = 0.98
_STEPS = 100
_FLAT = 1e-6
"""A curve that rises less than this from the background on says nothing: a line is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CosineScale:
    background: float = 0.0
    """The cosine that scores 0: 98 of 100 pairs of unrelated texts stay below it."""
    unrelated: float = 0.0
    """Mean cosine of unrelated pairs."""
    related: float = 1.0
    """Mean cosine of a question and the passage that answers it."""
    slope: float = 0.0
    """Steepness of the logistic curve; 0 for a straight line, where the cosines of pairs that
    belong together are not higher than those of others."""
    midpoint: float = 0.0
    """The cosine at which both are equally probable."""

    def score(self, cosine: float) -> float:
        """The cosine on this scale: 0 for the background, at most 1, below 0 for less."""
        cosine = min(cosine, 1.0)
        low, high = self._curve(self.background), self._curve(1.0)
        if high - low < _FLAT:
            return (cosine - self.background) / (1.0 - self.background)
        return (self._curve(cosine) - low) / (high - low)

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> CosineScale:
        names = asdict(cls())
        if set(value) != set(names) or not all(
            isinstance(one, (int, float)) for one in value.values()
        ):
            raise ConfigError(f"no calibration of an embedder: {dict(value)}")
        return cls(**{name: float(cast("float", value[name])) for name in names})

    def _curve(self, cosine: float) -> float:
        return 1 / (1 + math.exp(-self.slope * (cosine - self.midpoint)))


def measure_calibration(embedder: Embedder, languages: Iterable[str] = ("en",)) -> CosineScale:
    import numpy as np

    known = [language for language in SAMPLE_LANGUAGES if language in set(languages)] or ["en"]
    related: list[NDArray[np.float32]] = []
    unrelated: list[NDArray[np.float32]] = []
    for language in known:
        pairs = _sample()[language]
        queries = embedder.embed_queries([question for question, _ in pairs])
        passages = embedder.embed_passages([passage for _, passage in pairs])
        cosines = queries @ passages.T
        same = np.eye(len(pairs), dtype=bool)
        related.append(cosines[same])
        unrelated.append(cosines[~same])
    return _fitted(np.concatenate(related), np.concatenate(unrelated))


def _fitted(related: NDArray[np.float32], unrelated: NDArray[np.float32]) -> CosineScale:
    import numpy as np

    slope, midpoint = _logistic(related.astype(float), unrelated.astype(float))
    found = {
        "background": min(float(np.quantile(unrelated, _QUANTILE)), 0.999),
        "unrelated": float(unrelated.mean()),
        "related": float(related.mean()),
        "slope": slope,
        "midpoint": midpoint,
    }
    # Six decimals: more would differ between processors.
    return CosineScale(**{name: round(value, 6) for name, value in found.items()})


def _logistic(related: NDArray[np.float64], unrelated: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and midpoint of the curve by Newton's method; (0, 0) where none rises."""
    import numpy as np

    cosines = np.concatenate([related, unrelated])
    # Platt's targets, a little off 0 and 1, keep the curve finite where the pairs do not overlap.
    belong, others = len(related), len(unrelated)
    targets = np.repeat([(belong + 1) / (belong + 2), 1 / (others + 2)], [belong, others])
    weights = np.repeat([0.5 / belong, 0.5 / others], [belong, others])
    design = np.stack([cosines, np.ones_like(cosines)], axis=1)
    found = np.zeros(2)
    for _ in range(_STEPS):
        given = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        gradient = design.T @ (weights * (given - targets)) + 1e-6 * found
        curvature = (design.T * (weights * given * (1 - given))) @ design + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 10.0 / max(float(np.abs(step).max()), 1e-12))
        found = found - step
        if float(np.abs(step).max()) < 1e-9:
            break
    slope, shift = float(found[0]), float(found[1])
    return (slope, -shift / slope) if slope > 1e-3 else (0.0, 0.0)


@lru_cache(maxsize=1)
def _sample() -> Mapping[str, Sequence[tuple[str, str]]]:
    text = files("ragbench.embedders").joinpath("sample.json").read_text("utf-8")
    return cast("Mapping[str, Sequence[tuple[str, str]]]", json.loads(text))
