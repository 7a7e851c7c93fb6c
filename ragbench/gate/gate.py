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
from ragbench.gate.figures import outweighed_refusals, with_figures
from ragbench.gate.labels import labelled_checks, opinions, split_labelled
from ragbench.gate.shared import shared_loss, still_shared
from ragbench.plugins import np
from ragbench.safe_text import as_line, counted


def lost_cases(
    run: RunScores, baseline: RunScores, columns: Iterable[MetricColumn]
) -> tuple[CaseChange, ...]:
    """The cases that lost on any of the metrics, each with the metric on which it lost most.

    A report lists them, worst first, so that a user sees which questions to look at. A case that is
    declined now loses what it had before, which is nothing where it had the worst value.

    Args:
        baseline: with the same cases in the same order.
    """
    # By name, so that the order of the run's metrics decides no tie.
    columns_by_name = sorted(columns, key=lambda column: column.name)
    size = len(run.cases)
    # Of each case the metric that is worst for it so far: its place among the columns (-1: none),
    # how much the case lost on it, and whether it failed.
    worst = np.full(size, -1)
    largest_loss = np.zeros(size)
    is_failed = np.zeros(size, bool)
    for position, column in enumerate(columns_by_name):
        cells = run.cells(column.name)
        cells_before = baseline.cells(column.name)
        # A metric without a cell in one of the runs says nothing of the case.
        in_both = (cells.states != 0) & (cells_before.states != 0)
        fails = in_both & cells.has(Status.FAILED) & ~cells_before.has(Status.FAILED)
        # Turned so that a loss is above 0, whichever side of the metric is better.
        difference = column.sign * cells_before.values - run.graded(column)
        # NaN, where a value is missing, counts as no loss; losses as shares of the scale compare.
        loss = np.nan_to_num(difference) / (column.scale or 1.0)
        # To fail is worse than to lose; of two metrics that fail, or that do not, the larger loss.
        is_larger = (worst < 0) | (loss > largest_loss)
        # The comparison of booleans: fails now, and the worst so far did not.
        is_worse = (fails > is_failed) | ((fails == is_failed) & is_larger)
        is_worse &= (in_both & (loss > 0.0)) | fails
        worst[is_worse] = position
        largest_loss[is_worse] = loss[is_worse]
        is_failed[is_worse] = fails[is_worse]

    places = np.flatnonzero(worst >= 0).tolist()
    changes: list[CaseChange] = []
    # Not strict: a baseline file gives empty texts without end.
    for place, text in zip(places, run.table.texts_of(places), strict=False):
        metric = columns_by_name[int(worst[place])].name
        cell = run.cells(metric).cell(place)
        changes.append(
            CaseChange(
                id=run.table.ids[place],
                metric=metric,
                before=baseline.cells(metric).cell(place).value,
                after=cell.value,
                loss=float(largest_loss[place]),
                status=cell.status.value,
                reason=cell.reason,
                query=text.query,
            )
        )
    # Failures first, then the largest loss; the id decides a tie.
    changes.sort(key=lambda change: (change.status != Status.FAILED, -change.loss, change.id))
    return tuple(changes)


def notes_on(checks: Sequence[GateCheck], config: GateConfig) -> Iterator[str]:
    """Notes that a reader needs besides the checks: what passed without being shown, and by whom.

    A judge's opinion without labels of people is named, since it proves nothing.
    """
    has_failed = any(check.outcome is GateOutcome.FAILED for check in checks)
    is_open = any(check.may_pass for check in checks)
    # The note is of the daily gate, in which open drops pass.
    if is_open and not has_failed and config.undecided is Undecided.PASS:
        yield words.UNDECIDED_NOTE
    opinions_alone = sorted({check.subject for check in checks if check.is_opinion})
    if opinions_alone:
        yield (
            f"{', '.join(opinions_alone)}: judge's opinion, unproved. Labels of people on both "
            "sides (--labels) decide instead."
        )
    # Slices with too few cases.
    unsettled = sum(check.is_small_slice for check in checks)
    if unsettled:
        yield f"{unsettled:,} of the checks on slices cannot be decided; they do not count."


def with_settled(
    verdict: GateResult, settled: Mapping[str, Settled], config: GateConfig
) -> GateResult:
    """The result of a gate once its open checks were decided by asking both systems again.

    Asking each case several times finds losses that one answer to each could not show.

    Args:
        settled: by the subject of a check, what asking again said.
    """
    checks: list[GateCheck] = []
    for check in verdict.checks:
        if check.can_settle and check.subject in settled:
            check = _with_settled(check, settled[check.subject], config)
        checks.append(check)
    return with_checks(verdict, checks, config)


