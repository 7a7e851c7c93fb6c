"""RAGAS' metrics, as ragas.toml lists them: those without a model are computed here.

RAGAS' ``evaluate()`` does the same with two hundred times the work around each score, and turns an
exception into NaN; its metrics asked directly raise. How the judged ones are asked is in
`ragbench.metrics.ragas_judge`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ragbench.core.calling import LoopThread
from ragbench.core.metric import (
    Cost,
    Direction,
    Formula,
    Group,
    Metric,
    MetricDefinition,
    Need,
    Skip,
)
from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, DataError
from ragbench.io.values import as_object
from ragbench.io.yaml_file import read_yaml
from ragbench.metrics.metric import ARGUMENTS
from ragbench.plugins import import_ragas, require
from ragbench.text.declining import RULES
from ragbench.text.tables import table

Values = list[float | Skip | Exception]

_ES = "Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4"
_READ: Mapping[str, Mapping[str, str]] = {
    "ids": {
        "context_ids": "retrieved_context_ids",
        "reference_context_ids": "reference_context_ids",
    },
    "texts": {"contexts": "retrieved_contexts", "reference_contexts": "reference_contexts"},
    "answer": {"response": "response", "references": "reference"},
}
"""What a metric without a model reads of a case, with the fields of RAGAS' sample that take it."""


@cache
def definitions() -> tuple[MetricDefinition, ...]:
    plain: Mapping[str, Sequence[str]] = table("ragbench.metrics", "ragas")["plain"]
    return (
        *(_definition(name, *row) for name, row in plain.items()),
        *(one.definition for one in judged_metrics().values()),
    )


def _definition(name: str, cls: str, reads: str, summary: str, package: str) -> MetricDefinition:
    """A metric that asks a class of RAGAS, and what else has to be installed for it."""
    fields, is_of_answer = _READ[reads], reads == "answer"

    def prepare() -> None:
        import_ragas()
        if package == "sacrebleu":
            require("sacrebleu.metrics", extra="text")
        if package == "rouge_score":
            require("rouge_score.rouge_scorer", extra="text")

    def scores(*columns: Sequence[Any]) -> Values:
        given = [dict(zip(fields.values(), row, strict=True)) for row in zip(*columns, strict=True)]
        if is_of_answer:
            given = [{**row, "reference": row["reference"][0]} for row in given]
        return _run(_scores(cls, given))

    return MetricDefinition(
        name=f"ragas:{name}",
        group=Group.GENERATOR if is_of_answer else Group.RETRIEVER,
        needs=frozenset(need for argument in fields for need in ARGUMENTS[argument]),
        direction=Direction.HIGHER,
        summary=f"{summary} ({cls})",
        citation=_ES,
        scorer=f"ragbench.metrics.ragas:{name}",
        abstains=is_of_answer,
        version=RULES if is_of_answer else 1,
        extra="ragas",
        formula=Formula(function=scores, arguments=tuple(fields), batch=True, prepare=prepare),
    )


_NAN = Skip("RAGAS gave NaN: the metric is not defined for this case")


async def _scores(cls: str, rows: Sequence[Mapping[str, Any]]) -> Values:
    sample: Any = import_ragas().__dict__["SingleTurnSample"]
    instance = _instance(cls)
    found: Values = []
    for row in rows:
        if cls == "NonLLMContextRecall" and not row["retrieved_contexts"]:
            found.append(0.0)  # RAGAS takes the largest of no similarities, and raises
            continue
        try:
            value = float(await instance.single_turn_ascore(sample(**row)))
        except Exception as error:  # noqa: BLE001 - whatever RAGAS raises fails this case alone
            found.append(error)
        else:
            found.append(_NAN if math.isnan(value) else value)
    return found


