"""What the verdicts on a whole dump come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Demand", "DumpSummary", "Share", "WarningCount"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How many of how many, with the interval of the true share."""

    count: int
    total: int
    share: float | None
    """None of nothing."""
    low: float | None
    """95% interval by Clopper and Pearson."""
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WarningCount:
    """One kind of warning over all queries."""

    kind: str
    queries: int
    chunks: int
    examples: tuple[str, ...]
    """Ids of the first queries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """A share that the user asked for."""

    name: str
    """The option, without its dashes."""
    wanted: float
    found: float | None
    is_met: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpSummary:
    """Counts over the verdicts on a dump. The same dump gives the same summary."""

    dump: str
    mapping: Mapping[str, str | None]
    """How the dump was read."""
    validator: str
    identity: str
    """Changes whenever the same dump could get other verdicts."""
    queries: int
    """Verdicts; failed ones are no verdicts."""
    failed: int
    """Queries for which the validator raised."""
    malformed: int
    """Records that could not be read."""
    repeated_ids: int
    """Queries with an id that an earlier one has."""
    chunks: int
    relevant_chunks: int
    answer_present: Share
    quality: Mapping[str, int]
    """Queries by Good, Partial and Poor."""
    warnings: tuple[WarningCount, ...]
    """The most frequent first."""
    problems: tuple[str, ...]
    """The first of what is malformed."""
    failures: tuple[str, ...]
    """The first of what failed."""
    details: Mapping[str, float]
    """Sums of what the validator counts, such as escalated queries or fabricated quotes."""
    demands: tuple[Demand, ...]

    @property
    def is_met(self) -> bool:
        """Whether everything that was asked for is met."""
        return all(demand.is_met for demand in self.demands)
