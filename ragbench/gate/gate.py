"""A run, its baseline, a configuration to one result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    JudgedRun,
    Refusal,
)
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunScores, ScoredCase
from ragbench.gate.checks import (
    MetricDemand,
    budget_checks,
    coverage_check,
    demands_of,
    floor_checks,
)
from ragbench.gate.checks import cases as told_cases
from ragbench.gate.comparable import Comparability, compare_inputs
from ragbench.gate.config import GateConfig, SliceGate, Undecided
from ragbench.gate.drops import DropQuestion, drop_checks

__all__ = [
    "gate",
    "headline",
    "is_undecided",
    "lost_cases",
    "notes_on",
]

_SHOWN = 2
"""How many reasons a headline has room for."""


def headline(
    outcome: GateOutcome,
    checks: Sequence[GateCheck],
    refusals: Sequence[Refusal],
    undecided: Undecided,
) -> str:
    """The decision with its main ground."""
    counted = [check for check in checks if not check.informational]
    if outcome is GateOutcome.PASSED:
        passed = sum(check.outcome is GateOutcome.PASSED for check in counted)
        return "1 check passed" if passed == 1 else f"{passed:,} checks passed"
    wanted = outcome
    if outcome is GateOutcome.FAILED and not any(c.outcome is outcome for c in counted):
        wanted = GateOutcome.INCONCLUSIVE  # undecided: fail
    found = [check for check in counted if check.outcome is wanted]
    if outcome is GateOutcome.INCONCLUSIVE:
        if refusals:
            return _refused(refusals)
        found = [check for check in found if check.kind is not CheckKind.SLICE]
        if undecided is Undecided.PASS:
            found = [check for check in found if check.drop is None]
    told = [f"{check.name} {_ground(check)}" for check in found[:_SHOWN]]
    rest = len(found) - _SHOWN
    return "; ".join(told) + (f"; and {rest:,} more" if rest > 0 else "")


def _refused(refusals: Sequence[Refusal]) -> str:
    differing = [refusal.what for refusal in refusals]
    if "baseline" in differing:
        return "there is no baseline"
    return f"this run and the baseline do not compare ({', '.join(differing)})"


def _ground(check: GateCheck) -> str:
    """The main part of a check's reason; its interval is in the table below."""
    if check.drop is None:
        return check.reason.partition(", but ")[0]
    return check.reason.partition(" (")[0].partition(":")[0]


def lost_cases(
    run: RunScores, baseline: RunScores, demands: Sequence[MetricDemand]
) -> tuple[CaseChange, ...]:
    """The cases that lost on one of the metrics, each with the metric on which it lost most.

    A case that is declined now loses what it had before, which is nothing where it was scored
    with the worst value.

    Returns:
        Newly failed ones first, then by loss; equal ones by id.
    """
    before = {case.id: case for case in baseline.cases}
    found: list[CaseChange] = []
    for case in run.cases:
        earlier = before.get(case.id)
        if earlier is not None:
            changes = sorted(_changes(case, earlier, demands), key=_place)
            found += changes[:1]
    return tuple(sorted(found, key=_place))


def _changes(
    case: ScoredCase, earlier: ScoredCase, demands: Sequence[MetricDemand]
) -> Iterator[CaseChange]:
    for demand in demands:
        column = demand.column
        cell, old = case.scores.get(column.name), earlier.scores.get(column.name)
        if cell is None or old is None:
            continue
        loss = _loss(cell, old, demand) / (column.scale or 1.0)
        if not loss > 0 and not _newly_failed(cell, old):
            continue
        yield CaseChange(
            id=case.id,
            metric=column.name,
            before=old.value,
            after=cell.value,
            loss=loss,
            status=cell.status.value,
            reason=cell.reason,
            query=case.query,
        )


def _loss(cell: Cell, old: Cell, demand: MetricDemand) -> float:
    if old.value is None:
        return 0.0
    worst = demand.column.low if demand.higher_is_better else demand.column.high
    now = worst if cell.status is Status.ABSTAINED else cell.value
    if now is None:
        return 0.0
    return old.value - now if demand.higher_is_better else now - old.value


def _newly_failed(cell: Cell, old: Cell) -> bool:
    return cell.status is Status.FAILED and old.status is not Status.FAILED


def _place(change: CaseChange) -> tuple[bool, float, str, str]:
    return change.status != Status.FAILED, -change.loss, change.id, change.metric


