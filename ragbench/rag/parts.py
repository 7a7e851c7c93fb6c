"""From found methods to a RAG that has just these."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex, cast

from ragbench.core.case import Said
from ragbench.core.result import RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.rag.forms import FORMS, RETRIEVAL
from ragbench.rag.interface import AsyncRAGInterface, RAGInterface


def refuse_beyond(top_k: int | None, built_with: object, where: str) -> None:
    """Refuses to ask for more contexts than a retriever was built to return."""
    if top_k is None or not isinstance(built_with, int) or top_k <= built_with:
        return
    raise InterfaceError(
        f"{where} was built to return {built_with} contexts and cannot be asked for {top_k}: "
        f"build it with at least {top_k}"
    )


def cut(result: RetrievalResult[Any], top_k: int | None) -> RetrievalResult[Any]:
    """The first ``top_k`` contexts of a result; the same object when it has no more."""
    if top_k is None or len(result) <= top_k:
        return result
    listed = ("contexts", "context_ids", "scores", "context_metadata")
    found = {name: getattr(result, name) for name in listed}
    return replace(result, **{name: v[:top_k] for name, v in found.items() if v is not None})


Restore = Callable[[str, RetrievalResult[Any], Said], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Methods of the interface that an adapter made for a foreign object."""

    source: object
    """The foreign object."""
    methods: Mapping[str, Callable[..., Any]]
    """The interface's method names to functions that take what the method takes."""
    restore: Restore | None = field(default=None)
    """Takes back a retrieval of an earlier process; see `AdaptedRAG.restore`."""

    def only(self, family: str) -> Parts:
        chosen = {
            name: made for name, made in self.methods.items() if FORMS[name][0].name == family
        }
        return Parts(source=self.source, methods=chosen, restore=self.restore)


MakeParts = Callable[[Any], Parts]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a framework's object is, and how it becomes a RAG."""

    name: str
    """How messages call it: ``"a LangChain retriever"``."""
    parts: MakeParts
    """Makes the interface's methods of the object."""
    slots: Mapping[str, MakeParts] = field(default_factory=dict[str, MakeParts])
    """The same by family, for ``as_rag(retrieve=...)`` and ``as_rag(generate=...)``, where what is
    given there is read in another way."""
    own_names: bool = False
    """Whether methods with the interface's names mean something else in this framework."""


class AdaptedRAG:
    """What every RAG made by `as_rag` has besides the interface."""

    adapts: tuple[object, ...] = ()
    """The foreign objects behind it."""
    top_k: int | None = None
    """How many contexts it asks for when a call does not say."""
    rebuild: Callable[[], Any] | None = None
    """What makes it anew in another process."""
    _restores: tuple[Restore, ...] = ()

    @property
    def answers_in_one_call(self) -> bool:
        """Whether the answer comes with the retrieval: nothing can be put in between."""
        return bool(self._restores)

    def restore(self, query: str, result: RetrievalResult[Any], said: Said = ()) -> None:
        """Takes back a retrieval that an earlier process stored.

        A system that retrieves and generates in one call keeps its answer with the retrieval.
        Whoever continues a run calls this before it asks for the generation, so that the system
        is not asked a second time.
        """
        for restore in self._restores:
            restore(query, result, said)

    def stage_identity(self, stage: str) -> object:
        """What the adapted objects say of themselves; None when none of them says anything."""
        methods = [getattr(source, "stage_identity", None) for source in self.adapts]
        identities = [method(stage) for method in methods if callable(method)]
        return identities if any(one is not None for one in identities) else None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles what it adapts, not the class that was made for it."""
        return super().__reduce_ex__(protocol) if self.rebuild is None else (self.rebuild, ())

    def __repr__(self) -> str:
        return f"<RAG of {', '.join(type(source).__name__ for source in self.adapts)}>"


def compose(
    name: str, parts: Sequence[Parts], top_k: int | None = None
) -> RAGInterface[Any] | AsyncRAGInterface[Any]:
    """Builds a RAG of the methods that adapters made.

    It is an `AsyncRAGInterface` as soon as one of them is a coroutine function; plain ones then
    run in a thread, so that they do not hold up the others.
    """
    methods = {method: made for part in parts for method, made in part.methods.items()}
    awaited = any(is_coroutine_function(made) for made in methods.values())
    namespace: dict[str, Any] = {"__module__": __name__, "__qualname__": name}
    for method, made in methods.items():
        function = made
        if awaited and not is_coroutine_function(made):
            function = functools.partial(asyncio.to_thread, made)
            vars(function).update(vars(made))
        if top_k is not None and FORMS[method][0] is RETRIEVAL:
            function = _with_default(function, top_k)
        namespace[method] = staticmethod(function)
    made_class = types.new_class(
        name,
        (AdaptedRAG, AsyncRAGInterface if awaited else RAGInterface),
        {"families": {FORMS[method][0].name for method in methods}},
        lambda body: body.update(namespace),
    )
    rag = made_class()
    rag.adapts = tuple(part.source for part in parts)
    rag.top_k = top_k
    rag._restores = tuple(part.restore for part in parts if part.restore is not None)
    return cast("RAGInterface[Any] | AsyncRAGInterface[Any]", rag)


def taking_history(method: Callable[..., Any], keyword: str | None) -> Callable[..., Any]:
    """A method that an adapter made, marked as one that takes what was said before."""
    if keyword is not None:
        cast("Any", method).history_keyword = keyword
    return method


def is_coroutine_function(function: object) -> bool:
    """Whether calling it gives a coroutine; also for objects with an ``async def __call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # the method itself is looked at
    )


def _with_default(function: Callable[..., Any], default: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(queries: Any, top_k: int | None = None, **said: Any) -> Any:
        return function(queries, default if top_k is None else top_k, **said)

    return call
