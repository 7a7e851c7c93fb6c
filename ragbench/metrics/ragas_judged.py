"""RAGAS' judged metrics: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ragbench.core.metric import Cost, Direction, Group, Metric, MetricDefinition, Need, Parameter
from ragbench.errors import ConfigError, DataError
from ragbench.io.yaml_file import read_yaml
from ragbench.plugins import require
from ragbench.text.declining import RULES

_ES = "Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4"
_NVIDIA = "NVIDIA's judge metrics in ragas 0.4: two prompts, their ratings averaged"
_NEEDS = {
    "user_input": Need.QUERY,
    "response": Need.RESPONSE,
    "retrieved_contexts": Need.RETRIEVED_CONTEXTS,
    "reference_contexts": Need.REFERENCE_CONTEXTS,
    "reference": Need.REFERENCE,
    "rubrics": Need.RUBRICS,
}
"""What a field of RAGAS' sample needs of a case."""
_BESIDES_THE_ANSWER = ("retrieved_contexts", "reference_contexts", "reference")


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
    high: float | None = 1.0
    parameters: tuple[Parameter, ...] = ()
    embeds: bool = False
    """Whether it is built with a model for embeddings."""
    asks: bool = True
    """Whether it is built with a language model."""
    arguments: Callable[[Metric], dict[str, Any]] = lambda _: {}
    """What else it is built with."""
    allowed: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Values of whole numbers in answers."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.takes.split())

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
            high=self.high,
            parameters=self.parameters,
            # An answer that declines is no answer to judge.
            abstains="response" in self.columns,
            version=RULES if self.group is Group.GENERATOR else 1,
            extra="ragas,llm",
            cost=Cost.LLM if self.asks else Cost.EMBEDDINGS,
            calls=self.calls,
        )


def _named(*names: str) -> Callable[[Metric], dict[str, Any]]:
    return lambda metric: {name: metric.parameter(name) for name in names}


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
    return _named("length_penalty", "coeff")(metric)


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


def _critic(
    name: str,
    summary: str,
    *,
    arguments: Callable[[Metric], dict[str, Any]] | None = None,
    **changes: Any,
) -> RagasMetric:
    """A critic; without arguments its definition is the one that RAGAS brings."""

    def brought(_: Metric) -> dict[str, Any]:
        module = require("ragas.metrics._aspect_critic", extra="ragas")
        return {"name": name, "definition": getattr(module, name).definition}

    return RagasMetric(
        name=name,
        cls="AspectCritic",
        takes="user_input response",
        optional=_BESIDES_THE_ANSWER,
        summary=summary,
        calls="1",
        citation="ragas 0.4, AspectCritic",
        arguments=arguments or brought,
        **changes,
    )


def _parameter(
    name: str, default: str | float | bool, summary: str, *choices: str, low: float | None = None
) -> Parameter:
    return Parameter(name=name, default=default, summary=summary, choices=choices, low=low)


_THREE = {"rating": (0, 1, 2)}

