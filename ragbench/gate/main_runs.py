"""Runs of main to a baseline: the first ones, and one more after each merge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench.core.history import MainRun
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase, unchanged, under_ids_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.baseline_file import Baseline, kept_case
from ragbench.gate.comparable import check_one_system, scale_of
from ragbench.gate.drift import followed
from ragbench.gate.drops import paired
from ragbench.gate.labels import corrections
from ragbench.stats.decide import ChangeKind, RegressionQuestion, decide_family
from ragbench.stats.paired import pair

KEPT = 5
"""How many runs a run is compared with, if nobody says otherwise."""
MOST_KEPT = 20
REMEMBERED = 100
"""Of how many runs the means are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MainChange:
    """A metric of main that is shown to be another one than in the runs before."""

    metric: str
    before: float
    """Mean over the cases that both measured; likewise ``after``."""
    after: float
    p_value: float
    """Corrected for all metrics and both directions."""
    is_loss: bool = False
    """Whether it went to the metric's worse side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What became of a run that was to be added."""

    baseline: Baseline
    is_known: bool = False
    """The run is in it already; nothing was changed but what people say of it."""
    other: str = ""
    """What differs so that scores do not compare; empty where they do."""
    changes: tuple[MainChange, ...] = ()
    """What is shown to have changed. Where it is for the better, or something does not compare,
    later runs are compared with this run alone."""
    is_held: bool = False
    """The run is shown to be lower: later runs are compared with those before it, as they were."""
    dropped: int = 0
    """Cases that the baseline had and the run has not: later runs are not compared on them."""


def baseline_of(runs: Sequence[RunScores]) -> Baseline:
    """The baseline made of runs of one unchanged system, oldest first."""
    if not 1 <= len(runs) <= MOST_KEPT:
        raise ConfigError(f"{len(runs)} runs: a baseline is made of 1 to {MOST_KEPT}")
    if len(runs) > 1:
        check_one_system(runs)
    found = _alone(runs[0], ())
    drift = followed(None, runs[0])
    for run in runs[1:]:
        _check_names(found, run)
        other = _incomparable(found, run) or _not_the_same(runs[0], run)
        if other:
            raise RunMismatchError(f"{run.source} does not compare with {runs[0].source}: {other}")
        if _is_known(found, run):
            raise RunMismatchError(f"{run.source} is one of the other runs: give each run once")
        found = _joined(found, run, MOST_KEPT)
        drift = followed(drift, run, run.table.ids)
    return replace(found, drift=drift)


def with_run(
    baseline: Baseline,
    run: RunScores,
    *,
    keep: int = KEPT,
    accept: bool = False,
    alpha: float = 0.05,
) -> Added:
    """Adds a run of main, and drops the oldest one above ``keep``.

    The mean of several runs describes main only while they are of one system. So where the run is
    shown to be better than those before, in any metric and worse in none, it stands alone, and
    later runs are compared with it. Where it is shown to be worse it is remembered, and the
    baseline stays: nothing lowers its level but somebody who accepts it. What chance can explain is
    averaged.

    Args:
        accept: later runs are compared with this run alone, whatever it lost.
    """
    if not 1 <= keep <= MOST_KEPT:
        raise ConfigError(f"keep is {keep}: give 1 to {MOST_KEPT}")
    _check_names(baseline, run)
    if accept:
        held = (run.date, run.commit)
        others = [
            one for one in baseline.runs if not (one.aside and (one.date, one.commit) == held)
        ]
        baseline = replace(baseline, runs=tuple(others))
    if _is_known(baseline, run):
        mine = _main_run(run)  # which may have labels by now
        if mine.people:
            at = [one.date for one in baseline.runs].index(run.date)
            now = replace(baseline.runs[at], people=mine.people)
            baseline = replace(baseline, runs=(*baseline.runs[:at], now, *baseline.runs[at + 1 :]))
        return Added(baseline=baseline, is_known=True)
    scores, _ = under_ids_of(run, baseline.scores("baseline"))
    baseline = replace(baseline, cases=tuple(scores.cases), drift=scores.drift)
    dropped = int((run.table.places(scores.table.ids) < 0).sum())
    other = _incomparable(baseline, run)
    changes = () if other else _changes(baseline, run, alpha)
    same = unchanged(run, baseline.scores("baseline"))
    links = dict(_links(baseline, run, same))
    if accept or other or changes:
        if not accept and any(change.is_loss for change in changes):
            aside = (*baseline.runs, replace(_main_run(run), aside=True, linked=links))
            drift = followed(baseline.drift, run, same, is_aside=True)
            lower = replace(baseline, runs=_remembered(aside, baseline.kept), drift=drift)
            return Added(baseline=lower, changes=changes, is_held=True)
        rose = {change.metric for change in changes}
        known = None if accept or other else baseline.drift
        alone = _linked(_alone(run, _without_old_formulas(baseline, run)), links)
        alone = replace(alone, drift=followed(known, run, same, anew=rose))
        return Added(baseline=alone, other=other, changes=changes, dropped=dropped)
    joined = _linked(_joined(baseline, run, keep), links)
    drift = followed(baseline.drift, run, same)
    return Added(baseline=replace(joined, drift=drift), dropped=dropped)


