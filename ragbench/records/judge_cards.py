"""A judge card: what is known of a judge, measured on labels of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = ["Figure", "JudgeCard", "Table"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A figure with its 95% interval."""

    value: float | None
    """None when it is not defined, or nothing was measured."""
    low: float | None
    """None with ``high`` where no interval can be given."""
    high: float | None
    count: int
    """What it covers: claims, verdicts or quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Claims by what people said (row) and what the judge said (column), lowest level first."""

    levels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCard:
    """What a judge is worth on some labels."""

    labels: str
    """The file."""
    metric: str
    judge: Mapping[str, Any]
    """Who judged; see a manifest's ``judge``."""
    claims: int
    judged: int
    """Claims with a verdict: the only ones that the figures cover."""
    reasons: tuple[tuple[str, int], ...]
    """Why the others have none, the most frequent first."""
    table: Table
    agreement: Figure
    """Share of claims with the people's level."""
    base_rate: float | None
    """Share that always saying the most frequent level would reach."""
    kappa: Figure
    """Cohen's kappa: agreement beyond chance."""
    quadratic_kappa: Figure
    """The same with distances between levels squared."""
    consistency: Figure
    """Share of claims judged more than once that get the same level each time."""
    order_changes: Figure
    """Share of claims with several passages whose verdict changes when their order is reversed."""
    fabricated_quotes: Figure
    """Share of the judge's quotes that do not stand in the evidence."""
    unquoted: Figure
    """Share of verdicts of support, whole or in part, without a quote."""
    prompt_tokens: float | None
    """Of a verdict, on average; None when the endpoint does not tell."""
    completion_tokens: float | None
    cost: Decimal | None
    """Of a verdict, on average; None when it is not known."""
    currency: str | None
