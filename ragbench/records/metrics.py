"""Metrics as data: what is measured, apart from who computes it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = [
    "Cost",
    "Direction",
    "Group",
    "Metric",
    "MetricDefinition",
    "Need",
    "Parameter",
    "ParameterValue",
]

ParameterValue = str | int | float | bool

_BARE = re.compile(r"[\w.+-]+", re.ASCII)
"""Texts that need no quotes as a parameter's value."""


class Group(StrEnum):
    """Which part of a RAG a metric speaks about."""

    RETRIEVER = "retriever"
    GENERATOR = "generator"
    OVERALL = "overall"


class Need(StrEnum):
    """Something that a metric reads. A case that lacks it is skipped, never scored 0."""

    QUERY = "query"
    RETRIEVED_CONTEXTS = "retrieved_contexts"
    RETRIEVED_CONTEXT_IDS = "retrieved_context_ids"
    JUDGEMENTS = "judgements"
    RESPONSE = "response"
    MULTI_RESPONSES = "multi_responses"
    CONFIDENCE = "confidence"
    REFERENCE = "reference"
    REFERENCE_CONTEXTS = "reference_contexts"
    ANSWERABLE = "answerable"
    RUBRICS = "rubrics"
    RETRIEVAL_LATENCY = "retrieval_latency"
    GENERATION_LATENCY = "generation_latency"
    TOKENS = "tokens"
    EMBEDDINGS = "embeddings"
    LLM = "llm"


class Direction(StrEnum):
    """Which way is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"
    """The number informs; no side is better."""


class Cost(StrEnum):
    """What computing a metric costs."""

    FREE = "free"
    EMBEDDINGS = "embeddings"
    LLM = "llm"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter that a metric takes in parentheses, as in ``P(rel=2)@5``."""

    name: str
    default: ParameterValue
    """Its value when not given; its type is the parameter's type."""
    summary: str
    """What it does, in a line."""
    choices: tuple[ParameterValue, ...] = ()
    """The values it may take; empty when any value of its type will do."""
    low: float | None = None
    """The smallest number it may be; None when any number will do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricDefinition:
    """What a metric is: printed by ``show metrics``, read by the planner, never computed with."""

    name: str
    """How it is written and shown, without parameters and cutoff: ``"nDCG"``."""
    group: Group
    needs: frozenset[Need]
    direction: Direction
    summary: str
    """What it measures, in a line."""
    citation: str
    """Where its formula comes from."""
    scorer: str
    """``"module:attribute"`` of the scorer that computes it."""
    aliases: tuple[str, ...] = ()
    """Other names that are understood; names are matched without regard to case."""
    low: float = 0.0
    """Smallest value that it can take."""
    high: float | None = 1.0
    """Largest value that it can take; None when unbounded."""
    parameters: tuple[Parameter, ...] = ()
    cutoff: Literal["required", "optional", "none"] = "none"
    """Whether ``@k`` follows the name."""
    abstains: bool = False
    """Whether a declined answer gives an abstained cell instead of a number."""
    unit: str = ""
    """Unit of the value, such as ``"s"``; empty for a plain ratio."""
    version: int = 1
    """Raised whenever the same inputs give another value than before."""
    extra: str | None = None
    """The ragbench extra that it needs."""
    cost: Cost = Cost.FREE
    calls: str = ""
    """Calls to a language model that a case takes, such as ``"2"`` or ``"2K + 3"`` for K contexts;
    empty where there is none. Texts to embed stand behind a plus, as in ``"3 + 4 texts"``."""
    deterministic: bool = True
    """False for measured times: the same run gives other values, so reports that must repeat
    byte for byte keep them apart."""
    aggregate: str | None = None
    """``"module:attribute"`` of a function of the metric and the measured values that gives the
    summary's figure; None when that is their mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A definition with its parameters bound: one column of a report."""

    definition: MetricDefinition
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """Those that differ from their default, sorted by name."""
    cutoff: int | None = None
    """k of ``@k``; at least 1."""

    @property
    def name(self) -> str:
        """The canonical text, which parses back to an equal metric."""
        listed = ", ".join(f"{key}={_spell(value)}" for key, value in self.parameters)
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.definition.name}{f'({listed})' if listed else ''}{cutoff}"

    @property
    def is_judged(self) -> bool:
        """Whether a model takes part in computing it."""
        return self.definition.cost is not Cost.FREE

    @property
    def identity(self) -> str:
        """The name and the version of its formula: scores of another identity do not compare."""
        return f"{self.name} v{self.definition.version}"

    def parameter(self, name: str) -> ParameterValue:
        """The value of a parameter, given or default.

        Raises:
            KeyError: the definition has no such parameter.
        """
        for key, value in self.parameters:
            if key == name:
                return value
        for parameter in self.definition.parameters:
            if parameter.name == name:
                return parameter.default
        raise KeyError(name)


def _spell(value: ParameterValue) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
