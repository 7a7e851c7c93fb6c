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

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import NoContextsError, warn
from ragbench.rag.fallback import settled, to_batch
from ragbench.rag.forms import TopKParameter, pass_top_k
from ragbench.rag.parts import Parts, is_coroutine_function
from ragbench.rag.shapes import as_mapping, read_answer

_REMEMBERED = 4096
"""Answers."""


class AnswerMemo:
    """The latest answers by query and contexts, a bounded number of them.

    Contexts are kept as a digest, so that the memo holds no text but the answers. Safe to use
    from several threads.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, GenerationResult[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, query: str, contexts: Sequence[str], answer: GenerationResult[Any]) -> None:
        key = _key(query, contexts)
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def get(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any] | None:
        """The answer that was given with just these contexts, if it is still there."""
        key = _key(query, contexts)
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer


def _key(query: str, contexts: Sequence[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in (query, *contexts):
        # Lone surrogates occur in scraped text and cannot be encoded otherwise.
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


ANSWER_KEY = "ragbench.answer"
"""The key in a retrieval's metadata under which the answer of the same call is kept."""


class OneCall:
    """The book-keeping between the two halves of a call."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.memo = AnswerMemo()
        self._warned = False

    def retrieval(self, query: str, value: object) -> RetrievalResult[Any]:
        """Reads what the system returned, keeps its answer and returns its retrieval."""
        retrieval, answer = read_answer(value, self.where)
        if retrieval is None:
            self.memo.put(query, (), answer)
            if not self._warned:
                self._warned = True
                warn(
                    f"{self.where} returns answers without contexts: they are scored, retrieval "
                    "is not. Return {'answer': ..., 'contexts': [...]} to have it measured"
                )
            raise NoContextsError
        self.memo.put(query, retrieval.contexts, answer)
        known = as_mapping(retrieval.metadata)
        if known is None:
            known = {} if retrieval.metadata is None else {"metadata": retrieval.metadata}
        metadata = {**known, ANSWER_KEY: answer.to_dict()}
        return RetrievalResult.from_mapping({**retrieval.to_dict(), "metadata": metadata})

    def restore(self, query: str, result: RetrievalResult[Any]) -> None:
        """Takes an answer back from the metadata of a stored retrieval, if it is there."""
        answer = as_mapping((as_mapping(result.metadata) or {}).get(ANSWER_KEY))
        if answer is not None:
            self.memo.put(query, result.contexts, GenerationResult.from_mapping(answer))

    def again(self, contexts: Sequence[str], value: object) -> GenerationResult[Any]:
        """Reads the answer of a second call and says that it is one."""
        retrieval, answer = read_answer(value, self.where)
        known = as_mapping(answer.metadata)
        if known is None:
            known = {} if answer.metadata is None else {"metadata": answer.metadata}
        metadata: dict[str, Any] = {**known, "asked_again": True}
        if retrieval is not None and list(retrieval.contexts) != list(contexts):
            metadata["contexts_differ"] = True
        return GenerationResult.from_mapping({**answer.to_dict(), "metadata": metadata})


def parts_of_one_call(
    source: object,
    ask: Callable[..., Any],
    where: str,
    *,
    ask_batch: Callable[..., Any] | None = None,
    keyword: str | None = None,
) -> Parts:
    call = OneCall(where)
    if is_coroutine_function(ask):
        methods = _async_methods(call, ask, keyword)
    else:
        methods = _methods(call, ask, keyword)
        if ask_batch is not None:
            methods |= _batch_methods(call, ask_batch, keyword)
    return Parts(source=source, methods=methods, restore=call.restore)


def _methods(
    call: OneCall, ask: Callable[..., Any], keyword: str | None
) -> dict[str, Callable[..., Any]]:
    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return call.retrieval(query, ask(query, **_wanted(call, keyword, top_k)))

    def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        known = call.memo.get(query, contexts)
        return call.again(contexts, ask(query)) if known is None else known

    return {"retrieve_with_metadata": retrieve, "generate_with_metadata": generate}


def _async_methods(
    call: OneCall, ask: Callable[..., Any], keyword: str | None
) -> dict[str, Callable[..., Any]]:
    async def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return call.retrieval(query, await ask(query, **_wanted(call, keyword, top_k)))

    async def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        known = call.memo.get(query, contexts)
        return call.again(contexts, await ask(query)) if known is None else known

    return {"retrieve_with_metadata": retrieve, "generate_with_metadata": generate}


def _batch_methods(
    call: OneCall, ask_batch: Callable[..., Any], keyword: str | None
) -> dict[str, Callable[..., Any]]:
    def retrieve(queries: list[str], top_k: int | None = None) -> list[RetrievalResult[Any]]:
        values = ask_batch(queries, **_wanted(call, keyword, top_k))
        answers = to_batch(values, len(queries), call.where)
        return settled(
            [
                answer if isinstance(answer, Exception) else call.retrieval(query, answer)
                for query, answer in zip(queries, answers, strict=True)
            ],
            call.where,
        )

    def generate(queries: list[str], contexts_list: list[list[str]]) -> list[GenerationResult[Any]]:
        pairs = list(zip(queries, contexts_list, strict=True))
        found: list[Any] = [call.memo.get(query, contexts) for query, contexts in pairs]
        missing = [position for position, answer in enumerate(found) if answer is None]
        if missing:
            values = ask_batch([queries[position] for position in missing])
            answers = to_batch(values, len(missing), call.where)
            for position, answer in zip(missing, answers, strict=True):
                failed = isinstance(answer, Exception)
                found[position] = answer if failed else call.again(contexts_list[position], answer)
        return settled(found, call.where)

    return {"batch_retrieve_with_metadata": retrieve, "batch_generate_with_metadata": generate}


def _wanted(call: OneCall, keyword: str | None, top_k: int | None) -> dict[str, int]:
    if keyword is None or top_k is None:
        pass_top_k(TopKParameter.NOT, top_k, call.where)
        return {}
    return {keyword: top_k}