def with_checks(verdict: GateResult, checks: Sequence[GateCheck], config: GateConfig) -> GateResult:
    """The result of a gate with other outcomes of its checks, and all that follows from them.

    The verdict, the headline and the notes must agree with the checks, so they are made anew.
    """
    checks = sorted(checks, key=_rank_of_check)
    # A refusal stays: asking again makes no runs comparable.
    outcome = _verdict_of_checks(checks, verdict.refusals, config.undecided)
    # Notes on the checks as they were may not hold any more: they are made anew.
    old_notes = set(notes_on(verdict.checks, config))
    notes = [note for note in verdict.notes if note not in old_notes]
    # What was asked again is named beside the checks.
    for check in checks:
        rerun_text = words.again_text(check)
        if rerun_text:
            notes.append(f"{check.name} was {rerun_text}.")
    notes += notes_on(checks, config)
    return replace(
        verdict,
        outcome=outcome,
        # None: the command that asks again has just been used.
        headline=words.headline(outcome, checks, verdict.refusals, None),
        checks=tuple(checks),
        notes=tuple(notes),
        shared=still_shared(verdict.shared, checks),
    )


def _with_settled(check: GateCheck, settled: Settled, config: GateConfig) -> GateCheck:
    """A check with the outcome that asking both systems again gave it, if it gave any.

    Where asking again showed neither a loss nor its absence, the outcome stays.
    """
    outcome = check.outcome
    ground = check.ground
    if settled.change == "worse":
        outcome = GateOutcome.FAILED
        ground = Ground.SETTLED_WORSE
    elif settled.change == "not worse":
        outcome = GateOutcome.PASSED
        ground = Ground.SETTLED_NOT_WORSE
    check = replace(check, outcome=outcome, ground=ground, settled=settled)
    return words.worded(check, least=config.min_cases)


def _rank_of_check(check: GateCheck) -> tuple[int, bool]:
    """The place of a check in a report: failed checks first, in the order of `_ORDER`.

    Of equal outcomes, the checks that keep the gate from passing come before those that may pass.

    A reader sees first what to act on.
    """
    return _ORDER.index(check.outcome), check.may_pass


_ORDER = (
    GateOutcome.FAILED,
    GateOutcome.INCONCLUSIVE,
    GateOutcome.PASSED,
    GateOutcome.NOT_JUDGED,
)
"""Outcomes in the order of a report: what a reader must act on comes first."""


def gate(
    run: RunScores, baseline: RunScores | None, config: GateConfig, *, notes: Sequence[str] = ()
) -> GateResult:
    """Judges a run: all checks of its metrics, its costs and its losses, in one result.

    The verdict is *failed* when a check that counts failed; else *inconclusive* when the runs could
    not be compared as asked, or a check that counts is inconclusive; else *passed*. A drop that can
    neither be shown nor ruled out counts as ``config.undecided`` says. Of slices, and of how many
    cases are measured at all, only a loss that is shown counts.

    Args:
        baseline: None where only limits are demanded.
        notes: further notes of the caller, which come first in the result.
    """
    # Before the demands: they may be on these figures.
    run, baseline = with_figures(run, baseline)
    demands = demands_of(run, baseline, config)
    # A dict for its order, each metric once.
    dropping = dict.fromkeys(demand.column for demand in demands if demand.drops)
    compared = _comparison_with_baseline(run, baseline, [*dropping])
    judged = [*_checks_of_run(run, baseline, demands, compared, config)]
    checks = sorted(outweighed_refusals(judged), key=_rank_of_check)
    outcome = _verdict_of_checks(checks, compared.refusals, config.undecided)
    # A gate that failed has its verdict, whatever else could not be judged.
    if outcome is not GateOutcome.FAILED and config.metrics:
        _refuse_unjudgeable(checks)
    # Proposed in the headline where a check is open.
    command = _settle_command(run, baseline, config)
    text = words.headline(outcome, checks, compared.refusals, command)
    # A failed gate has its reason; ways on would distract.
    if outcome is not GateOutcome.FAILED:
        text += words.labels_way(checks) + dataset_text(compared.dataset)
    system = None if baseline is None else system_change(baseline, run)
    if system is not None and system.is_none and compared.refusals:
        system = None  # that nothing differs, and yet they do not compare, says nothing
    lost, pair = _lost_cases_and_pair(compared, dropping)
    shared = None
    if compared.comparable_runs is not None:
        shared = shared_loss(checks, *compared.comparable_runs)
    all_notes = [*notes, *compared.notes]
    clusters = clusters_note(run.clusters)
    if clusters:
        all_notes.append(clusters)
    all_notes += dearer_notes(run, baseline)
    all_notes += notes_on(checks, config)
    return GateResult(
        outcome=outcome,
        headline=text,
        run=_judged_run(run),
        baseline=None if baseline is None else _judged_run(baseline),
        checks=tuple(checks),
        system=system,
        refusals=compared.refusals,
        dataset=compared.dataset,
        notes=tuple(all_notes),
        lost_cases=lost,
        shared=shared,
        pair=pair,
        # What the verdict depends on beside the checks.
        settings={"alpha": config.alpha, "undecided": config.undecided.value},
    )