@cache
def _instance(name: str) -> Any:
    module: Any = require("ragas.metrics", extra="ragas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(module, name)()


def _run(work: Coroutine[Any, Any, Values]) -> Values:
    """In a thread of its own: a loop may run already, as in a notebook."""
    loop = LoopThread()
    try:
        return loop.run(work)
    finally:
        loop.stop()


# --- those that ask models

_NEEDS = {
    "user_input": Need.QUERY,
    "response": Need.RESPONSE,
    "retrieved_contexts": Need.RETRIEVED_CONTEXTS,
    "reference_contexts": Need.REFERENCE_CONTEXTS,
    "reference": Need.REFERENCE,
    "rubrics": Need.RUBRICS,
}
"""What a field of RAGAS' sample needs of a case."""


class RagasMetric(Record):
    """A metric class of RAGAS, and what ragbench says of it; see ragas.toml."""

    name: str
    """Without ``ragas:``."""
    definition: MetricDefinition
    cls: str
    takes: Sequence[str]
    """Fields of a sample that its ``ascore`` takes."""
    optional: Sequence[str]
    embeds: bool = False
    """Whether it is built with a model for embeddings."""
    asks: bool = True
    """Whether it is built with a language model."""
    allowed: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Values of whole numbers in answers."""

    @property
    def is_aspect(self) -> bool:
        """Whether it is the critic of the older interface, which takes a sample."""
        return self.cls == "AspectCritic"

    def arguments(self, metric: Metric) -> dict[str, Any]:
        """What else its class is built with: its parameters, mostly."""
        given = {one.name: metric.parameter(one.name) for one in self.definition.parameters}
        if self.is_aspect and not given:  # its definition is the one that RAGAS brings
            critics = require("ragas.metrics._aspect_critic", extra="ragas")
            return {"name": self.name, "definition": getattr(critics, self.name).definition}
        made = _ARGUMENTS.get(self.name)
        return given if made is None else made(metric, given)


_USUAL: Mapping[str, Any] = {
    "cls": "AspectCritic", "takes": "user_input response", "optional": "", "aliases": "",
    "calls": "1", "citation": _ES, "group": "generator", "direction": "higher",
}  # fmt: skip


@cache
def judged_metrics() -> Mapping[str, RagasMetric]:
    """By name, with ``ragas:``."""
    known: Mapping[str, Mapping[str, Any]] = table("ragbench.metrics", "ragas")["judged"]
    return {f"ragas:{name}": _judged(name, {**_USUAL, **row}) for name, row in known.items()}


def _judged(name: str, row: Mapping[str, Any]) -> RagasMetric:
    takes, asks = row["takes"].split(), row.get("asks", True)
    needs: set[Need] = {_NEEDS[one] for one in takes} | ({Need.LLM} if asks else set())
    facts: dict[str, Any] = {
        "name": f"ragas:{name}",
        "needs": needs | ({Need.EMBEDDINGS} if row.get("embeds") else set()),
        "summary": f"{row['summary']} ({row['cls']})",
        "scorer": "ragbench.metrics.ragas_judge:RagasJudge",
        "aliases": [f"ragas:{alias}" for alias in row["aliases"].split()],
        "high": None if row.get("unbounded") else row.get("high", 1.0),
        "abstains": "response" in takes,  # an answer that declines is no answer to judge
        "version": RULES if row["group"] == "generator" else 1,
        "extra": "ragas,llm",
        "cost": Cost.LLM if asks else Cost.EMBEDDINGS,
    }
    own = {"name": name, "takes": takes, "optional": row["optional"].split()}
    return msgspec.convert({**row, **own, "definition": {**row, **facts}}, RagasMetric)


def _share(metric: Metric, given: Mapping[str, Any], name: str) -> float:
    value = float(given[name])
    if value > 1:
        raise ConfigError(f"'{metric.name}': {name} must be at most 1")
    return value


def _of_correctness(metric: Metric, given: Mapping[str, Any]) -> dict[str, Any]:
    weight = _share(metric, given, "factuality")
    return {"weights": [weight, 1 - weight], "beta": float(given["beta"])}


def _of_summary(metric: Metric, given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "coeff": _share(metric, given, "coeff")}


def _of_critic(metric: Metric, given: Mapping[str, Any]) -> dict[str, Any]:
    text = str(given["definition"]).strip()
    if not text:
        raise ConfigError(
            f"'{metric.name}' needs a definition: "
            'ragas:aspect_critic(definition="Does the answer name its source?")'
        )
    return {"name": "aspect_critic", "definition": text}


def _of_rubrics(_: Metric, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"with_reference": bool(given["reference"])}
    if given["rubrics"]:
        file = read_yaml(Path(str(given["rubrics"])))
        rubrics = as_object(file.value)
        wanted = {f"score{grade}_description" for grade in range(1, 6)}
        if set(rubrics) != wanted or not all(isinstance(text, str) for text in rubrics.values()):
            raise DataError([file.problem((), f"must hold the texts {', '.join(sorted(wanted))}")])
        found["rubrics"] = rubrics
    return found


_ARGUMENTS: Mapping[str, Callable[[Metric, Mapping[str, Any]], dict[str, Any]]] = {
    "answer_correctness": _of_correctness,
    "summary_score": _of_summary,
    "aspect_critic": _of_critic,
    "rubrics_score": _of_rubrics,
}
