"""search_space(): the best of a space of post-retrieval stages, and its honest gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ragbench.core.metric import Direction, Metric
from ragbench.core.space_search import SpaceSearch
from ragbench.errors import ConfigError
from ragbench.gate.space import Searched, search_result
from ragbench.metrics.registry import MetricLike
from ragbench.post.score_store import ScoreStore
from ragbench.post.space import Candidate
from ragbench.stages.rag import RAG
from ragbench.stats.nested import FOLDS, PARTITIONS, honest_gain
from ragbench.text.token_counter import APPROXIMATE, TokenCounter
from ragbench.verbs.ablate import Tried, try_variants


def search_space(
    run: Path,
    space: Sequence[Candidate],
    *,
    metric: MetricLike | None = None,
    counter: TokenCounter = APPROXIMATE,
    confidence: float = 0.95,
    limit: int | None = None,
    scores: ScoreStore | None = None,
    concurrency: int = 1,
    advance: Callable[[int], None] = lambda _: None,
    rag: RAG | None = None,
    folds: int = FOLDS,
    partitions: int = PARTITIONS,
    seed: int = 0,
) -> SpaceSearch:
    """Takes the retrievals of a stored run through every candidate of a space."""
    tried = try_variants(
        run,
        [one.variant for one in space],
        metrics=None if metric is None else [metric],
        counter=counter,
        limit=limit,
        scores=scores,
        concurrency=concurrency,
        advance=advance,
        rag=rag,
    )
    chosen_by = tried.metrics[0]
    values = _common(tried)
    gains = _more_is_better(values, chosen_by)
    honest = honest_gain(
        gains, tried.clusters, folds=folds, partitions=partitions, confidence=confidence, seed=seed
    )
    return search_result(
        Searched(
            dataset=tried.manifest.dataset.name,
            rag=tried.manifest.rag.name,
            metric=chosen_by,
            choices=[one.choices for one in space],
            trials=[trial.report((), is_first=at == 0) for at, trial in enumerate(tried.trials)],
            seconds=[trial.typical_seconds for trial in tried.trials],
            values=values,
            clusters=tried.clusters,
            notes=tried.notes(counter),
        ),
        honest,
        confidence=confidence,
        folds=folds,
        partitions=partitions,
        seed=seed,
    )


def _common(tried: Tried) -> list[dict[str, float]]:
    """The first metric's values, of the cases that every candidate measured."""
    columns: list[Mapping[str, float | None]] = [trial.values[0] for trial in tried.trials]
    cases = [case for case in columns[0] if all(one.get(case) is not None for one in columns)]
    if not cases:
        raise ConfigError(
            f"no case has a value of {tried.metrics[0].name} for every candidate: choose by "
            "another metric, or leave out what failed"
        )
    return [{case: one[case] or 0.0 for case in cases} for one in columns]


def _more_is_better(
    values: Sequence[dict[str, float]], metric: Metric
) -> Sequence[dict[str, float]]:
    if metric.definition.direction is not Direction.LOWER:
        return values
    return [{case: -value for case, value in one.items()} for one in values]
