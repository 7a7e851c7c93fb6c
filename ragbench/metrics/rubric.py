"""A criterion in the user's own words, by which a language model passes or fails each answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragbench.core.metric import (
    RUBRIC,
    Cost,
    Direction,
    Group,
    Metric,
    MetricDefinition,
    Need,
)
from ragbench.core.outcome import Cell, Judgement
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.judging import digest_of
from ragbench.metrics.verdict import Question, read_prompt

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients

_VALUES = {"pass": 1.0, "fail": 0.0}
_NAME = re.compile(r"[^\W\d][\w.-]*")
_ANOTHER = re.compile(rf"[\s,]\+?{RUBRIC}[\w.-]+=")
"""The beginning of a second criterion in the words of the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RubricVerdict:
    """The judge's reply; its fields are asked for in this order."""

    reason: str
    """Before the verdict: a model that has to explain first decides better."""
    verdict: Literal["pass", "fail"]


class RubricJudge:
    """Computes the metrics ``rubric:NAME``: one question per case."""

    def __init__(self) -> None:
        self._schema: Schema[RubricVerdict] = schema_of(RubricVerdict)
        self._task = read_prompt("rubric").text

    def identity(self) -> Mapping[str, str]:
        """The digest of the prompt without a criterion: each has its own, see `prepare`."""
        return {"prompts": digest_of([self._task, self._schema.definition])}

    def prepare(self, metric: Metric) -> str:
        """The digest of the prompt with the criterion: other words of it judge anew."""
        return digest_of([self._task_of(metric), self._schema.definition])

    def _task_of(self, metric: Metric) -> str:
        """The prompt, which ends with the criterion: it is the user's order, and no data."""
        return f"{self._task}\n{metric.definition.summary}"

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Asks whether the answer fulfils the criterion."""
        answer = trace.generation.value
        if answer is None or not answer.response.strip():
            return Judgement(cell=Cell.skipped("the answer says nothing"))
        data: dict[str, object] = {}
        if trace.case.query:
            data["question"] = trace.case.conversation
        data["answer"] = answer.response
        result = trace.context.value
        contexts = [] if result is None else [text for text in result.contexts if text.strip()]
        if contexts:
            data["contexts"] = contexts
        if trace.case.references:
            data["references"] = list(trace.case.references)
        question = Question(
            task=self._task_of(metric), data=data, schema=self._schema, values=_VALUES
        )
        return await question.ask(metric, panel, repeat)


def rubric(name: str, words: str) -> Metric:
    """The metric of a criterion.

    Its words are the summary of the metric. They are part of its digest, so that scores by other
    words under the same name do not compare.

    Args:
        name: without ``rubric:``.
        words: such as "The answer is polite and does not blame the user."

    Raises:
        ConfigError: the name cannot be written in a list of metrics, or there are no words.
    """
    words = " ".join(words.split())
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{name}' cannot be the name of a rubric: write letters, digits, '_', '-' and '.', "
            "with a letter first"
        )
    if not words:
        raise ConfigError(f"the rubric '{name}' has no words: write {RUBRIC}{name}=WORDS")
    definition = MetricDefinition(
        name=f"{RUBRIC}{name}",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.LLM}),
        direction=Direction.HIGHER,
        version=read_prompt("rubric").version,
        summary=words,
        citation="your own words",
        scorer="ragbench.metrics.rubric:RubricJudge",
        extra="llm",
        cost=Cost.LLM,
        calls="1",
        digest=fingerprint(words)[:16],
    )
    return Metric(definition=definition)


def parse_rubric(text: str, rubrics: Mapping[str, str]) -> Metric:
    """Reads ``rubric:NAME=WORDS``, or ``rubric:NAME`` of a criterion that is described elsewhere.

    Args:
        rubrics: the words of each, by name.

    Raises:
        ConfigError: as `rubric`; or no criterion has that name, or two have it.
    """
    name, equals, words = text.removeprefix(RUBRIC).partition("=")
    name = name.strip()
    if not equals:
        if name not in rubrics:
            known = f" It has {', '.join(rubrics)}." if rubrics else ""
            raise ConfigError(
                f"the rubric '{name}' has no words: write {RUBRIC}{name}=WORDS, or "
                f"'{name}: WORDS' under rubrics in ragbench.yaml.{known}"
            )
        return rubric(name, rubrics[name])
    if _ANOTHER.search(words):
        raise ConfigError(
            f"'{text}' describes two rubrics: a rubric takes the whole rest of the text. Describe "
            "several under rubrics in ragbench.yaml"
        )
    metric = rubric(name, words)
    if name in rubrics and rubric(name, rubrics[name]).identity != metric.identity:
        raise ConfigError(
            f"two rubrics are called '{name}', one of them in ragbench.yaml: give one another name"
        )
    return metric
