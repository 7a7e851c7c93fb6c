"""The four forms of each family, the guard at class creation, how top_k is passed.

A family (retrieval, generation) can be implemented in any of four forms: plain or with metadata,
for one query or for a batch. A user writes at least one; the others are derived from it.

Two methods that default to each other would call each other for ever when neither is written, so a
class whose family has no method at all is refused when it is defined, not when it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import CodeType
from typing import Any

from ragbench.errors import InterfaceError, warn


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodForm:
    """One of the four ways to ask for the same thing."""

    name: str
    """The method's name."""
    rich: bool
    """Whether it returns results with metadata."""
    batch: bool
    """Whether it takes a list of queries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """The four forms of one ability of a RAG."""

    name: str
    plain: MethodForm
    rich: MethodForm
    batch: MethodForm
    rich_batch: MethodForm

    @property
    def forms(self) -> tuple[MethodForm, MethodForm, MethodForm, MethodForm]:
        return (self.plain, self.rich, self.batch, self.rich_batch)

    def substitutes(self, form: MethodForm) -> tuple[MethodForm, MethodForm, MethodForm]:
        """The other forms, in the order in which they stand in for a missing one.

        A form with metadata is derived from forms with metadata first, so that no metadata is
        lost. A plain batch is derived from a real batch first, so that a batch stays one call.
        """
        return {
            self.plain: (self.rich, self.batch, self.rich_batch),
            self.rich: (self.rich_batch, self.plain, self.batch),
            self.batch: (self.rich_batch, self.plain, self.rich),
            self.rich_batch: (self.rich, self.batch, self.plain),
        }[form]


def _family(name: str, verb: str) -> Family:
    return Family(
        name=name,
        plain=MethodForm(name=verb, rich=False, batch=False),
        rich=MethodForm(name=f"{verb}_with_metadata", rich=True, batch=False),
        batch=MethodForm(name=f"batch_{verb}", rich=False, batch=True),
        rich_batch=MethodForm(name=f"batch_{verb}_with_metadata", rich=True, batch=True),
    )


RETRIEVAL = _family("retrieval", "retrieve")
GENERATION = _family("generation", "generate")
FAMILIES: Mapping[str, Family] = {family.name: family for family in (RETRIEVAL, GENERATION)}
FORMS: Mapping[str, tuple[Family, MethodForm]] = {
    form.name: (family, form) for family in FAMILIES.values() for form in family.forms
}


def routes(implemented: Iterable[str]) -> dict[str, MethodForm]:
    """Which implemented form each form falls back on, were it not implemented itself."""
    written = set(implemented)
    found: dict[str, MethodForm] = {}
    for family, form in FORMS.values():
        for substitute in family.substitutes(form):
            if substitute.name in written:
                found[form.name] = substitute
                break
    return found


def written(cls: type) -> frozenset[str]:
    """Names of the interface's methods that a class, or a class it inherits from, wrote."""
    return frozenset(name for name in FORMS if _is_written(cls, name))


def _is_written(cls: type, name: str) -> bool:
    for owner in cls.__mro__:
        if name in owner.__dict__:
            abstract = getattr(owner.__dict__[name], "__isabstractmethod__", False)
            return not abstract and "_methods_are_derived" not in owner.__dict__
    return False


def is_abstract(cls: type) -> bool:
    """Whether a class has abstract methods left; usable before ``__abstractmethods__`` is set."""
    found: dict[str, object] = {}
    for owner in reversed(cls.__mro__):
        found.update(owner.__dict__)
    return any(getattr(value, "__isabstractmethod__", False) for value in found.values())


def known_families(cls: type, names: Iterable[str]) -> frozenset[str]:
    chosen = frozenset([names] if isinstance(names, str) else names)
    if not chosen or not chosen <= set(FAMILIES):
        raise InterfaceError(
            f"class {cls.__name__}: families must name {' or '.join(FAMILIES)}, "
            f"not {sorted(chosen)}"
        )
    return chosen


def check_kind(cls: type, implemented: Iterable[str], *, awaited: bool) -> None:
    """Refuses a coroutine method in a class whose methods are called without ``await``."""
    for name in sorted(implemented):
        if not awaited and inspect.iscoroutinefunction(getattr(cls, name)):
            raise InterfaceError(
                f"{cls.__name__}.{name} is a coroutine ('async def'): let the class inherit from "
                "AsyncRAGInterface instead of RAGInterface"
            )


def check_complete(cls: type, families: Iterable[str], implemented: frozenset[str]) -> None:
    """Refuses a class with a family that has no method to derive the others from."""
    for name in sorted(families):
        forms = [form.name for form in FAMILIES[name].forms]
        if implemented.isdisjoint(forms):
            other = next(other for other in FAMILIES if other != name)
            raise InterfaceError(
                f"class {cls.__name__} has no {name}: write one of {', '.join(forms)}. "
                f"If it does only {other}, say class {cls.__name__}(..., families=('{other}',)); "
                f"if it is a base for other classes, say class {cls.__name__}(..., abstract=True)"
                f"{_behind(cls, forms)}"
            )


