"""Return values become results; forms that were not written are derived; partial batches.

Values in the old form (a list of strings, a string) are wrapped, values in the new form are passed
on as the same object, everything else is refused with a sentence that names the method.

The derivation is written once, as a generator that yields what each call returned; `derived` runs
it for plain methods and `derived_async` for coroutine methods.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ragbench.core.record import Record
from ragbench.core.result import GenerationResult, RetrievalResult, kind_of
from ragbench.core.scalars import plain_number, plain_scalar
from ragbench.errors import InterfaceError
from ragbench.rag.forms import FORMS, RETRIEVAL, MethodForm, pass_top_k, routes, top_k_of_method


def to_retrieval_result(value: object, where: str) -> RetrievalResult[Any]:
    """The value that a retrieval method returned, as a result whose fields are as they should be.

    A value in the old form, a list of strings, is wrapped. Ids that are numbers become texts.

    Args:
        where: the method's name in messages.

    Raises:
        InterfaceError: it is no retrieval, or a field has values of another kind.
    """
    if not isinstance(value, RetrievalResult):
        if not isinstance(value, (list, tuple)):
            raise _refusal(value, "a RetrievalResult or a list of strings", where)
        value = RetrievalResult(cast("Sequence[str]", value))
    result = cast("RetrievalResult[Any]", value)
    # What is as it should be costs no call for each of its contexts: the sets hold one type.
    are_strings = set(map(type, result.contexts)) <= {str}
    if not are_strings:
        _check_strings(result.contexts, "contexts", where)
    scores = result.scores
    if scores is not None:
        are_floats = set(map(type, scores)) <= {float}
        are_plain = are_floats and all(map(math.isfinite, scores))
        if not are_plain:
            _check_scores(scores, where)
            plain_scores = [plain_number(score) for score in scores]
            result = replace(result, scores=plain_scores)
    for position, metadata in enumerate(result.context_metadata or ()):
        # dict is checked first: an abstract Mapping check costs more.
        if not isinstance(metadata, (dict, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InterfaceError(
                f"{where}: context_metadata[{position}] must be a mapping, not {kind_of(metadata)}"
            )
    ids = result.context_ids
    if ids is None or set(map(type, ids)) <= {str}:
        return result
    plain_ids = [_to_id(id_, where) for id_ in ids]
    return replace(result, context_ids=plain_ids)


def to_generation_result(value: object, where: str) -> GenerationResult[Any]:
    """The value that a generation method returned, as a result; a bare string is wrapped.

    Args:
        where: the method's name in messages.

    Raises:
        InterfaceError: it is no answer, or a field has values of another kind.
    """
    # NaN and the like of a data frame are None, which is no answer.
    value = plain_scalar(value)
    if isinstance(value, str):
        return GenerationResult(value)
    if not isinstance(value, GenerationResult):
        raise _refusal(value, "a GenerationResult or a string", where)
    result = cast("GenerationResult[Any]", value)
    if result.multi_responses is not None:
        _check_strings(result.multi_responses, "multi_responses", where)
    return result


def to_batch(values: object, size: int, where: str) -> Sequence[Any]:
    """The values that a batch method returned, checked to be one per query.

    With fewer or more, results would go to other queries.
    """
    # A text is a sequence, too, and no list of results.
    is_text = isinstance(values, (str, bytes))
    if is_text or not isinstance(values, Sequence):
        raise _refusal(cast("object", values), "a list with one element per query", where)
    results = cast("Sequence[Any]", values)
    if len(results) != size:
        raise InterfaceError(f"{where} returned {len(results)} results for {size} queries")
    return results


def _check_strings(values: Sequence[object], name: str, where: str) -> None:
    """Refuses the first value of a result's field that is no string, by its place in the field.

    The message has that place, so that users find the value in their system.
    """
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InterfaceError(
                f"{where}: {name}[{position}] must be a string, not {kind_of(value)}"
            )


def _check_scores(scores: Sequence[Any], where: str) -> None:
    """Refuses the first score of a retrieval that is no finite number, by its place.

    A score that is NaN would make every comparison with it false, and the order random.
    """
    for position, score in enumerate(scores):
        # A tensor is not a float, yet a number: what has __float__ will do. A flag will not.
        number = plain_number(score)
        is_number = hasattr(number, "__float__") and not isinstance(number, bool)
        is_finite = is_number and math.isfinite(number)
        if not is_finite:
            raise InterfaceError(
                f"{where}: scores[{position}] must be a finite number, not {score!r}"
            )


def _to_id(value: Any, where: str) -> str:
    """A context's id as a plain string: ids of databases are often numbers, UUIDs or ObjectIds.

    Ids are compared as texts with those of a dataset, so 7 and "7" must be the same.
    """
    value = plain_number(value)
    if isinstance(value, str):
        return str.__str__(value)  # an enumeration's strings become plain ones
    is_whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if is_whole or type(value).__name__ in ("UUID", "ObjectId"):
        return str(value)
    raise InterfaceError(f"{where}: a context id must be a string, not {value!r}")


def _refusal(value: object, expected: str, where: str) -> InterfaceError:
    """The error for a value of the wrong kind that a user's method returned.

    Of a coroutine it names the interface for coroutines, which is the usual mistake.
    """
    hint = ""
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody awaited it
        hint = ": it is a coroutine, so inherit from AsyncRAGInterface"
    return InterfaceError(f"{where} must return {expected}, not {kind_of(value)}{hint}")


class Route(Record):
    """Which method stands in for another one, worked out once for a class."""

    source: MethodForm
    """The method that the user wrote and that is called instead."""
    where: str
    """Its name in messages: ``"MyRAG.retrieve"``."""
    top_k: str | None
    """How it takes ``top_k``; see `ragbench.rag.forms.pass_top_k`."""


def routes_of(cls: type, implemented: frozenset[str]) -> dict[str, Route]:
    """For each method of the interface that a class has not written: the substitute for it.

    Worked out once for a class, and not at each call.

    Args:
        implemented: names of the methods that the class has written.
    """
    route_of_target: dict[str, Route] = {}
    for target, source in routes(implemented).items():
        # Only retrieval takes a number of contexts.
        top_k = None
        if source in RETRIEVAL:
            top_k = top_k_of_method(cls, source.name)
        where = f"{cls.__name__}.{source.name}"
        route_of_target[target] = Route(source=source, where=where, top_k=top_k)
    return route_of_target


def takes_history(rag: Any, name: str) -> bool:
    """Whether a call of a method reaches code of the user's that takes a query's history.

    Where it does not, a stage leaves the history out of what it calls and of what it stores the
    result under: the same query has the same result.

    Args:
        rag: a `RAGInterface` or `AsyncRAGInterface`; their module imports this one.
        name: the method that is called, whether the user wrote it or it is derived.
    """
    if name not in rag.implemented:
        # Not written by the user: the method that stands in for it is the one that counts.
        route = rag._routes.get(name)
        if route is not None:
            name = route.source.name
    return name in rag.histories


def own_method(rag: Any, name: str, top_k: int | None = None) -> Callable[..., Any]:
    """What calls a batch method that the user wrote, as `derived` calls others.

    Made once for all calls of a stage: how the method takes its arguments does not change. Stages
    call the interface's methods with whole batches of queries.
    """
    where = f"{type(rag).__name__}.{name}"
    # Without a number to be asked for, how the method takes one makes no difference.
    top_k_way = None
    if top_k is not None:
        top_k_way = top_k_of_method(type(cast("object", rag)), name)
    extra, options = pass_top_k(top_k_way, top_k, where)
    # Kept for all calls: how the method takes the messages does not change either.
    history_keyword = rag.histories.get(name)
    return partial(_call_own_method, rag, name, extra, options, history_keyword)


def _call_own_method(
    rag: Any,
    name: str,
    extra: Sequence[int],
    options: Mapping[str, Any],
    history_keyword: str | None,
    /,
    *columns: Sequence[Any],
    said: Sequence[Any] | None = None,
) -> Any:
    """Calls a batch method that the user wrote, with the queries and what else it takes.

    Args:
        name: of the method.
        extra: the number of contexts that are asked for, where it is taken by position.
        options: that number, where it is taken by keyword.
        history_keyword: the method's parameter for the messages before each query; None where it
            takes none, and they are left out.
        columns: the queries, and for generation beside them the contexts of each.
        said: the messages before each query.
    """
    history: dict[str, Any] = {}
    if history_keyword is not None and said is not None:
        history[history_keyword] = said
    return getattr(rag, name)(*columns, *extra, **options, **history)


def _derive(
    rag: Any,
    target: str,
    columns: Sequence[Sequence[Any]],
    *,
    top_k: int | None = None,
    said: Sequence[Any] | None = None,
) -> Generator[Any, Any, Any]:
    """Makes a call of a method that the user has not written out of one that is written.

    A user writes one form of a method (for one query or a batch, with metadata or without), and
    callers use any form of that family.

    As a generator, this is written once for plain methods and for coroutines: it yields what a call
    returned (a value or an awaitable), is sent the value, and returns the result.

    Args:
        rag: a `RAGInterface` or `AsyncRAGInterface`.
        target: the name of the form that is called.
        columns: the queries, and for generation beside them the contexts of each.
        top_k: how many chunks are asked for.
        said: the messages before each query.
    """
    form = FORMS[target]
    route = rag._routes.get(target)
    if route is None:
        names = [name for name in FORMS if FORMS[name].family == form.family]
        raise InterfaceError(
            f"{type(rag).__name__} has no {target} of its own and nothing to derive it from: "
            f"write one of {', '.join(names)}"
        )
    where = route.where
    method = getattr(rag, route.source.name)
    extra: tuple[int, ...] = ()
    options: dict[str, Any] = {}
    if top_k is not None:
        extra, options = pass_top_k(route.top_k, top_k, where)
    if len(columns) == 2 and len(columns[0]) != len(columns[1]):
        raise InterfaceError(
            f"{target} was given {len(columns[0])} queries and {len(columns[1])} lists of contexts"
        )
    size = len(columns[0])  # counted first: a method may empty what it is given
    history_keyword = None if said is None else rag.histories.get(route.source.name)
    values: Sequence[Any]
    if route.source.batch:
        if history_keyword is not None:
            options = {**options, history_keyword: said}
        returned = yield method(*columns, *extra, **options)
        values = to_batch(returned, size, where)
    else:
        values = []
        for position, arguments in enumerate(zip(*columns, strict=True)):
            if said is not None and history_keyword is not None:
                options = {**options, history_keyword: said[position]}
            value = yield method(*arguments, *extra, **options)
            values.append(value)
    results = [_in_form(form, value, where) for value in values]
    return results if form.batch else results[0]


def _in_form(form: MethodForm, value: object, where: str) -> Any:
    """What a user's method returned for one query, checked, in the form that is asked for.

    A form with metadata gives a result; a plain one the contexts, or the answer, alone.
    """
    if form in RETRIEVAL:
        retrieval = to_retrieval_result(value, where)
        # The result as the method gave it: the same object, where it was one already.
        if form.rich:
            return retrieval
        return _as_list(retrieval.contexts)
    answer = to_generation_result(value, where)
    if form.rich:
        return answer
    return answer.response


def _as_list(contexts: Sequence[str]) -> list[str]:
    """Contexts as the list that the old interface promises; a list stays the same object.

    Results may hold any sequence.
    """
    if isinstance(contexts, list):
        return contexts
    return list(contexts)


def derived(rag: Any, target: str, *columns: Sequence[Any], **options: Any) -> Any:
    """The result of a method that the user did not write, by the plain ones that he did.

    `derived` runs `_derive`, and sends each yielded value back as it is: plain calls have returned
    their results already.
    """
    derivation = _derive(rag, target, columns, **options)
    try:
        # Up to the first call of a plain method, which gives its value at once.
        value = next(derivation)
        while True:
            value = derivation.send(value)
    except StopIteration as stop:
        return stop.value


async def derived_async(rag: Any, target: str, *columns: Sequence[Any], **options: Any) -> Any:
    """The result of a method that the user did not write, by the coroutine methods that he did.

    `derived_async` runs `_derive`, and awaits each call that is yielded, one at a time.
    """
    derivation = _derive(rag, target, columns, **options)
    try:
        pending = next(derivation)
        while True:
            # Seen at the first call: awaiting a plain value would raise a TypeError without a name.
            if not hasattr(pending, "__await__"):
                raise InterfaceError(
                    "a method of an AsyncRAGInterface returned a value that cannot be awaited "
                    f"(a {type(pending).__name__}): write it as 'async def', or inherit from "
                    "RAGInterface when no method is a coroutine"
                )
            pending = derivation.send(await pending)
    except StopIteration as stop:
        return stop.value


class PartialBatchError(InterfaceError):
    """Some queries of a batch failed, the others have their results.

    A batch method raises it so that nothing is asked twice: whoever called it takes the results
    that are there and counts only the others as failed. A caller that does not know it sees a
    batch that failed and asks for each query alone, which ends the same.
    """

    def __init__(self, outcomes: Sequence[object], where: str) -> None:
        """Holds the results and exceptions of a batch, in the order of its queries.

        The message names the first error, which is often that of the others, too.
        """
        self.outcomes = tuple(outcomes)
        self.where = where
        errors = [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]
        # Not empty: `settled` makes this error only where some query failed.
        first_error = errors[0]
        super().__init__(
            f"{where}: {len(errors)} of {len(self.outcomes)} queries failed; the first with "
            f"{type(first_error).__name__}: {first_error}"
        )


def settled(outcomes: Sequence[Any], where: str) -> list[Any]:
    """The results of a batch when there is no exception among them.

    An exception in the list would else be taken for a result.

    Raises:
        PartialBatchError: some queries failed; of a batch of one, its own error.
    """
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if not errors:
        return list(outcomes)
    if len(outcomes) == 1:
        raise errors[0]
    raise PartialBatchError(outcomes, where)
