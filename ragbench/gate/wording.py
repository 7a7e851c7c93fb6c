"""Numbers as the sentences of a verdict say them."""

from __future__ import annotations

__all__ = ["cases", "figure", "span"]


def figure(value: float, unit: str = "") -> str:
    """A figure, to three places or three digits."""
    text = f"{value:.3f}" if abs(value) < 10 and not unit else f"{value:,.3g}"
    if abs(value) >= 1000:
        text = f"{value:,.0f}"
    if 0 < abs(value) < 0.0005:
        text = f"{value:.2g}"
    return f"{text} {unit}" if unit else text


def span(low: float | None, high: float | None, unit: str = "") -> str:
    """An interval."""
    if low is None or high is None:
        return "unknown"
    return f"{figure(low)} to {figure(high, unit)}"


def cases(count: int) -> str:
    """A number of cases."""
    return "1 case" if count == 1 else f"{count:,} cases"
