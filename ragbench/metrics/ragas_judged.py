"""RAGAS' judged metrics: definition and class, a row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ragbench.core.metric import Cost, Direction, Group, Metric, MetricDefinition, Need, Parameter
from ragbench.errors import ConfigError, DataError
from ragbench.io.yaml_file import read_yaml
from ragbench.plugins import require
from ragbench.text.declining import RULES

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


_JUDGED = MetricDefinition(
    name="",
    group=Group.GENERATOR,
    needs=frozenset({Need.QUERY, Need.RESPONSE, Need.LLM}),
    direction=Direction.HIGHER,
    summary="",
    citation="Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4",
    scorer="ragbench.metrics.ragas_judge:RagasJudge",
    extra="ragas,llm",
    cost=Cost.LLM,
    abstains=True,
    version=RULES,
)
_RETRIEVER = replace(
    _JUDGED,
    version=1,
    group=Group.RETRIEVER,
    needs=frozenset({Need.QUERY, Need.RETRIEVED_CONTEXTS, Need.LLM}),
    abstains=False,
)
_NVIDIA = "NVIDIA's judge metrics in ragas 0.4: two prompts, their ratings averaged"
_WHOLE = replace(_JUDGED, needs=frozenset({Need.QUERY, Need.RESPONSE, Need.REFERENCE, Need.LLM}))
_ASPECT = replace(
    _JUDGED,
    citation="ragas 0.4, AspectCritic",
    calls="1",
)


def _asks(definition: MetricDefinition, *needs: Need) -> frozenset[Need]:
    return definition.needs | frozenset(needs)


_ANSWER = (
    replace(
        _JUDGED,
        name="ragas:faithfulness",
        needs=_asks(_JUDGED, Need.RETRIEVED_CONTEXTS),
        summary="Share of the answer's statements that the contexts support (Faithfulness)",
        calls="2",
    ),
    replace(
        _JUDGED,
        name="ragas:answer_relevancy",
        aliases=("ragas:response_relevancy",),
        needs=_asks(_JUDGED, Need.EMBEDDINGS),
        summary="Likeness of the question and questions made of the answer (AnswerRelevancy)",
        low=-1.0,
        parameters=(Parameter(name="strictness", default=3, summary="how many questions", low=1),),
        calls="strictness + (strictness + 1) texts",
    ),
    replace(
        _JUDGED,
        name="ragas:response_groundedness",
        needs=_asks(_JUDGED, Need.RETRIEVED_CONTEXTS) - {Need.QUERY},
        summary="Whether the contexts support the answer as a whole (ResponseGroundedness)",
        citation=_NVIDIA,
        calls="2",
    ),
    replace(
        _WHOLE,
        name="ragas:factual_correctness",
        needs=_WHOLE.needs - {Need.QUERY},
        summary="Claims that answer and reference share, each checked against the other "
        "(FactualCorrectness)",
        parameters=(
            Parameter(
                name="mode",
                default="f1",
                summary="what the claims are counted for",
                choices=("precision", "recall", "f1"),
            ),
            Parameter(name="beta", default=1.0, summary="weight of recall in f1", low=0.0),
            Parameter(
                name="atomicity",
                default="low",
                summary="how small claims are",
                choices=("low", "high"),
            ),
            Parameter(
                name="coverage",
                default="low",
                summary="how much of the text becomes claims",
                choices=("low", "high"),
            ),
        ),
        calls="4, with mode=precision 2",
    ),
    replace(
        _WHOLE,
        name="ragas:answer_correctness",
        needs=_asks(_WHOLE, Need.EMBEDDINGS),
        summary="Shared statements of answer and reference, and their likeness (AnswerCorrectness)",
        parameters=(
            Parameter(
                name="factuality",
                default=0.75,
                summary="weight of the statements; the likeness has the rest",
                low=0.0,
            ),
            Parameter(name="beta", default=1.0, summary="weight of recall", low=0.0),
        ),
        calls="3 + 2 texts",
    ),
    replace(
        _WHOLE,
        name="ragas:answer_accuracy",
        summary="Agreement of answer and reference, asked both ways round (AnswerAccuracy)",
        citation=_NVIDIA,
        calls="2",
    ),
    replace(
        _WHOLE,
        name="ragas:semantic_similarity",
        aliases=("ragas:answer_similarity",),
        needs=frozenset({Need.RESPONSE, Need.REFERENCE, Need.EMBEDDINGS}),
        summary="Cosine of the embeddings of answer and reference (SemanticSimilarity)",
        citation="Risch et al. 2021, Semantic Answer Similarity, arXiv:2108.06130; ragas 0.4",
        low=-1.0,
        cost=Cost.EMBEDDINGS,
        calls="2 texts",
    ),
    replace(
        _WHOLE,
        name="ragas:noise_sensitivity",
        needs=_asks(_WHOLE, Need.RETRIEVED_CONTEXTS),
        direction=Direction.LOWER,
        summary="Share of the answer's statements that are wrong and come from a context "
        "(NoiseSensitivity)",
        parameters=(
            Parameter(
                name="mode",
                default="relevant",
                summary="which contexts are looked at",
                choices=("relevant", "irrelevant"),
            ),
        ),
        calls="2K + 3",
    ),
    replace(
        _JUDGED,
        name="ragas:summary_score",
        aliases=("ragas:summarization_score",),
        needs=frozenset({Need.RESPONSE, Need.REFERENCE_CONTEXTS, Need.LLM}),
        summary="Questions on the reference contexts that the answer answers, and its brevity "
        "(SummaryScore)",
        parameters=(
            Parameter(name="length_penalty", default=True, summary="whether brevity counts"),
            Parameter(name="coeff", default=0.5, summary="weight of brevity, 0 to 1", low=0.0),
        ),
        calls="3",
    ),
    replace(
        _WHOLE,
        name="ragas:sql_semantic_equivalence",
        needs=_WHOLE.needs - {Need.QUERY},
        summary="1 when two SQL queries mean the same (SQLSemanticEquivalence)",
        citation="ragas 0.4, SQLSemanticEquivalence",
        calls="1",
    ),
)

_RETRIEVAL = (
    replace(
        _RETRIEVER,
        name="ragas:context_precision",
        aliases=(
            "ragas:context_precision_with_reference",
            "ragas:llm_context_precision_with_reference",
        ),
        needs=_asks(_RETRIEVER, Need.REFERENCE),
        summary="Average precision of the contexts that help towards the reference "
        "(ContextPrecision)",
        calls="K",
    ),
    replace(
        _RETRIEVER,
        name="ragas:context_utilization",
        aliases=(
            "ragas:context_precision_without_reference",
            "ragas:llm_context_precision_without_reference",
        ),
        needs=_asks(_RETRIEVER, Need.RESPONSE),
        summary="Average precision of the contexts that help towards the answer "
        "(ContextUtilization)",
        abstains=True,
        calls="K",
    ),
    replace(
        _RETRIEVER,
        name="ragas:context_recall",
        aliases=("ragas:llm_context_recall",),
        needs=_asks(_RETRIEVER, Need.REFERENCE),
        summary="Share of the reference's statements that the contexts support (ContextRecall)",
        calls="1",
    ),
    replace(
        _RETRIEVER,
        name="ragas:context_entity_recall",
        needs=_asks(_RETRIEVER, Need.REFERENCE) - {Need.QUERY},
        summary="Share of the reference's entities that the contexts hold (ContextEntityRecall)",
        calls="2",
    ),
    replace(
        _RETRIEVER,
        name="ragas:context_relevance",
        summary="Whether the contexts are about the question (ContextRelevance)",
        citation=_NVIDIA,
        calls="2",
    ),
)

_OWN_RULES = (
    replace(
        _JUDGED,
        name="ragas:rubrics_score",
        aliases=("ragas:domain_specific_rubrics",),
        summary="A grade by a rubric of yours, 1 to 5 (DomainSpecificRubrics)",
        citation="ragas 0.4, DomainSpecificRubrics",
        low=1.0,
        high=5.0,
        parameters=(
            Parameter(
                name="rubrics",
                default="",
                summary="YAML file with score1_description to score5_description; RAGAS' own "
                "when not given",
            ),
            Parameter(name="reference", default=False, summary="grade against the reference"),
        ),
        calls="1",
    ),
    replace(
        _JUDGED,
        name="ragas:instance_rubrics",
        aliases=("ragas:instance_specific_rubrics",),
        needs=_asks(_JUDGED, Need.RUBRICS),
        summary="A grade by the rubrics in each case's metadata (InstanceSpecificRubrics)",
        citation="ragas 0.4, InstanceSpecificRubrics",
        low=0.0,
        high=None,
        calls="1",
    ),
    replace(
        _ASPECT,
        name="ragas:aspect_critic",
        summary="1 when the answer meets a definition of yours (AspectCritic)",
        parameters=(
            Parameter(name="definition", default="", summary="a question about the answer; needed"),
        ),
    ),
    replace(
        _ASPECT,
        name="ragas:harmfulness",
        direction=Direction.LOWER,
        summary="1 when the answer may cause harm (AspectCritic)",
    ),
    replace(
        _ASPECT,
        name="ragas:maliciousness",
        direction=Direction.LOWER,
        summary="1 when the answer is meant to harm, deceive or exploit (AspectCritic)",
    ),
    replace(
        _ASPECT,
        name="ragas:coherence",
        summary="1 when the answer is in logical order (AspectCritic)",
    ),
    replace(
        _ASPECT,
        name="ragas:correctness",
        summary="1 when the answer is free of errors, as far as the judge knows (AspectCritic)",
    ),
    replace(
        _ASPECT,
        name="ragas:conciseness",
        summary="1 when the answer has no needless details (AspectCritic)",
    ),
)

DEFINITIONS: tuple[MetricDefinition, ...] = (*_RETRIEVAL, *_ANSWER, *_OWN_RULES)
