"""Is the answer right, by a language model that compares it with the references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from ragbench.core.metric import (
    CORRECTNESS,
    Cost,
    Direction,
    Group,
    Metric,
    MetricDefinition,
    Need,
)
from ragbench.core.outcome import Cell, Judgement
from ragbench.core.trace import Trace
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.judging import digest_of
from ragbench.metrics.verdict import Question
from ragbench.text.declining import RULES
from ragbench.text.tables import read_prompt

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients


@dataclass(frozen=True, kw_only=True, slots=True)
class CorrectnessVerdict:
    """The judge's reply; its fields are asked for in this order."""

    reason: str
    """Before the verdict: a model that has to explain first decides better."""
    verdict: Literal["right", "partly", "wrong"]


class CorrectnessJudge:
    """Computes the metric ``correctness``: one question per case, whatever it has of references."""

    def __init__(self) -> None:
        """Reads the prompt and the form of the judge's reply, whose digest names both.

        Judgements are kept under the digest, so that a change of one letter judges anew.
        """
        # The digest has both, and no data of a case: it is the same for all cases.
        self._schema: Schema[CorrectnessVerdict] = schema_of(CorrectnessVerdict)
        self._task = read_prompt("ragbench.metrics", "correctness").text
        self._digest = digest_of([self._task, self._schema.definition])

    def identity(self) -> Mapping[str, str]:
        """The digest of prompt and reply form: only under the same one judgements compare.

        Stored with a run, so that a comparison of two runs can refuse judgements of different
        prompts.
        """
        return {"prompts": self._digest}

    def prepare(self, metric: Metric) -> str:
        """The digest of the prompt, under which judgements are kept; the same for all cases.

        A resumed run uses what it has under the same digest, and asks nothing twice.
        """
        return self._digest

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Asks the judge whether the answer says what a reference says: right, partly or wrong.

        The judge gets question, references and answer, and no contexts: whether the answer is right
        does not depend on where it comes from. An empty answer is skipped without a question. The
        digest does not hold the names of the data: raise the prompt's version with other ones.

        Args:
            repeat: which of several judgings this is, from 0.
        """
        answer = trace.generation.value
        if answer is None or not answer.response.strip():
            return Judgement(cell=Cell.skipped("the answer says nothing"))
        question = Question(
            task=self._task,
            # The text of the prompt calls the data by these names.
            data={
                "question": trace.case.conversation,
                "references": list(trace.case.references),
                "answer": answer.response,
            },
            schema=self._schema,
        )
        return await question.ask(metric, panel, repeat)


@cache
def definitions() -> tuple[MetricDefinition, ...]:
    """The metric ``correctness``, asked of a language model.

    Its version is made of that of its prompt and of the rules of what declines (`RULES`), since
    both change its values. The name of the scorer is imported when a run asks for the metric.
    """
    return (
        MetricDefinition(
            name=CORRECTNESS,
            group=Group.GENERATOR,
            needs=frozenset({Need.QUERY, Need.RESPONSE, Need.REFERENCE, Need.LLM}),
            direction=Direction.HIGHER,
            # The versions of the prompt and of `RULES` begin at 1: a rise of either raises the sum
            # by one.
            version=read_prompt("ragbench.metrics", "correctness").version + RULES - 1,
            summary="Whether the answer is right, by a judge that compares it with the references: "
            "right 1, partly 0.5, wrong 0",
            citation="ragbench",
            scorer="ragbench.metrics.correctness:CorrectnessJudge",
            extra="llm",
            cost=Cost.LLM,
            calls="1",
            abstains=True,
        ),
    )