def is_undecided(check: GateCheck) -> bool:
    """Whether it is a drop that statistics cannot decide, and not a lack of any cases."""
    is_open = check.outcome is GateOutcome.INCONCLUSIVE and check.drop is not None
    return is_open and check.kind is CheckKind.DROP


def notes_on(
    compared: Comparability,
    demands: Sequence[MetricDemand],
    checks: Sequence[GateCheck],
    config: GateConfig,
) -> Iterator[str]:
    """What a reader must know besides the checks."""
    yield from _no_longer_measured(compared, demands)
    open_drops = [c for c in checks if is_undecided(c) and not c.informational]
    if open_drops and config.undecided is Undecided.PASS:
        names = ", ".join(check.subject for check in open_drops)
        yield f"Could not be decided, and counts as passed (undecided: pass): {names}."
    unsettled = [
        check
        for check in checks
        if check.kind is CheckKind.SLICE and check.outcome is GateOutcome.INCONCLUSIVE
    ]
    if unsettled:
        yield (f"{len(unsettled):,} of the checks on slices cannot be decided; they do not count.")


def _no_longer_measured(compared: Comparability, demands: Sequence[MetricDemand]) -> Iterator[str]:
    """A system that declines what it used to get wrong has a better mean, and is not better."""
    run, baseline = compared.run, compared.baseline
    if run is None or baseline is None:
        return
    told: dict[str, list[str]] = {}
    for demand in demands:
        name = demand.column.name
        before = baseline.values(name)
        gone = [
            case.scores[name].status
            for case in run.cases
            if case.scores[name].value is None and before.get(case.id) is not None
        ]
        if gone:
            counts = [(gone.count(status), status.value) for status in Status]
            listed = ", ".join(f"{count:,} {word}" for count, word in counts if count)
            told.setdefault(f"{told_cases(len(gone))} ({listed})", []).append(name)
    for cases, names in told.items():
        yield (
            f"{', '.join(names)}: {cases} that the baseline measured are not measured now, so the "
            "comparison leaves them out. A gate on answer_rate judges newly declined answers."
        )


_ORDER = (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE, GateOutcome.PASSED)


def gate(
    run: RunScores,
    baseline: RunScores | None,
    config: GateConfig,
    *,
    only_common_cases: bool = False,
    notes: Sequence[str] = (),
) -> GateResult:
    """Judges a run.

    The verdict is *failed* when a check that counts failed; else *inconclusive* when the runs
    could not be compared as asked, or a check that counts is inconclusive; else *passed*. A drop
    that can neither be shown nor ruled out counts as ``config.undecided`` says. Slices are tested
    as a family of their own, and only a loss that is shown on one counts: most slices are too
    small to rule one out. Informational metrics never count.

    Args:
        run: the run that is judged.
        baseline: the run that it is held against; None: drops that are demanded are not judged,
            and the verdict is at best inconclusive.
        config: what is demanded.
        only_common_cases: where the datasets differ, compare the cases that are the same.
        notes: what the caller has to say of how the runs were found.

    Raises:
        ConfigError: what is demanded cannot be judged on this run.
    """
    demands = demands_of(run, baseline, config)
    compared = _compared(run, baseline, demands, config, only_common_cases)
    checks = [*_floors(run, demands, config), *_drops(compared, demands, config)]
    checks += [coverage_check(run, demands, config), *budget_checks(run, config)]
    checks.sort(key=lambda check: (check.informational, _ORDER.index(check.outcome)))
    outcome = _outcome(checks, compared.refusals, config.undecided)
    counted = tuple(d for d in demands if not d.gate.informational and d.drops)
    comparable = [demand for demand in counted if demand.column.name in compared.metrics]
    mine, other = compared.run, compared.baseline
    return GateResult(
        outcome=outcome,
        headline=headline(outcome, checks, compared.refusals, config.undecided),
        run=_judged(run),
        baseline=None if baseline is None else _judged(baseline),
        checks=tuple(checks),
        refusals=compared.refusals,
        notes=(*notes, *compared.notes, *notes_on(compared, comparable, checks, config)),
        lost=() if mine is None or other is None else lost_cases(mine, other, comparable),
        settings=_settings(config),
    )


