"""Metrics as data: what is measured, apart from who computes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import msgspec

from ragbench.core.record import Record

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
    SCORES = "scores"
    CONTEXT_METADATA = "context_metadata"
    JUDGEMENTS = "judgements"
    RESPONSE = "response"
    MULTI_RESPONSES = "multi_responses"
    CONFIDENCE = "confidence"
    REFERENCE = "reference"
    REFERENCE_CONTEXTS = "reference_contexts"
    REFERENCE_CONTEXT_IDS = "reference_context_ids"
    GRADES = "grades"
    EVIDENCE = "evidence"
    ANSWERABLE = "answerable"
    EXPECTATIONS = "expectations"
    RUBRICS = "rubrics"
    RETRIEVAL_LATENCY = "retrieval_latency"
    GENERATION_LATENCY = "generation_latency"
    TOKENS = "tokens"
    EMBEDDINGS = "embeddings"
    LLM = "llm"
    TRACE = "trace"
    """Anything: the cells of such a metric depend on all that a run knows of a case."""


_GENERATED = frozenset(
    {Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE, Need.TOKENS, Need.GENERATION_LATENCY,
     Need.EXPECTATIONS, Need.TRACE}
)  # fmt: skip


class Direction(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"
    """The number informs; no side is better."""


class Cost(StrEnum):
    FREE = "free"
    EMBEDDINGS = "embeddings"
    LLM = "llm"


class Parameter(Record):
    """A parameter that a metric takes in parentheses, as in ``P(rel=2)@5``."""

    name: str
    default: ParameterValue
    """Its value when not given; its type is the parameter's type."""
    summary: str
    choices: tuple[ParameterValue, ...] = ()
    """The values it may take; empty when any value of its type will do."""
    low: float | None = None
    """The smallest number it may be; None when any number will do."""


class Skip(Record, kw_only=False):
    """Returned by a metric's function for a case that it does not apply to."""

    reason: str
    """Why, in a few words; reports count them."""


class Formula(Record):
    """What computes a metric; made by `ragbench.metric`."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    """What it is given of a case, in order: names of `ragbench.metrics.metric.ARGUMENTS`."""
    cutoff: str | None = None
    """The keyword that k of ``@k`` is given as."""
    batch: bool = False
    """Whether it is given a list for each argument, and returns a list."""
    aggregate: Callable[..., float] | None = None
    """Makes the run's figure of the measured values; None where that is their mean."""
    prepare: Callable[[], object] | None = None
    """Called before anything runs: loads what takes long, raises what is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricDefinition:
    """What a metric is: printed by ``show metrics``, read by the planner, stored with a run."""

    name: str
    """How it is written and shown, without parameters and cutoff: ``"nDCG"``."""
    group: Group
    needs: frozenset[Need]
    direction: Direction
    summary: str
    citation: str
    scorer: str = ""
    """Where what computes it was found: ``"module:attribute"`` or ``"file.py:attribute"``."""
    aliases: tuple[str, ...] = ()
    """Other names that are understood; names are matched without regard to case."""
    low: float | None = 0.0
    """Smallest value that it can take; None when unbounded."""
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
    probability: bool = False
    """Whether each value is the probability of an outcome of 0 or 1, which intervals add the
    variance of."""
    extra: str | None = None
    cost: Cost = Cost.FREE
    calls: str = ""
    """Calls to a language model that a case takes, such as ``"2"`` or ``"2K + 3"`` for K contexts;
    empty where there is none. Texts to embed stand behind a plus, as in ``"3 + 4 texts"``."""
    deterministic: bool = True
    """False for measured times: the same run gives other values, so reports that must repeat
    byte for byte keep them apart."""
    aggregate: str | None = None
    """``"module:attribute"`` of what makes the run's figure of the measured values; None when that
    is their mean."""
    digest: str = ""
    """Of the source of a user's formula; empty for ragbench's own, which ``version``
    distinguishes."""
    formula: Formula | None = field(default=None, compare=False, repr=False)
    """What computes it; None in a definition that was read from a run, and where a model judges."""


class Metric(Record, dict=True):
    """A definition with its parameters bound: one column of a report."""

    definition: MetricDefinition
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """Those that differ from their default, sorted by name."""
    cutoff: int | None = None
    """k of ``@k``; at least 1."""

    @cached_property
    def name(self) -> str:
        """The canonical text, which parses back to an equal metric."""
        listed = ", ".join(f"{key}={_spell(value)}" for key, value in self.parameters)
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.definition.name}{f'({listed})' if listed else ''}{cutoff}"

    @cached_property
    def identity(self) -> str:
        """The name and the version of its formula: scores of another identity do not compare."""
        digest = f" {self.definition.digest}" if self.definition.digest else ""
        return f"{self.name} v{self.definition.version}{digest}"

    @property
    def is_judged(self) -> bool:
        return self.definition.cost is not Cost.FREE

    @cached_property
    def reads_answer(self) -> bool:
        """Whether its cells depend on what was generated."""
        return self.definition.abstains or not self.definition.needs.isdisjoint(_GENERATED)

    def parameter(self, name: str) -> ParameterValue:
        for key, value in self.parameters:
            if key == name:
                return value
        for parameter in self.definition.parameters:
            if parameter.name == name:
                return parameter.default
        raise KeyError(name)


def metric_of(stored: Mapping[str, Any]) -> Metric:
    """The metric behind the definition that a run keeps.

    Facts that this version does not know are left out, those that it misses get their default: a
    run of a later or an earlier version can still be read.
    """
    needs = [need for need in stored["needs"] if need in set(Need)]
    values: Mapping[str, ParameterValue] = stored["bound"]["parameters"]
    return Metric(
        definition=msgspec.convert({**stored, "needs": needs}, MetricDefinition),
        parameters=tuple(sorted(values.items())),
        cutoff=stored["bound"]["cutoff"],
    )


STORED_FACTS = tuple(field.name for field in fields(MetricDefinition) if field.name != "formula")


def _spell(value: ParameterValue) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
