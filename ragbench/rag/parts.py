"""From found methods to a RAG that has just these; one call that retrieves and answers."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from hashlib import blake2b
from typing import Any, SupportsIndex, cast

from ragbench.core.case import Said
from ragbench.core.record import Record, field
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError, NoContextsError, warn
from ragbench.io.values import as_object, is_object
from ragbench.rag.fallback import settled, to_batch
from ragbench.rag.forms import FORMS, RETRIEVAL, pass_top_k
from ragbench.rag.interface import AsyncRAGInterface, RAGInterface
from ragbench.rag.shapes import answer_fields, read_answer
from ragbench.safe_text import listed


def refuse_beyond(top_k: int | None, built_with: object, where: str) -> None:
    """Refuses to ask for more contexts than a retriever was built to return."""
    if isinstance(built_with, int) and built_with < (top_k or 0):
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


class Parts(Record):
    """Methods of the interface that an adapter made for a foreign object."""

    source: object
    """The foreign object."""
    methods: Mapping[str, Callable[..., Any]]
    """The interface's method names to functions that take what the method takes."""
    restore: Restore | None = field(default=None)
    """Takes back a retrieval of an earlier process; see `AdaptedRAG.restore`."""

    def only(self, family: str) -> Parts:
        methods = self.methods.items()
        chosen = {name: made for name, made in methods if FORMS[name].family == family}
        return replace(self, methods=chosen)


MakeParts = Callable[[Any], Parts]


