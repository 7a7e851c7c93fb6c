"""A run, its baseline, a configuration to one result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote

from ragbench.core.case_table import clusters_note
from ragbench.core.comparison import RunPair
from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    Ground,
    JudgedRun,
    Refusal,
    Settled,
)
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate import words
from ragbench.gate.cases import SIDES, main_metrics, run_pair
from ragbench.gate.checks import (
    budget_checks,
    common_check,
    coverage_check,
    dearer_notes,
    floor_checks,
    must_pass_check,
)
from ragbench.gate.comparable import Comparability, compare_inputs, dataset_text, system_change
from ragbench.gate.config import GateConfig, Undecided
from ragbench.gate.demands import Demand, comparable_columns, demands_of
from ragbench.gate.drift import drift_checks
from ragbench.gate.drops import (
    LEAST,
    coverage_questions,
    drop_checks,
    drop_questions,
    one_row_each,
    shown_checks,
)
from ragbench.gate.figures import with_figures
from ragbench.gate.labels import labelled_checks, opinions, split_labelled
from ragbench.plugins import np
from ragbench.safe_text import as_line


def lost_cases(
    run: RunScores, baseline: RunScores, columns: Iterable[MetricColumn]
) -> tuple[CaseChange, ...]:
    """The cases that lost on one of the metrics, each with the metric on which it lost most.

    A case that is declined now loses what it had before, which is nothing where it was scored
    with the worst value.

    Args:
        baseline: with the same cases in the same order.
    """
    named = sorted(columns, key=lambda column: column.name)
    size = len(run.cases)
    metric, most, broken = np.full(size, -1), np.zeros(size), np.zeros(size, bool)
    for at, column in enumerate(named):
        cells, old = run.cells(column.name), baseline.cells(column.name)
        there = (cells.states != 0) & (old.states != 0)
        failed = there & cells.has(Status.FAILED) & ~old.has(Status.FAILED)
        loss = np.nan_to_num(column.sign * old.values - run.graded(column)) / (column.scale or 1.0)
        is_worse = (failed > broken) | ((failed == broken) & ((metric < 0) | (loss > most)))
        is_worse &= (there & (loss > 0.0)) | failed
        metric[is_worse], most[is_worse], broken[is_worse] = at, loss[is_worse], failed[is_worse]
    places = np.flatnonzero(metric >= 0).tolist()
    found: list[CaseChange] = []
    for place, text in zip(places, run.table.texts_of(places), strict=False):
        name = named[int(metric[place])].name
        before, now = (one.cells(name).cell(place) for one in (baseline, run))
        found.append(
            CaseChange(
                id=run.table.ids[place], metric=name, before=before.value, after=now.value,
                loss=float(most[place]), status=now.status.value, reason=now.reason,
                query=text.query,
            )
        )  # fmt: skip
    order = sorted(found, key=lambda one: (one.status != Status.FAILED, -one.loss, one.id))
    return tuple(order)


def notes_on(checks: Sequence[GateCheck], config: GateConfig) -> Iterator[str]:
    """What a reader must know besides the checks."""
    has_failed = any(check.outcome is GateOutcome.FAILED for check in checks)
    is_open = any(check.may_pass for check in checks)
    if is_open and not has_failed and config.undecided is Undecided.PASS:
        yield words.UNDECIDED_NOTE
    if alone := sorted({check.subject for check in checks if check.is_opinion}):
        yield (
            f"{', '.join(alone)}: judge's opinion, unproved. Labels of people on both sides "
            "(--labels) decide instead."
        )
    if unsettled := sum(check.is_small_slice for check in checks):
        yield f"{unsettled:,} of the checks on slices cannot be decided; they do not count."


def with_settled(
    verdict: GateResult, settled: Mapping[str, Settled], config: GateConfig
) -> GateResult:
    """The result with what asking both systems again said of its open checks."""
    checks = [
        _settled(check, settled[check.subject], config)
        if check.can_settle and check.subject in settled
        else check
        for check in verdict.checks
    ]
    return with_checks(verdict, checks, config)


def with_checks(verdict: GateResult, checks: Sequence[GateCheck], config: GateConfig) -> GateResult:
    """The result with other outcomes of its checks."""
    checks = sorted(checks, key=_rank)
    outcome = _outcome(checks, verdict.refusals, config.undecided)
    old = set(notes_on(verdict.checks, config))
    kept = [note for note in verdict.notes if note not in old]
    kept += [f"{check.name} was {text}." for check in checks if (text := words.again_text(check))]
    return replace(
        verdict,
        outcome=outcome,
        headline=words.headline(outcome, checks, verdict.refusals, None),
        checks=tuple(checks),
        notes=(*kept, *notes_on(checks, config)),
    )


def _settled(check: GateCheck, settled: Settled, config: GateConfig) -> GateCheck:
    outcome, ground = {
        "worse": (GateOutcome.FAILED, Ground.SETTLED_WORSE),
        "not worse": (GateOutcome.PASSED, Ground.SETTLED_NOT_WORSE),
    }.get(settled.change, (check.outcome, check.ground))
    found = replace(check, outcome=outcome, ground=ground, settled=settled)
    return words.worded(found, least=config.min_cases)


def _rank(check: GateCheck) -> tuple[int, bool]:
    """What is open stands behind what keeps the gate from passing."""
    return _ORDER.index(check.outcome), check.may_pass


_ORDER = (
    GateOutcome.FAILED,
    GateOutcome.INCONCLUSIVE,
    GateOutcome.PASSED,
    GateOutcome.NOT_JUDGED,
)


def gate(
    run: RunScores, baseline: RunScores | None, config: GateConfig, *, notes: Sequence[str] = ()
) -> GateResult:
    """Judges a run.

    The verdict is *failed* when a check that counts failed; else *inconclusive* when the runs
    could not be compared as asked, or a check that counts is inconclusive; else *passed*. A drop
    that can neither be shown nor ruled out counts as ``config.undecided`` says. Of slices, and of
    how many cases are measured at all, only a loss that is shown counts.
    """
    run, baseline = with_figures(run, baseline)
    demands = demands_of(run, baseline, config)
    dropping = dict.fromkeys(demand.column for demand in demands if demand.drops)
    compared = _compared(run, baseline, [*dropping])
    checks = sorted(_checks(run, baseline, demands, compared, config), key=_rank)
    outcome = _outcome(checks, compared.refusals, config.undecided)
    if outcome is not GateOutcome.FAILED and config.metrics:
        _refuse_unjudgeable(checks)
    text = words.headline(outcome, checks, compared.refusals, _way_on(run, baseline, config))
    if outcome is not GateOutcome.FAILED:
        text += words.labels_way(checks) + dataset_text(compared.dataset)
    system = None if baseline is None else system_change(baseline, run)
    if system is not None and system.is_none and compared.refusals:
        system = None  # that nothing differs, and yet they do not compare, says nothing
    lost, pair = _cases(compared, dropping)
    return GateResult(
        outcome=outcome,
        headline=text,
        run=_judged(run),
        baseline=None if baseline is None else _judged(baseline),
        checks=tuple(checks),
        system=system,
        refusals=compared.refusals,
        dataset=compared.dataset,
        notes=(
            *notes,
            *compared.notes,
            *filter(None, [clusters_note(run.clusters)]),
            *dearer_notes(run, baseline),
            *notes_on(checks, config),
        ),
        lost_cases=lost,
        pair=pair,
        settings={"alpha": config.alpha, "undecided": config.undecided.value},
    )


def _cases(
    compared: Comparability, dropping: Iterable[MetricColumn]
) -> tuple[tuple[CaseChange, ...], RunPair | None]:
    """Those that lost on one of the metrics, and how many went another way."""
    if compared.both is None:
        return (), None
    run, baseline = compared.both
    lost = lost_cases(run, baseline, (c for c in dropping if c.name in compared.metrics))
    main = main_metrics([*filter(baseline.measures, run.metrics)])
    return lost, run_pair(baseline, run, SIDES, main)


def _checks(
    run: RunScores,
    baseline: RunScores | None,
    demands: Sequence[Demand],
    compared: Comparability,
    config: GateConfig,
) -> Iterator[GateCheck]:
    """Limits, drops of metrics and slices, how much is measured, and main's drift."""
    yield from floor_checks(run, compared.both, demands, config)
    if compared.both is not None:
        mine, other = compared.both
        able = [demand for demand in demands if demand.column.name in compared.metrics]
        yield from _drops(able, mine, other, config)
        held = {demand.column.name for demand in demands if demand.drops}
        rest = [c for c in comparable_columns(mine, other) if c.name not in held]
        yield from shown_checks(filter(other.measures, rest), mine, other)
        yield from drift_checks(mine, other, config)
    yield coverage_check(run, compared.both, demands, config)
    yield from must_pass_check(run, baseline if compared.both else None, config.must_pass)
    yield from budget_checks(run, baseline, config)
    if baseline is not None and compared.both is not None:
        yield common_check(len(compared.both[0].cases), baseline, config)


