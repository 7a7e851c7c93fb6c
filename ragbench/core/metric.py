"""Metrics as data: a definition, its parameters, and the name of a metric in reports.

The formulas are in `ragbench.metrics`. A run stores the definitions of its metrics, so that its
report can be rendered without them.
"""

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

RUBRIC = "rubric:"
"""Begins the names of metrics that users describe in words: ``rubric:NAME``."""
CORRECTNESS = "correctness"
"""The metric of a judge that compares answers with their references."""

_BARE = re.compile(r"[\w.+-]+", re.ASCII)
"""Texts that need no quotes as a parameter's value."""


class Group(StrEnum):
    """The part of a RAG that a metric measures."""

    RETRIEVER = "retriever"
    GENERATOR = "generator"
    OVERALL = "overall"


class Need(StrEnum):
    """An input of a metric. A case without it is skipped, never scored 0."""

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
    """The whole trace: the cells of such a metric depend on everything in it."""


_NEEDS_OF_ANSWERS = frozenset(
    {
        Need.RESPONSE,
        Need.MULTI_RESPONSES,
        Need.CONFIDENCE,
        Need.TOKENS,
        Need.GENERATION_LATENCY,
        Need.EXPECTATIONS,
        Need.TRACE,
    }
)
"""The inputs that change with the generated answer."""


class Direction(StrEnum):
    """Which values of a metric are better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"
    """The number is for information; neither side is better."""


class Cost(StrEnum):
    """The costliest calls that a metric makes for a case."""

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
    """The values that are allowed; empty when any value of its type is."""
    low: float | None = None
    """The smallest number that is allowed; None when any number is."""


class Skip(Record, kw_only=False):
    """Returned by a metric's function for a case that it does not apply to."""

    reason: str
    """Why, in a few words; reports count equal reasons."""


class Formula(Record):
    """The function that computes a metric; made by the decorator `ragbench.metric`."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    """The inputs of a case that it is called with, in order: names of
    `ragbench.metrics.metric.ARGUMENTS`."""
    cutoff: str | None = None
    """The keyword argument for k of ``@k``; None without a cutoff."""
    batch: bool = False
    """Whether it is called with a list for each argument, and returns a list."""
    aggregate: Callable[..., float] | None = None
    """Makes the run's figure of the measured values; None where that is their mean."""
    prepare: Callable[[], object] | None = None
    """Called before anything runs: it loads models, and raises an error for a missing package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricDefinition:
    """The facts about a metric, for ``show metrics``, for the plan of a run and its manifest."""

    name: str
    """Its name without parameters and cutoff: ``"nDCG"``."""
    group: Group
    needs: frozenset[Need]
    direction: Direction
    summary: str
    citation: str
    scorer: str = ""
    """The place of its function: ``"module:attribute"`` or ``"file.py:attribute"``."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted; names are matched without regard to case."""
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
    """Whether each value is the probability of an outcome of 0 or 1; intervals then add the
    variance of the outcome."""
    extra: str | None = None
    """The extra that has to be installed for it."""
    cost: Cost = Cost.FREE
    calls: str = ""
    """Calls to a language model per case, such as ``"2"`` or ``"2K + 3"`` for K contexts; empty for
    none. Texts to embed are behind a plus, as in ``"3 + 4 texts"``."""
    deterministic: bool = True
    """False for measured times: they differ from run to run, so they are not in reports that must
    be the same byte for byte."""
    aggregate: str | None = None
    """``"module:attribute"`` of the function that makes the run's figure of the measured values;
    None when that is their mean."""
    digest: str = ""
    """Of the source of a user's formula; empty for ragbench's own, which ``version``
    distinguishes."""
    formula: Formula | None = field(default=None, compare=False, repr=False)
    """None in a definition that was read from a run, and where a model judges."""


class Metric(Record, dict=True):
    """A metric with its parameters and cutoff, as in ``P(rel=2)@5``: one row of a report."""

    definition: MetricDefinition
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """Those that differ from their default, sorted by name."""
    cutoff: int | None = None
    """k of ``@k``; at least 1."""

    @cached_property
    def name(self) -> str:
        """The metric's text in reports and options, such as ``P(rel=2)@5``.

        The text parses back to an equal metric, and runs and baseline files name scores by it.
        """
        name = self.definition.name
        if self.parameters:
            # In the order of `parameters`, which is sorted: one metric has one name.
            values = ", ".join(f"{key}={_spell(value)}" for key, value in self.parameters)
            name += f"({values})"
        if self.cutoff is not None:
            name += f"@{self.cutoff}"
        return name

    @cached_property
    def identity(self) -> str:
        """Name, version and digest of the metric's formula.

        Scores of another identity do not compare. Baseline files store it, and
        `MetricColumn.identity` spells it in the same way.
        """
        identity = f"{self.name} v{self.definition.version}"
        if self.definition.digest:
            identity += f" {self.definition.digest}"
        return identity

    @property
    def is_judged(self) -> bool:
        """Whether computing the metric calls a language model, or a model of embeddings.

        Judged scores cost money or time, and those of a language model are an opinion.
        """
        return self.definition.cost is not Cost.FREE

    @cached_property
    def reads_answer(self) -> bool:
        """Whether the metric's cells depend on the generated answer.

        A stored cell of a metric that reads answers holds for one answer only; a cell of any other
        metric holds for every answer to the case.
        """
        needs_answer = not self.definition.needs.isdisjoint(_NEEDS_OF_ANSWERS)
        return self.definition.abstains or needs_answer

    def parameter(self, name: str) -> ParameterValue:
        """The value of one of the metric's parameters: the one that was set, else its default.

        Raises:
            KeyError: the metric takes no such parameter.
        """
        for key, value in self.parameters:
            if key == name:
                return value
        for parameter in self.definition.parameters:
            if parameter.name == name:
                return parameter.default
        raise KeyError(name)


def metric_of(stored: Mapping[str, Any]) -> Metric:
    """The metric of a definition that is stored in a run's manifest.

    Unknown facts are ignored, and missing ones get their default: a run of a later or an earlier
    version of ragbench can still be read.
    """
    known_needs = set(Need)
    # A later release may know needs that this one does not.
    needs = [need for need in stored["needs"] if need in known_needs]
    parameters: Mapping[str, ParameterValue] = stored["bound"]["parameters"]
    return Metric(
        definition=msgspec.convert({**stored, "needs": needs}, MetricDefinition),
        parameters=tuple(sorted(parameters.items())),
        cutoff=stored["bound"]["cutoff"],
    )


STORED_FACTS = tuple(field.name for field in fields(MetricDefinition) if field.name != "formula")
"""The fields of a definition that are stored in a run's manifest."""


def _spell(value: ParameterValue) -> str:
    """A parameter's value as a metric's name spells it: a text in quotes where it needs them.

    `ragbench.metrics` parses names back to equal values.
    """
    # Before numbers, as a flag is one to Python: it is spelled as JSON has it.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not _BARE.fullmatch(value):
        return json.dumps(value)
    return str(value)
