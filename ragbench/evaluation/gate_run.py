"""gate_run(): stored runs, by path, to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.errors import RunMismatchError
from ragbench.evaluation.judging import Judging
from ragbench.evaluation.rescore import rescore
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.find_baseline import find_baseline
from ragbench.gate.gate import gate
from ragbench.gate.quarantine import (
    quarantine_notes,
    read_quarantine,
    without_cases,
    without_quarantined,
)
from ragbench.gate.read_run import read_run
from ragbench.records.flakiness import QuarantinedCase
from ragbench.records.run_scores import RunScores
from ragbench.records.verdicts import Verdict

__all__ = ["gate_run"]


def gate_run(
    path: Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
    rejudge: bool = False,
    only_common_cases: bool = False,
    judging: Judging | None = None,
) -> Verdict:
    """Judges a stored run.

    Args:
        path: the run's folder, its ``report.json``, or a baseline file.
        config: what is demanded. Its ``baseline`` is a path, `AUTO`, or None; the cases of its
            ``quarantine`` are left out of both runs, counted and listed.
        folders: where `AUTO` looks for runs, besides the folder that the run lies in.
        rejudge: score the baseline's stored outputs with this run's metrics before comparing.
        judging: who judges then, where this run's metrics ask a model.
        only_common_cases: where the datasets differ, compare the cases that are the same.

    Raises:
        RunMismatchError: a path holds no run; a run without stored outputs cannot be re-scored.
        ConfigError: what is demanded cannot be judged on this run.
    """
    run = read_run(path)
    notes: list[str] = []
    baseline: RunScores | None = None
    if config.baseline == AUTO:
        home = path if path.is_dir() else path.parent
        found = find_baseline(path, run, (home.absolute().parent, *folders))
        if found is None:
            notes.append(
                f"There is no earlier run of {run.rag} on the same cases with the same metrics "
                f"beside {path}, nor in {', '.join(map(str, folders))}."
            )
        else:
            baseline = _baseline(found, run, rejudge=rejudge, judging=judging)
    elif config.baseline is not None:
        baseline = _baseline(Path(config.baseline), run, rejudge=rejudge, judging=judging)
    if rejudge and baseline is not None:
        notes.append("The baseline's stored outputs were scored anew with this run's metrics.")
    kept = run
    left_out: tuple[QuarantinedCase, ...] = ()
    if config.quarantine is not None:
        kept, left_out = without_quarantined(run, read_quarantine(Path(config.quarantine)))
        baseline = None if baseline is None else without_cases(baseline, left_out)
        notes += quarantine_notes(run, left_out, config.quarantine)
    verdict = gate(kept, baseline, config, only_common_cases=only_common_cases, notes=notes)
    return replace(verdict, run=replace(verdict.run, cases=len(run.cases)), quarantined=left_out)


def _baseline(path: Path, run: RunScores, *, rejudge: bool, judging: Judging | None) -> RunScores:
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    return rescore(path, run, judging=judging) if rejudge else read_run(path)