def _behind(cls: type, names: Iterable[str]) -> str:
    """A hint when a mixin has the method but stands behind the interface in the bases."""
    for name in names:
        owners = [owner for owner in cls.__mro__ if name in owner.__dict__]
        if len(owners) > 1 and not getattr(
            owners[-1].__dict__[name], "__isabstractmethod__", False
        ):
            return (
                f". {owners[-1].__name__}.{name} is hidden by {owners[0].__name__}.{name}: "
                f"name {owners[-1].__name__} before {owners[0].__name__} among the bases"
            )
    return ""


def warn_of_hidden(cls: type, implemented: frozenset[str]) -> None:
    """Warns when the methods that a class writes are never reached.

    ragbench calls ``batch_*_with_metadata``. When an inherited method serves that call and does
    not itself call what the class writes, the class's own methods would be ignored in silence.
    """
    for family in FAMILIES.values():
        own = {form.name for form in family.forms if form.name in cls.__dict__}
        if own and not own & _reached(cls, family.rich_batch.name, implemented):
            serving = _serving(family.rich_batch.name, implemented)
            warn(
                f"{cls.__name__}.{sorted(own)[0]} is never called by ragbench: the inherited "
                f"{serving} comes first. Override {serving} instead",
                level=3,
            )


def _serving(name: str, implemented: frozenset[str]) -> str:
    return name if name in implemented else routes(implemented)[name].name


def _reached(cls: type, name: str, implemented: frozenset[str]) -> set[str]:
    """The implemented methods that a call of one of the interface's methods leads to."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if implemented.isdisjoint(form.name for form in FORMS[name][0].forms):
            continue
        serving = _serving(name, implemented)
        if serving not in reached:
            reached.add(serving)
            waiting.extend(_mentioned(getattr(cls, serving)))
    return reached


def _mentioned(function: object) -> set[str]:
    """Names of the interface's methods that stand in a function's code."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    waiting = [code]
    names: set[str] = set()
    while waiting:
        code = waiting.pop()
        if isinstance(code, CodeType):
            names |= set(code.co_names) & set(FORMS)
            waiting.extend(code.co_consts)  # comprehensions and lambdas
    return names


_NAMES = ("top_k", "k", "limit", "n_results", "num_results", "top_n", "n")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TopKParameter(Enum):
    """The way in which one of the interface's methods takes ``top_k``."""

    POSITIONAL = "positional"
    KEYWORD = "keyword"
    NOT = "not"


def top_k_of_method(cls: type, name: str) -> TopKParameter:
    """How a retrieval method of a class takes ``top_k``.

    Old classes write ``retrieve(self, query, k=5)`` as well as ``retrieve(self, query, *, top_k)``
    and ``retrieve(self, query)``; all three are called in the way that fits.
    """
    # Read through the class, a plain function still has `self` and the two others have it not.
    skipped = 1 if inspect.isfunction(inspect.getattr_static(cls, name)) else 0
    return top_k_of_function(getattr(cls, name), skipped=skipped)


def top_k_of_function(function: Callable[..., Any], *, skipped: int = 0) -> TopKParameter:
    """How a function whose first argument is the query, or the queries, takes ``top_k``."""
    parameters = _parameters(function)
    if parameters is None:
        return TopKParameter.POSITIONAL
    named = next((p for p in parameters if p.name == "top_k"), None)
    if named is not None and named.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return TopKParameter.KEYWORD
    kinds = [parameter.kind for parameter in parameters]
    positional = sum(kind in _POSITIONAL for kind in kinds)
    if inspect.Parameter.VAR_POSITIONAL in kinds or positional - skipped >= 2:
        return TopKParameter.POSITIONAL
    return TopKParameter.KEYWORD if inspect.Parameter.VAR_KEYWORD in kinds else TopKParameter.NOT


def pass_top_k(
    way: TopKParameter, top_k: int | None, where: str
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The arguments for how many contexts are wanted: positional and by keyword."""
    if top_k is None:
        return (), {}
    if way is TopKParameter.KEYWORD:
        return (), {"top_k": top_k}
    if way is TopKParameter.POSITIONAL:
        return (top_k,), {}
    raise InterfaceError(
        f"{where} takes no top_k, so that it cannot be asked for {top_k} contexts: "
        "add the parameter 'top_k=None' to it, or ask without top_k"
    )


def accepts_second_argument(function: Callable[..., Any]) -> bool:
    """Whether a function takes two positional arguments; one without a signature is taken to."""
    parameters = _parameters(function)
    if parameters is None:
        return True
    kinds = [parameter.kind for parameter in parameters]
    return inspect.Parameter.VAR_POSITIONAL in kinds or sum(k in _POSITIONAL for k in kinds) >= 2


def keyword_for_top_k(function: Callable[..., Any]) -> str | None:
    """The parameter by which a foreign function takes how many contexts are wanted, or None."""
    parameters = _parameters(function) or []
    names = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    return next((name for name in _NAMES if name in names), None)


def parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none when it has no signature."""
    return frozenset(parameter.name for parameter in _parameters(function) or ())


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have no signature
        return None
