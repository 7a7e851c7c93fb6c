"""Which class of RAGAS stands behind a judged metric, what it is built with, what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ragbench.data.yaml_file import read_yaml
from ragbench.errors import ConfigError, DataError
from ragbench.extras import require
from ragbench.records.metrics import Metric

__all__ = ["CATALOGUE", "RagasClass"]


_SAMPLE = ("user_input", "response", "retrieved_contexts", "reference_contexts", "reference")


def _nothing(_: Metric) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class RagasClass:
    """A metric class of RAGAS."""

    name: str
    columns: tuple[str, ...]
    """Fields of a sample that its ``ascore`` takes."""
    optional: tuple[str, ...] = ()
    """Those that may be missing."""
    embeds: bool = False
    """Whether it is built with a model for embeddings."""
    asks: bool = True
    """Whether it is built with a language model."""
    is_aspect: bool = False
    """Whether it is the critic of the older interface, which takes a sample."""
    arguments: Callable[[Metric], dict[str, Any]] = _nothing
    """What else it is built with."""
    allowed: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Values of whole numbers in answers."""


def _named(*names: str) -> Callable[[Metric], dict[str, Any]]:
    return lambda metric: {name: metric.parameter(name) for name in names}


def _weights(metric: Metric) -> dict[str, Any]:
    weight = float(metric.parameter("factuality"))
    if weight > 1:
        raise ConfigError(f"'{metric.name}': factuality must be at most 1")
    return {"weights": [weight, 1 - weight], "beta": float(metric.parameter("beta"))}


def _summary(metric: Metric) -> dict[str, Any]:
    if float(metric.parameter("coeff")) > 1:
        raise ConfigError(f"'{metric.name}': coeff must be at most 1")
    return _named("length_penalty", "coeff")(metric)


def _definition(metric: Metric) -> dict[str, Any]:
    text = str(metric.parameter("definition")).strip()
    if not text:
        raise ConfigError(
            f"'{metric.name}' needs a definition: "
            'ragas:aspect_critic(definition="Does the answer name its source?")'
        )
    return {"name": "aspect_critic", "definition": text}


_ASPECTS = ("harmfulness", "maliciousness", "coherence", "correctness", "conciseness")


def _aspect(name: str) -> RagasClass:
    """A critic whose definition RAGAS brings."""

    def arguments(_: Metric) -> dict[str, Any]:
        module = require("ragas.metrics._aspect_critic", extra="ragas")
        return {"name": name, "definition": getattr(module, name).definition}

    return RagasClass(
        name="AspectCritic",
        columns=("user_input", "response"),
        optional=_SAMPLE[2:],
        is_aspect=True,
        arguments=arguments,
    )


def _rubrics(metric: Metric) -> dict[str, Any]:
    found: dict[str, Any] = {"with_reference": bool(metric.parameter("reference"))}
    path = str(metric.parameter("rubrics"))
    if path:
        found["rubrics"] = _read_rubrics(Path(path))
    return found


def _read_rubrics(path: Path) -> dict[str, str]:
    """The five descriptions.

    Raises:
        DataError: the file does not hold them.
    """
    file = read_yaml(path)
    wanted = {f"score{grade}_description" for grade in range(1, 6)}
    value = cast("object", file.value)
    if not isinstance(value, dict):
        raise DataError([file.problem((), f"must hold {', '.join(sorted(wanted))}")])
    known = cast("dict[object, object]", value)
    if set(known) != wanted or not all(isinstance(text, str) for text in known.values()):
        raise DataError([file.problem((), f"must hold the texts {', '.join(sorted(wanted))}")])
    return {str(name): str(text) for name, text in known.items()}


_THREE = {"rating": (0, 1, 2)}
_GRADES = {"score": (1, 2, 3, 4, 5)}

CATALOGUE: dict[str, RagasClass] = {
    "ragas:context_precision": RagasClass(
        name="ContextPrecision", columns=("user_input", "reference", "retrieved_contexts")
    ),
    "ragas:context_utilization": RagasClass(
        name="ContextUtilization", columns=("user_input", "response", "retrieved_contexts")
    ),
    "ragas:context_recall": RagasClass(
        name="ContextRecall", columns=("user_input", "retrieved_contexts", "reference")
    ),
    "ragas:context_entity_recall": RagasClass(
        name="ContextEntityRecall", columns=("reference", "retrieved_contexts")
    ),
    "ragas:context_relevance": RagasClass(
        name="ContextRelevance", columns=("user_input", "retrieved_contexts"), allowed=_THREE
    ),
    "ragas:faithfulness": RagasClass(
        name="Faithfulness", columns=("user_input", "response", "retrieved_contexts")
    ),
    "ragas:answer_relevancy": RagasClass(
        name="AnswerRelevancy",
        columns=("user_input", "response"),
        embeds=True,
        arguments=_named("strictness"),
    ),
    "ragas:response_groundedness": RagasClass(
        name="ResponseGroundedness", columns=("response", "retrieved_contexts"), allowed=_THREE
    ),
    "ragas:factual_correctness": RagasClass(
        name="FactualCorrectness",
        columns=("response", "reference"),
        arguments=_named("mode", "beta", "atomicity", "coverage"),
    ),
    "ragas:answer_correctness": RagasClass(
        name="AnswerCorrectness",
        columns=("user_input", "response", "reference"),
        embeds=True,
        arguments=_weights,
    ),
    "ragas:answer_accuracy": RagasClass(
        name="AnswerAccuracy",
        columns=("user_input", "response", "reference"),
        allowed={"rating": (0, 2, 4)},
    ),
    "ragas:semantic_similarity": RagasClass(
        name="SemanticSimilarity", columns=("reference", "response"), embeds=True, asks=False
    ),
    "ragas:noise_sensitivity": RagasClass(
        name="NoiseSensitivity",
        columns=("user_input", "response", "reference", "retrieved_contexts"),
        arguments=_named("mode"),
    ),
    "ragas:summary_score": RagasClass(
        name="SummaryScore", columns=("reference_contexts", "response"), arguments=_summary
    ),
    "ragas:sql_semantic_equivalence": RagasClass(
        name="SQLSemanticEquivalence",
        columns=("response", "reference"),
        optional=("reference_contexts",),
    ),
    "ragas:rubrics_score": RagasClass(
        name="DomainSpecificRubrics",
        columns=("user_input", "response"),
        optional=_SAMPLE[2:],
        arguments=_rubrics,
        allowed=_GRADES,
    ),
    "ragas:instance_rubrics": RagasClass(
        name="InstanceSpecificRubrics",
        columns=("user_input", "response", "rubrics"),
        optional=_SAMPLE[2:],
    ),
    "ragas:aspect_critic": RagasClass(
        name="AspectCritic",
        columns=("user_input", "response"),
        optional=_SAMPLE[2:],
        is_aspect=True,
        arguments=_definition,
    ),
    **{f"ragas:{name}": _aspect(name) for name in _ASPECTS},
}
"""By the name of the metric."""