def _compared(
    run: RunScores,
    baseline: RunScores | None,
    demands: Sequence[MetricDemand],
    config: GateConfig,
    only_common_cases: bool,
) -> Comparability:
    columns = [demand.column for demand in demands if demand.drops]
    if baseline is not None:
        return compare_inputs(run, baseline, columns, config, only_common_cases=only_common_cases)
    refusals: tuple[Refusal, ...] = ()
    if columns:
        names = ", ".join(column.name for column in columns[:3])
        names += f" and {len(columns) - 3} more" if len(columns) > 3 else ""
        refusal = Refusal(
            what="baseline",
            reason=f"there is no baseline, so drops of {names} cannot be judged",
            remedy="keep one with: ragbench baseline set RUN, and name it with --baseline",
        )
        refusals = (refusal,)
    return Comparability(run=None, baseline=None, metrics=frozenset(), refusals=refusals)


def _floors(
    run: RunScores, demands: Sequence[MetricDemand], config: GateConfig
) -> Iterator[GateCheck]:
    for demand in demands:
        yield from floor_checks(demand, demand.gate.limits, run.cases, config)
        for piece in demand.gate.slices:
            if piece.limits is not None:
                for name, cases in _members(run, piece):
                    yield from floor_checks(demand, piece.limits, cases, config, slice=name)


def _drops(
    compared: Comparability, demands: Sequence[MetricDemand], config: GateConfig
) -> Iterator[GateCheck]:
    """Four families: metrics and slices, those that count apart from informational ones."""
    run, baseline = compared.run, compared.baseline
    if run is None or baseline is None:
        return
    able = [demand for demand in demands if demand.column.name in compared.metrics]
    for informational in (False, True):
        chosen = [demand for demand in able if demand.gate.informational is informational]
        for family in (list(_whole(chosen)), list(_sliced(chosen, run))):
            if family:
                yield from drop_checks(family, run, baseline, config)


def _whole(demands: Sequence[MetricDemand]) -> Iterator[DropQuestion]:
    for demand in demands:
        if demand.gate.limits.max_drop is not None:
            yield DropQuestion(demand=demand, tolerance=demand.gate.limits.max_drop)


def _sliced(demands: Sequence[MetricDemand], run: RunScores) -> Iterator[DropQuestion]:
    for demand in demands:
        for piece in demand.gate.slices:
            limits = piece.limits or demand.gate.limits
            if limits.max_drop is not None:
                for name, cases in _members(run, piece):
                    ids = frozenset(case.id for case in cases)
                    yield DropQuestion(
                        demand=demand, tolerance=limits.max_drop, slice=name, ids=ids
                    )


def _members(run: RunScores, piece: SliceGate) -> Iterator[tuple[str, list[ScoredCase]]]:
    """The slices that are meant, with their cases; one that is named may have none."""
    values = [piece.value] if piece.value is not None else _occurring(run, piece.by)
    for value in values:
        yield f"{piece.by}:{value}", [case for case in run.cases if case.is_in(piece.by, value)]


def _occurring(run: RunScores, by: str) -> list[str]:
    if by == "tag":
        return sorted({tag for case in run.cases for tag in case.tags})
    return sorted({case.language for case in run.cases if case.language is not None})


def _outcome(
    checks: Sequence[GateCheck], refusals: Sequence[Refusal], undecided: Undecided
) -> GateOutcome:
    counted = [check for check in checks if not check.informational]
    if any(check.outcome is GateOutcome.FAILED for check in counted):
        return GateOutcome.FAILED
    if undecided is Undecided.FAIL and any(map(is_undecided, counted)):
        return GateOutcome.FAILED
    unsure = [
        check
        for check in counted
        if check.outcome is GateOutcome.INCONCLUSIVE
        and check.kind is not CheckKind.SLICE
        and not (undecided is Undecided.PASS and is_undecided(check))
    ]
    return GateOutcome.INCONCLUSIVE if unsure or refusals else GateOutcome.PASSED


def _judged(run: RunScores) -> JudgedRun:
    return JudgedRun(
        source=run.source,
        dataset=run.dataset,
        rag=run.rag,
        cases=len(run.cases),
        commit=run.commit,
        dirty=run.dirty,
    )


def _settings(config: GateConfig) -> dict[str, float | int | str | bool]:
    return {
        "alpha": config.alpha,
        "power": config.power,
        "confidence": config.confidence,
        "resamples": config.resamples,
        "seed": config.seed,
        "correction": config.correction.value,
        "cluster": config.cluster,
        "floors": config.floors.value,
        "undecided": config.undecided.value,
    }
