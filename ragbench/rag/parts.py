"""From an adapter's methods to a RAG that has just these; one call that retrieves and answers."""

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
    """Refuses to ask for more contexts than a retriever was built to return.

    The retriever would return fewer without a word, and a metric at a higher cutoff would be too
    low.

    Args:
        built_with: the retriever's own number; anything else than an int is no limit.
        where: its name in messages.
    """
    # A limit that cannot be read is none: the retriever then shows by itself what it gives.
    if top_k is None or not isinstance(built_with, int):
        return
    if built_with < top_k:
        raise InterfaceError(
            f"{where} was built to return {built_with} contexts and cannot be asked for {top_k}: "
            f"build it with at least {top_k}"
        )


def cut(result: RetrievalResult[Any], top_k: int | None) -> RetrievalResult[Any]:
    """The first ``top_k`` contexts of a retrieval; the same object when it has no more.

    A system may return more than it was asked for, and a metric must not read them.
    """
    if top_k is None or len(result) <= top_k:
        return result
    shortened: dict[str, Any] = {}
    # All that have an entry per context; the metadata of the whole stay.
    for name in ("contexts", "context_ids", "scores", "context_metadata"):
        values = getattr(result, name)
        if values is not None:
            shortened[name] = values[:top_k]
    return replace(result, **shortened)


Restore = Callable[[str, RetrievalResult[Any], Said], None]
"""Takes a query, its retrieval of an earlier process, and what was said before the query."""


class Parts(Record):
    """Methods of the interface that an adapter made for a foreign object."""

    source: object
    """The foreign object."""
    methods: Mapping[str, Callable[..., Any]]
    """The interface's method names to functions that take what the method takes."""
    restore: Restore | None = field(default=None)
    """Takes back a retrieval of an earlier process; see `AdaptedRAG.restore`."""
    answers_from_contexts: bool = False
    """Whether what retrieves and answers in one call can also answer from contexts of a caller."""

    def only(self, family: str) -> Parts:
        """The methods of one family alone, such as those that retrieve.

        The other half of a RAG may come from another object.
        """
        methods: dict[str, Callable[..., Any]] = {}
        for name, method in self.methods.items():
            if FORMS[name].family == family:
                methods[name] = method
        return replace(self, methods=methods)


