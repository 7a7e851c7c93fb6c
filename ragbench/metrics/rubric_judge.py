"""Does an answer fulfil a criterion in the user's words, by a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Judgement
from ragbench.core.trace import Trace
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.judging import digest_of
from ragbench.metrics.verdict import Question
from ragbench.text.tables import read_prompt

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients


@dataclass(frozen=True, kw_only=True, slots=True)
class RubricVerdict:
    """The judge's reply; its fields are asked for in this order."""

    reason: str
    """Before the verdict: a model that has to explain first decides better."""
    verdict: Literal["pass", "fail"]


class RubricJudge:
    """Computes the metrics ``rubric:NAME``: one question per case."""

    def __init__(self) -> None:
        """Reads the prompt, to which each criterion is added, and the form of the reply.

        One object serves all rubrics of a run.
        """
        self._schema: Schema[RubricVerdict] = schema_of(RubricVerdict)
        self._task = read_prompt("ragbench.metrics", "rubric").text

    def identity(self) -> Mapping[str, str]:
        """The digest of the prompt without a criterion, which each metric adds: see `prepare`.

        Two runs with different sets of rubrics may so compare their judgements by the rubrics that
        both have.
        """
        return {"prompts": digest_of([self._task, self._schema.definition])}

    def prepare(self, metric: Metric) -> str:
        """The digest of the prompt with the metric's criterion: with other words it judges anew.

        Judgements are kept under this digest.
        """
        return digest_of([self._task_of(metric), self._schema.definition])

    def _task_of(self, metric: Metric) -> str:
        """The prompt of a metric, which ends with its criterion: the user's own order to the judge.

        The texts of a case are sent apart from it, so that none can pass for an order.
        """
        return f"{self._task}\n{metric.definition.summary}"

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Asks the judge whether a case's answer fulfils the metric's criterion: pass or fail.

        The judge gets what the case has: question, answer, contexts, references. A criterion may be
        about any of them. An empty answer is skipped without a question. The digest does not hold
        the names of the data: raise the prompt's version with other ones.

        Args:
            repeat: which of several judgings this is, from 0.
        """
        answer = trace.generation.value
        if answer is None or not answer.response.strip():
            return Judgement(cell=Cell.skipped("the answer says nothing"))
        # Missing parts are left out and not sent empty: a judge would take "" for a fact.
        data: dict[str, object] = {}
        if trace.case.query:
            data["question"] = trace.case.conversation
        data["answer"] = answer.response
        result = trace.context.value
        # Contexts without a text are placeholders of ids, which the judge cannot read.
        contexts = [] if result is None else [text for text in result.contexts if text.strip()]
        if contexts:
            data["contexts"] = contexts
        if trace.case.references:
            data["references"] = list(trace.case.references)
        question = Question(task=self._task_of(metric), data=data, schema=self._schema)
        return await question.ask(metric, panel, repeat)
