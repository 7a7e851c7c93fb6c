"""Logistic regression with an L2 penalty, by SciPy: the same numbers on every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Matrix = NDArray[np.float64]


def fit(
    values: Matrix, labels: Matrix, *, penalty: float = 1.0, weights: Matrix | None = None
) -> tuple[Matrix, float]:
    """Weights and bias; the penalty holds for inputs scaled to unit variance."""
    mean, scale = values.mean(axis=0), values.std(axis=0)
    scale[scale < 1e-9] = 1.0
    inputs = (values - mean) / scale
    share = np.ones(len(labels)) if weights is None else weights

    def loss(point: Matrix) -> tuple[float, Matrix]:
        logits = inputs @ point[:-1] + point[-1]
        value = float((share * (np.logaddexp(0, logits) - labels * logits)).sum())
        gap = share * (1 / (1 + np.exp(-logits)) - labels)
        slope = np.append(inputs.T @ gap + penalty * point[:-1], gap.sum())
        return value + 0.5 * penalty * float(point[:-1] @ point[:-1]), slope

    start = np.zeros(values.shape[1] + 1)
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    slopes = found.x[:-1] / scale
    return slopes, float(found.x[-1] - slopes @ mean)


def expand(values: Matrix, terms: Sequence[tuple[int, ...]]) -> Matrix:
    """Products of columns."""
    return np.stack([values[:, list(term)].prod(axis=1) for term in terms], axis=1)


def stored(
    terms: Sequence[tuple[int, ...]], names: Sequence[str], slopes: Matrix, bias: float
) -> dict[str, Any]:
    """The form that ``ragbench.validators.calibration.read_model`` reads."""
    keys = ["*".join(names[place] for place in term) for term in terms]
    weights = {key: round(float(slope), 4) for key, slope in zip(keys, slopes, strict=True)}
    return {"bias": round(bias, 4), "weights": weights}
