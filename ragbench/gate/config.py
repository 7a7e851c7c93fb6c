"""What a gate demands, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "AUTO",
    "COMPARABLE",
    "FIGURES",
    "Correction",
    "FloorRule",
    "GateConfig",
    "LatencyBudget",
    "Limits",
    "MetricGate",
    "SliceGate",
    "Undecided",
]

AUTO = "auto"
"""The baseline's name that stands for the best earlier run."""

COMPARABLE = ("dataset", "metrics", "judge", "matching")
"""What two runs can be required to share."""

FIGURES = ("mean", "p50", "p95", "longest")
"""Figures of a stage's wall times."""


class Correction(StrEnum):
    """How p-values are corrected for testing several metrics at once."""

    HOLM = "holm"
    NONE = "none"


class FloorRule(StrEnum):
    """When a figure counts as on the wrong side of an absolute limit."""

    OBSERVED = "observed"
    """When it is."""
    SHOWN = "shown"
    """When its whole interval is; when only a part of it is, the check is inconclusive."""


class Undecided(StrEnum):
    """What a drop that can neither be shown nor ruled out makes of the verdict."""

    INCONCLUSIVE = "inconclusive"
    PASS = "pass"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one figure is held against; None where nothing is demanded."""

    minimum: float | None = None
    maximum: float | None = None
    max_drop: float | None = None
    """Largest tolerated loss of the mean; for metrics where lower is better, its largest rise."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is demanded."""
        return self.minimum is None and self.maximum is None and self.max_drop is None


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceGate:
    """Limits on the cases of one slice, or of each slice of a kind."""

    by: str
    """``"tag"`` or ``"language"``."""
    value: str | None
    """None: each value that occurs."""
    limits: Limits | None = None
    """None: the metric's own ``max_drop``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricGate:
    """What is demanded of one metric."""

    limits: Limits = Limits()
    informational: bool = False
    """Shown, and without influence on the verdict."""
    slices: tuple[SliceGate, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyBudget:
    """The longest time that a stage may take."""

    stage: str
    figure: str
    """One of `FIGURES`."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GateConfig:
    """Everything that a gate demands."""

    baseline: str | None = None
    """A path, or `AUTO`; None: no drop is looked for."""
    metrics: Mapping[str, MetricGate] = field(default_factory=dict[str, MetricGate])
    """By name. Empty with a baseline: every metric that has a better side, at ``max_drop``."""
    max_drop: float = 0.02
    """Tolerated loss of metrics that are not named, as a share of their scale."""
    max_error_rate: float = 0.05
    """Largest share of cases in which a stage or a gated metric may fail."""
    min_cases: int = 1
    """With fewer cases, a check is inconclusive."""
    latency: tuple[LatencyBudget, ...] = ()
    alpha: float = 0.05
    power: float = 0.8
    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0
    correction: Correction = Correction.HOLM
    cluster: bool = True
    """Whether cases that share a cluster are treated as dependent."""
    floors: FloorRule = FloorRule.OBSERVED
    undecided: Undecided = Undecided.INCONCLUSIVE
    require_same: tuple[str, ...] = COMPARABLE
    """What the runs must share; some of `COMPARABLE`."""
    quarantine: str | None = None
    """Path of a file with unstable cases, which are left out, counted and listed."""
