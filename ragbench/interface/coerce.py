"""The border where a user's return values become ragbench's results.

Values in the old form (a list of strings, a string) are wrapped, values in the new form are passed
on as the same object, everything else is refused with a sentence that names the method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ragbench.errors import InterfaceError
from ragbench.interface.results import GenerationResult, RetrievalResult

__all__ = ["to_batch", "to_generation_result", "to_retrieval_result"]


def to_retrieval_result(value: object, where: str) -> RetrievalResult[Any]:
    """Checks or wraps what a retrieval method returned.

    Args:
        value: a `RetrievalResult`, or a list of strings (the old form).
        where: the method that returned it, for the message.

    Returns:
        The same object when it is a `RetrievalResult` whose ids are strings; integer ids become
        strings in a new result that shares every other list.

    Raises:
        InterfaceError: it is something else, or an element is of the wrong kind.
    """
    if isinstance(value, RetrievalResult):
        return _checked(cast("RetrievalResult[Any]", value), where)
    if isinstance(value, (list, tuple)):
        return _checked(RetrievalResult(cast("Sequence[str]", value)), where)
    raise InterfaceError(
        f"{where} must return a RetrievalResult or a list of strings, not {_kind(value)}"
    )


def to_generation_result(value: object, where: str) -> GenerationResult[Any]:
    """Checks or wraps what a generation method returned.

    Args:
        value: a `GenerationResult`, or a string (the old form).
        where: the method that returned it, for the message.

    Raises:
        InterfaceError: it is something else, or a candidate is no string.
    """
    if isinstance(value, GenerationResult):
        result = cast("GenerationResult[Any]", value)
        if result.multi_responses is not None:
            _check_strings(result.multi_responses, "multi_responses", where)
        return result
    if isinstance(value, str):
        return GenerationResult(value)
    raise InterfaceError(f"{where} must return a GenerationResult or a string, not {_kind(value)}")


def to_batch(values: object, size: int, where: str) -> Sequence[Any]:
    """Checks that a batch method returned one result a query.

    Raises:
        InterfaceError: no list, or another number of results than queries.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InterfaceError(f"{where} must return a list, not {_kind(values)}")
    results = cast("Sequence[Any]", values)
    if len(results) != size:
        raise InterfaceError(f"{where} returned {len(results)} results for {size} queries")
    return results


def _checked(result: RetrievalResult[Any], where: str) -> RetrievalResult[Any]:
    _check_strings(result.contexts, "contexts", where)
    if result.scores is not None:
        _check_scores(result.scores, where)
    ids = result.context_ids
    if ids is None or all(type(id_) is str for id_ in ids):
        return result
    return replace(result, context_ids=[_to_id(id_, where) for id_ in ids])


def _check_strings(values: Sequence[object], name: str, where: str) -> None:
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InterfaceError(
                f"{where}: {name}[{position}] must be a string, not {_kind(value)}"
            )


def _check_scores(scores: Sequence[object], where: str) -> None:
    for position, score in enumerate(scores):
        # numpy's float32 is no float, yet a number: anything with __float__ will do, bool will not.
        number = None if isinstance(score, bool) else _to_float(score)
        if number is None or not math.isfinite(number):
            raise InterfaceError(f"{where}: scores[{position}] must be a finite number: {score!r}")


def _to_float(value: Any) -> float | None:
    if isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _to_id(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        raise InterfaceError(f"{where}: a context id must be a string, not {value!r}")
    try:
        return str(value.__index__())  # type: ignore[attr-defined]  # int and numpy integers
    except AttributeError:
        pass
    if type(value).__name__ == "UUID":
        return str(value)
    raise InterfaceError(f"{where}: a context id must be a string, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
