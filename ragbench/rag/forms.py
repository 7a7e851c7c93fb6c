"""The four forms of each family, the guard at class creation, how top_k is passed.

A family (retrieval, generation) can be implemented in any of four forms: plain or with metadata,
for one query or for a batch. A user writes at least one; the others are derived from it.

Two methods that default to each other would call each other for ever when neither is written, so a
class whose family has no method at all is refused when it is defined, not when it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any, NamedTuple

from ragbench.core.calling import HISTORY, parameters_of
from ragbench.errors import InterfaceError, warn


class MethodForm(NamedTuple):
    """One of the four ways to ask for the same thing."""

    name: str
    """The method's name."""
    family: str
    rich: bool
    """Whether it returns results with metadata."""
    batch: bool
    """Whether it takes a list of queries."""


class Family(NamedTuple):
    """The four forms of one ability of a RAG."""

    plain: MethodForm
    rich: MethodForm
    batch: MethodForm
    rich_batch: MethodForm


def _forms_of_verb(name: str, verb: str) -> Family:
    """The four methods by which a RAG can be asked for one thing, such as ``retrieve``.

    The names of the methods are the interface that users' classes implement: they never change.

    Args:
        name: of the family.
        verb: the name of the plain method.
    """
    return Family(
        MethodForm(verb, name, rich=False, batch=False),
        MethodForm(f"{verb}_with_metadata", name, rich=True, batch=False),
        MethodForm(f"batch_{verb}", name, rich=False, batch=True),
        MethodForm(f"batch_{verb}_with_metadata", name, rich=True, batch=True),
    )


RETRIEVAL = _forms_of_verb("retrieval", "retrieve")
GENERATION = _forms_of_verb("generation", "generate")
FAMILIES: Mapping[str, Family] = {"retrieval": RETRIEVAL, "generation": GENERATION}
FORMS: Mapping[str, MethodForm] = {form.name: form for form in (*RETRIEVAL, *GENERATION)}
"""All eight methods of the interface, by their names."""


def routes(implemented: Iterable[str]) -> dict[str, MethodForm]:
    """For each method of the interface, the written one that it is derived from.

    A form with metadata is derived from forms with metadata first, so that no metadata is lost. A
    plain batch is derived from a real batch first, so that a batch stays one call.

    Args:
        implemented: names of the methods that a user's class has written.
    """
    names = set(implemented)
    sources: dict[str, MethodForm] = {}
    for plain, rich, batch, rich_batch in FAMILIES.values():
        # Of each form, those that can stand in for it, the best one first.
        substitutes = {
            plain: (rich, batch, rich_batch),
            rich: (rich_batch, plain, batch),
            batch: (rich_batch, plain, rich),
            rich_batch: (rich, batch, plain),
        }
        for form, candidates in substitutes.items():
            for candidate in candidates:
                if candidate.name in names:
                    sources[form.name] = candidate
                    break
    return sources


def written(cls: type) -> frozenset[str]:
    """Names of the interface's methods that a class, or a class it inherits from, wrote.

    Methods that the class did not write are derived from these. An abstract method does not count
    as written.
    """
    names: set[str] = set()
    for name in FORMS:
        for owner in cls.__mro__:
            if name not in owner.__dict__:
                continue
            is_derived = "_methods_are_derived" in owner.__dict__  # the interface itself
            method = owner.__dict__[name]
            if not is_derived and not getattr(method, "__isabstractmethod__", False):
                names.add(name)
            break  # what classes further up wrote is hidden
    return frozenset(names)


def known_families(cls: type, names: Iterable[str]) -> frozenset[str]:
    """The families that a class is declared to have; refuses names that are none.

    A family is ``"retrieval"`` or ``"generation"``.
    """
    if isinstance(names, str):  # as families="retrieval", whose letters would be taken for names
        names = [names]
    families = frozenset(names)
    if not families or not families <= set(FAMILIES):
        raise InterfaceError(
            f"class {cls.__name__}: families must name {' or '.join(FAMILIES)}, "
            f"not {sorted(families)}"
        )
    return families


def check_class(cls: type, families: Iterable[str], implemented: frozenset[str]) -> None:
    """Refuses a class with a family that has no method to derive the others from.

    A class that could do nothing so fails where it is written, and not in the middle of a run. A
    class with abstract methods left is not refused: ``__abstractmethods__`` is not set yet.
    """
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        is_abstract = getattr(member, "__isabstractmethod__", False)
        # Left to its subclasses, which are checked when they are made.
        if is_abstract:
            return
    for family in sorted(families):
        names = [form.name for form in FAMILIES[family]]
        if implemented.isdisjoint(names):
            opposite = "generation" if family == "retrieval" else "retrieval"
            raise InterfaceError(
                f"class {cls.__name__} has no {family}: write one of {', '.join(names)}. "
                f"If it does only {opposite}, write "
                f"class {cls.__name__}(..., families=('{opposite}',)); "
                f"if it is a base for other classes, write class {cls.__name__}(..., abstract=True)"
            )
    _warn_of_hidden(cls, implemented)


def _warn_of_hidden(cls: type, implemented: frozenset[str]) -> None:
    """Warns when the methods that a class writes are never reached.

    ragbench calls ``batch_*_with_metadata``. When an inherited method serves that call, and no
    inherited method calls what the class writes, its own methods would be ignored in silence.
    """
    for family in FAMILIES.values():
        names = {form.name for form in family} & implemented
        own = {name for name in names if name in cls.__dict__}
        if not own:
            continue
        called = family.rich_batch.name
        serving = called
        if called not in names:
            serving = routes(names)[called].name
        reached: set[str] = set()
        for inherited in names - own:
            reached |= _methods_mentioned_in(getattr(cls, inherited))
        if serving not in own and own.isdisjoint(reached):
            # The fourth caller up is the line of the class statement.
            warn(
                f"{cls.__name__}.{sorted(own)[0]} is never called by ragbench: the inherited "
                f"{serving} comes first. Override {serving} instead",
                level=4,
            )


