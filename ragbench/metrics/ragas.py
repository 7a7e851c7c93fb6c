"""RAGAS' metrics, as ragas.toml lists them: those without a model are computed here.

RAGAS' ``evaluate()`` does the same with two hundred times the work around each score, and turns an
exception into NaN; its metrics asked directly raise. How the judged ones are asked is in
`ragbench.metrics.ragas_judge`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
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
"""Of each case its score, why it has none, or what was raised: it fails this case alone."""

_ES = "Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4"
_SAMPLE_FIELDS: Mapping[str, Mapping[str, str]] = {
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
    """The definitions of RAGAS' metrics, as ragas.toml lists them: those without a model first.

    The registry of metrics calls this function by its name; ``ragbench show metrics`` keeps the
    order.
    """
    plain: Mapping[str, Sequence[str]] = table("ragbench.metrics", "ragas")["plain"]
    return (
        *[_definition(name, *row) for name, row in plain.items()],
        *[metric.definition for metric in judged_metrics().values()],
    )


def _definition(name: str, cls: str, reads: str, summary: str, package: str) -> MetricDefinition:
    """The definition of a metric that a class of RAGAS computes without a model.

    RAGAS is not imported for it: that takes seconds, and lists of metrics need none of it.

    Args:
        name: without ``ragas:``.
        cls: the name of the class in ragas.metrics.
        reads: a key of `_SAMPLE_FIELDS`.
        summary: of the metric, for lists.
        package: beside ragas, that the class needs; empty where it needs none.
    """
    fields = _SAMPLE_FIELDS[reads]
    is_of_answer = reads == "answer"
    group = Group.RETRIEVER
    metric_version = 1
    if is_of_answer:
        group = Group.GENERATOR
        metric_version = RULES  # by which answers count as declined
    needs: set[Need] = set()
    # The parts of a case that the class reads, by the names of a metric's arguments.
    for argument in fields:
        needs.update(ARGUMENTS[argument])
    return MetricDefinition(
        name=f"ragas:{name}",
        group=group,
        needs=frozenset(needs),
        direction=Direction.HIGHER,
        summary=f"{summary} ({cls})",
        citation=_ES,
        scorer=f"ragbench.metrics.ragas:{name}",
        abstains=is_of_answer,
        version=metric_version,
        extra="ragas",
        formula=Formula(
            function=_ScoresOfSamples(cls=cls, fields=tuple(fields.values())),
            arguments=tuple(fields),
            batch=True,
            prepare=partial(_import_packages_for, package),
        ),
    )


class _ScoresOfSamples(Record):
    """The formula of a metric that a class of RAGAS computes without a model."""

    cls: str
    """The name of the class in ragas.metrics."""
    fields: tuple[str, ...]
    """The fields of RAGAS' sample, in the order of the metric's arguments."""

    def __call__(self, *columns: Sequence[Any]) -> Values:
        """The scores of many cases by the metric's class of RAGAS.

        An event loop is started once for all cases, since one for each would cost more than the
        score.

        Args:
            *columns: for each argument of the metric its values, one a case.
        """
        samples: list[dict[str, Any]] = []
        for row in zip(*columns, strict=True):
            sample: dict[str, Any] = dict(zip(self.fields, row, strict=True))
            if "reference" in sample:  # RAGAS knows one reference
                sample["reference"] = sample["reference"][0]
            samples.append(sample)
        return _run_in_thread(_scores_of_class(self.cls, samples))


def _import_packages_for(package: str) -> None:
    """Imports the packages that a metric class of RAGAS needs, before the first case is scored.

    So a missing package is one error with its line for pip, and not one in each case.

    Args:
        package: beside ragas, that the class needs; empty where it needs none.
    """
    # RAGAS itself first: its absence has its own message.
    import_ragas()
    if package == "sacrebleu":
        require("sacrebleu.metrics", extra="text")
    if package == "rouge_score":
        require("rouge_score.rouge_scorer", extra="text")


_NAN = Skip("RAGAS gave NaN: the metric is not defined for this case")


async def _scores_of_class(cls: str, rows: Sequence[Mapping[str, Any]]) -> Values:
    """For each sample the value of a class of RAGAS; the exception where it raises.

    An exception or NaN costs one case. RAGAS' own ``evaluate()`` would give NaN for both.

    Args:
        rows: the fields of each sample.
    """
    make_sample: Any = import_ragas().__dict__["SingleTurnSample"]
    instance = _metric_object(cls)
    values: Values = []
    for row in rows:
        if cls == "NonLLMContextRecall" and not row["retrieved_contexts"]:
            values.append(0.0)  # RAGAS would take the largest of no similarities, and raise
            continue
        try:
            value = float(await instance.single_turn_ascore(make_sample(**row)))
        except Exception as error:  # noqa: BLE001 - whatever RAGAS raises fails this case alone
            values.append(error)
            continue
        if math.isnan(value):
            values.append(_NAN)
        else:
            values.append(value)
    return values


@cache
def _metric_object(name: str) -> Any:
    """An object of a metric class of RAGAS, made once.

    RAGAS warns on every import that the class is deprecated, which its user here cannot change. One
    object serves all cases.
    """
    module: Any = require("ragas.metrics", extra="ragas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(module, name)()


def _run_in_thread(work: Coroutine[Any, Any, Values]) -> Values:
    """Runs a coroutine to its end in a thread with an event loop of its own.

    In a notebook a loop runs in this thread already, and refuses a second one.
    """
    # Made for each run of work: it costs little beside a call of RAGAS, and leaves no thread
    # behind.
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
        """Whether the metric is a critic of RAGAS' older interface, which takes a sample.

        All other metrics take arguments, and are in another module of RAGAS.
        """
        return self.cls == "AspectCritic"

    def arguments(self, metric: Metric) -> dict[str, Any]:
        """The arguments that the metric's class is built with, beside models.

        They are its parameters, mostly. Some classes take them in another form than ragbench's
        parameters have: see `_ARGUMENTS`.

        Args:
            metric: with the values that the user gave.

        Raises:
            ConfigError: a value is none that the class takes.
        """
        values: dict[str, Any] = {}
        for parameter in self.definition.parameters:
            values[parameter.name] = metric.parameter(parameter.name)
        if self.is_aspect and not values:  # its definition is the one that RAGAS brings
            critics = require("ragas.metrics._aspect_critic", extra="ragas")
            return {"name": self.name, "definition": getattr(critics, self.name).definition}
        make_arguments = _ARGUMENTS.get(self.name)
        if make_arguments is None:
            return values
        return make_arguments(metric, values)


_DEFAULTS: Mapping[str, Any] = {
    "cls": "AspectCritic",
    "takes": "user_input response",
    "optional": "",
    "aliases": "",
    "calls": "1",
    "citation": _ES,
    "group": "generator",
    "direction": "higher",
}
"""What a row of ragas.toml leaves out."""


@cache
def judged_metrics() -> Mapping[str, RagasMetric]:
    """The metrics of RAGAS that ask models, as ragas.toml lists them, by name with ``ragas:``.

    A row of ragas.toml leaves out what `_DEFAULTS` has.
    """
    rows: Mapping[str, Mapping[str, Any]] = table("ragbench.metrics", "ragas")["judged"]
    return {
        f"ragas:{name}": _judged_metric(name, {**_DEFAULTS, **row}) for name, row in rows.items()
    }


def _judged_metric(name: str, row: Mapping[str, Any]) -> RagasMetric:
    """A judged metric from its row of ragas.toml, which has the defaults already.

    The version of a metric of answers is that of the rules by which answers count as declined.

    Args:
        name: without ``ragas:``.
    """
    # Field names of RAGAS' sample, with blanks between.
    takes = row["takes"].split()
    # A metric without a judge compares vectors only.
    asks = row.get("asks", True)
    needs = {_NEEDS[field] for field in takes}
    cost = Cost.EMBEDDINGS
    if asks:
        needs.add(Need.LLM)
        cost = Cost.LLM
    if row.get("embeds"):
        needs.add(Need.EMBEDDINGS)
    high = row.get("high", 1.0)
    if row.get("unbounded"):
        high = None
    metric_version = 1
    if row["group"] == "generator":
        metric_version = RULES  # by which answers count as declined
    facts: dict[str, Any] = {
        "name": f"ragas:{name}",
        "needs": needs,
        "summary": f"{row['summary']} ({row['cls']})",
        "scorer": "ragbench.metrics.ragas_judge:RagasJudge",
        "aliases": [f"ragas:{alias}" for alias in row["aliases"].split()],
        "high": high,
        # A metric that does not read the response has nothing to decline.
        "abstains": "response" in takes,  # an answer that declines is no answer to judge
        "version": metric_version,
        "extra": "ragas,llm",
        "cost": cost,
    }
    own = {"name": name, "takes": takes, "optional": row["optional"].split()}
    # The row's own keys come first, so that the texts in it are replaced by the lists.
    return msgspec.convert({**row, **own, "definition": {**row, **facts}}, RagasMetric)


# What a class is built with where that is not its parameters as they are.


def _checked_share(metric: Metric, values: Mapping[str, Any], name: str) -> float:
    """The value of a metric's parameter that is a share; one above 1 is an error.

    RAGAS would weigh with it, and give a score outside of 0 to 1.

    Args:
        values: of the metric's parameters.
        name: of the parameter.
    """
    value = float(values[name])
    if value > 1:
        raise ConfigError(f"'{metric.name}': {name} must be at most 1")
    return value


def _correctness_arguments(metric: Metric, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of RAGAS' AnswerCorrectness: its two weights from the user's one.

    The user gives the weight of factuality; that of similarity is the rest to 1.
    """
    weight = _checked_share(metric, values, "factuality")
    return {"weights": [weight, 1 - weight], "beta": float(values["beta"])}


