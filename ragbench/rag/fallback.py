"""Return values become results; forms that were not written are derived; partial batches.

Values in the old form (a list of strings, a string) are wrapped, values in the new form are passed
on as the same object, everything else is refused with a sentence that names the method.

The derivation is written once, as a generator that yields what each call returned; `drive` runs it
for plain methods and `drive_async` for coroutine methods.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.rag.forms import (
    FORMS,
    RETRIEVAL,
    MethodForm,
    TopKParameter,
    pass_top_k,
    routes,
    top_k_of_method,
)


def to_retrieval_result(value: object, where: str) -> RetrievalResult[Any]:
    """Checks or wraps what a retrieval method returned."""
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
    """The contexts of what a retrieval method returned, as the old interface's list."""
    if isinstance(value, list):
        given = cast("list[str]", value)
        _check_strings(given, "contexts", where)
        return given
    contexts = to_retrieval_result(value, where).contexts
    # The old interface promises a list; a list is handed on as the same object.
    return contexts if isinstance(contexts, list) else list(contexts)


def to_generation_result(value: object, where: str) -> GenerationResult[Any]:
    """Checks or wraps what a generation method returned."""
    if isinstance(value, GenerationResult):
        result = cast("GenerationResult[Any]", value)
        if result.multi_responses is not None:
            _check_strings(result.multi_responses, "multi_responses", where)
        return result
    if isinstance(value, str):
        return GenerationResult(value)
    raise _refusal(value, "a GenerationResult or a string", where)


def to_response(value: object, where: str) -> str:
    """The answer in what a generation method returned."""
    return value if isinstance(value, str) else to_generation_result(value, where).response


def to_batch(values: object, size: int, where: str) -> Sequence[Any]:
    """Checks that a batch method returned one result a query."""
    if not isinstance(values, list) and (
        isinstance(values, (str, bytes)) or not isinstance(values, Sequence)
    ):
        raise _refusal(values, "a list with one element per query", where)
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
                f"{where}: {name}[{position}] must be a string, not {kind_of(value)}"
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
                f"{where}: context_metadata[{position}] must be a mapping, not {kind_of(value)}"
            )


def _is_number(value: object) -> bool:
    # numpy's float32 is not a float, yet a number: what has __float__ will do. A flag will not.
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
    return InterfaceError(f"{where} must return {expected}, not {kind_of(value)}{hint}")


def kind_of(value: object) -> str:
    """What a value is, for a message: ``None`` or ``a list``."""
    return "None" if value is None else f"a {type(value).__name__}"


Derivation = Generator[Any, Any, Any]
"""Yields what a call returned (a value or an awaitable), is sent the value, returns the result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Which method stands in for another one, worked out once for a class."""

    source: MethodForm
    """The implemented form that is called."""
    where: str
    """Its name in messages: ``"MyRAG.retrieve"``."""
    top_k: TopKParameter
    """How it takes ``top_k``."""


def routes_of(cls: type, implemented: frozenset[str]) -> dict[str, Route]:
    """The routes of a class by the name of the method that is called."""
    found: dict[str, Route] = {}
    known = {
        name: Route(
            source=form,
            where=f"{cls.__name__}.{name}",
            top_k=top_k_of_method(cls, name) if family is RETRIEVAL else TopKParameter.NOT,
        )
        for name, (family, form) in FORMS.items()
        if name in implemented
    }
    for name, source in routes(implemented).items():
        found[name] = known[source.name]
    return found


def derive(
    rag: object,
    target: str,
    route: Route | None,
    columns: tuple[Sequence[Any], ...],
    top_k: int | None = None,
) -> Derivation:
    """Derives one call from an implemented form."""
    family, form = FORMS[target]
    if route is None:
        raise InterfaceError(
            f"{type(rag).__name__} has no {target} of its own and nothing to derive it from: "
            f"write one of {', '.join(known.name for known in family.forms)}"
        )
    source = route.source
    where = route.where
    method = getattr(rag, source.name)
    extra, options = _NOTHING if top_k is None else pass_top_k(route.top_k, top_k, where)
    values: Sequence[Any]
    if len(columns) == 2 and len(columns[0]) != len(columns[1]):
        raise _of_different_lengths(target, columns)
    size = len(columns[0])  # counted first: a method may empty what it is given
    if source.batch:
        values = to_batch((yield method(*columns, *extra, **options)), size, where)
    else:
        collected: list[Any] = []
        values = collected
        for arguments in zip(*columns, strict=True):
            collected.append((yield method(*arguments, *extra, **options)))
    convert = _CONVERTERS[family is RETRIEVAL, form.rich]
    return [convert(value, where) for value in values] if form.batch else convert(values[0], where)


_NOTHING: tuple[tuple[int, ...], dict[str, int]] = ((), {})
_CONVERTERS: dict[tuple[bool, bool], Callable[[object, str], Any]] = {
    (True, True): to_retrieval_result,
    (True, False): to_contexts,
    (False, True): to_generation_result,
    (False, False): to_response,
}


def drive(derivation: Derivation) -> Any:
    """Runs a derivation over plain methods."""
    try:
        value = next(derivation)
        while True:
            value = derivation.send(value)
    except StopIteration as stop:
        return stop.value


async def drive_async(derivation: Derivation) -> Any:
    """Runs a derivation over coroutine methods, one call at a time."""
    try:
        pending = next(derivation)
        while True:
            if not hasattr(pending, "__await__"):
                raise InterfaceError(
                    "a method of an AsyncRAGInterface returned a value that cannot be awaited "
                    f"(a {type(pending).__name__}): write it as 'async def', or inherit from "
                    "RAGInterface when no method is a coroutine"
                )
            pending = derivation.send(await pending)
    except StopIteration as stop:
        return stop.value


def _of_different_lengths(target: str, columns: tuple[Sequence[Any], ...]) -> InterfaceError:
    return InterfaceError(
        f"{target} was given {len(columns[0])} queries and {len(columns[1])} lists of contexts"
    )


class PartialBatchError(InterfaceError):
    """Some queries of a batch failed, the others have their results.

    A batch method raises it so that nothing is asked twice: whoever called it takes the results
    that are there and counts only the others as failed. A caller that does not know it sees a
    batch that failed and asks for each query alone, which ends the same.
    """

    def __init__(self, outcomes: Sequence[object], where: str) -> None:
        self.outcomes = tuple(outcomes)
        self.where = where
        errors = [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]
        super().__init__(
            f"{where}: {len(errors)} of {len(self.outcomes)} queries failed; the first with "
            f"{type(errors[0]).__name__}: {errors[0]}"
        )

    def __reduce__(self) -> tuple[type[PartialBatchError], tuple[tuple[object, ...], str]]:
        """Makes it travel between processes with all that it holds."""
        return type(self), (self.outcomes, self.where)


def settled(outcomes: Sequence[Any], where: str) -> list[Any]:
    """The results of a batch when there is no exception among them."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if not errors:
        return list(outcomes)
    if len(outcomes) == 1:
        raise errors[0]
    raise PartialBatchError(outcomes, where)
