"""RAGAS' own metrics that need no model, computed by RAGAS' objects one row at a time."""

from __future__ import annotations

from dataclasses import replace

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need

__all__ = ["DEFINITIONS"]

_IDS = MetricDefinition(
    name="ragas:id_based_context_precision",
    group=Group.RETRIEVER,
    needs=frozenset({Need.RETRIEVED_CONTEXT_IDS}),
    direction=Direction.HIGHER,
    summary="Share of the distinct retrieved ids that are reference ids (IDBasedContextPrecision)",
    citation="Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4",
    scorer="ragbench.scoring.ragas_metrics:RagasScorer",
    extra="ragas",
)
_CONTEXTS = replace(
    _IDS,
    name="ragas:non_llm_context_precision_with_reference",
    needs=frozenset({Need.RETRIEVED_CONTEXTS, Need.REFERENCE_CONTEXTS}),
    summary="Average precision of contexts that resemble a reference context "
    "(NonLLMContextPrecisionWithReference)",
)
_ANSWER = replace(
    _IDS,
    name="ragas:exact_match",
    group=Group.GENERATOR,
    needs=frozenset({Need.RESPONSE, Need.REFERENCE}),
    summary="1 when the answer is the reference, character by character (ExactMatch)",
    abstains=True,
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    _IDS,
    replace(
        _IDS,
        name="ragas:id_based_context_recall",
        summary="Share of the distinct reference ids that were retrieved (IDBasedContextRecall)",
    ),
    _CONTEXTS,
    replace(
        _CONTEXTS,
        name="ragas:non_llm_context_recall",
        summary="Share of the reference contexts that a context resembles (NonLLMContextRecall)",
    ),
    _ANSWER,
    replace(
        _ANSWER,
        name="ragas:string_presence",
        summary="1 when the answer holds the reference, character by character (StringPresence)",
    ),
    replace(
        _ANSWER,
        name="ragas:non_llm_string_similarity",
        summary="1 - normalised Levenshtein distance (NonLLMStringSimilarity)",
    ),
    replace(_ANSWER, name="ragas:bleu", summary="Corpus BLEU of the one answer (BleuScore)"),
    replace(_ANSWER, name="ragas:rouge", summary="ROUGE-L F-measure (RougeScore)"),
    replace(_ANSWER, name="ragas:chrf", summary="Corpus chrF of the one answer (ChrfScore)"),
)
