"""Unstable cases: those whose verdict changes though the system does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ragbench.core.gate_result import (
    Flakiness,
    UnstableCase,
    UnstableSubject,
)
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import CaseRule, main_metrics
from ragbench.gate.compare import common_cases
from ragbench.gate.system_change import doubt_text, system_change
from ragbench.stats.mean import mean_interval, proportion_interval

_SYSTEM = ("rag", "settings")
"""Parts of a manifest that runs of one system share."""
_CONFIDENCE = 0.95
_SHOWN = 5
"""How many changes of a system are named."""

Verdicts = Mapping[str, bool]


def flakiness(
    runs: Sequence[RunScores],
    *,
    main: Sequence[str] | None = None,
    threshold: float = 0.5,
    only_common_cases: bool = False,
) -> Flakiness:
    """Finds the cases that pass in some runs and fail in others, though nothing was changed.

    A case flips between two runs when a stage or a main metric passes in one of them and fails in
    the other. The share of flips of a case is that of all pairs of runs; its mean over the cases,
    with an interval that is aware of clusters, is what two runs of the unchanged system differ by.

    Args:
        threshold: share of a main metric's scale from which on a case passes.
    """
    if len(runs) < 2:
        raise ConfigError(f"{len(runs)} runs: instability shows in two or more")
    shared, doubts = same_system(runs)
    cut, note = common_cases(runs, only_common_cases=only_common_cases)
    rule = CaseRule(main=main_metrics(_in_all(cut), main), threshold=threshold)
    others = [{case.id: case for case in run.cases} for run in cut]
    found: list[UnstableCase] = []
    flips: list[float] = []
    for case in cut[0].cases:
        same = [cases[case.id] for cases in others]
        verdicts = [dict(rule.verdicts(one)) for one in same]
        share = _share_of_flips(verdicts)
        flips.append(share)
        if share:
            found.append(_unstable(same, verdicts, share, rule))
    rate = mean_interval(
        flips, [case.cluster for case in cut[0].cases], _CONFIDENCE, bounds=(0.0, 1.0)
    )
    has_ends = rate.low is not None and rate.high is not None
    return Flakiness(
        dataset=cut[0].dataset,
        rag=cut[0].rag,
        sources=tuple(run.source for run in cut),
        fingerprints=shared,
        cases=len(cut[0].cases),
        main=tuple(column.name for column in rule.main),
        threshold=threshold,
        flip_rate=rate.mean or 0.0,
        flip_interval=Interval(low=rate.low or 0.0, high=rate.high or 0.0, level=_CONFIDENCE)
        if has_ends
        else None,
        unstable=tuple(sorted(found, key=lambda case: (-case.flips, case.id))),
        notes=(*([note] if note else []), *doubts),
    )


def same_system(runs: Sequence[RunScores]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What the runs of one system share: the fingerprints of its code and of its settings."""
    sources = ", ".join(run.source for run in runs)
    doubts: dict[str, None] = {}
    for run in runs[1:]:
        found = system_change(runs[0], run)
        if found.changes:
            raise _not_one_system(sources, "; ".join(found.changes[:_SHOWN]))
        doubts |= dict.fromkeys(doubt_text(found))
    for part in _SYSTEM:
        known = {run.fingerprints.get(part) for run in runs}
        if len(known) > 1 or None in known:
            raise _not_one_system(sources, f"their {part} differ")
    return tuple((part, runs[0].fingerprints[part]) for part in _SYSTEM), tuple(doubts)


def _not_one_system(sources: str, why: str) -> RunMismatchError:
    return RunMismatchError(
        f"{sources} are not runs of one unchanged system: {why}. Differences between systems are "
        "shown by: ragbench compare"
    )


def _in_all(runs: Sequence[RunScores]) -> tuple[MetricColumn, ...]:
    return tuple(
        column
        for column in runs[0].metrics
        if all(
            other is not None and other.identity == column.identity
            for other in (run.column(column.name) for run in runs)
        )
    )


def _share_of_flips(verdicts: Sequence[Verdicts]) -> float:
    pairs = list(combinations(verdicts, 2))
    return sum(_differ(one, other) for one, other in pairs) / len(pairs)


def _differ(one: Verdicts, other: Verdicts) -> bool:
    return any(other.get(subject, passed) is not passed for subject, passed in one.items())


def _unstable(
    same: Sequence[ScoredCase], verdicts: Sequence[Verdicts], share: float, rule: CaseRule
) -> UnstableCase:
    told = all(case.query is not None for case in same)
    responses = {case.response for case in same}
    lists = {case.retrieved_ids for case in same}
    return UnstableCase(
        id=same[0].id,
        fingerprint=same[0].fingerprint,
        flips=share,
        subjects=tuple(_subjects(same, verdicts, rule)),
        query=same[0].query,
        responses=len(responses) if told else None,
        id_lists=len(lists) if told and None not in lists else None,
    )


def _subjects(
    same: Sequence[ScoredCase], verdicts: Sequence[Verdicts], rule: CaseRule
) -> Iterator[UnstableSubject]:
    names = dict.fromkeys(subject for known in verdicts for subject in known)
    metrics = {column.name for column in rule.main}
    for subject in sorted(names, key=lambda name: name in metrics):
        passes = [known[subject] for known in verdicts if subject in known]
        passed = sum(passes)
        if passed in (0, len(passes)):
            continue
        low, high = proportion_interval(passed, len(passes), _CONFIDENCE)
        yield UnstableSubject(
            subject=subject,
            passed=passed,
            failed=len(passes) - passed,
            outcomes=tuple(_outcome(case, subject) for case in same),
            pass_rate=Interval(low=low, high=high, level=_CONFIDENCE),
        )


def _outcome(case: ScoredCase, subject: str) -> float | str:
    cell = case.scores.get(subject)
    if cell is None:
        return case.stages[subject].value if subject in case.stages else "unknown"
    return cell.status.value if cell.value is None else cell.value
