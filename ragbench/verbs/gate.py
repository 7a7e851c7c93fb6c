"""Stored runs to a gate's result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.core.gate_result import GateResult
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, MissingExtraError, RunMismatchError
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.find_baseline import age_note, find_baseline
from ragbench.gate.gate import gate
from ragbench.gate.runs import questions, read_run
from ragbench.ledger.folder import path_of, run_around
from ragbench.metrics.matching import Matching


def gate_run(
    path: str | Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
) -> GateResult:
    """Judges a stored run.

    Args:
        path: the run's folder, or a baseline file.
        config: what is demanded. Its ``baseline`` is a path, `AUTO`, or None.
        folders: where `AUTO` looks for runs, besides the folder that the run lies in.

    Raises:
        RunMismatchError: a path holds no run.
        ConfigError: what is demanded cannot be judged on this run.
    """
    path = path_of(path)
    run = read_run(path, with_texts=False)
    notes: list[str] = []
    baseline: RunScores | None = None
    found: Path | None = None
    if config.baseline == AUTO:
        home = run_around(path)
        found = find_baseline(path, run, (home.absolute().parent, *folders))
        if found is None:
            notes.append(
                f"There is no earlier run of {run.rag} on the same dataset with the same metrics "
                f"beside {path}, nor in {', '.join(map(str, folders))}."
            )
        else:
            baseline = read_run(found, with_texts=False)
    elif config.baseline is not None:
        baseline = _baseline(found := Path(config.baseline))
    if baseline is not None and found is not None and (lacking := _lacking(run, baseline, found)):
        baseline = _measured(baseline, found, lacking)
        notes.append(f"Computed on the baseline's stored answers: {', '.join(lacking)}.")
    age = None if baseline is None else age_note(run, baseline)
    if age is not None:
        notes.append(age)
    found_now = gate(run, baseline, config, notes=notes)
    asked = questions(path, {case.id for case in found_now.lost_cases})
    lost = (replace(case, query=asked.get(case.id)) for case in found_now.lost_cases)
    return replace(found_now, lost_cases=tuple(lost))


def _lacking(run: RunScores, baseline: RunScores, path: Path) -> list[str]:
    """The run's metrics that the baseline lacks and that can be computed without asking anybody."""
    there = {column.name for column in baseline.metrics}
    names = [column.name for column in run.metrics if column.name not in there]
    if not names or not run_around(path).is_dir():  # a baseline file holds no answers
        return []
    from ragbench.metrics.registry import parse_metrics

    found: list[str] = []
    for name in names:
        with suppress(ConfigError, MissingExtraError):  # a formula of the user's, or not at hand
            (metric,) = parse_metrics(name)
            if metric.definition.deterministic and not metric.is_judged:
                found.append(name)
    return found


def _measured(baseline: RunScores, path: Path, names: Sequence[str]) -> RunScores:
    """The baseline with more metrics, of its stored answers; its own scores stay."""
    from ragbench.verbs.evaluate import EvalSettings, evaluate

    with TemporaryDirectory() as folder:
        settings = EvalSettings(matching=Matching(baseline.matching))
        evaluate(
            run_around(path), out=Path(folder, "run"), metrics=",".join(names), settings=settings
        )
        more = read_run(Path(folder, "run"), with_texts=False)
    cells = {case.id: case.scores for case in more.cases}
    return replace(
        baseline,
        metrics=(*baseline.metrics, *more.metrics),
        cases=tuple(
            replace(case, scores={**case.scores, **cells[case.id]}) for case in baseline.cases
        ),
    )


def _baseline(path: Path) -> RunScores:
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    return read_run(path, with_texts=False)
