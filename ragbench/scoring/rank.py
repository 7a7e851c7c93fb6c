"""Rank metrics, computed by trec_eval through ir_measures.

A TREC run holds one document a rank and each document once. A `SlotRanking` may break both rules
(one chunk holds two gold contexts, two chunks hold the same one); such a case is put to trec_eval
twice, as two queries:

- relevance: each chunk is a document, relevant when it holds any gold context. Precision, hit
  rate and MRR read this one.
- gain: a chunk counts for the gold contexts that no chunk before it held, with their summed
  grades; gold contexts found together are one document. nDCG and MAP read this one, so that no
  ranking can gain more than the ideal one.

Recall is then the share of gold contexts held by the first k chunks, all those of one chunk at
its rank. Any other case is one query, which all metrics read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import NO_GOLD, IdRanking, Matching, SlotRanking, match
from ragbench.scoring.measured import measured
from ragbench.scoring.scorer import Scorer

__all__ = ["RankScorer"]

_MEASURES = {
    "recall": "R",
    "precision": "P",
    "hit_rate": "Success",
    "MRR": "RR",
    "MAP": "AP",
    "nDCG": "nDCG",
    "set_precision": "SetP",
    "set_recall": "SetR",
    "set_f1": "SetF",
}
_GAIN = frozenset({"nDCG", "MAP"})
_BY_GOLD = frozenset({"recall", "set_recall", "set_f1"})
_EXPONENTIAL = {grade: 2**grade - 1 for grade in range(1, 16)}
"""Gains of nDCG(dcg=exp-log2). trec_eval's memory grows with the gain, hence the end at 15."""

_ZERO = measured(0.0)
_NOTHING_RELEVANT = Cell.skipped(NO_GOLD)
_NOTHING_RETRIEVED = Cell.skipped("nothing was retrieved")

# trec_eval breaks ties by id, so ranks are handed over as strictly falling scores. It keeps scores
# in single precision, in which whole numbers are exact up to 2**24.
_SCORES = [float(score) for score in range(1000, 0, -1)]


@dataclass(slots=True)
class _Batch:
    """The cases of one call as trec_eval's queries."""

    rankings: list[IdRanking | SlotRanking | str]
    best: list[int] = field(default_factory=list[int])
    """The highest grade of each case; 0 where nothing is known."""
    queries: list[str | None] = field(default_factory=list["str | None"])
    """The query of each case: its position; None where nothing is known or was retrieved."""
    qrels: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    run: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    irregular: dict[int, SlotRanking] = field(default_factory=dict[int, SlotRanking])
    """Cases whose gain is a query of its own, named with a ``g`` before the position."""


class RankScorer:
    """Computes every metric of ``definitions/rank.py``."""

    def __init__(self, matching: Matching = Matching.AUTO) -> None:
        """Loads nothing yet.

        Args:
            matching: how retrieved chunks are compared with relevant ones.
        """
        self._matching = matching

    def with_matching(self, matching: Matching) -> Scorer:
        """The same scorer, comparing in the way given."""
        return RankScorer(matching)

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        batch = _batch([match(trace, self._matching) for trace in traces])
        measured = [metric for metric in metrics if metric.definition.name in _MEASURES]
        _check_grades(measured, batch)
        values = _evaluate(measured, batch)
        return [
            _column(metric, batch, values[metric.name])
            if metric.name in values
            else [_judged(ranking, metric.cutoff) for ranking in batch.rankings]
            for metric in metrics
        ]


def _batch(rankings: list[IdRanking | SlotRanking | str]) -> _Batch:
    batch = _Batch(rankings)
    for position, ranking in enumerate(rankings):
        query: str | None = None
        if isinstance(ranking, IdRanking):
            best = max(ranking.grades.values())
            if ranking.ids:
                query = str(position)
                batch.qrels[query] = ranking.grades
                batch.run[query] = _run(ranking.ids)
        elif isinstance(ranking, SlotRanking):
            best = max(ranking.grades)
            if ranking.slots:
                query = str(position)
                _add_slots(batch, position, ranking)
        else:
            best = 0
        batch.best.append(best)
        batch.queries.append(query)
    return batch


def _run(ids: Sequence[str]) -> dict[str, float]:
    size = len(ids)
    if size <= len(_SCORES):
        return dict(zip(ids, _SCORES, strict=False))
    return {id: float(size - rank) for rank, id in enumerate(ids)}


def _add_slots(batch: _Batch, position: int, ranking: SlotRanking) -> None:
    held = [gold for slot in ranking.slots for gold in slot]
    regular = len(set(held)) == len(held) and all(len(slot) <= 1 for slot in ranking.slots)
    relevance: dict[str, int] = {}
    gain: dict[str, int] = {}
    seen: set[int] = set()
    for rank, slot in enumerate(ranking.slots):
        if slot:
            relevance[f"c{rank}"] = max(ranking.grades[gold] for gold in slot)
        if new := set(slot) - seen:
            gain[f"c{rank}"] = sum(ranking.grades[gold] for gold in new)
            seen |= new
    missed = {f"g{n}": grade for n, grade in enumerate(ranking.grades) if n not in seen}
    run = _run([f"c{rank}" for rank in range(len(ranking.slots))])
    query = str(position)
    batch.qrels[query], batch.run[query] = relevance | missed, run
    if not regular:
        batch.irregular[position] = ranking
        batch.qrels[f"g{query}"], batch.run[f"g{query}"] = gain | missed, run