def _lost_cases_and_pair(
    compared: Comparability, dropping: Iterable[MetricColumn]
) -> tuple[tuple[CaseChange, ...], RunPair | None]:
    """The cases that lost, and how many cases pass in only one of the run and its baseline.

    The lost cases explain checks of drops, so they are those of the metrics that are checked for
    one. The pair says how far the two systems differ at all, so it is of all main metrics that both
    runs measured.

    Args:
        dropping: the metrics of which a drop is judged.

    Returns:
        No case, and None for the pair, where the two runs cannot be compared.
    """
    if compared.comparable_runs is None:
        return (), None
    run, baseline = compared.comparable_runs
    comparable = [column for column in dropping if column.name in compared.metrics]
    lost = lost_cases(run, baseline, comparable)
    # Of metrics that both measured by the same formula.
    main = main_metrics([column for column in run.metrics if baseline.measures(column)])
    return lost, run_pair(baseline, run, SIDES, main)


def _checks_of_run(
    run: RunScores,
    baseline: RunScores | None,
    demands: Sequence[Demand],
    compared: Comparability,
    config: GateConfig,
) -> Iterator[GateCheck]:
    """All checks of a run: limits, drops of metrics and slices, coverage, drift and cost.

    The order of the checks does not matter here: a report sorts them.

    Args:
        demands: what the configuration demands of each metric.
        compared: what of the run and its baseline can be compared.
    """
    yield from floor_checks(run, compared.comparable_runs, demands, config)
    if compared.comparable_runs is not None:
        common_run, earlier = compared.comparable_runs
        # Demands on metrics that do not compare are among the refusals.
        comparable = [demand for demand in demands if demand.column.name in compared.metrics]
        yield from _drop_checks_of_run(comparable, common_run, earlier, config)
        names_held = {demand.column.name for demand in demands if demand.drops}
        other_columns: list[MetricColumn] = []
        for column in comparable_columns(common_run, earlier):
            if column.name not in names_held and earlier.measures(column):
                other_columns.append(column)
        yield from shown_checks(other_columns, common_run, earlier)
        yield from drift_checks(common_run, earlier, config)
    yield coverage_check(run, compared.comparable_runs, demands, config)
    # Without common cases the baseline knows nothing of a case that must pass.
    comparable_baseline = baseline if compared.comparable_runs else None
    yield from must_pass_check(run, comparable_baseline, config.must_pass)
    yield from budget_checks(run, baseline, config)
    if baseline is not None and compared.comparable_runs is not None:
        yield common_check(len(compared.comparable_runs[0].cases), baseline, config)


def _drop_checks_of_run(
    demands: Sequence[Demand], run: RunScores, baseline: RunScores, config: GateConfig
) -> Iterator[GateCheck]:
    """The checks of whether metrics and slices fell, and of whether fewer cases are measured.

    Labels of people decide where both runs have some; else a test of the metric's own values does.
    """
    questions = list(drop_questions(demands, run, baseline))
    by_people, unlabelled = split_labelled(questions, run, baseline)
    # Equal questions are merged after labels are split off: a label is of one metric.
    by_test = list(one_row_each(unlabelled))
    columns_held = dict.fromkeys(demand.column for demand in demands if demand.drops)
    by_test += coverage_questions(columns_held, run, baseline, config.max_unmeasured)
    # Labels of people and the test of drops share the level of the gate, by their questions.
    family = len(by_people) + len(by_test)
    part = 1.0
    if by_people:
        # In proportion to the number of questions.
        part = len(by_test) / family
    judged = drop_checks(by_test, config, part=part)
    yield from labelled_checks(by_people, run, baseline, config, family)
    yield from opinions(judged, by_test, run, baseline, config)


PER_CASE = 10
"""How often --rerun-inconclusive asks about a case on average, where nobody says otherwise."""


