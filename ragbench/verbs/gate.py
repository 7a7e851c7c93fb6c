"""Stored runs to a gate's result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.core.gate_result import GateResult
from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.find_baseline import age_note, find_baseline
from ragbench.gate.gate import gate
from ragbench.gate.runs import read_run
from ragbench.ledger.folder import path_of, run_around


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
        baseline = _baseline(Path(config.baseline))
    age = None if baseline is None else age_note(run, baseline)
    if age is not None:
        notes.append(age)
    return gate(run, baseline, config, notes=notes)


def _baseline(path: Path) -> RunScores:
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    return read_run(path, with_texts=False)
