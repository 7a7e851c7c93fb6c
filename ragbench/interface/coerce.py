"""The border where a user's return values become ragbench's results.

Values in the old form (a list of strings, a string) are wrapped, values in the new form are passed
on as the same object, everything else is refused with a sentence that names the method.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ragbench.errors import InterfaceError
from ragbench.interface.results import GenerationResult, RetrievalResult

__all__ = [
    "to_batch",
    "to_contexts",
    "to_generation_result",
    "to_response",
    "to_retrieval_result",
]


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
        result = cast("RetrievalResult[Any]", value)
        _check_strings(result.contexts, "contexts", where)
        if result.scores is not None:
            _check_scores(result.scores, where)
        if result.context_metadata is not None:
            _check_mappings(result.context_metadata, where)
        return result if result.context_ids is None else _with_string_ids(result, where)
    if isinstance(value, (list, tuple)):
        contexts = cast("Sequence[str]", value)
        _check_strings(contexts, "contexts", where)
        return RetrievalResult(contexts)
    raise _refusal(value, "a RetrievalResult or a list of strings", where)


def to_contexts(value: object, where: str) -> list[str]:
    """The contexts of what a retrieval method returned, as the old interface's list.

    Raises:
        InterfaceError: see `to_retrieval_result`.
    """
    if isinstance(value, list):
        given = cast("list[str]", value)
        _check_strings(given, "contexts", where)
        return given
    contexts = to_retrieval_result(value, where).contexts
    # The old interface promises a list; a list is handed on as the same object.
    return contexts if isinstance(contexts, list) else list(contexts)


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
    raise _refusal(value, "a GenerationResult or a string", where)


def to_response(value: object, where: str) -> str:
    """The answer in what a generation method returned.

    Raises:
        InterfaceError: see `to_generation_result`.
    """
    return value if isinstance(value, str) else to_generation_result(value, where).response


def to_batch(values: object, size: int, where: str) -> Sequence[Any]:
    """Checks that a batch method returned one result a query.

    Raises:
        InterfaceError: no list, or another number of results than queries.
    """
    if not isinstance(values, list) and (
        isinstance(values, (str, bytes)) or not isinstance(values, Sequence)
    ):
        raise _refusal(values, "a list with one element a query", where)
    results = cast("Sequence[Any]", values)
    if len(results) != size:
        raise InterfaceError(f"{where} returned {len(results)} results for {size} queries")
    return results


def _check_strings(values: Sequence[object], name: str, where: str) -> None:
    if _all_of(str, values):
        return
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InterfaceError(
                f"{where}: {name}[{position}] must be a string, not {_kind(value)}"
            )


def _check_scores(scores: Sequence[Any], where: str) -> None:
    if _all_of(float, scores) and all(map(math.isfinite, scores)):
        return
    for position, score in enumerate(scores):
        if not _is_number(score):
            raise InterfaceError(f"{where}: scores[{position}] must be a number, not {score!r}")
        if not math.isfinite(score):
            raise InterfaceError(f"{where}: scores[{position}] must be finite, not {score!r}")


def _all_of(kind: type, values: Iterable[object]) -> bool:
    # Three times as fast as a loop in Python, and every context of every query comes through here.
    return set(map(type, values)) <= {kind}


def _check_mappings(values: Sequence[object], where: str) -> None:
    for position, value in enumerate(values):
        # dict is checked first: an abstract Mapping check costs more.
        if not isinstance(value, (dict, Mapping)):
            raise InterfaceError(
                f"{where}: context_metadata[{position}] must be a mapping, not {_kind(value)}"
            )


def _is_number(value: object) -> bool:
    # numpy's float32 is no float, yet a number: what has __float__ will do. A flag will not.
    return hasattr(value, "__float__") and type(value).__name__ not in ("bool", "bool_")


def _with_string_ids(result: RetrievalResult[Any], where: str) -> RetrievalResult[Any]:
    ids = cast("Sequence[object]", result.context_ids)
    if _all_of(str, ids):
        return result
    return replace(result, context_ids=[_to_id(id_, where) for id_ in ids])


def _to_id(value: Any, where: str) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # numpy's and enumerations' strings become plain ones
    if not isinstance(value, bool):
        if hasattr(value, "__index__"):  # int and numpy's integers
            return str(value.__index__())
        if type(value).__name__ in ("UUID", "ObjectId"):
            return str(value)
    raise InterfaceError(f"{where}: a context id must be a string, not {value!r}")


def _refusal(value: object, expected: str, where: str) -> InterfaceError:
    hint = ""
    if inspect.iscoroutine(value):
        value.close()
        hint = ": it is a coroutine, so inherit from AsyncRAGInterface"
    return InterfaceError(f"{where} must return {expected}, not {_kind(value)}{hint}")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