def _drops(
    demands: Sequence[Demand], run: RunScores, baseline: RunScores, config: GateConfig
) -> Iterator[GateCheck]:
    """The metrics and their slices, by people where they labelled both sides."""
    people, rest = split_labelled([*drop_questions(demands, run, baseline)], run, baseline)
    rest = [*one_row_each(rest)]
    held = dict.fromkeys(demand.column for demand in demands if demand.drops)
    rest += coverage_questions(held, run, baseline, config.max_unmeasured)
    family = len(people) + len(rest)
    judged = drop_checks(rest, config, part=len(rest) / family if people else 1.0)
    yield from labelled_checks(people, run, baseline, config, family)
    yield from opinions(judged, rest, run, baseline, config)


PER_CASE = 10
"""How often --rerun-inconclusive asks about a case on average, where nobody says otherwise."""


def _way_on(run: RunScores, baseline: RunScores | None, config: GateConfig) -> str | None:
    """The command that settles what is open, with its price; None where nobody can be asked."""
    if baseline is None or not run.origins or baseline.origins == ():  # recorded answers
        return None
    most = PER_CASE * len(run.cases)
    seconds = 2.0 * most * sum(latency.mean for latency in run.latencies)
    time = f", about {max(1, round(seconds / 60)):,} min at the run's pace" if seconds else ""
    command = f"ragbench gate {quote(run.source)} --baseline {quote(baseline.source)}"
    for name, demand in config.metrics.items():
        if (limit := demand.limits.max_drop) is not None:
            command += f" --max-drop {quote(f'{name}={limit:g}')}"
    return f"{command} --rerun-inconclusive (at most {most:,} questions to each of the two{time})"