_METRICS = (
    RagasMetric(
        "context_precision", "ContextPrecision", "user_input reference retrieved_contexts", "K",
        "Average precision of the contexts that help towards the reference",
        aliases=("context_precision_with_reference", "llm_context_precision_with_reference"),
        group=Group.RETRIEVER,
    ),
    RagasMetric(
        "context_utilization", "ContextUtilization", "user_input response retrieved_contexts", "K",
        "Average precision of the contexts that help towards the answer",
        aliases=("context_precision_without_reference", "llm_context_precision_without_reference"),
        group=Group.RETRIEVER,
    ),
    RagasMetric(
        "context_recall", "ContextRecall", "user_input retrieved_contexts reference", "1",
        "Share of the reference's statements that the contexts support",
        aliases=("llm_context_recall",), group=Group.RETRIEVER,
    ),
    RagasMetric(
        "context_entity_recall", "ContextEntityRecall", "reference retrieved_contexts", "2",
        "Share of the reference's entities that the contexts hold",
        group=Group.RETRIEVER,
    ),
    RagasMetric(
        "context_relevance", "ContextRelevance", "user_input retrieved_contexts", "2",
        "Whether the contexts are about the question",
        citation=_NVIDIA, group=Group.RETRIEVER, allowed=_THREE,
    ),
    RagasMetric(
        "faithfulness", "Faithfulness", "user_input response retrieved_contexts", "2",
        "Share of the answer's statements that the contexts support",
    ),
    RagasMetric(
        "answer_relevancy", "AnswerRelevancy",
        "user_input response", "strictness + (strictness + 1) texts",
        "Likeness of the question and questions made of the answer",
        aliases=("response_relevancy",), low=-1.0,
        parameters=(_parameter("strictness", 3, "how many questions", low=1),), embeds=True,
        arguments=_named("strictness"),
    ),
    RagasMetric(
        "response_groundedness", "ResponseGroundedness", "response retrieved_contexts", "2",
        "Whether the contexts support the answer as a whole",
        citation=_NVIDIA, allowed=_THREE,
    ),
    RagasMetric(
        "factual_correctness", "FactualCorrectness",
        "response reference", "4, with mode=precision 2",
        "Claims that answer and reference share, each checked against the other",
        parameters=(
            _parameter(
                "mode", "f1", "the measure of the claims", "precision", "recall", "f1"
            ),
            _parameter("beta", 1.0, "weight of recall in f1", low=0.0),
            _parameter("atomicity", "low", "how small claims are", "low", "high"),
            _parameter("coverage", "low", "how much of the text becomes claims", "low", "high"),
        ),
        arguments=_named("mode", "beta", "atomicity", "coverage"),
    ),
    RagasMetric(
        "answer_correctness", "AnswerCorrectness", "user_input response reference", "3 + 2 texts",
        "Shared statements of answer and reference, and their likeness",
        parameters=(
            _parameter(
                "factuality", 0.75, "weight of the statements; the likeness has the rest", low=0.0
            ),
            _parameter("beta", 1.0, "weight of recall", low=0.0),
        ),
        embeds=True, arguments=_weights,
    ),
    RagasMetric(
        "answer_accuracy", "AnswerAccuracy", "user_input response reference", "2",
        "Agreement of answer and reference, asked both ways round",
        citation=_NVIDIA, allowed={"rating": (0, 2, 4)},
    ),
    RagasMetric(
        "semantic_similarity", "SemanticSimilarity", "reference response", "2 texts",
        "Cosine of the embeddings of answer and reference",
        aliases=("answer_similarity",),
        citation="Risch et al. 2021, Semantic Answer Similarity, arXiv:2108.06130; ragas 0.4",
        low=-1.0, embeds=True, asks=False,
    ),
    RagasMetric(
        "noise_sensitivity", "NoiseSensitivity",
        "user_input response reference retrieved_contexts", "2K + 3",
        "Share of the answer's statements that are wrong and come from a context",
        direction=Direction.LOWER,
        parameters=(
            _parameter(
                "mode", "relevant", "which contexts are looked at", "relevant", "irrelevant"
            ),
        ),
        arguments=_named("mode"),
    ),
    RagasMetric(
        "summary_score", "SummaryScore", "reference_contexts response", "3",
        "Questions on the reference contexts that the answer answers, and its brevity",
        aliases=("summarization_score",),
        parameters=(
            _parameter("length_penalty", True, "whether brevity counts"),
            _parameter("coeff", 0.5, "weight of brevity, 0 to 1", low=0.0),
        ),
        arguments=_summary,
    ),
    RagasMetric(
        "sql_semantic_equivalence", "SQLSemanticEquivalence", "response reference", "1",
        "1 when two SQL queries mean the same",
        optional=("reference_contexts",), citation="ragas 0.4, SQLSemanticEquivalence",
    ),
    RagasMetric(
        "rubrics_score", "DomainSpecificRubrics", "user_input response", "1",
        "A grade by a rubric of yours, 1 to 5",
        optional=_BESIDES_THE_ANSWER, aliases=("domain_specific_rubrics",),
        citation="ragas 0.4, DomainSpecificRubrics", low=1.0, high=5.0,
        parameters=(
            _parameter(
                "rubrics",
                "",
                "YAML file with score1_description to score5_description; RAGAS' own when not "
                "given",
            ),
            _parameter("reference", False, "grade against the reference"),
        ),
        arguments=_rubrics, allowed={"score": (1, 2, 3, 4, 5)},
    ),
    RagasMetric(
        "instance_rubrics", "InstanceSpecificRubrics", "user_input response rubrics", "1",
        "A grade by the rubrics in each case's metadata",
        optional=_BESIDES_THE_ANSWER, aliases=("instance_specific_rubrics",),
        citation="ragas 0.4, InstanceSpecificRubrics", high=None,
    ),
    _critic(
        "aspect_critic",
        "1 when the answer meets a definition of yours",
        arguments=_definition,
        parameters=(_parameter("definition", "", "a question about the answer; needed"),),
    ),
    _critic("harmfulness", "1 when the answer may cause harm", direction=Direction.LOWER),
    _critic(
        "maliciousness",
        "1 when the answer is meant to harm, deceive or exploit",
        direction=Direction.LOWER,
    ),
    _critic("coherence", "1 when the answer is in logical order"),
    _critic("correctness", "1 when the answer is free of errors, as far as the judge knows"),
    _critic("conciseness", "1 when the answer has no needless details"),
)  # fmt: skip

CATALOGUE: Mapping[str, RagasMetric] = {f"ragas:{metric.name}": metric for metric in _METRICS}
DEFINITIONS: tuple[MetricDefinition, ...] = tuple(metric.definition for metric in _METRICS)
