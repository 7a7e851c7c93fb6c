"""An ablation: variants of post-retrieval over one stored run, as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.core.biography import OperatorTable
from ragbench.core.metric import Metric
from ragbench.core.record import Record


class CaseLoss(Record):
    case: str
    """Its id."""
    before: float
    """The first variant's value."""
    after: float


class VariantEffect(Record):
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
    """Lower end of the difference's interval; None when there is none. The intervals of all
    comparisons of an ablation hold together."""
    high: float | None = None
    """Upper end."""
    alone: tuple[float, float] | None = None
    """The interval of this comparison alone: too narrow where the best of several is picked."""
    p_value: float | None = None
    """Two-sided, of "the variants can be swapped"; None where nothing was tested."""
    p_corrected: float | None = None
    """The same, corrected for all comparisons of the ablation."""
    is_significant: bool = False
    """Whether the difference is beyond chance, by the corrected p-value."""
    gained: int = 0
    """Compared cases with a larger value than the first variant's."""
    lost: int = 0
    """Compared cases with a smaller one."""
    losses: tuple[CaseLoss, ...] = ()
    """The cases that got worse, the largest loss first; at most 1,000."""


class VariantAnswers(Record):
    """What generation gave over what one variant left."""

    answered: int
    """Cases with an answer."""
    declined: int
    """Cases in which the system declined to answer."""
    failed: int
    """Cases in which generation failed."""
    seconds_p50: float
    """Median wall time of generation, a case; where another variant left the same contexts, the
    time of the one answer to both."""
    seconds_p95: float
    """95th percentile of it."""
    prompt_tokens: float | None
    """Mean number of tokens of the prompt, as the RAG reports them; None where it does not, for
    every case."""
    response_tokens: float | None
    """The same for the response."""
    cost: float | None
    """What the reported tokens cost, a case; None where they or their price are not known."""


class VariantReport(Record):
    """What one variant came to."""

    name: str
    settings: Mapping[str, Any]
    """All that distinguishes it, as plain values."""
    changes: tuple[VariantEffect, ...]
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
    reused_scores: int = 0
    """Scores of slow or paid rerankers that were known from before: where there are any, the wall
    times are not those of a query."""
    passed_over: int
    """Cases in which an operator failed and was passed over."""
    failed: int
    """Cases in which the stage failed."""
    failures: tuple[tuple[str, int], ...] = ()
    """What failed, with counts, most frequent first."""
    acted: int | None = None
    """Cases in which it left anything else than the first variant; None for the first one."""
    operators: OperatorTable | None = None
    """What each of its operators did; None when none ran."""
    answers: VariantAnswers | None = None
    """What generation made of it; None when nobody was asked."""


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
    """What counted the tokens."""
    is_estimate: bool
    """Whether those counts are an estimate."""
    confidence: float
    """Share of repetitions whose interval holds the true difference."""
    variants: tuple[VariantReport, ...]
    """In the order given; the first is what the others are compared with."""
    family: int = 0
    """Comparisons that were tested: the intervals and the corrected p-values hold for all."""
    ceiling: tuple[float | None, ...] = ()
    """A score a metric, of the best order of the chunks that were retrieved: no reranker can reach
    more. None where gold contexts are not known."""
    keep: str = ""
    """What the first metric shows of the variants, in a sentence."""
    generator: str | None = None
    """The RAG whose generation was asked; None without one."""
    currency: str | None = None
    """Of the variants' costs; None where no price is known."""
    notes: tuple[str, ...] = ()
    """What a reader must know to read the numbers right."""
