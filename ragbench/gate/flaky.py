"""Unstable cases and the quarantine file.

A line a case, so that a review sees which ones come and go. A case is meant only as long as it is
unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ragbench.core.gate_result import (
    Flakiness,
    Quarantine,
    QuarantinedCase,
    UnstableCase,
    UnstableSubject,
)
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import CaseRule, main_metrics
from ragbench.gate.compare import common_cases
from ragbench.gate.runs import Json, read_json
from ragbench.io.atomic import written_whole
from ragbench.stats.mean import mean_interval, proportion_interval

__all__ = [
    "FORMAT",
    "flakiness",
    "quarantine_bytes",
    "quarantine_notes",
    "read_quarantine",
    "without_cases",
    "without_quarantined",
    "write_quarantine",
]

_SYSTEM = ("rag", "settings")
"""Parts of a manifest that runs of one system share."""
_CONFIDENCE = 0.95

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
        runs: two or more of the same system on the same cases.
        main: names of the metrics that say whether a case passes; see
            `ragbench.gate.cases.main_metrics`.
        threshold: share of a main metric's scale from which on a case passes.
        only_common_cases: leave out cases that are not the same in all runs, instead of refusing.

    Raises:
        RunMismatchError: the runs are of different systems, settings or cases.
        ConfigError: there are fewer than two runs, or an option cannot be used.
    """
    if len(runs) < 2:
        raise ConfigError(f"{len(runs)} runs: instability shows in two or more")
    shared = _same_system(runs)
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
        notes=(note,) if note else (),
    )


def _same_system(runs: Sequence[RunScores]) -> tuple[tuple[str, str], ...]:
    """What the runs share.

    Raises:
        RunMismatchError: they are of different systems, or do not tell.
    """
    for part in _SYSTEM:
        known = {run.fingerprints.get(part) for run in runs}
        if len(known) > 1 or None in known:
            sources = ", ".join(run.source for run in runs)
            raise RunMismatchError(
                f"{sources} are not runs of one unchanged system: their {part} differ. Differences "
                "between systems are shown by: ragbench compare"
            )
    return tuple((part, runs[0].fingerprints[part]) for part in _SYSTEM)


def _in_all(runs: Sequence[RunScores]) -> tuple[MetricColumn, ...]:
    return tuple(
        column
        for column in runs[0].metrics
        if all(
            other is not None and other.version == column.version
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
    return cell.value if cell.value is not None and math.isfinite(cell.value) else cell.status.value


FORMAT = 1
"""Version of the file format."""

_MARK = "ragbench_quarantine"


def write_quarantine(flakiness: Flakiness, path: Path) -> None:
    """Writes the unstable cases as a quarantine file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    with written_whole(path) as file:
        file.write(quarantine_bytes(flakiness))


def quarantine_bytes(flakiness: Flakiness) -> bytes:
    """The unstable cases as a quarantine file. The same cases give the same bytes."""
    head: dict[str, Any] = {
        _MARK: FORMAT,
        "dataset": flakiness.dataset,
        "rag": flakiness.rag,
        "runs": list(flakiness.sources),
        "fingerprints": dict(flakiness.fingerprints),
        "threshold": flakiness.threshold,
    }
    lines = [f"  {_json(key)}: {_json(value)}" for key, value in head.items()]
    cases = sorted(flakiness.unstable, key=lambda case: case.id)
    entries = ",\n".join(f"    {_json(case.id)}: {_json(_case(case))}" for case in cases)
    lines.append(f'  "cases": {{\n{entries}\n  }}' if entries else '  "cases": {}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_quarantine(path: Path) -> Quarantine:
    """Reads a quarantine file. Lines of it may have been deleted by hand.

    Raises:
        RunMismatchError: it is none, or another version of ragbench wrote it.
    """
    content = read_json(path)
    try:
        return _quarantine(content, str(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RunMismatchError(
            f"{path} is not a quarantine file that this ragbench reads: {told}. Write one with: "
            f"ragbench flaky RUN RUN --write-quarantine {path}"
        ) from error


def without_quarantined(
    run: RunScores, quarantine: Quarantine
) -> tuple[RunScores, tuple[QuarantinedCase, ...]]:
    """A run without the cases in quarantine, and those cases.

    A case whose fingerprint is another one than the evidence was found on stays in the run.
    """
    left_out = tuple(
        QuarantinedCase(id=case.id, evidence=quarantine.evidence[case.id])
        for case in run.cases
        if quarantine.fingerprints.get(case.id) == case.fingerprint
    )
    return without_cases(run, left_out), tuple(sorted(left_out, key=lambda case: case.id))


def without_cases(run: RunScores, left_out: Sequence[QuarantinedCase]) -> RunScores:
    """A run without these cases."""
    ids = {case.id for case in left_out}
    return replace(run, cases=tuple(case for case in run.cases if case.id not in ids))


def quarantine_notes(
    run: RunScores, left_out: Sequence[QuarantinedCase], source: str
) -> Iterator[str]:
    """What a verdict has to say of the cases that it leaves out."""
    if not left_out:
        yield f"No case of this run is in quarantine ({source})."
        return
    verb = "is" if len(left_out) == 1 else "are"
    names = ", ".join(case.id for case in left_out)
    yield (
        f"{len(left_out):,} of {len(run.cases):,} cases {verb} in quarantine ({source}) and left "
        f"out: {names}."
    )
    figures = [column.name for column in run.metrics if column.aggregate or not column.has_cells]
    if figures:
        yield f"Figures that are not means over cases still hold them: {', '.join(figures)}."


def _case(case: UnstableCase) -> dict[str, Any]:
    return {
        "fingerprint": case.fingerprint,
        "flips": round(case.flips, 4),
        "evidence": {
            found.subject: {"passed": found.passed, "failed": found.failed}
            for found in case.subjects
        },
    }


def _quarantine(content: Json, source: str) -> Quarantine:
    if _MARK not in content:
        raise KeyError(_MARK)
    if content[_MARK] != FORMAT:
        raise ValueError(f"its format is {content[_MARK]}, this ragbench reads {FORMAT}")
    cases: Mapping[str, Json] = content["cases"]
    return Quarantine(
        source=source,
        fingerprints={id_: str(case["fingerprint"]) for id_, case in cases.items()},
        evidence={id_: _evidence_text(case["evidence"]) for id_, case in cases.items()},
    )


def _evidence_text(evidence: Json) -> str:
    parts = [
        f"{subject} passed in {int(counts['passed'])} and failed in {int(counts['failed'])} runs"
        for subject, counts in evidence.items()
    ]
    if not parts:
        raise ValueError("a case has no evidence: each names what passed and failed, and how often")
    return "; ".join(parts)


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