def _summary_arguments(metric: Metric, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of RAGAS' SummaryScore: the metric's own, ``coeff`` a share of at most 1.

    RAGAS takes any number, and may give scores outside of 0 to 1 with a larger one.
    """
    return {**values, "coeff": _checked_share(metric, values, "coeff")}


def _critic_arguments(metric: Metric, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of RAGAS' AspectCritic: the definition that the user wrote.

    Without a definition there would be nothing to ask: it is refused with an example.
    """
    text = str(values["definition"]).strip()
    if not text:
        raise ConfigError(
            f"'{metric.name}' needs a definition: "
            'ragas:aspect_critic(definition="Does the answer name its source?")'
        )
    return {"name": "aspect_critic", "definition": text}


def _rubrics_arguments(_: Metric, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of RAGAS' rubrics score: rubrics of a user's file, or none for RAGAS' own.

    A rubric says in words what an answer of a grade is like.

    Raises:
        DataError: the file holds no text for each of the grades 1 to 5.
    """
    arguments: dict[str, Any] = {"with_reference": bool(values["reference"])}
    if values["rubrics"]:
        file = read_yaml(Path(str(values["rubrics"])))
        rubrics = as_object(file.value)
        names = [f"score{grade}_description" for grade in range(1, 6)]
        are_texts = all(isinstance(text, str) for text in rubrics.values())
        # RAGAS takes exactly these names, and for each a text.
        if set(rubrics) != set(names) or not are_texts:
            raise DataError([file.problem((), f"must hold the texts {', '.join(names)}")])
        arguments["rubrics"] = rubrics
    return arguments


_ARGUMENTS: Mapping[str, Callable[[Metric, Mapping[str, Any]], dict[str, Any]]] = {
    "answer_correctness": _correctness_arguments,
    "summary_score": _summary_arguments,
    "aspect_critic": _critic_arguments,
    "rubrics_score": _rubrics_arguments,
}
