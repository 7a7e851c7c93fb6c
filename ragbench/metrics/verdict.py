"""One question to a judge about a whole answer, and its verdict with a reason.

`ragbench.metrics.correctness` and `ragbench.metrics.rubric` judge so. Their prompts are files in
``prompts``: the version in the first line, the text below.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.core.chat import task_messages
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure, Judgement
from ragbench.core.record import Record
from ragbench.errors import ConfigError, LLMError, LLMStoppedError
from ragbench.llm.schema import Schema
from ragbench.metrics.judging import step_of

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients


class Prompt(NamedTuple):
    """A prompt as its file holds it."""

    version: int
    """Raised with every change of the text: a verdict on another text does not compare."""
    text: str


@cache
def read_prompt(name: str) -> Prompt:
    """The prompt ``prompts/NAME.md``."""
    raw = get_data("ragbench.metrics", f"prompts/{name}.md") or b""
    head, _, text = raw.decode().partition("\n")
    return Prompt(version=int(head.removeprefix("version ")), text=text.strip())


class Question(Record):
    """What a judge is asked about one answer."""

    task: str
    """The prompt, which is the same for all answers."""
    data: Mapping[str, object]
    """The texts of the case."""
    schema: Schema[Any]
    """Of a dataclass with ``reason`` and ``verdict``."""
    values: Mapping[str, float]
    """The value of each verdict."""

    async def ask(self, metric: Metric, panel: ModelClients, repeat: int) -> Judgement:
        """Asks one judge; a reply that cannot be used fails this case alone."""
        if panel.chat is None:
            raise ConfigError(f"{metric.name} needs a language model, and none is named")
        try:
            reply = await panel.chat.ask(
                task_messages(self.task, json.dumps(self.data, ensure_ascii=False)),
                schema=self.schema,
                purpose=metric.name,
                version=str(metric.definition.version),
                repeat=repeat,
            )
        except LLMStoppedError:
            raise
        except LLMError as error:
            failure = Failure(type=type(error).__name__, message=str(error), stage="score")
            return Judgement(cell=Cell.failed(failure))
        verdict = reply.value
        step = step_of(reply, type(verdict).__name__, asdict(verdict))
        return Judgement(cell=Cell.measured(self.values[verdict.verdict]), steps=(step,))
