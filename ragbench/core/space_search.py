"""A search over a space of post-retrieval stages, as records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragbench.core.metric import Metric


class Standing(StrEnum):
    """How a candidate, or a choice, compares with the best one."""

    BEST = "best"
    """It has the best mean, or belongs to what has."""
    OPEN = "not distinguishable"
    """Its difference from the best one is not beyond chance."""
    WORSE = "worse"
    """It is beyond chance."""
    IDLE = "did not act"
    """It left just what the first one left, in every case."""
    FIRST = "first"
    """It is what the others are compared with, and worse than the best one beyond chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One alternative of a space."""

    factor: str
    """Where the alternatives stand, such as ``"operator 2, similarity"``."""
    text: str
    """The alternative in words, such as ``"similarity=0.8"``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCandidate:
    """One point of the space."""

    name: str
    choices: tuple[Choice, ...]
    """One per place with alternatives."""
    score: float
    """Mean over the compared cases."""
    difference: float
    """That minus the first candidate's; where lower is better, below 0 is a gain."""
    standing: Standing
    p_value: float | None
    """Two-sided, of "it and the best one can be swapped": corrected for all candidates, and for the
    best one having been found on the same cases. None where nothing was tested."""
    chosen: float
    """Share of the folds that chose it on the other cases."""
    acted: int | None
    """Cases in which it left anything else than the first one; None for the first one."""
    tokens: float
    """Mean number of tokens that generation would be given."""
    seconds: float | None
    """Median wall time, a case; None where scores of slow rerankers were known from before."""
    failed: int
    """Cases in which it failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceReport:
    """One alternative over all candidates that take it."""

    choice: Choice
    best: str
    """The best candidate with it, by name."""
    score: float
    """That candidate's."""
    standing: Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceSearch:
    """What is best in a space of post-retrieval stages, and how much of its gain is luck."""

    dataset: str
    rag: str
    metric: Metric
    """By which the best was chosen."""
    cases: int
    """Cases that every candidate measured."""
    left_out: int
    """Cases of the run that some candidate did not measure."""
    confidence: float
    seed: int
    """Of the partitions."""
    folds: int
    partitions: int
    first: str
    """What the others are compared with: the first alternative at every place."""
    best: str
    """The candidate with the best mean over all cases."""
    naive: float
    """Its gain over the first one on the cases that chose it: too large. Above 0 is better, for a
    metric where lower is better, too."""
    naive_low: float | None
    naive_high: float | None
    honest: float
    """Mean gain over the first one of what is chosen in this way, on cases that did not choose."""
    honest_low: float | None
    honest_high: float | None
    kept: str
    """What to keep: the best one where the honest gain is beyond chance, else the first one."""
    sentence: str
    """The result in words."""
    candidates: tuple[SearchCandidate, ...]
    """In the order of the space."""
    choices: tuple[ChoiceReport, ...]
    """Every alternative."""
    notes: tuple[str, ...] = ()
    """What a reader must know to read the numbers right."""
