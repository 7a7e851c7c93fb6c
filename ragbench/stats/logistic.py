"""A logistic curve through probabilities."""

from __future__ import annotations

from ragbench.plugins import Floats, np


def logistic_fit(
    inputs: Floats,
    targets: Floats,
    weights: Floats,
    *,
    start: tuple[float, float],
    ridge: tuple[float, float],
    longest: float,
) -> tuple[float, float]:
    """Slope and offset of the curve, by Newton's method.

    Args:
        targets: probabilities, or labels that Platt's rule moved off 0 and 1.
        start: where the fit begins, and to which ``ridge`` draws it.
        longest: a longer step is cut: Newton's method may overshoot on few rows.
    """
    columns, drawn = np.stack([inputs, np.ones_like(inputs)]), np.diag(ridge)
    point = centre = np.array(start)
    for _ in range(100):
        predicted = 1 / (1 + np.exp(-np.clip(point @ columns, -30, 30)))
        slope = columns @ (weights * (predicted - targets)) + drawn @ (point - centre)
        curve = (columns * (weights * predicted * (1 - predicted))) @ columns.T + drawn
        step = np.linalg.solve(curve, slope)
        size = float(np.abs(step).max())
        point = point - step * min(1.0, longest / max(size, 1e-12))
        if size < 1e-9:
            break
    return float(point[0]), float(point[1])


def platt_targets(positive: int, negative: int) -> tuple[float, float]:
    """What labels of 1 and of 0 are fitted as, a little off both, so that the curve stays finite.

    Source: Platt 1999, "Probabilistic Outputs for Support Vector Machines".
    """
    return (positive + 1) / (positive + 2), 1 / (negative + 2)