def _linked(baseline: Baseline, links: Mapping[str, float]) -> Baseline:
    *earlier, newest = baseline.runs
    return replace(baseline, runs=(*earlier, replace(newest, linked=links)))


def _links(baseline: Baseline, run: RunScores, same: set[str]) -> Iterator[tuple[str, float]]:
    """How far a run lies from the newest one on the cases of both; nothing where they are alike."""
    before, asked = baseline.scores("baseline"), baseline.kept_runs[-1].repeats
    if baseline.runs[-1].cases == run.fingerprints.get("dataset"):
        return
    ids = [*same]
    places = before.table.places(ids).tolist()
    for column in run.metrics:
        name, other = column.name, before.column(column.name)
        if column.no_mean or other is None or other.identity != column.identity:
            continue
        known = (before.cells(name).asked(place).cells[-asked:] for place in places)
        then = {id_: Repeats(cells=each).mean.value for id_, each in zip(ids, known, strict=True)}
        found = pair(then, run.on(same).values(name))
        if count := len(found.differences):
            yield name, math.fsum(found.differences) / count


def _remembered(runs: Sequence[MainRun], kept: int) -> tuple[MainRun, ...]:
    """The newest, and those that the scores of the cases are from, however old."""
    scored = [place for place, run in enumerate(runs) if not run.aside][-kept:]
    most = len(runs) - REMEMBERED
    return tuple(run for place, run in enumerate(runs) if place >= most or place in scored)


def _check_names(baseline: Baseline, run: RunScores) -> None:
    for what, theirs, mine in (
        ("dataset", baseline.dataset, run.dataset),
        ("system", baseline.rag, run.rag),
    ):
        if theirs != mine:
            raise RunMismatchError(
                f"{run.source} is a run of the {what} {mine}, and the baseline of {theirs}: start "
                f"a baseline of its own with: ragbench baseline set {run.source} -o FILE"
            )


def _is_known(baseline: Baseline, run: RunScores) -> bool:
    """Whether the baseline holds a run; in older files two may share a date, to the second."""
    if run.date is None:
        return False
    mine = _main_run(run)
    facts = (mine.date, mine.commit, mine.cases, mine.judge)
    return any(
        (known.date, known.commit, known.cases, known.judge) == facts
        and all(mine.scores.get(name, score) == score for name, score in known.scores.items())
        for known in baseline.runs
    )


def _incomparable(baseline: Baseline, run: RunScores) -> str:
    if scale_of(baseline.matching) != scale_of(run.matching):
        return f"relevant chunks are recognised by {run.matching}, before by {baseline.matching}"
    if baseline.fingerprints.get("judge") != run.fingerprints.get("judge"):
        return "another judge graded it"
    if not unchanged(run, baseline.scores("baseline")):
        return "no case is the same"
    return ""


def _not_the_same(first: RunScores, run: RunScores) -> str:
    """What runs that are given as one system's do not share, though later runs of main need not."""
    if not len(first.cases) == len(run.cases) == len(unchanged(first, run)):
        return f"it has {len(run.cases):,} cases, there are {len(first.cases):,}, not all the same"
    metrics = [{c.identity for c in one.metrics if c.has_cells} for one in (first, run)]
    return "" if metrics[0] == metrics[1] else "it has other metrics"


def _main_run(run: RunScores) -> MainRun:
    asked = [len(r.cells) for one in run.table.cells.values() for r in one.repeats.values()]
    return MainRun(
        date=run.date,
        commit=run.commit,
        dirty=run.dirty,
        cases=run.fingerprints.get("dataset"),
        judge=run.fingerprints.get("judge"),
        matching=scale_of(run.matching),
        repeats=max(asked, default=1),
        seconds={one.stage: one.mean for one in run.latencies if one.sharing == 1},
        scores={c.name: c.score for c in run.metrics if c.has_cells and c.score is not None},
        people={
            one.metric: [round(one.corrected, 6), round(at.low, 6), round(at.high, 6), one.labels]
            for one in corrections([("", run)])
            if (at := one.interval) is not None
        },
    )


