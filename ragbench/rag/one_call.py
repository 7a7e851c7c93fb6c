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

from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import NoContextsError, warn
from ragbench.rag.fallback import settled, to_batch
from ragbench.rag.forms import pass_top_k
from ragbench.rag.parts import Parts, is_coroutine_function
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

    def known(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any] | None:
        """The answer that was given with just these contexts, if it is still there."""
        return self._answers.get(_key(query, contexts))

    def _remember(self, query: str, contexts: Sequence[str], answer: GenerationResult[Any]) -> None:
        key = _key(query, contexts)
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def retrieval(self, query: str, value: object) -> RetrievalResult[Any]:
        """Reads what the system returned, keeps its answer and returns its retrieval."""
        retrieval, answer = read_answer(value, self.where)
        self._remember(query, () if retrieval is None else retrieval.contexts, answer)
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

    def restore(self, query: str, result: RetrievalResult[Any]) -> None:
        """Takes an answer back from the metadata of a stored retrieval, if it is there."""
        answer = as_mapping((as_mapping(result.metadata) or {}).get(ANSWER_KEY))
        if answer is not None:
            self._remember(query, result.contexts, GenerationResult.from_mapping(answer))

    def again(self, contexts: Sequence[str], value: object) -> GenerationResult[Any]:
        """Reads the answer of a second call and says that it is one."""
        retrieval, answer = read_answer(value, self.where)
        metadata = {**_fields(answer.metadata), "asked_again": True}
        if retrieval is not None and list(retrieval.contexts) != list(contexts):
            metadata["contexts_differ"] = True
        return replace(answer, metadata=metadata)


def _key(query: str, contexts: Sequence[str]) -> bytes:
    # Escaped: lone surrogates occur in scraped text and cannot be encoded otherwise.
    return blake2b(json.dumps([query, *contexts]).encode(), digest_size=16).digest()


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
) -> Parts:
    """Both halves of what is asked once a query; ``keyword`` takes how many contexts to find."""
    call = OneCall(where)

    def asked(query: str, top_k: int | None = None) -> Any:
        _, options = pass_top_k(keyword, top_k, where)
        return ask(query, **options)

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return call.retrieval(query, asked(query, top_k))

    async def aretrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return call.retrieval(query, await asked(query, top_k))

    def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        known = call.known(query, contexts)
        return call.again(contexts, asked(query)) if known is None else known

    async def agenerate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        known = call.known(query, contexts)
        return call.again(contexts, await asked(query)) if known is None else known

    awaited = is_coroutine_function(ask)
    methods: dict[str, Callable[..., Any]] = {
        "retrieve_with_metadata": aretrieve if awaited else retrieve,
        "generate_with_metadata": agenerate if awaited else generate,
    }
    if ask_batch is not None:
        methods |= _batch_methods(call, ask_batch, keyword)
    return Parts(source=source, methods=methods, restore=call.restore)


def _batch_methods(
    call: OneCall, ask_batch: Callable[..., Any], keyword: str | None
) -> dict[str, Callable[..., Any]]:
    def asked(queries: list[str], top_k: int | None = None) -> Sequence[Any]:
        _, options = pass_top_k(keyword, top_k, call.where)
        return to_batch(ask_batch(queries, **options), len(queries), call.where)

    def retrieve(queries: list[str], top_k: int | None = None) -> list[RetrievalResult[Any]]:
        pairs = zip(queries, asked(queries, top_k), strict=True)
        found = [a if isinstance(a, Exception) else call.retrieval(q, a) for q, a in pairs]
        return settled(found, call.where)

    def generate(queries: list[str], contexts_list: list[list[str]]) -> list[GenerationResult[Any]]:
        pairs = zip(queries, contexts_list, strict=True)
        found: list[Any] = [call.known(query, contexts) for query, contexts in pairs]
        missing = [position for position, answer in enumerate(found) if answer is None]
        answers = asked([queries[position] for position in missing]) if missing else ()
        for position, answer in zip(missing, answers, strict=True):
            failed = isinstance(answer, Exception)
            found[position] = answer if failed else call.again(contexts_list[position], answer)
        return settled(found, call.where)

    return {"batch_retrieve_with_metadata": retrieve, "batch_generate_with_metadata": generate}
