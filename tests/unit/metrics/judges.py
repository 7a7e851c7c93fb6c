"""Judges for tests: they answer at once, by a script, and remember what they were asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ragbench import parse_metrics
from ragbench.core.chat import Embeddings, Message, Reply, Usage
from ragbench.core.outcome import JudgedCell
from ragbench.core.trace import Trace
from ragbench.llm.schema import Schema, read_structure
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import JudgePlan
from tests.llm_server import instance_of
from tests.unit.llm.builders import reply

Say = Callable[[str, Mapping[str, Any], int], Any]
"""What the judge says to a prompt, given the schema and the repetition: JSON, or an exception."""


def instances(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
    return instance_of(schema)


@dataclass
class Judge:
    """A panel that asks no network."""

    say: Say = instances
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Prompts with their repetition."""
    embedded: list[list[str]] = field(default_factory=list)

    @property
    def jurors(self) -> Sequence[tuple[str, Judge]]:
        return ()

    @property
    def chat(self) -> Judge:
        return self

    @property
    def embeddings(self) -> Judge:
        return self

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
        self.asked.append((prompt, repeat))
        said = self.say(prompt, schema.definition, repeat)
        if isinstance(said, Exception):
            raise said
        text = json.dumps(said)
        # Raises LLMReplyError, as the client in the end.
        return replace(reply("", text, "m"), value=read_structure(text, schema), cached=False)

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        self.embedded.append(list(texts))
        vectors = tuple((float(len(text)), 1.0) for text in texts)
        return Embeddings(vectors=vectors, usage=Usage(), cost=None, cached=0)


def judged(metric: str, trace: Trace, judge: Judge, *, repeats: int = 1) -> JudgedCell:
    """One case under one metric."""
    plan = JudgePlan(parse_metrics([metric]), repeats=repeats)
    return asyncio.run(plan.judge(0, trace, cast("ModelClients", judge)))


def statements(texts: Sequence[str], verdicts: Sequence[int]) -> Say:
    """Finds these statements and gives these verdicts."""

    def say(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
        if schema["title"] in ("StatementGeneratorOutput", "ClaimDecompositionOutput"):
            name = next(iter(schema["properties"]))
            return {name: list(texts)}
        return {
            "statements": [
                {"statement": text, "reason": "because", "verdict": verdict}
                for text, verdict in zip(texts, verdicts, strict=False)
            ]
        }

    return say