MakeParts = Callable[[Any], Parts]
"""Makes the interface's methods of a foreign object."""


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
    _answers_from_contexts: bool = False

    @property
    def answers_in_one_call(self) -> bool:
        """Whether the adapted system gives its answer together with its retrieval.

        Of such a system, generation reads the answer that was kept, and asks nothing.
        """
        return bool(self._restores)

    @property
    def answers_its_own_contexts_alone(self) -> bool:
        """Whether the adapted system cannot be given other contexts than those that it retrieved.

        Post-retrieval, which changes the contexts, cannot be tried on such a system.
        """
        return self.answers_in_one_call and not self._answers_from_contexts

    def restore(self, query: str, result: RetrievalResult[Any], said: Said = ()) -> None:
        """Takes back a retrieval that an earlier process stored.

        A system that retrieves and generates in one call keeps its answer with the retrieval.
        Whoever continues a run calls this before it asks for the generation, so that the system
        is not asked a second time.
        """
        for restore in self._restores:
            restore(query, result, said)

    def stage_identity(self, stage: str) -> object:
        """What the adapted objects name as their version for a stage; None when none names one.

        Without a version, ragbench goes by the objects' source and settings, as for any other
        system.
        """
        identities: list[object] = []
        for source in self.adapts:
            method = getattr(source, "stage_identity", None)
            if callable(method):
                identities.append(method(stage))
        # One that names a version is enough: the others are in the list as None.
        if all(identity is None for identity in identities):
            return None
        return identities

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles the way to make this RAG anew, for a worker process.

        The class was made for this one object and cannot be imported there.
        """
        if self.rebuild is None:
            return super().__reduce_ex__(protocol)
        return (self.rebuild, ())

    def __repr__(self) -> str:
        """The RAG by what it adapts: its class was made for it and has no name of its own.

        Logs and errors show it.
        """
        return f"<RAG of {', '.join(type(source).__name__ for source in self.adapts)}>"


def compose(
    name: str, parts: Sequence[Parts], top_k: int | None = None
) -> RAGInterface[Any] | AsyncRAGInterface[Any]:
    """Builds a RAG of the methods that adapters made.

    The RAG is an `AsyncRAGInterface` as soon as one of the methods is a coroutine function; plain
    methods then run in a thread, so that they do not hold up the others.

    Args:
        name: of the RAG's class, for messages.
        top_k: how many contexts the RAG asks for where a call names no number.
    """
    methods: dict[str, Callable[..., Any]] = {}
    for part in parts:
        # Later parts win where two have the same method.
        methods.update(part.methods)
    is_async = any(map(is_coroutine, methods.values()))
    namespace: dict[str, Any] = {"__module__": __name__, "__qualname__": name}
    for method_name, method in methods.items():
        function = method
        # One class has either kind: what ragbench calls is awaited, or it is not.
        if is_async and not is_coroutine(method):
            function = functools.partial(asyncio.to_thread, method)
            # With the marks that an adapter set on it; see `taking_history`.
            vars(function).update(vars(method))
        if top_k is not None and FORMS[method_name] in RETRIEVAL:
            function = _with_default_top_k(function, top_k)
        namespace[method_name] = staticmethod(function)
    # Only families with a method: the check of a class refuses a family without one.
    families = {FORMS[method_name].family for method_name in methods}
    # A class of its own: the interface reads from a class which methods were written.
    adapted_class = types.new_class(
        name,
        (AdaptedRAG, AsyncRAGInterface if is_async else RAGInterface),
        {"families": families},
        lambda body: body.update(namespace),
    )
    rag = adapted_class()
    rag.adapts = tuple(part.source for part in parts)
    rag.top_k = top_k
    rag._restores = tuple(part.restore for part in parts if part.restore is not None)
    rag._answers_from_contexts = any(part.answers_from_contexts for part in parts)
    return cast("RAGInterface[Any] | AsyncRAGInterface[Any]", rag)


def taking_history(method: Callable[..., Any], keyword: str | None) -> Callable[..., Any]:
    """Marks a method that an adapter made as one that takes the messages before a query.

    Args:
        keyword: the parameter that takes them; None leaves the method unmarked.
    """
    if keyword is not None:
        cast("Any", method).history_keyword = keyword
    return method


def is_coroutine(function: object) -> bool:
    """Whether a function is a coroutine function, which has to be awaited.

    An object with an ``async def __call__`` counts as one, too.
    """
    if inspect.iscoroutinefunction(function):
        return True
    method = getattr(function, "__call__", None)  # noqa: B004  # the method itself is looked at
    return inspect.iscoroutinefunction(method)


def _with_default_top_k(function: Callable[..., Any], default: int) -> Callable[..., Any]:
    """A retrieval method that asks for ``default`` contexts where a call names no number.

    The default is the ``top_k`` that users pass to `as_rag`: what `as_rag` adapts has no
    configuration that could hold one.
    """

    @functools.wraps(function)
    # Queries and `top_k` by position, as all forms of the interface take them.
    def call(queries: Any, top_k: int | None = None, **said: Any) -> Any:
        """The retrieval method ``function``, asked for ``default`` contexts if a call names none.

        ``wraps`` gives it the signature of ``function``, by which callers see what to pass.
        """
        if top_k is None:
            top_k = default
        return function(queries, top_k, **said)

    return call


# --- systems that retrieve and answer in one call
#
# The interface asks for the retrieval first and for the generation later, maybe in another process.
# So retrieval makes the call; the answer is kept in the retrieval's metadata under `ANSWER_KEY` and
# in a bounded memo under (query, contexts). Generation looks there. When a run is continued, the
# stored retrievals are handed to `restore`, which fills the memo again. Only when neither knows
# the answer (the contexts were changed in between, or nothing was restored) is the system asked
# again, and the answer's metadata then says so: ``asked_again``, and ``contexts_differ`` when the
# second call retrieved something else than it was given. A function with a parameter ``contexts``
# is given them instead, and what it answers is its answer to them.


def _read_or_error(read: Callable[..., Any], key: Any, answer: object, *more: Any) -> Any:
    """The value that is read of one answer of a batch, or the error of reading it.

    The error is a value, so that the other queries of the batch are not asked again.
    """
    if isinstance(answer, Exception):
        return answer
    try:
        return read(key, answer, *more)
    except InterfaceError as error:
        return error


_Answer = GenerationResult[Any]
_Retrieval = RetrievalResult[Any]
_REMEMBERED = 4096
"""How many answers are kept in memory for the generations that follow."""
ANSWER_KEY = "ragbench.answer"
"""The key in a retrieval's metadata under which the answer of the same call is kept."""


