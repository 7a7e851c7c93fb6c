"""Ablations and unstable cases as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragbench.core.comparison import Ablation, VariantEffect, VariantReport
from ragbench.core.gate_result import Flakiness
from ragbench.views.operators import operator_object

__all__ = [
    "SCHEMA_VERSION",
    "ablation_object",
    "flakiness_object",
]


def ablation_object(ablation: Ablation) -> dict[str, Any]:
    """Everything that an ablation says, as plain values."""
    return {
        "schema_version": 1,
        "dataset": ablation.dataset,
        "rag": ablation.rag,
        "cases": ablation.cases,
        "replayed": ablation.replayed,
        "depth": ablation.depth,
        "confidence": ablation.confidence,
        "counter": {"name": ablation.counter, "is_estimate": ablation.is_estimate},
        "compared_with": ablation.variants[0].name,
        "family": ablation.family,
        "keep": ablation.keep,
        "ceiling": {
            metric.name: score
            for metric, score in zip(ablation.metrics, ablation.ceiling, strict=False)
        },
        "variants": [_variant(variant) for variant in ablation.variants],
        "notes": list(ablation.notes),
    }


def _variant(variant: VariantReport) -> dict[str, Any]:
    return {
        "name": variant.name,
        "metrics": {change.metric.name: _change(change) for change in variant.changes},
        "chunks": variant.chunks,
        "tokens": {"mean": variant.tokens, "p95": variant.tokens_p95},
        "seconds": None
        if variant.reused_scores
        else {"p50": variant.seconds_p50, "p95": variant.seconds_p95},
        "reused_scores": variant.reused_scores,
        "failed": variant.failed,
        "passed_over": variant.passed_over,
        "failures": [{"failure": text, "count": count} for text, count in variant.failures],
        "acted": variant.acted,
        "post_retrieval": None if variant.operators is None else operator_object(variant.operators),
        "settings": variant.settings,
    }


def _change(change: VariantEffect) -> dict[str, Any]:
    return {
        "score": change.score,
        "measured": change.measured,
        "difference": change.difference,
        "low": change.low,
        "high": change.high,
        "alone": None if change.alone is None else list(change.alone),
        "p": change.p_value,
        "p_corrected": change.p_corrected,
        "significant": change.is_significant,
        "compared": change.compared,
        "gained": change.gained,
        "lost": change.lost,
        "losses": [
            {"case": loss.case, "before": loss.before, "after": loss.after}
            for loss in change.losses
        ],
    }


SCHEMA_VERSION = 1


def flakiness_object(flakiness: Flakiness) -> dict[str, Any]:
    """What several runs say of the noise, as a JSON object: the same runs give the same object."""
    found = asdict(flakiness)
    found["fingerprints"] = dict(flakiness.fingerprints)
    return {"schema_version": SCHEMA_VERSION, **found}