def _evaluate(metrics: Sequence[Metric], batch: _Batch) -> dict[str, dict[str, float]]:
    """Values by metric and query."""
    import ir_measures

    provider: Any = ir_measures.pytrec_eval
    measures = {metric.name: _measure(metric) for metric in metrics}
    distinct = {str(measure): measure for measure in measures.values()}
    values: dict[int, dict[str, float]] = {id(measure): {} for measure in distinct.values()}
    if batch.run and distinct:
        evaluator = provider.evaluator(list(distinct.values()), batch.qrels)
        for query, measure, value in _results(evaluator, batch.run):
            values[id(measure)][query] = value
    return {name: values[id(distinct[str(measure)])] for name, measure in measures.items()}


def _check_grades(metrics: Sequence[Metric], batch: _Batch) -> None:
    highest = max(batch.best, default=0)
    if highest > max(_EXPONENTIAL) and any(("dcg", "exp-log2") in m.parameters for m in metrics):
        raise ValueError(f"2^{highest} is too much gain: use grades up to {max(_EXPONENTIAL)}")


def _measure(metric: Metric) -> Any:
    import ir_measures

    name = metric.definition.name
    measure = getattr(ir_measures, _MEASURES[name])
    for key, value in metric.parameters:
        # ir_measures hands dcg='exp-log2' itself to a Perl script that rounds; these gains are the
        # same formula.
        measure = measure(gains=_EXPONENTIAL) if key == "dcg" else measure(**{key: value})
    # trec_eval's reciprocal rank has no cutoff: `_column` applies it.
    return measure if metric.cutoff is None or name == "MRR" else measure @ metric.cutoff


def _results(evaluator: Any, run: dict[str, dict[str, float]]) -> Iterable[Any]:
    # The evaluator's own iter_calc compares the spelling of each measure for each query, which
    # takes twice as long as measuring; what it calls for the values does not.
    invokers = getattr(evaluator, "invokers", None)
    if invokers is None:
        return evaluator.iter_calc(run)  # type: ignore[no-any-return]
    return chain.from_iterable(invoker.iter_calc(run) for invoker in invokers)


def _column(metric: Metric, batch: _Batch, values: Mapping[str, float]) -> list[Cell]:
    name = metric.definition.name
    floor = 1 / metric.cutoff if name == "MRR" and metric.cutoff is not None else 0.0
    level = int(dict(metric.parameters).get("rel", 1))
    # A query without a value is an error (KeyError), not a zero.
    cells = [
        _unmeasured(batch, position, level)
        if query is None or batch.best[position] < level
        else measured(value if (value := values[query]) >= floor else 0.0)
        for position, query in enumerate(batch.queries)
    ]
    if name in _GAIN or name in _BY_GOLD:
        for position, ranking in batch.irregular.items():
            if batch.best[position] >= level:
                by_gold = name in _BY_GOLD
                value = _by_gold(metric, ranking, level) if by_gold else values[f"g{position}"]
                cells[position] = measured(value)
    return cells


def _unmeasured(batch: _Batch, position: int, level: int) -> Cell:
    """The cell of a case for which trec_eval is not asked."""
    ranking = batch.rankings[position]
    if isinstance(ranking, str):
        return Cell.skipped(ranking)
    best = batch.best[position]
    if best < 1:
        return _NOTHING_RELEVANT
    return _ZERO if best >= level else Cell.skipped(f"no context has a grade of {level} or more")


def _by_gold(metric: Metric, ranking: SlotRanking, level: int) -> float:
    """Recall, or the F1 of recall and precision, counted in gold contexts."""
    slots = ranking.slots
    if dict(metric.parameters).get("judged_only"):
        slots = [slot for slot in slots if slot]
    relevant = {gold for gold, grade in enumerate(ranking.grades) if grade >= level}
    found = {gold for slot in slots[: metric.cutoff] for gold in slot}
    recall = len(relevant & found) / len(relevant)
    if metric.definition.name != "set_f1":
        return recall
    precision = sum(not relevant.isdisjoint(slot) for slot in slots) / max(len(slots), 1)
    return 2 * precision * recall / (precision + recall) if recall else 0.0


def _judged(ranking: IdRanking | SlotRanking | str, cutoff: int | None) -> Cell:
    if isinstance(ranking, str):
        return Cell.skipped(ranking)
    if isinstance(ranking, IdRanking):
        judged = [id in ranking.grades for id in ranking.ids[:cutoff]]
    else:
        judged = [bool(slot) for slot in ranking.slots[:cutoff]]
    if not judged:
        return _NOTHING_RETRIEVED
    return measured(sum(judged) / len(judged))