def _methods_mentioned_in(function: Callable[..., Any]) -> set[str]:
    """Names of the interface's methods that a function's code refers to, and so may call.

    A method that no inherited one calls would be ignored, and the user is warned of it.
    """
    pending: list[object] = [getattr(inspect.unwrap(function), "__code__", None)]
    names: set[str] = set()
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            names |= set(code.co_names) & set(FORMS)
            pending.extend(code.co_consts)  # comprehensions and lambdas
    return names


# --- how a function takes the number of contexts that are asked for

_TOP_K_NAMES = ("top_k", "k", "limit", "n_results", "num_results", "top_n", "n")
"""The usual names of the parameter for how many contexts are wanted; the first one present counts.
"""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""Kinds of parameters that can be given by position, each once."""

BY_POSITION = ""
"""The way of a method that takes ``top_k`` behind the queries. Another way is the keyword that
takes it, or None where nothing does."""


def top_k_of_method(cls: type, name: str) -> str | None:
    """The way in which a retrieval method of a class takes the number of contexts, ``top_k``.

    Old classes write ``retrieve(self, query, k=5)`` as well as ``retrieve(self, query, *, top_k)``
    and ``retrieve(self, query)``; all three are called in the way that fits.
    """
    method = getattr(cls, name)
    # Read through the class, a plain method still takes `self`; static and class methods do not.
    takes_self = inspect.isfunction(inspect.getattr_static(cls, name))
    return top_k_of_function(method, skipped=1 if takes_self else 0)


def top_k_of_function(function: Callable[..., Any], *, skipped: int = 0) -> str | None:
    """The way in which a function whose first argument is the query takes the number of contexts.

    Returns `BY_POSITION`, the name of a parameter, or None where the function takes no number.

    Args:
        skipped: parameters before the query, such as ``self``.
    """
    parameters = parameters_of(function)
    if parameters is None:  # in C, without a signature: it is called as the interface says
        return BY_POSITION
    has_history = False
    takes_any_keyword = False
    for parameter in parameters:
        if parameter.name == "top_k" and parameter.kind is not parameter.POSITIONAL_ONLY:
            return "top_k"
        has_history |= parameter.name in HISTORY
        takes_any_keyword |= parameter.kind is parameter.VAR_KEYWORD
    if has_history:
        # By name: a history may stand before it.
        positional: list[str] = []
        for parameter in parameters:
            if parameter.kind in _POSITIONAL and parameter.name not in HISTORY:
                positional.append(parameter.name)
        behind_query = positional[1 + skipped :]
        return behind_query[0] if behind_query else None
    if _takes_by_position(parameters, 2 + skipped):
        return BY_POSITION
    return "top_k" if takes_any_keyword else None


def pass_top_k(
    way: str | None, top_k: int | None, where: str
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The arguments for how many contexts are wanted: positional and by keyword.

    Raises:
        InterfaceError: a number is wanted, and the method takes none: it would return any number.

    Args:
        way: how the method takes the number: `BY_POSITION`, a keyword, or None where it takes none.
        where: its name in messages.
    """
    # Nothing is asked for, so a method that takes no number is as good.
    if top_k is None:
        return (), {}
    if way is None:
        raise InterfaceError(
            f"{where} takes no top_k, so that it cannot be asked for {top_k} contexts: "
            "add the parameter 'top_k=None' to it, or ask without top_k"
        )
    if way == BY_POSITION:
        return (top_k,), {}
    return (), {way: top_k}


def accepts_second_argument(function: Callable[..., Any]) -> bool:
    """Whether a function takes the contexts as a second positional argument, behind the query.

    A function without a signature is taken to do so.
    """
    parameters = parameters_of(function)
    return parameters is None or _takes_by_position(parameters, 2)


def keyword_for_top_k(function: Callable[..., Any]) -> str | None:
    """The parameter by which a foreign function takes how many contexts are wanted, or None.

    The usual names are tried in order: ``top_k``, ``k``, ``limit`` and the like.
    """
    names: set[str] = set()
    for parameter in parameters_of(function) or []:
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            names.add(parameter.name)
    # In the order of these names, not in that of the parameters.
    for name in _TOP_K_NAMES:
        if name in names:
            return name
    return None


def keyword_for_contexts(function: Callable[..., Any]) -> str | None:
    """The parameter ``contexts`` of a function that retrieves if it is not given any, or None.

    By the parameter, the function can be given the contexts that post-retrieval left.
    """
    for parameter in parameters_of(function) or []:
        is_optional = parameter.default is not parameter.empty
        is_keyword = parameter.kind is not parameter.POSITIONAL_ONLY
        if parameter.name == "contexts" and is_optional and is_keyword:
            return parameter.name
    return None


def parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none for a function whose signature cannot be read.

    Adapters know by them what a framework's object takes.
    """
    return frozenset(parameter.name for parameter in parameters_of(function) or ())


def _takes_by_position(parameters: list[inspect.Parameter], count: int) -> bool:
    """Whether a function takes so many arguments by position, the history not counted.

    The history is the messages before a query, which go by name.
    """
    positional_count = 0
    for parameter in parameters:
        if parameter.name in HISTORY:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:  # it takes any number
            return True
        if parameter.kind in _POSITIONAL:
            positional_count += 1
    return positional_count >= count
