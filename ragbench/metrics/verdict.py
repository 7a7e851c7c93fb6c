"""One question to a judge about a whole answer, and its verdict with a reason.

`ragbench.metrics.correctness` and `ragbench.metrics.rubric_judge` judge so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ragbench.core.chat import task_messages
from ragbench.core.metric import Metric
from ragbench.core.outcome import ANSWER_VERDICTS, Cell, Failure, Judgement
from ragbench.core.record import Record
from ragbench.llm.schema import Schema
from ragbench.metrics.judging import ask_judge, step_of

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients


class Question(Record):
    """What a judge is asked about one answer."""

    task: str
    """The prompt, which is the same for all answers."""
    data: Mapping[str, object]
    """The texts of the case."""
    schema: Schema[Any]
    """Of a dataclass that is a key of `ANSWER_VERDICTS`."""

    async def ask(self, metric: Metric, panel: ModelClients, repeat: int) -> Judgement:
        """Asks one judge the question; a reply that cannot be used fails this case alone.

        The value of each verdict is in `ANSWER_VERDICTS`. The case's texts are sent as JSON, in
        which none can pass for a part of the prompt.

        Args:
            repeat: which of several judgings this is, from 0.
        """
        messages = task_messages(self.task, json.dumps(self.data, ensure_ascii=False))
        reply = await ask_judge(metric, panel, messages, self.schema, repeat)
        if isinstance(reply, Failure):
            return Judgement(cell=Cell.failed(reply))
        verdict = reply.value
        kind = type(verdict).__name__
        value = ANSWER_VERDICTS[kind][verdict.verdict]
        step = step_of(reply, kind, asdict(verdict))
        return Judgement(cell=Cell.measured(value), steps=(step,))
