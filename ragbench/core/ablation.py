"""An ablation: variants of post-retrieval over one stored run, as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.core.biography import OperatorTable
from ragbench.core.metric import Metric
from ragbench.core.record import Record


class CaseLoss(Record):
    """A case whose value got worse from the first variant to another one."""

    case: str
    """Its id."""
    before: float
    """The first variant's value."""
    after: float
    """The other variant's value."""


class VariantEffect(Record):
    """One metric of one variant, and its difference from the first variant."""

    metric: Metric
    score: float | None
    """The mean over the measured cases; None when nothing was measured."""
    measured: int
    """Cases with a value."""
    before: float | None = None
    """The first variant's mean over the compared cases; None for the first variant itself."""
    after: float | None = None
    """This variant's mean over the compared cases: ``after - before`` is the difference."""
    compared: int = 0
    """Cases that both variants measured."""
    difference: float | None = None
    """Mean of this variant's value minus the first's, over the compared cases; None for the first
    variant itself."""
    low: float | None = None
    """Lower end of the difference's interval; None when there is none. The confidence is that the
    intervals of all comparisons of an ablation contain their true difference at once."""
    high: float | None = None
    """Upper end of the same interval."""
    alone: tuple[float, float] | None = None
    """The interval of this comparison alone: too narrow where the best of several is picked."""
    p_value: float | None = None
    """Of the two-sided test whose null hypothesis is that the variants can be swapped; None where
    nothing was tested."""
    p_corrected: float | None = None
    """The p-value, corrected for all comparisons of the ablation."""
    is_significant: bool = False
    """Whether the difference is significant, by the corrected p-value."""
    gained: int = 0
    """Compared cases with a larger value than the first variant's."""
    lost: int = 0
    """Compared cases with a smaller one."""
    losses: tuple[CaseLoss, ...] = ()
    """The cases that got worse, the largest loss first; at most 1,000."""


class VariantAnswers(Record):
    """The answers that were generated from the contexts of one variant, counted and timed."""

    answered: int
    """Cases with an answer."""
    declined: int
    """Cases in which the system declined to answer."""
    failed: int
    """Cases in which generation failed."""
    seconds_p50: float
    """Median wall time of generation per case. Variants with the same contexts for a case share one
    answer, and its time."""
    seconds_p95: float
    """95th percentile of the same times."""
    prompt_tokens: float | None
    """Mean number of tokens of the prompt, as the RAG reports them; None where it does not report
    them for every case."""
    response_tokens: float | None
    """Mean number of tokens of the response, likewise."""
    cost: float | None
    """Mean cost per case of the reported tokens; None where they or their price are unknown."""


class VariantReport(Record):
    """The results of one variant."""

    name: str
    settings: Mapping[str, Any]
    """All settings that identify it, as plain values."""
    changes: tuple[VariantEffect, ...]
    """One per metric, in the ablation's order."""
    chunks: float
    """Mean number of chunks that generation is given."""
    tokens: float
    """Mean number of tokens that generation is given as contexts."""
    tokens_p95: float
    """95th percentile of these tokens."""
    seconds_p50: float
    """Median wall time of the stage per case."""
    seconds_p95: float
    """95th percentile of the same times."""
    reused_scores: int = 0
    """Scores of slow or paid rerankers that were reused from earlier: if there are any, the wall
    times are not those of a query."""
    passed_over: int
    """Cases in which an operator failed and was skipped."""
    failed: int
    """Cases in which the stage failed."""
    failures: tuple[tuple[str, int], ...] = ()
    """The failures with counts, the most frequent first."""
    acted: int | None = None
    """Cases whose contexts differ from those of the first variant; None for the first one."""
    operators: OperatorTable | None = None
    """The effect of each of its operators; None when none ran."""
    answers: VariantAnswers | None = None
    """The answers that were generated from its contexts; None when none were asked for."""


class Ablation(Record):
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
    """Name of the tokenizer that counted the tokens."""
    is_estimate: bool
    """Whether these counts are an estimate."""
    confidence: float
    """Level of the intervals: share of repetitions in which they contain the true difference."""
    variants: tuple[VariantReport, ...]
    """In the order given; all are compared with the first one."""
    family: int = 0
    """Number of tested comparisons, for which intervals and p-values are corrected."""
    ceiling: tuple[float | None, ...] = ()
    """One score per metric, of the best possible order of the retrieved chunks: no reranker can
    reach more. None where gold contexts are unknown."""
    keep: str = ""
    """A sentence on which variants to keep, by the first metric."""
    generator: str | None = None
    """The RAG whose generation was asked; None without one."""
    currency: str | None = None
    """Of the variants' costs; None where no price is known."""
    notes: tuple[str, ...] = ()
    """Warnings and remarks that a reader of the numbers needs."""
