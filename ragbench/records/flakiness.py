"""What several runs of one unchanged system say of its noise, as records."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.records.summaries import Interval

__all__ = ["Flakiness", "Quarantine", "QuarantinedCase", "UnstableCase", "UnstableSubject"]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnstableSubject:
    """One respect in which a case passes in some runs and fails in others."""

    subject: str
    """A main metric, or a stage."""
    passed: int
    """Runs in which the case passes."""
    failed: int
    outcomes: tuple[float | str, ...]
    """One a run, in order: the metric's value, or how it or the stage ended."""
    pass_rate: Interval
    """Interval of the share of runs in which the case passes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnstableCase:
    """A case whose verdict changes although nothing has changed."""

    id: str
    fingerprint: str
    flips: float
    """Share of the pairs of runs whose verdicts differ: 0 never, at most 1."""
    subjects: tuple[UnstableSubject, ...]
    """Stages first, then metrics."""
    query: str | None = None
    responses: int | None = None
    """Different responses that were seen; None when a run holds no texts."""
    id_lists: int | None = None
    """Different lists of retrieved ids that were seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flakiness:
    """The cases of one system whose verdict is unstable."""

    dataset: str
    rag: str
    sources: tuple[str, ...]
    """Where the runs were read from."""
    fingerprints: tuple[tuple[str, str], ...]
    """What the runs share: parts of their manifests."""
    cases: int
    main: tuple[str, ...]
    threshold: float
    flip_rate: float
    """Share of the cases that flip between two runs of the unchanged system, on average."""
    flip_interval: Interval | None
    """None when it cannot be estimated."""
    unstable: tuple[UnstableCase, ...]
    """Most flips first, then by id."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantinedCase:
    """A case that is left out of a gate's decision, with the evidence for it."""

    id: str
    evidence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantine:
    """Cases that a gate shall leave out."""

    source: str
    """Where it was read from."""
    fingerprints: dict[str, str]
    """Of the cases, by id: a case that has changed since is no longer meant."""
    evidence: dict[str, str]
    """By id, in a sentence."""
