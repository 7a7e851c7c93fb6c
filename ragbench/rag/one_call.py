"""Systems that retrieve and answer in one call.

The interface asks for the retrieval first and for the generation later, perhaps in another process.
So retrieval makes the call; the answer is kept in the retrieval's metadata under `ANSWER_KEY` and
in a bounded memo under (query, contexts). Generation looks there. When a run is continued, the
stored retrievals are handed to `restore`, which fills the memo again. Only when neither knows
the answer (the contexts were changed in between, or nothing was restored) is the system asked
again, and the answer's metadata then says so: ``asked_again``, and ``contexts_differ`` when the
second call retrieved something else than it was given.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from ragbench.core.case import Said
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import NoContextsError, warn
from ragbench.rag.fallback import settled, to_batch
from ragbench.rag.forms import pass_top_k
from ragbench.rag.parts import Parts, is_coroutine_function, taking_history
from ragbench.rag.shapes import as_mapping, read_answer

_REMEMBERED = 4096
"""Answers."""
ANSWER_KEY = "ragbench.answer"
"""The key in a retrieval's metadata under which the answer of the same call is kept."""


class OneCall:
    """The book-keeping between the two halves of a call. Safe to use from several threads."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._answers: OrderedDict[bytes, GenerationResult[Any]] = OrderedDict()
        """The latest, by query and contexts."""
        self._lock = threading.Lock()
        self._warned = False

    def known(
        self, query: str, contexts: Sequence[str], said: Said = ()
    ) -> GenerationResult[Any] | None:
        """The answer that was given with just these contexts, if it is still there."""
        return self._answers.get(_key(query, contexts, said))

    def _remember(
        self, query: str, contexts: Sequence[str], answer: GenerationResult[Any], said: Said
    ) -> None:
        key = _key(query, contexts, said)
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def retrieval(self, query: str, value: object, said: Said = ()) -> RetrievalResult[Any]:
        """Reads what the system returned, keeps its answer and returns its retrieval."""
        retrieval, answer = read_answer(value, self.where)
        self._remember(query, () if retrieval is None else retrieval.contexts, answer, said)
        if retrieval is None:
            if not self._warned:
                self._warned = True
                warn(
                    f"{self.where} returns answers without contexts: they are scored, retrieval "
                    "is not. Return {'answer': ..., 'contexts': [...]} to have it measured"
                )
            raise NoContextsError
        return replace(
            retrieval, metadata={**_fields(retrieval.metadata), ANSWER_KEY: answer.to_dict()}
        )

    def restore(self, query: str, result: RetrievalResult[Any], said: Said = ()) -> None:
        """Takes an answer back from the metadata of a stored retrieval, if it is there."""
        answer = as_mapping((as_mapping(result.metadata) or {}).get(ANSWER_KEY))
        if answer is not None:
            self._remember(query, result.contexts, GenerationResult.from_mapping(answer), said)

    def again(self, contexts: Sequence[str], value: object) -> GenerationResult[Any]:
        """Reads the answer of a second call and says that it is one."""
        retrieval, answer = read_answer(value, self.where)
        metadata = {**_fields(answer.metadata), "asked_again": True}
        if retrieval is not None and list(retrieval.contexts) != list(contexts):
            metadata["contexts_differ"] = True
        return replace(answer, metadata=metadata)


def _key(query: str, contexts: Sequence[str], said: Said) -> bytes:
    # Escaped: lone surrogates occur in scraped text and cannot be encoded otherwise.
    parts = json.dumps([query, *contexts, *([list(said)] if said else [])])
    return blake2b(parts.encode(), digest_size=16).digest()


def _fields(metadata: object) -> dict[str, Any]:
    known = as_mapping(metadata)
    if known is not None:
        return dict(known)
    return {} if metadata is None else {"metadata": metadata}


def parts_of_one_call(
    source: object,
    ask: Callable[..., Any],
    where: str,
    *,
    ask_batch: Callable[..., Any] | None = None,
    keyword: str | None = None,
    history: str | None = None,
) -> Parts:
    """Both halves of what is asked once a query.

    Args:
        keyword: takes how many contexts to find.
        history: takes what was said before; of a batch, before each query.
    """
    call = OneCall(where)

    def asked(query: str, top_k: int | None, said: Said) -> Any:
        _, options = pass_top_k(keyword, top_k, where)
        return ask(query, **options, **({} if history is None else {history: said}))

    def retrieve(query: str, top_k: int | None = None, said: Said = ()) -> RetrievalResult[Any]:
        return call.retrieval(query, asked(query, top_k, said), said)

    async def aretrieve(
        query: str, top_k: int | None = None, said: Said = ()
    ) -> RetrievalResult[Any]:
        return call.retrieval(query, await asked(query, top_k, said), said)

    def generate(query: str, contexts: Sequence[str], said: Said = ()) -> GenerationResult[Any]:
        known = call.known(query, contexts, said)
        return call.again(contexts, asked(query, None, said)) if known is None else known

    async def agenerate(
        query: str, contexts: Sequence[str], said: Said = ()
    ) -> GenerationResult[Any]:
        known = call.known(query, contexts, said)
        return call.again(contexts, await asked(query, None, said)) if known is None else known

    def restore(query: str, result: RetrievalResult[Any], said: Said) -> None:
        call.restore(query, result, () if history is None else said)

    awaited = is_coroutine_function(ask)
    methods: dict[str, Callable[..., Any]] = {
        "retrieve_with_metadata": aretrieve if awaited else retrieve,
        "generate_with_metadata": agenerate if awaited else generate,
    }
    if ask_batch is not None:
        methods |= _batch_methods(call, ask_batch, keyword, history)
    if history is not None:
        methods = {name: taking_history(made, "said") for name, made in methods.items()}
    return Parts(source=source, methods=methods, restore=restore)


def _batch_methods(
    call: OneCall, ask_batch: Callable[..., Any], keyword: str | None, history: str | None
) -> dict[str, Callable[..., Any]]:
    def asked(queries: list[str], top_k: int | None, said: Sequence[Said]) -> Sequence[Any]:
        _, options = pass_top_k(keyword, top_k, call.where)
        before = {} if history is None else {history: list(said)}
        return to_batch(ask_batch(queries, **options, **before), len(queries), call.where)

    def retrieve(
        queries: list[str], top_k: int | None = None, said: Sequence[Said] | None = None
    ) -> list[RetrievalResult[Any]]:
        before = said or [()] * len(queries)
        rows = zip(queries, asked(queries, top_k, before), before, strict=True)
        found = [a if isinstance(a, Exception) else call.retrieval(q, a, h) for q, a, h in rows]
        return settled(found, call.where)

    def generate(
        queries: list[str], contexts_list: list[list[str]], said: Sequence[Said] | None = None
    ) -> list[GenerationResult[Any]]:
        before = said or [()] * len(queries)
        rows = zip(queries, contexts_list, before, strict=True)
        found: list[Any] = [call.known(*row) for row in rows]
        missing = [at for at, answer in enumerate(found) if answer is None]
        left = [queries[at] for at in missing], None, [before[at] for at in missing]
        answers = asked(*left) if missing else ()
        for at, answer in zip(missing, answers, strict=True):
            failed = isinstance(answer, Exception)
            found[at] = answer if failed else call.again(contexts_list[at], answer)
        return settled(found, call.where)

    return {"batch_retrieve_with_metadata": retrieve, "batch_generate_with_metadata": generate}