def _compared(
    run: RunScores, baseline: RunScores | None, columns: Sequence[MetricColumn]
) -> Comparability:
    if baseline is not None:
        return compare_inputs(run, baseline, columns)
    names = as_line([column.name for column in columns], 3)
    refusal = Refusal(
        what="baseline",
        reason=f"there is no baseline, so drops of {names} cannot be judged",
        remedy="keep one with: ragbench baseline set RUN, and name it with --baseline",
    )
    return Comparability(both=None, metrics=frozenset(), refusals=(refusal,) if columns else ())


def bearing(check: GateCheck, undecided: Undecided) -> GateOutcome:
    """How a check bears on the verdict: what does not count passes."""
    if check.is_small_slice or (undecided is Undecided.PASS and check.may_pass):
        return GateOutcome.PASSED
    is_open = check.is_open_drop or check.is_near_limit
    is_lost = undecided is Undecided.FAIL and is_open
    return GateOutcome.FAILED if is_lost else check.outcome


def _outcome(
    checks: Sequence[GateCheck], refusals: Sequence[Refusal], undecided: Undecided
) -> GateOutcome:
    found = {bearing(check, undecided) for check in checks}
    if GateOutcome.FAILED in found:
        return GateOutcome.FAILED
    is_open = GateOutcome.INCONCLUSIVE in found or refusals
    return GateOutcome.INCONCLUSIVE if is_open else GateOutcome.PASSED


def _refuse_unjudgeable(checks: Sequence[GateCheck]) -> None:
    """A loss of a named metric on so few cases that neither a test nor its size can ever tell."""
    lost = [
        f"{check.name}: {check.summary}, on {words.independent(drop)}: a max_drop needs {LEAST} to "
        "be judged at all, and 5 for a test. Add cases about other documents, or demand min"
        for check in checks
        if check.kind is CheckKind.DROP
        and check.outcome is not GateOutcome.NOT_JUDGED
        and (drop := check.drop) is not None
        and drop.clusters < LEAST
        and drop.loss > drop.tolerance
    ]
    if lost:
        raise ConfigError("\n".join(lost))


def _judged(run: RunScores) -> JudgedRun:
    return JudgedRun(**run.facts, date=run.date, runs=max(1, len(run.made_of)))