class Shape(Record):
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
    awaited = any(map(is_coroutine, methods.values()))
    namespace: dict[str, Any] = {"__module__": __name__, "__qualname__": name}
    for method, made in methods.items():
        function = made
        if awaited and not is_coroutine(made):
            function = functools.partial(asyncio.to_thread, made)
            vars(function).update(vars(made))
        if top_k is not None and FORMS[method] in RETRIEVAL:
            function = _with_default(function, top_k)
        namespace[method] = staticmethod(function)
    made_class = types.new_class(
        name,
        (AdaptedRAG, AsyncRAGInterface if awaited else RAGInterface),
        {"families": {FORMS[method].family for method in methods}},
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


def is_coroutine(function: object) -> bool:
    """Whether calling it gives a coroutine; also for objects with an ``async def __call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # the method itself is looked at
    )


def _with_default(function: Callable[..., Any], default: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(queries: Any, top_k: int | None = None, **said: Any) -> Any:
        return function(queries, default if top_k is None else top_k, **said)

    return call


# --- systems that retrieve and answer in one call
#
# The interface asks for the retrieval first and for the generation later, maybe in another process.
# So retrieval makes the call; the answer is kept in the retrieval's metadata under `ANSWER_KEY` and
# in a bounded memo under (query, contexts). Generation looks there. When a run is continued, the
# stored retrievals are handed to `restore`, which fills the memo again. Only when neither knows
# the answer (the contexts were changed in between, or nothing was restored) is the system asked
# again, and the answer's metadata then says so: ``asked_again``, and ``contexts_differ`` when the
# second call retrieved something else than it was given.


def _each(read: Callable[..., Any], key: Any, answer: object, *more: Any) -> Any:
    """What is read of one answer of a batch; its error, so that the others are not asked again."""
    try:
        return answer if isinstance(answer, Exception) else read(key, answer, *more)
    except InterfaceError as error:
        return error


_Answer = GenerationResult[Any]
_Found = RetrievalResult[Any]
_REMEMBERED = 4096
"""Answers."""
ANSWER_KEY = "ragbench.answer"
"""The key in a retrieval's metadata under which the answer of the same call is kept."""


@dataclass(eq=False)
class OneCall:
    """Both halves of what is asked once a query. Safe to use from several threads."""

    source: object
    ask: Callable[..., Any]
    where: str
    _: KW_ONLY
    ask_batch: Callable[..., Any] | None = None
    keyword: str | None = None
    """Takes how many contexts to find."""
    history: str | None = None
    """Takes what was said before; of a batch, before each query."""
    _answers: OrderedDict[bytes, _Answer] = dataclasses.field(
        default_factory=OrderedDict[bytes, _Answer]
    )
    """The latest, by query and contexts."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    _warned: bool = False

    def parts(self) -> Parts:
        awaited = is_coroutine(self.ask)
        methods: dict[str, Callable[..., Any]] = {
            "retrieve_with_metadata": self.aretrieve if awaited else self.retrieve,
            "generate_with_metadata": self.agenerate if awaited else self.generate,
        }
        if self.ask_batch is not None:
            methods["batch_retrieve_with_metadata"] = self.batch_retrieve
            methods["batch_generate_with_metadata"] = self.batch_generate
        told = None if self.history is None else "said"
        made = {name: taking_history(functools.partial(one), told) for name, one in methods.items()}
        return Parts(source=self.source, methods=made, restore=self.restore)

    def retrieve(self, query: str, top_k: int | None = None, said: Said = ()) -> _Found:
        return self._retrieval(query, self._asked(self.ask, query, top_k, said), said)

    async def aretrieve(self, query: str, top_k: int | None = None, said: Said = ()) -> _Found:
        return self._retrieval(query, await self._asked(self.ask, query, top_k, said), said)

    def generate(self, query: str, contexts: Sequence[str], said: Said = ()) -> _Answer:
        known = self._known(query, contexts, said)
        return known or self._again(contexts, self._asked(self.ask, query, None, said))

    async def agenerate(self, query: str, contexts: Sequence[str], said: Said = ()) -> _Answer:
        known = self._known(query, contexts, said)
        return known or self._again(contexts, await self._asked(self.ask, query, None, said))

    def batch_retrieve(
        self, queries: list[str], top_k: int | None = None, said: Sequence[Said] | None = None
    ) -> list[_Found]:
        before = said or [()] * len(queries)
        answers = self._asked_together(queries, top_k, before)
        rows = zip(queries, answers, before, strict=True)
        return settled([_each(self._retrieval, *row) for row in rows], self.where)

    def batch_generate(
        self, queries: list[str], contexts_list: list[list[str]], said: Sequence[Said] | None = None
    ) -> list[_Answer]:
        before = said or [()] * len(queries)
        rows = zip(queries, contexts_list, before, strict=True)
        found: list[Any] = [self._known(*row) for row in rows]
        missing = [at for at, answer in enumerate(found) if answer is None]
        left = [queries[at] for at in missing], None, [before[at] for at in missing]
        answers = self._asked_together(*left) if missing else ()
        for at, answer in zip(missing, answers, strict=True):
            found[at] = _each(self._again, contexts_list[at], answer)
        return settled(found, self.where)

    def restore(self, query: str, result: RetrievalResult[Any], said: Said = ()) -> None:
        """Takes an answer back from the metadata of a stored retrieval, if it is there."""
        answer = as_object(result.metadata).get(ANSWER_KEY)
        if is_object(answer):
            self._remember(query, result.contexts, GenerationResult.from_mapping(answer), said)

    def _asked(self, ask: Any, asked: Any, top_k: int | None, said: Sequence[Any]) -> Any:
        _, options = pass_top_k(self.keyword, top_k, self.where)
        return ask(asked, **options, **({} if self.history is None else {self.history: said}))

    def _asked_together(
        self, queries: list[str], top_k: int | None, said: Sequence[Said]
    ) -> Sequence[Any]:
        found = self._asked(self.ask_batch, queries, top_k, list(said))
        return to_batch(found, len(queries), self.where)

    def _known(self, query: str, contexts: Sequence[str], said: Said) -> _Answer | None:
        """The answer that was given with just these contexts, if it is still there."""
        return self._answers.get(self._key(query, contexts, said))

    def _remember(self, query: str, contexts: Sequence[str], answer: _Answer, said: Said) -> None:
        key = self._key(query, contexts, said)
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def _key(self, query: str, contexts: Sequence[str], said: Said) -> bytes:
        before = [] if self.history is None or not said else [list(said)]
        # Escaped: lone surrogates occur in scraped text and cannot be encoded otherwise.
        parts = json.dumps([query, *contexts, *before])
        return blake2b(parts.encode(), digest_size=16).digest()

    def _retrieval(self, query: str, value: object, said: Said) -> _Found:
        """Reads what the system returned, keeps its answer and returns its retrieval."""
        found, answer = read_answer(value, self.where)
        self._remember(query, () if found is None else found.contexts, answer, said)
        if found is None:
            if not self._warned:
                self._warned = True
                fields = answer_fields(value)
                there = "" if fields is None else f" (there are {listed([*fields])})"
                warn(
                    f"{self.where} returns answers without contexts: they are scored, retrieval is "
                    f"not. Return {{'answer': ..., 'contexts': [...]}} to have it measured{there}"
                )
            raise NoContextsError
        return replace(found, metadata={**_fields(found.metadata), ANSWER_KEY: answer.to_dict()})

    def _again(self, contexts: Sequence[str], value: object) -> _Answer:
        """Reads the answer of a second call and says that it is one."""
        retrieval, answer = read_answer(value, self.where)
        metadata = {**_fields(answer.metadata), "asked_again": True}
        if retrieval is not None and list(retrieval.contexts) != list(contexts):
            metadata["contexts_differ"] = True
        return replace(answer, metadata=metadata)


def _fields(metadata: object) -> dict[str, Any]:
    if metadata is None or is_object(metadata):
        return {**as_object(metadata)}
    return {"metadata": metadata}
