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
    """Slope and offset of the logistic curve with the least weighted log loss, by Newton's method.

    The curve turns scores, such as a validator's or the similarity of two texts, into
    probabilities.

    Args:
        inputs: where on the curve each row is.
        targets: probabilities, or labels that Platt's rule moved off 0 and 1.
        weights: how much each row counts.
        start: where the fit begins, and to which ``ridge`` draws it.
        ridge: how strongly the fit is drawn to its start, in slope and offset; 0 for not at all.
        longest: a longer step is cut: Newton's method may overshoot on few rows.
    """
    columns = np.stack([inputs, np.ones_like(inputs)])
    penalty = np.diag(ridge)
    centre = np.array(start)
    coefficients = centre
    # Ends once a step is tiny, after a few; the number is a guard alone.
    for _ in range(100):
        # Clipped, so that the exponential stays finite.
        predicted = 1 / (1 + np.exp(-np.clip(coefficients @ columns, -30, 30)))
        residuals = weights * (predicted - targets)
        gradient = columns @ residuals + penalty @ (coefficients - centre)
        curvature = weights * predicted * (1 - predicted)
        hessian = (columns * curvature) @ columns.T + penalty
        step = np.linalg.solve(hessian, gradient)
        size = float(np.abs(step).max())
        # The tiny number keeps a step of 0 from a division by 0.
        coefficients = coefficients - step * min(1.0, longest / max(size, 1e-12))
        if size < 1e-9:  # the fit has arrived
            break
    return float(coefficients[0]), float(coefficients[1])


def platt_targets(positive: int, negative: int) -> tuple[float, float]:
    """The targets for labels of 1 and of 0, a little off both, for a fit of a logistic curve.

    On rows that a score separates perfectly, a curve to exactly 0 and 1 would be infinitely steep.

    Source: Platt 1999, "Probabilistic Outputs for Support Vector Machines".

    Args:
        positive: rows with label 1.
        negative: rows with label 0.
    """
    return (positive + 1) / (positive + 2), 1 / (negative + 2)
