"""Answers of a RAG to contexts that somebody else chose."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import ConfigError
from ragbench.rag.parts import Adapted
from ragbench.stages.calls import attempt, attempt_async
from ragbench.stages.rag import RAG, GenerateInput, contexts_for_generation, generate_stage

_GENERATE = "generate"


class Answering:
    """A RAG's generation, for the length of a block.

    The same question with the same contexts is asked once, until `forget`: variants that leave the
    same are given the same answer, and its time. Any number of threads may ask.
    """

    def __init__(self, rag: RAG) -> None:
        if "generation" not in rag.families:
            raise ConfigError("the RAG does not generate: there is nobody to answer")
        if isinstance(rag, Adapted) and rag.answers_in_one_call:
            raise ConfigError(
                "the RAG retrieves and answers in one call: it cannot be given other contexts"
            )
        self.asked = 0
        """Answers that were asked for."""
        self._stage = generate_stage(rag, b"")
        self._known: dict[tuple[str, ...], Outcome[GenerationResult[Any]]] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._stage.call_async is not None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None

    def answer(self, query: str, left: RetrievalResult[Any]) -> Outcome[GenerationResult[Any]]:
        texts, _ = contexts_for_generation(left, b"")
        key = (query, *texts)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        outcome = self._asked((query, texts))
        if outcome.value is not None:
            outcome = replace(outcome, status=self._stage.status(outcome.value))
        with self._lock:
            self._known[key] = outcome
            self.asked += 1
        return outcome

    def forget(self) -> None:
        """Forgets all answers: no case of before comes again."""
        self._known.clear()

    def _asked(self, given: GenerateInput) -> Outcome[GenerationResult[Any]]:
        if self._stage.call is not None:
            _, outcomes = next(attempt(self._stage.call, [given], stage=_GENERATE))
            return outcomes[0]
        if self._loop is None:
            raise ConfigError("an async RAG answers within 'with Answering(rag):' alone")
        return asyncio.run_coroutine_threadsafe(self._awaited([given]), self._loop).result()

    async def _awaited(self, given: Sequence[GenerateInput]) -> Outcome[GenerationResult[Any]]:
        call = self._stage.call_async
        assert call is not None
        _, outcomes = await anext(attempt_async(call, given, stage=_GENERATE))
        return outcomes[0]
