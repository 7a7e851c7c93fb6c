"""What judges bring; whom they ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ragbench.core.chat import Embeddings, Message, Reply
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement, JudgeStep, Quote
from ragbench.core.trace import Trace
from ragbench.llm.schema import Schema


class Asks(Protocol):
    """Answers questions with structure; see `ragbench.llm.client.LLMClient.ask`."""

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any],
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        """Asks for a structure."""
        ...


class Embeds(Protocol):
    """Gives vectors; see `ragbench.llm.embeddings.EmbeddingClient.embed`."""

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        """Embeds texts."""
        ...


class JudgeModels(Protocol):
    """What is open; `ragbench.llm.session.ModelClients` is one."""

    @property
    def jurors(self) -> Sequence[tuple[str, JudgeModels]]:
        """The judges of a panel, each with its name; empty where one judge alone is asked."""
        ...

    @property
    def chat(self) -> Asks | None:
        """The language model."""
        ...

    @property
    def embeddings(self) -> Embeds | None:
        """The model for embeddings."""
        ...


class JudgeScorer(Protocol):
    """Computes metrics that ask models.

    A definition whose ``cost`` is not free names its class or factory, which is called without
    arguments. What a metric's definition says that it needs is there in every trace.
    """

    def identity(self) -> Mapping[str, str]:
        """Versions of what makes the prompts, and a digest of all prompts there are.

        Judgements of runs compare when it is the same; which of the metrics a run asks for must
        not change it.
        """
        ...

    def prepare(self, metric: Metric) -> str:
        """Makes a metric ready, before anything is asked."""
        ...

    async def judge(
        self, metric: Metric, trace: Trace, panel: JudgeModels, repeat: int
    ) -> Judgement:
        """Judges a case.

        Args:
            repeat: which of several judgings this is, from 0; each is asked anew.
        """
        ...


def step_of(reply: Reply[Any], asked: str, answer: Any, quotes: Sequence[Quote] = ()) -> JudgeStep:
    told = reply.usage if reply.usage.reported else None
    return JudgeStep(
        asked=asked,
        answer=answer,
        prompt_tokens=None if told is None else told.prompt_tokens,
        completion_tokens=None if told is None else told.completion_tokens,
        quotes=tuple(quotes),
        cost=reply.cost,
        not_sent=reply.not_sent,
    )
