"""Single values of NumPy, pandas and ``decimal`` as Python's own, without importing any of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

_PLAIN = frozenset({str, int, bool, type(None), list, dict, tuple})
_PANDAS_MISSING = frozenset({"NaTType", "NAType"})
"""The types of ``pd.NaT`` and ``pd.NA``, of which each has one value."""


def plain_scalar(value: Any) -> Any:
    """A single value as Python has it, None where it is missing; anything else as it is.

    Missing are None, the NaN of any of these libraries, NaT and NA: so data frames and arrays write
    what is not known.

    Cases, results and answers of users may come out of such libraries.

    Example:
        >>> plain_scalar(float("nan")), plain_scalar(0.5), plain_scalar("a")
        (None, 0.5, 'a')
    """
    kind = type(cast("object", value))
    if kind in _PLAIN:
        return value
    if kind.__name__ in _PANDAS_MISSING:
        return None
    is_numpy_scalar = kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0
    may_be_nan = is_numpy_scalar or issubclass(kind, (float, Decimal))
    if may_be_nan and value != value:  # NaN, and NumPy's NaT, differ from everything
        return None
    if is_numpy_scalar:
        return value.item()
    return value


def plain_number(value: Any) -> Any:
    """A single value as `plain_scalar` gives it, with a `Decimal` as the int or float that it is.

    Databases give numbers as `Decimal`, which JSON has no form for.
    """
    value = plain_scalar(value)
    if not isinstance(value, Decimal):
        return value
    is_whole = value.is_finite() and value == value.to_integral_value()
    return int(value) if is_whole else float(value)
