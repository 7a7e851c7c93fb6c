"""Verdicts of validators that score every chunk: calibrated, held against thresholds, decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench.records.validation import Validation
from ragbench.validation.calibration import Calibration, PlattScale, read_calibration
from ragbench.validation.intake import Intake
from ragbench.validation.verdict_rule import Finding, Thresholds, decide

__all__ = ["Judgement", "Limits", "limits_for"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How a validator's raw probabilities become a verdict."""

    answer: PlattScale
    chunk: PlattScale
    thresholds: Thresholds

    @property
    def identity(self) -> str:
        """All its numbers."""
        scales = f"{self.answer.slope:g},{self.answer.offset:g},{self.chunk.slope:g}"
        limits = f"{self.thresholds.relevant:g},{self.thresholds.present:g}"
        return f"{scales},{self.chunk.offset:g},{limits}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What a validator made of a pool, before calibration."""

    query: str
    intake: Intake
    findings: Sequence[Finding]
    answer_probability: float
    reasons: Sequence[str] = ()
    warnings: Sequence[str] = ()
    details: Mapping[str, float] | None = None

    def verdict(self, limits: Limits, validator: str) -> Validation:
        """The verdict under limits."""
        findings = [
            replace(one, probability=limits.chunk.apply(one.probability)) for one in self.findings
        ]
        return decide(
            self.query,
            self.intake,
            findings,
            answer_probability=limits.answer.apply(self.answer_probability),
            thresholds=limits.thresholds,
            validator=validator,
            reasons=self.reasons,
            warnings=self.warnings,
            details=self.details,
        )


def limits_for(
    validator: str,
    measured: Thresholds,
    *,
    calibration: str | None,
    relevant: float | None,
    present: float | None,
) -> Limits:
    """The limits that a validator's settings come to.

    Args:
        validator: its name.
        measured: the thresholds that come with its weights.
        calibration: a file of `ragbench.validation.calibrate`, whose thresholds then hold.
        relevant: a threshold that is set by hand.
        present: another.

    Raises:
        ConfigError: the file is not usable, or a threshold is no probability.
    """
    known: Calibration | None = read_calibration(calibration, validator) if calibration else None
    base = known.thresholds if known else measured
    return Limits(
        answer=known.answer if known else PlattScale(),
        chunk=known.chunk if known else PlattScale(),
        thresholds=Thresholds(
            relevant=base.relevant if relevant is None else relevant,
            present=base.present if present is None else present,
        ),
    )
