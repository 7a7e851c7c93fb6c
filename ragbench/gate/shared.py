"""Checks that lost on the same cases: several rows of a gate, and one thing to look for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ragbench.core.attribution import Cause
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, SharedLoss
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.run_scores import RunScores
from ragbench.gate.figures import ERROR_RATE, MEASURED

_MOSTLY = 0.8
"""From this share of its lost cases on, a check has lost them together with another one. Below 1,
because some cases are always lost by chance."""


def shared_loss(
    checks: Sequence[GateCheck], run: RunScores, baseline: RunScores
) -> SharedLoss | None:
    """The checks that lost hardly a case that one of them did not lose; None without such checks.

    A system that declines more loses right answers, answers and measured cases at once: three
    checks fail, and there is one thing to mend. None where each check lost cases of its own.

    Args:
        baseline: with the same cases in the same order.
    """
    # Without a check that failed or warns there is nothing to explain.
    if not any(_is_alarm(check) for check in checks):
        return None
    lost_by_subject: dict[str, set[int]] = {}
    for check in checks:
        if _is_against(check):
            lost = _lost_places(check, run, baseline)
            if lost:
                # A subject may have several checks: the first that lost counts.
                lost_by_subject.setdefault(check.subject, lost)
    # The check that lost the most cases first: others may have lost a part of them.
    largest_first = sorted(lost_by_subject.values(), key=len, reverse=True)
    for largest in largest_first:
        subjects: list[str] = []
        # Narrowed by each check, to the cases that all of them lost.
        common = largest
        for subject, lost in lost_by_subject.items():
            shared = lost & largest
            # A check with cases of its own is another thing to look for.
            if len(shared) >= _MOSTLY * len(lost):
                subjects.append(subject)
                common = common & lost
        # At least two, of which one may be the largest itself.
        if len(subjects) > 1 and common:
            cause, cases_of_cause = _main_cause(run, sorted(common))
            return SharedLoss(
                subjects=tuple(subjects),
                cases=len(common),
                cause=cause,
                cases_of_cause=cases_of_cause,
            )
    return None


def still_shared(shared: SharedLoss | None, checks: Iterable[GateCheck]) -> SharedLoss | None:
    """The shared loss of checks after some were decided otherwise, by people or by asking again.

    None where fewer than two of its checks are left: then there is nothing to share.
    """
    if shared is None:
        return None
    against = {check.subject for check in checks if _is_against(check)}
    subjects = tuple(subject for subject in shared.subjects if subject in against)
    if len(subjects) < 2:
        return None
    return replace(shared, subjects=subjects)


def _is_against(check: GateCheck) -> bool:
    """Whether a check speaks against the run: it failed over all cases, or saw too large a loss.

    The gate looks among such checks for a loss that they share: the same cases, lost by several
    metrics. A check that is open counts, since its loss may be a part of a loss that another check
    shows. Checks of slices are left out: they share their cases with the whole.
    """
    # Time, cost and cases that must pass lose no score of a case.
    if check.kind not in (CheckKind.FLOOR, CheckKind.DROP, CheckKind.COVERAGE):
        return False
    if _is_alarm(check):
        return True
    if check.drop is None or not check.is_open_drop:
        return False
    return check.drop.loss > check.drop.tolerance


def _is_alarm(check: GateCheck) -> bool:
    """Whether a check failed or warns, so that a reader has to look into it.

    Without an alarm there is no need to look for one common cause.
    """
    return check.outcome is GateOutcome.FAILED or check.is_warning


def _lost_places(check: GateCheck, run: RunScores, baseline: RunScores) -> set[int]:
    """The positions of the cases that a check's figure lost since the baseline.

    Two checks that lost the same cases have one cause; see `shared_loss`.

    Args:
        baseline: with the same cases in the same order.
    """
    if check.subject == ERROR_RATE:
        return _newly_failed(run, baseline)
    # A check of coverage is named after its metric.
    name = check.subject.removeprefix(MEASURED)
    column = run.column(name)
    # Without values on both sides no lost case can be named.
    if column is None or baseline.column(name) is None:
        return set()
    cells = run.cells(name)
    cells_before = baseline.cells(name)
    was_measured = cells_before.has(Status.MEASURED)
    if check.kind is CheckKind.COVERAGE:
        is_lost = was_measured & ~cells.has(Status.MEASURED)
    else:
        # A case that is declined now lost what it had, and so did one that failed.
        # NaN is lower than nothing: cases without a value count by their status.
        is_lower = run.graded(column) < column.sign * cells_before.values
        is_lost = was_measured & (is_lower | cells.has(Status.FAILED))
    (places,) = is_lost.nonzero()
    return set(places.tolist())


def _newly_failed(run: RunScores, baseline: RunScores) -> set[int]:
    """The positions of the cases of which a stage failed in this run, and none in the baseline.

    The check of the error rate counts these cases as lost.
    """
    stages_now: Sequence[dict[str, Status]] = run.table.fact("stages")
    stages_before: Sequence[dict[str, Status]] = baseline.table.fact("stages")
    newly_failed: set[int] = set()
    # Not strict: a baseline file does not say how the stages of its cases ended.
    for place, (now, before) in enumerate(zip(stages_now, stages_before, strict=False)):
        fails_now = Status.FAILED in now.values()
        failed_before = Status.FAILED in before.values()
        if fails_now and not failed_before:
            newly_failed.add(place)
    return newly_failed


def _main_cause(run: RunScores, places: Iterable[int]) -> tuple[Cause | None, int]:
    """The most frequent cause of some cases, and how many have it; None where no cause is known.

    A cause is why a case went wrong, such as that generation declined: it says what to mend.

    Args:
        places: positions of the cases in the run.
    """
    causes: Sequence[Cause | None] = run.table.fact("cause")
    # A run without attribution, such as a baseline file.
    if not causes:
        return None, 0
    counts: Counter[Cause] = Counter()
    for place in places:
        cause = causes[place]
        if cause is not None:
            counts[cause] += 1
    if not counts:
        return None, 0
    (most_frequent,) = counts.most_common(1)
    return most_frequent