def _settle_command(run: RunScores, baseline: RunScores | None, config: GateConfig) -> str | None:
    """The command that asks both systems again to settle open checks, with its price.

    None where a system cannot be asked: without a baseline, or where answers are recorded.
    """
    if baseline is None:
        return None
    # Recorded answers come from no system; of an old baseline it is not known, and may be tried.
    # `None` is not known; an empty tuple is a baseline of recorded answers.
    if not run.origins or baseline.origins == ():
        return None
    questions = PER_CASE * len(run.cases)
    price = f"at most {counted(questions, 'question')} to each of the two"
    # Twice, because both systems are asked; the baseline's is taken to be as fast as the run's.
    # Stages of one case come one after the other.
    seconds_per_question = sum(latency.mean for latency in run.latencies)
    seconds = 2.0 * questions * seconds_per_question
    if seconds:
        minutes = max(1, round(seconds / 60))
        price += f", about {minutes:,} min at the run's pace"
    command = f"ragbench gate {quote(run.source)} --baseline {quote(baseline.source)}"
    # Limits of the configuration alone: the command must judge as this gate did.
    for name, demand in config.metrics.items():
        limit = demand.limits.max_drop
        if limit is not None:
            option = quote(f"{name}={limit:g}")
            command += f" --max-drop {option}"
    return f"{command} --rerun-inconclusive ({price})"


def _comparison_with_baseline(
    run: RunScores, baseline: RunScores | None, columns: Sequence[MetricColumn]
) -> Comparability:
    """The comparison of a run with its baseline: the cases and metrics that compare, and refusals.

    Without a baseline nothing compares, which is refused where drops were to be judged: a gate must
    not pass because it had nothing to compare with.

    Args:
        columns: the metrics of which a drop is to be judged.
    """
    if baseline is not None:
        return compare_inputs(run, baseline, columns)
    if not columns:  # limits alone need no baseline
        return Comparability(comparable_runs=None, metrics=frozenset(), refusals=())
    names = as_line([column.name for column in columns], 3)
    refusal = Refusal(
        what="baseline",
        reason=f"there is no baseline, so drops of {names} cannot be judged",
        remedy="keep one with: ragbench baseline set RUN, and name it with --baseline",
    )
    return Comparability(comparable_runs=None, metrics=frozenset(), refusals=(refusal,))


def bearing(check: GateCheck, undecided: Undecided) -> GateOutcome:
    """The outcome of a check as the verdict counts it: a check that does not count passes.

    The pytest plugin ends each check's test by this outcome, so that its tests and the verdict
    agree.
    """
    if check.is_small_slice:
        return GateOutcome.PASSED
    if undecided is Undecided.PASS and check.may_pass:
        return GateOutcome.PASSED
    # An open drop and a figure near its limit: more cases or asks can settle either of them.
    is_open = check.is_open_drop or check.is_near_limit
    if undecided is Undecided.FAIL and is_open:
        return GateOutcome.FAILED
    return check.outcome


def _verdict_of_checks(
    checks: Sequence[GateCheck], refusals: Sequence[Refusal], undecided: Undecided
) -> GateOutcome:
    """The verdict of a gate: failed by one failed check, else inconclusive by an open one.

    A refusal to compare counts as an open check.
    """
    outcomes = {bearing(check, undecided) for check in checks}
    if GateOutcome.FAILED in outcomes:
        return GateOutcome.FAILED
    if GateOutcome.INCONCLUSIVE in outcomes or refusals:
        return GateOutcome.INCONCLUSIVE
    return GateOutcome.PASSED


def _refuse_unjudgeable(checks: Sequence[GateCheck]) -> None:
    """Refuses a gate that could never judge a loss of a metric that the user named.

    On so few cases neither a test nor the size of the loss can show it: the user would wait for a
    verdict that cannot come.
    """
    problems: list[str] = []
    for check in checks:
        drop = check.drop
        is_judged = check.kind is CheckKind.DROP and check.outcome is not GateOutcome.NOT_JUDGED
        # With as many documents, a loss of everything fails; see `LEAST`.
        if not is_judged or drop is None or drop.clusters >= LEAST:
            continue
        if drop.loss > drop.tolerance:
            problems.append(
                f"{check.name}: {check.summary}, on {words.independent(drop)}: a max_drop needs "
                f"{LEAST} to be judged at all, and 6 for a test. Add cases about other documents, "
                "or demand min"
            )
    if problems:
        raise ConfigError("\n".join(problems))


def _judged_run(run: RunScores) -> JudgedRun:
    """The heading of a run in a gate's result: source, system, commit, date and size.

    A report names so which runs its verdict is of.
    """
    return JudgedRun(
        source=run.source,
        dataset=run.dataset,
        rag=run.rag,
        cases=len(run.cases),
        commit=run.commit,
        dirty=run.dirty,
        date=run.date,
        # A baseline of several runs is their mean; a run's folder counts as one.
        runs=max(1, len(run.made_of)),
    )
