"""gate(): a run, its baseline and a configuration to one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.comparable import Comparison, compare_inputs
from ragbench.gate.config import GateConfig, SliceGate, Undecided
from ragbench.gate.coverage import budget_checks, coverage_check
from ragbench.gate.demands import Demand, demands_of
from ragbench.gate.drops import DropQuestion, drop_checks
from ragbench.gate.floors import floor_checks
from ragbench.gate.headline import headline
from ragbench.gate.lost_cases import lost_cases
from ragbench.gate.notes import is_undecided, notes_on
from ragbench.records.run_scores import RunScores, ScoredCase
from ragbench.records.verdicts import (
    Check,
    CheckKind,
    GateOutcome,
    JudgedRun,
    Refusal,
    Verdict,
)

__all__ = ["gate"]

_ORDER = (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE, GateOutcome.PASSED)


def gate(
    run: RunScores,
    baseline: RunScores | None,
    config: GateConfig,
    *,
    only_common_cases: bool = False,
    notes: Sequence[str] = (),
) -> Verdict:
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
    return Verdict(
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
    demands: Sequence[Demand],
    config: GateConfig,
    only_common_cases: bool,
) -> Comparison:
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
    return Comparison(run=None, baseline=None, metrics=frozenset(), refusals=refusals)


def _floors(run: RunScores, demands: Sequence[Demand], config: GateConfig) -> Iterator[Check]:
    for demand in demands:
        yield from floor_checks(demand, demand.gate.limits, run.cases, config)
        for piece in demand.gate.slices:
            if piece.limits is not None:
                for name, cases in _members(run, piece):
                    yield from floor_checks(demand, piece.limits, cases, config, slice=name)


def _drops(compared: Comparison, demands: Sequence[Demand], config: GateConfig) -> Iterator[Check]:
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


def _whole(demands: Sequence[Demand]) -> Iterator[DropQuestion]:
    for demand in demands:
        if demand.gate.limits.max_drop is not None:
            yield DropQuestion(demand=demand, tolerance=demand.gate.limits.max_drop)


def _sliced(demands: Sequence[Demand], run: RunScores) -> Iterator[DropQuestion]:
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
    checks: Sequence[Check], refusals: Sequence[Refusal], undecided: Undecided
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