def _alone(run: RunScores, earlier: Sequence[MainRun]) -> Baseline:
    if run.made_of:
        raise ConfigError(f"{run.source} is a baseline file: give the folder of a run")
    columns = tuple(column for column in run.metrics if column.has_cells)
    newest = _main_run(run)
    return Baseline(
        dataset=run.dataset,
        rag=run.rag,
        matching=run.matching,
        fingerprints=run.fingerprints,
        metrics=columns,
        stages=run.stages,
        runs=(*earlier, newest)[-REMEMBERED:],
        kept=1,
        origins=run.origins,
        judge=run.judge,
        cases=tuple(_case(case, columns, newest.repeats) for case in run.cases),
    )


def _without_old_formulas(baseline: Baseline, run: RunScores) -> list[MainRun]:
    """The runs so far, less the figures of metrics that are computed in another way now."""
    known = {column.name: column.identity for column in baseline.metrics}
    changed = {
        column.name for column in run.metrics if known.get(column.name, "") != column.identity
    }
    return [
        replace(each, scores={n: score for n, score in each.scores.items() if n not in changed})
        for each in baseline.runs
    ]


def _case(case: ScoredCase, columns: Iterable[MetricColumn], repeats: int) -> ScoredCase:
    cells = {column.name: case.asked(column.name).cells for column in columns}
    padded = {name: (*each, *[None] * (repeats - len(each))) for name, each in cells.items()}
    return kept_case(case, padded)


def _joined(baseline: Baseline, run: RunScores, keep: int) -> Baseline:
    """Both, less the oldest runs above ``keep``."""
    found = _alone(run, _without_old_formulas(baseline, run))
    kept = min(keep, baseline.kept + 1)
    columns = sum(one.repeats for one in baseline.kept_runs[len(baseline.kept_runs) - kept + 1 :])
    before = {case.id: case for case in baseline.cases}
    known = {column.name: column.identity for column in baseline.metrics}
    same = {column.name for column in found.metrics if known.get(column.name) == column.identity}
    cases = tuple(_with_earlier(c, before.get(c.id), columns, same) for c in found.cases)
    joined = replace(found, kept=kept, cases=cases)
    return replace(joined, metrics=tuple(_averaged(column, joined) for column in joined.metrics))


def _with_earlier(
    case: ScoredCase, earlier: ScoredCase | None, columns: int, same: set[str]
) -> ScoredCase:
    """A case of the newest run after the last ``columns`` times of the earlier ones."""
    is_same = earlier is not None and earlier.fingerprint == case.fingerprint
    cells: dict[str, tuple[Cell | None, ...]] = {}
    for name in case.scores:
        old: tuple[Cell | None, ...] = (None,) * columns
        if earlier is not None and is_same and name in same and columns:
            old = earlier.asked(name).cells[-columns:]
        cells[name] = (*old, *case.asked(name).cells)
    return kept_case(case, cells)


def _averaged(column: MetricColumn, baseline: Baseline) -> MetricColumn:
    known = [run.scores[column.name] for run in baseline.kept_runs if column.name in run.scores]
    if not known:
        return column
    is_same = min(known) == max(known)
    return replace(column, score=known[0] if is_same else math.fsum(known) / len(known))


def _changes(baseline: Baseline, run: RunScores, alpha: float) -> tuple[MainChange, ...]:
    """Both directions of all metrics in one family; see `ragbench.stats.decide`."""
    before = baseline.scores("baseline")
    same = unchanged(run, before)
    now = run.on(same)
    before = before.beside(now)
    asked: list[tuple[str, bool, RegressionQuestion]] = []
    for column in run.metrics:
        other = before.column(column.name)
        if not column.no_mean and other is not None and other.identity == column.identity:
            for higher in (True, False):
                sample = paired(column, now, before, higher_is_better=higher)
                question = RegressionQuestion(sample=sample, largest_drop=column.scale)
                is_loss = column.direction is (Direction.HIGHER if higher else Direction.LOWER)
                asked.append((column.name, is_loss, question))
    decisions = decide_family([question for *_, question in asked], alpha=alpha)
    return tuple(
        MainChange(
            metric=name,
            before=question.sample.before or 0.0,
            after=question.sample.after or 0.0,
            p_value=decision.p_worse,
            is_loss=is_loss,
        )
        for (name, is_loss, question), decision in zip(asked, decisions, strict=True)
        if decision.change is ChangeKind.WORSE
    )