@dataclass(eq=False)
class OneCall:
    """Both halves of what is asked once a query. Safe to use from several threads."""

    source: object
    """The foreign object."""
    ask: Callable[..., Any]
    """Takes a query and gives its answer, with what was retrieved for it."""
    where: str
    """Its name in messages."""
    _: KW_ONLY
    ask_batch: Callable[..., Any] | None = None
    """The same for several queries, where the object offers that."""
    keyword: str | None = None
    """Takes how many contexts to find."""
    history: str | None = None
    """Takes what was said before; of a batch, before each query."""
    contexts: str | None = None
    """Takes the contexts to answer from, in place of those that it would retrieve."""
    remedy: str | None = None
    """How its contexts are got, for the warning that there are none; by default it returns them."""
    _answers: OrderedDict[bytes, _Answer] = dataclasses.field(
        default_factory=OrderedDict[bytes, _Answer]
    )
    """The latest, by query and contexts."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    _warned: bool = False

    def parts(self) -> Parts:
        """Both halves of a system that answers in one call, as methods of the interface.

        Coroutines where the system is one; in batches, too, where it takes batches.
        """
        methods: dict[str, Callable[..., Any]]
        if is_coroutine(self.ask):
            methods = {
                "retrieve_with_metadata": self.aretrieve,
                "generate_with_metadata": self.agenerate,
            }
        else:
            methods = {
                "retrieve_with_metadata": self.retrieve,
                "generate_with_metadata": self.generate,
            }
        if self.ask_batch is not None:
            methods["batch_retrieve_with_metadata"] = self.batch_retrieve
            methods["batch_generate_with_metadata"] = self.batch_generate
        history_keyword = None if self.history is None else "said"
        for name, method in methods.items():
            # A bound method takes no mark, a partial function does.
            methods[name] = taking_history(functools.partial(method), history_keyword)
        return Parts(
            source=self.source,
            methods=methods,
            restore=self.restore,
            answers_from_contexts=self.contexts is not None,
        )

    def retrieve(self, query: str, top_k: int | None = None, said: Said = ()) -> _Retrieval:
        """Asks the system, returns its contexts, and keeps its answer for `generate`.

        By the kept answer, the system is asked once for a query, and not once for each half.
        """
        value = self._called(self.ask, query, top_k, said)
        return self._retrieval(query, value, said)

    async def aretrieve(self, query: str, top_k: int | None = None, said: Said = ()) -> _Retrieval:
        """Asks a system of coroutines, returns its contexts, and keeps its answer.

        `agenerate`, which follows, finds it there.
        """
        value = await self._called(self.ask, query, top_k, said)
        return self._retrieval(query, value, said)

    def generate(self, query: str, contexts: Sequence[str], said: Said = ()) -> _Answer:
        """The answer that the system gave with these contexts.

        With other contexts, or long after, it has to answer again, and the result says so if it
        cannot be given the contexts.
        """
        answer = self._remembered(query, contexts, said)
        if answer is None:
            value = self._called(self.ask, query, None, said, contexts)
            answer = self._second_answer(contexts, value)
        return answer

    async def agenerate(self, query: str, contexts: Sequence[str], said: Said = ()) -> _Answer:
        """The answer that a system of coroutines gave with these contexts.

        With other contexts, or long after, it has to answer again, and the result says so if it
        cannot be given the contexts.
        """
        answer = self._remembered(query, contexts, said)
        if answer is None:
            value = await self._called(self.ask, query, None, said, contexts)
            answer = self._second_answer(contexts, value)
        return answer

    def batch_retrieve(
        self, queries: list[str], top_k: int | None = None, said: Sequence[Said] | None = None
    ) -> list[_Retrieval]:
        """Asks for all queries in one call, and keeps the answers.

        A query whose result cannot be read fails alone: the others have their results.
        The answers are kept for `batch_generate`, so that the system is not asked twice.
        """
        # A batch without messages has an empty list of them for each query.
        histories = said or [()] * len(queries)
        values = self._called_together(queries, top_k, histories)
        outcomes: list[Any] = []
        for query, value, history in zip(queries, values, histories, strict=True):
            outcomes.append(_read_or_error(self._retrieval, query, value, history))
        return settled(outcomes, self.where)

    def batch_generate(
        self, queries: list[str], contexts_list: list[list[str]], said: Sequence[Said] | None = None
    ) -> list[_Answer]:
        """The answers that the system gave with these contexts, when it retrieved.

        Queries whose answer is not kept are asked again, in one call.
        """
        histories = said or [()] * len(queries)
        outcomes: list[Any] = []
        unanswered: list[int] = []
        rows = zip(queries, contexts_list, histories, strict=True)
        for place, (query, contexts, history) in enumerate(rows):
            answer = self._remembered(query, contexts, history)
            outcomes.append(answer)
            if answer is None:
                unanswered.append(place)
        # In one call, as the first time, and not one by one.
        if unanswered:
            unanswered_queries = [queries[place] for place in unanswered]
            their_histories = [histories[place] for place in unanswered]
            values = self._called_together(unanswered_queries, None, their_histories)
            for place, value in zip(unanswered, values, strict=True):
                contexts = contexts_list[place]
                outcomes[place] = _read_or_error(self._second_answer, contexts, value)
        return settled(outcomes, self.where)

    def restore(self, query: str, result: RetrievalResult[Any], said: Said = ()) -> None:
        """Takes an answer back from the metadata of a stored retrieval, if it is there.

        A run that goes on after an interruption so does not ask the system a second time.
        """
        stored = as_object(result.metadata).get(ANSWER_KEY)
        if is_object(stored):
            answer: _Answer = GenerationResult.from_mapping(stored)
            self._remember(query, result.contexts, answer, said)

    def _called(
        self,
        ask: Any,
        queries: Any,
        top_k: int | None,
        said: Sequence[Any],
        contexts: Sequence[str] | None = None,
    ) -> Any:
        """The value that the system returns for a query, or for the queries of a batch.

        Args:
            ask: the system's function for a query, or for a batch.
            contexts: what it answers from, if it takes that; None, if it retrieves.
        """
        # Never by position: `keyword` is a name, or None.
        _, top_k_option = pass_top_k(self.keyword, top_k, self.where)
        options: dict[str, Any] = dict(top_k_option)
        # Also without any messages, so that a parameter without a default has a value.
        if self.history is not None:
            options[self.history] = said
        if self.contexts is not None and contexts is not None:
            options[self.contexts] = list(contexts)
        return ask(queries, **options)

    def _called_together(
        self, queries: list[str], top_k: int | None, said: Sequence[Said]
    ) -> Sequence[Any]:
        """The values that the system returns for a batch, checked to be one per query.

        With fewer or more, answers would go to other queries.
        """
        values = self._called(self.ask_batch, queries, top_k, list(said))
        return to_batch(values, len(queries), self.where)

    def _remembered(self, query: str, contexts: Sequence[str], said: Said) -> _Answer | None:
        """The answer that the system gave with just these contexts, if it is still kept.

        None after post-retrieval changed the contexts, or where too many answers came since.
        """
        # Without the lock: one look-up is whole, and a missed answer is only asked for again.
        return self._answers.get(self._key(query, contexts, said))

    def _remember(self, query: str, contexts: Sequence[str], answer: _Answer, said: Said) -> None:
        """Keeps an answer for `generate`, and drops the oldest where there are too many.

        Kept under a lock, as several threads ask.
        """
        key = self._key(query, contexts, said)
        with self._lock:
            self._answers[key] = answer
            # An answer that came again is the newest, not where it was.
            self._answers.move_to_end(key)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def _key(self, query: str, contexts: Sequence[str], said: Said) -> bytes:
        """The digest under which an answer is kept in memory.

        Earlier turns of the conversation are in it only where the system reads them: else the same
        query with the same contexts has the same answer.
        Long contexts would else fill the memory.
        """
        parts: list[object] = [query, *contexts]
        if self.history is not None and said:
            parts.append(list(said))
        # Escaped: lone surrogates occur in scraped text and cannot be encoded otherwise.
        text = json.dumps(parts)
        return blake2b(text.encode(), digest_size=16).digest()

    def _retrieval(self, query: str, value: object, said: Said) -> _Retrieval:
        """Reads what the system returned, keeps its answer and returns its retrieval.

        The answer is in the retrieval's metadata, too, from which a later process restores it.

        Raises:
            NoContextsError: the system returned an answer without contexts.
        """
        retrieval, answer = read_answer(value, self.where)
        if retrieval is None:
            # Under no contexts: these are what `generate` is called with after such a retrieval.
            self._remember(query, (), answer, said)
            self._warn_of_no_contexts(value)
            raise NoContextsError
        self._remember(query, retrieval.contexts, answer, said)
        metadata = {**_fields_of_metadata(retrieval.metadata), ANSWER_KEY: answer.to_dict()}
        return replace(retrieval, metadata=metadata)

    def _warn_of_no_contexts(self, value: object) -> None:
        """Warns once that the system's answers have no contexts, and names the fields of the first.

        Args:
            value: what the system returned.
        """
        if self._warned:
            return
        # Once for the whole run: every further answer lacks them, too.
        self._warned = True
        remedy = self.remedy
        if remedy is None:
            remedy = "Return {'answer': ..., 'contexts': [...]} to have it measured"
            fields = answer_fields(value)
            if fields is not None:
                remedy += f" (there are {listed(list(fields))})"
        warn(
            f"{self.where} returns answers without contexts: they are scored, retrieval is "
            f"not. {remedy}"
        )

    def _second_answer(self, contexts: Sequence[str], value: object) -> _Answer:
        """Reads the answer of a second call, and says that it is one if it retrieved again.

        The answer of a system that retrieved again may rest on other contexts than those that were
        measured: reports say so.

        Args:
            value: what the second call returned.
        """
        retrieval, answer = read_answer(value, self.where)
        # A system that takes contexts was given these, so its answer rests on them.
        if self.contexts is not None:
            return answer
        metadata = {**_fields_of_metadata(answer.metadata), "asked_again": True}
        if retrieval is not None and list(retrieval.contexts) != list(contexts):
            metadata["contexts_differ"] = True
        return replace(answer, metadata=metadata)


def _fields_of_metadata(metadata: object) -> dict[str, Any]:
    """A result's metadata as a mapping that keys can be added to, whatever a user put there.

    Metadata that are no mapping are put below the key ``metadata``.
    """
    if metadata is None:
        return {}
    if is_object(metadata):
        return dict(metadata)
    return {"metadata": metadata}
