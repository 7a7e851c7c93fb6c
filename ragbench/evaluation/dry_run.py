"""What judging would take: the real prompts are rendered and counted, and nobody is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragbench.evaluation.judging import Job
from ragbench.llm.cache import ResponseCache
from ragbench.llm.cache_key import cache_key
from ragbench.llm.chat import Message
from ragbench.llm.embeddings import EmbeddingClient, Embeddings
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.estimate import Estimate, Estimator
from ragbench.llm.loop_thread import LoopThread
from ragbench.llm.reply import Reply
from ragbench.llm.schema import Schema, read_structure
from ragbench.llm.settings import LLMSettings
from ragbench.llm.tokens import TokenCounter, prompt_tokens
from ragbench.llm.usage import Usage
from ragbench.scoring.asking import input_of
from ragbench.scoring.assumed import FEW, MANY, Assumption, assumed_answer, is_assumed
from ragbench.scoring.judge_plan import JudgePlan
from ragbench.text.model_counter import counter_for_model

__all__ = ["DryRun", "JudgingEstimate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingEstimate:
    """What judging will take, at the least and at the most that is usual."""

    least: Estimate
    most: Estimate
    embeddings: Estimate | None
    """None when nothing is embedded."""

    @property
    def cost(self) -> tuple[Decimal, Decimal] | None:
        """From and to; None when a price is not known."""
        ends = (self.least.cost, self.most.cost)
        texts = (Decimal(0), Decimal(0)) if self.embeddings is None else self.embeddings.cost
        if ends[0] is None or ends[1] is None or texts is None:
            return None
        return ends[0][0] + texts[0], ends[1][1] + texts[1]


class DryRun:
    """Stands in for the judging of a run. Use it with ``with``: it reads the cache of answers."""

    def __init__(self, chat: LLMSettings | None, embeddings: LLMSettings | None) -> None:
        """Has counted nothing.

        Args:
            chat: the language model's settings.
            embeddings: those of the model for embeddings.
        """
        self.cases = 0
        """Judgements that would be made."""
        self._chat = chat
        self._embeddings = embeddings
        self._stack = ExitStack()
        self._panels: list[_Panel] = []
        self._thread = LoopThread()

    def __enter__(self) -> DryRun:
        """Opens the cache, where there is one."""
        self._thread.start()
        try:
            self._thread.run(self._open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    async def _open(self) -> None:
        """In the thread that reads the cache: SQLite wants it so."""
        chat, embeddings = self._chat, self._embeddings
        for assumption in (FEW, MANY):
            asks = embeds = None
            if chat is not None:
                asks = _Chat(chat.endpoint, self._cache(chat), assumption)
            if embeddings is not None:
                embeds = _Embeddings(embeddings.endpoint, self._cache(embeddings))
            self._panels.append(_Panel(chat=asks, embeddings=embeds))

    async def _close(self) -> None:
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        try:
            self._thread.run(self._close())
        finally:
            self._thread.stop()

    def all(self, plan: JudgePlan, jobs: Sequence[Job], stopped: Callable[[], bool]) -> None:
        """Counts cells that would be judged."""

        async def judge() -> None:
            for job in jobs:
                if stopped():
                    return
                if plan.blocked(job.position, job.turn.trace) is None:
                    self.cases += 1
                    for panel in self._panels:
                        await plan.judge(job.position, job.turn.trace, panel)

        self._thread.run(judge())

    def estimate(self) -> JudgingEstimate:
        """What was counted."""
        least, most = self._panels
        empty = Estimate(
            model="", lines=(), counter="", approximate=True, currency=None, price_origin=None
        )
        return JudgingEstimate(
            least=empty if least.chat is None else least.chat.estimator.estimate(),
            most=empty if most.chat is None else most.chat.estimator.estimate(),
            embeddings=None if most.embeddings is None else most.embeddings.estimator.estimate(),
        )

    def _cache(self, settings: LLMSettings) -> ResponseCache | None:
        """A cache that is not there yet is not made."""
        path = None if settings.cache is None else Path(settings.cache).expanduser()
        if path is None or not path.exists():
            return None
        return self._stack.enter_context(ResponseCache(path, must_exist=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    chat: _Chat | None
    embeddings: _Embeddings | None


class _Chat:
    """Answers out of the cache, or with an assumed answer, and counts."""

    def __init__(
        self, endpoint: Endpoint, cache: ResponseCache | None, assumption: Assumption
    ) -> None:
        self._endpoint = endpoint
        self._cache = cache
        self._assumption = assumption
        self._counter: TokenCounter = counter_for_model(endpoint.model)
        self.estimator = Estimator(endpoint, self._counter, cache)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any],
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        prompt = messages[-1].content
        key = cache_key(
            self._endpoint.identity(),
            messages,
            schema=schema.definition,
            version=version,
            repeat=repeat,
        )
        kept = None if self._cache is None else self._cache.get(key)
        text = kept.text if kept is not None else self._assumed(schema, prompt)
        tokens = self._counter.count(text)
        if is_assumed(prompt):
            size = prompt_tokens(messages, self._counter, schema.definition)
            self.estimator.guess(
                purpose, calls=1, prompt_tokens=size, answer_tokens=(tokens, tokens)
            )
        else:
            self.estimator.add(
                messages,
                answer_tokens=(tokens, tokens),
                schema=schema,
                purpose=purpose,
                version=version,
                repeat=repeat,
            )
        return Reply(
            value=read_structure(text, schema),
            text=text,
            usage=Usage(reported=False),
            cost=None,
            model=self._endpoint.model,
            finish_reason="",
            cached=kept is not None,
            repaired=False,
            attempts=0,
            seconds=0.0,
            key=key,
        )

    def _assumed(self, schema: Schema[Any], prompt: str) -> str:
        value = assumed_answer(schema.definition, input_of(prompt), self._assumption)
        return json.dumps(value, ensure_ascii=False)


class _Embeddings:
    """Counts texts; their vectors are all alike."""

    def __init__(self, endpoint: Endpoint, cache: ResponseCache | None) -> None:
        self._known = EmbeddingClient(endpoint, cache=cache)
        self._counter: TokenCounter = counter_for_model(endpoint.model)
        self._seen: set[str] = set()
        self.estimator = Estimator(endpoint, self._counter)

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        fresh = [
            t for t in dict.fromkeys(texts) if t not in self._seen and not self._known.knows(t)
        ]
        self._seen.update(fresh)
        if fresh:
            tokens = sum(map(self._counter.count, fresh))
            self.estimator.guess(purpose, calls=1, prompt_tokens=tokens, answer_tokens=(0, 0))
        return Embeddings(
            vectors=((1.0, 0.0),) * len(texts),
            usage=Usage(reported=False),
            cost=None,
            cached=len(texts) - len(fresh),
        )
