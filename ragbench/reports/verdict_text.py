"""How the numbers of a check are written, in whichever form."""

from __future__ import annotations

import math

from ragbench.records.verdicts import CaseChange, Check, Drop

__all__ = [
    "after_text",
    "change_text",
    "detectable_text",
    "interval_text",
    "limit_text",
    "number_text",
    "observed_text",
]


def number_text(value: float | None, unit: str = "", *, sign: bool = False) -> str:
    """A number in as many places as its size needs; ``-`` where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    plus = "+" if sign else ""
    if unit == "s":
        text = f"{value * 1e3:{plus}.1f} ms" if abs(value) < 1 else f"{value:{plus}.2f} s"
        return text
    return f"{value:{plus}.3f}" if abs(value) < 100 else f"{value:{plus},.1f}"


def observed_text(check: Check) -> str:
    """This run's figure."""
    if check.kind.value == "coverage" and check.observed is not None:
        return f"{check.observed:.1%}"
    return number_text(check.observed, check.unit)


def limit_text(check: Check) -> str:
    """What the figure is held against."""
    if check.kind.value == "coverage":
        return f"at most {check.limit:.1%}"
    number = number_text(check.limit, check.unit)
    words = {"min": "at least", "max": "at most", "max_drop": "loss up to"}
    return f"{words[check.bound]} {number}"


def change_text(drop: Drop | None, unit: str = "") -> str:
    """The change against the baseline."""
    return "-" if drop is None else number_text(drop.difference, unit, sign=True)


def after_text(change: CaseChange) -> str:
    """What a case came to now: a number, or why there is none."""
    if change.after is not None:
        return number_text(change.after)
    is_told = change.status == "failed" and change.reason
    return f"{change.status}: {change.reason}" if is_told else change.status


def interval_text(check: Check) -> str:
    """The interval of the change, or of the figure where there is no change."""
    if check.drop is not None:
        low, high, sign = check.drop.low, check.drop.high, True
    elif check.interval is not None:
        low, high, sign = check.interval.low, check.interval.high, False
    else:
        return "-"
    if low is None or high is None:
        return "-"
    ends = (number_text(end, check.unit, sign=sign) for end in (low, high))
    return " .. ".join(ends)


def detectable_text(check: Check) -> str:
    """The smallest true loss that these cases would have shown."""
    drop = check.drop
    return "-" if drop is None else number_text(drop.detectable_drop, check.unit)
