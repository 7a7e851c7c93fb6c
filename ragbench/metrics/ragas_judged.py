"""RAGAS' judged metrics: a section of ``ragas.toml`` each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from ragbench.core.metric import Cost, Direction, Group, Metric, MetricDefinition, Need, Parameter
from ragbench.errors import ConfigError, DataError
from ragbench.io.yaml_file import read_yaml
from ragbench.plugins import require
from ragbench.text.declining import RULES
from ragbench.text.tables import table

_ES = "Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4"
_NEEDS = {
    "user_input": Need.QUERY,
    "response": Need.RESPONSE,
    "retrieved_contexts": Need.RETRIEVED_CONTEXTS,
    "reference_contexts": Need.REFERENCE_CONTEXTS,
    "reference": Need.REFERENCE,
    "rubrics": Need.RUBRICS,
}
"""What a field of RAGAS' sample needs of a case."""


@dataclass(frozen=True, slots=True)
class RagasMetric:
    """A metric class of RAGAS, and what ragbench says of it."""

    name: str
    """Without ``ragas:``."""
    cls: str
    takes: str
    """Fields of a sample that its ``ascore`` takes."""
    calls: str
    summary: str
    optional: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    citation: str = _ES
    group: Group = Group.GENERATOR
    direction: Direction = Direction.HIGHER
    low: float = 0.0
    high: float = 1.0
    parameters: tuple[Parameter, ...] = ()
    embeds: bool = False
    """Whether it is built with a model for embeddings."""
    asks: bool = True
    """Whether it is built with a language model."""
    arguments: str = ""
    """What else it is built with: names of parameters, or of a function that makes it."""
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Values of whole numbers in answers."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.takes.split())

    def made_with(self, metric: Metric) -> dict[str, Any]:
        """What its class is called with."""
        if self.arguments in _MADE:
            return _MADE[self.arguments](metric)
        return {name: metric.parameter(name) for name in self.arguments.split()}

    @property
    def is_aspect(self) -> bool:
        """Whether it is the critic of the older interface, which takes a sample."""
        return self.cls == "AspectCritic"

    @property
    def definition(self) -> MetricDefinition:
        needs = {_NEEDS[column] for column in self.columns}
        needs |= {Need.LLM} if self.asks else set()
        needs |= {Need.EMBEDDINGS} if self.embeds else set()
        return MetricDefinition(
            name=f"ragas:{self.name}",
            group=self.group,
            needs=frozenset(needs),
            direction=self.direction,
            summary=f"{self.summary} ({self.cls})",
            citation=self.citation,
            scorer="ragbench.metrics.ragas_judge:RagasJudge",
            aliases=tuple(f"ragas:{alias}" for alias in self.aliases),
            low=self.low,
            high=None if self.high == math.inf else self.high,
            parameters=self.parameters,
            # An answer that declines is no answer to judge.
            abstains="response" in self.columns,
            version=RULES if self.group is Group.GENERATOR else 1,
            extra="ragas,llm",
            cost=Cost.LLM if self.asks else Cost.EMBEDDINGS,
            calls=self.calls,
        )


def _at_most_one(metric: Metric, name: str) -> float:
    value = float(metric.parameter(name))
    if value > 1:
        raise ConfigError(f"'{metric.name}': {name} must be at most 1")
    return value


def _weights(metric: Metric) -> dict[str, Any]:
    weight = _at_most_one(metric, "factuality")
    return {"weights": [weight, 1 - weight], "beta": float(metric.parameter("beta"))}


def _summary(metric: Metric) -> dict[str, Any]:
    _at_most_one(metric, "coeff")
    return {name: metric.parameter(name) for name in ("length_penalty", "coeff")}


def _definition(metric: Metric) -> dict[str, Any]:
    text = str(metric.parameter("definition")).strip()
    if not text:
        raise ConfigError(
            f"'{metric.name}' needs a definition: "
            'ragas:aspect_critic(definition="Does the answer name its source?")'
        )
    return {"name": "aspect_critic", "definition": text}


def _rubrics(metric: Metric) -> dict[str, Any]:
    found: dict[str, Any] = {"with_reference": bool(metric.parameter("reference"))}
    path = str(metric.parameter("rubrics"))
    if path:
        file = read_yaml(Path(path))
        value = cast("object", file.value)
        given = cast("dict[object, object]", value) if isinstance(value, dict) else {}
        wanted = {f"score{grade}_description" for grade in range(1, 6)}
        if set(given) != wanted or not all(isinstance(text, str) for text in given.values()):
            raise DataError([file.problem((), f"must hold the texts {', '.join(sorted(wanted))}")])
        found["rubrics"] = given
    return found


def _brought(metric: Metric) -> dict[str, Any]:
    """A critic whose definition RAGAS brings."""
    name = metric.definition.name.removeprefix("ragas:")
    module = require("ragas.metrics._aspect_critic", extra="ragas")
    return {"name": name, "definition": getattr(module, name).definition}


_MADE: Mapping[str, Callable[[Metric], dict[str, Any]]] = {
    made.__name__: made for made in (_weights, _summary, _definition, _rubrics, _brought)
}


CATALOGUE: Mapping[str, RagasMetric] = {
    f"ragas:{name}": msgspec.convert({"name": name, **row}, RagasMetric)
    for name, row in table("ragbench.metrics", "ragas").items()
}
DEFINITIONS: tuple[MetricDefinition, ...] = tuple(one.definition for one in CATALOGUE.values())
