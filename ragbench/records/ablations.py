"""Ablations: what variants of a stage come to over one stored run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.records.metrics import Metric

__all__ = ["Ablation", "Change", "VariantReport"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One metric of one variant, and how it differs from the first variant."""

    metric: Metric
    score: float | None
    """The mean over the measured cases; None when nothing was measured."""
    measured: int
    """Cases with a value."""
    compared: int = 0
    """Cases that both variants measured."""
    difference: float | None = None
    """Mean of this variant's value minus the first's, over the compared cases; None for the first
    variant itself."""
    low: float | None = None
    """Lower end of the difference's interval; None when there is none."""
    high: float | None = None
    """Upper end."""
    gained: int = 0
    """Compared cases with a larger value than the first variant's."""
    lost: int = 0
    """Compared cases with a smaller one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantReport:
    """What one variant came to."""

    name: str
    settings: Mapping[str, Any]
    """All that distinguishes it, as plain values."""
    changes: tuple[Change, ...]
    """A change a metric, in the ablation's order."""
    chunks: float
    """Mean number of chunks that are left for generation."""
    tokens: float
    """Mean number of tokens that generation is given as contexts."""
    tokens_p95: float
    """95th percentile of it."""
    seconds_p50: float
    """Median wall time of the stage, a case."""
    seconds_p95: float
    """95th percentile of it."""
    passed_over: int
    """Cases in which an operator failed and was passed over."""
    failed: int
    """Cases in which the stage failed."""
    failures: tuple[tuple[str, int], ...] = ()
    """What failed, with counts, most frequent first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ablation:
    """Variants of post-retrieval over the retrievals of one stored run."""

    dataset: str
    rag: str
    cases: int
    """Cases of the run."""
    replayed: int
    """Cases that have a retrieval to replay."""
    depth: int
    """Median number of chunks in a stored retrieval."""
    metrics: tuple[Metric, ...]
    counter: str
    """What counted the tokens."""
    is_estimate: bool
    """Whether those counts are an estimate."""
    confidence: float
    """Share of repetitions whose interval holds the true difference."""
    variants: tuple[VariantReport, ...]
    """In the order given; the first is what the others are compared with."""
    notes: tuple[str, ...] = ()
    """What a reader must know to read the numbers right."""
