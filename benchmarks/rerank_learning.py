"""Weights for the ``linear`` reranker, learned on some questions and measured on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.rerank_quality import TOP, Pool, Quality, Table, mean, ndcg, relevance
from ragbench.post.rerankers.fusion import standard

FOLDS = 5
TRIES = 300

Weights = NDArray[np.float64]


def learned(pool: Pool, tables: Mapping[str, Table]) -> tuple[Quality, dict[str, float]]:
    """Five folds: each is ordered by weights learned on the other four.

    The weights are those of a sum of standardised scores, as ``linear`` forms it. The best of 300
    random ones is improved weight by weight.

    Returns:
        The quality over all questions, and the mean of the learned weights.
    """
    draw = np.random.default_rng(7)
    examples = [_Example(pool, tables, at) for at in range(len(pool.found))]
    tried = draw.dirichlet([0.5] * len(tables), TRIES)
    folds = np.arange(len(examples)) % FOLDS
    orders: list[list[str]] = [[] for _ in examples]
    chosen: list[Weights] = []
    for fold in range(FOLDS):
        train = [one for one, at in zip(examples, folds, strict=True) if at != fold]
        best = _improved(max(tried, key=lambda weights: _value(train, weights)), train)
        chosen.append(best / best.sum())
        for at in np.flatnonzero(folds == fold):
            orders[at] = examples[at].order(best)
    weights = np.mean(chosen, axis=0).round(2).tolist()
    return mean(pool.questions, orders), dict(zip(tables, weights, strict=True))


def chosen(pool: Pool, tables: Mapping[str, Table]) -> tuple[Quality, list[str]]:
    """Five folds: each is ordered by what is most relevant on the other four.

    Returns:
        The quality over all questions, and what was chosen, a name a fold.
    """
    orders = {name: pool.orders(table) for name, table in tables.items()}
    values = {
        name: np.array(
            [
                relevance(one.gains, order)
                for one, order in zip(pool.questions, ordered, strict=True)
            ]
        )
        for name, ordered in orders.items()
    }
    folds = np.arange(len(pool.questions)) % FOLDS
    names = [
        max(values, key=lambda name: float(values[name][folds != fold].sum()))
        for fold in range(FOLDS)
    ]
    best = [orders[names[fold]][at] for at, fold in enumerate(folds.tolist())]
    return mean(pool.questions, best), names


class _Example:
    """One question with its candidates' scores, a row a list."""

    def __init__(self, pool: Pool, tables: Mapping[str, Table], at: int) -> None:
        self._ids = [chunk.id for chunk in pool.found[at]]
        self._gains = pool.questions[at].gains
        self._rows = np.array(
            [
                standard([table[at][id_] for id_ in self._ids]) if self._ids else []
                for table in tables.values()
            ]
        )

    def order(self, weights: Weights) -> list[str]:
        best = np.argsort(-(weights @ self._rows), kind="stable")[:TOP]
        return [self._ids[place] for place in best]

    def value(self, weights: Weights) -> float:
        """Relevance, and a little nDCG to tell apart what is equally relevant."""
        order = self.order(weights)
        return relevance(self._gains, order) + 0.5 * ndcg(self._gains, order)


def _value(examples: Sequence[_Example], weights: Weights) -> float:
    return sum(one.value(weights) for one in examples)


def _improved(weights: Weights, examples: Sequence[_Example]) -> Weights:
    best, value = weights, _value(examples, weights)
    for at in [*range(len(weights))] * 2:
        for factor in (0.0, 0.5, 0.75, 1.33, 2.0, 4.0):
            tried = best.copy()
            tried[at] = tried[at] * factor if tried[at] else 0.05 * factor
            if tried.sum() > 0 and (found := _value(examples, tried)) > value:
                best, value = tried, found
    return best
