"""Stored runs to a gate's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.core.gate_result import GateResult
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, MissingExtraError, RunMismatchError
from ragbench.gate.comparable import compare_inputs
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.find_baseline import age_note, find_baseline
from ragbench.gate.gate import gate
from ragbench.gate.labels import notes_of
from ragbench.gate.runs import questions, read_run, reported_right
from ragbench.io.people import LabelBook
from ragbench.ledger.folder import path_of, run_around
from ragbench.metrics.matching import Matching
from ragbench.verbs.label import with_labels
from ragbench.views.run_document import right_text

Reask = Callable[[RunScores, RunScores], RunScores]
"""A run and its baseline to that baseline with the scores of all cases of the run."""


def gate_run(
    path: str | Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
    reask: Reask | None = None,
) -> GateResult:
    """Judges a stored run.

    Args:
        path: the run's folder, or a baseline file.
        config: what is demanded. Its ``baseline`` is a path, `AUTO`, or None.
        folders: where `AUTO` looks for runs, besides the folder that the run lies in.
        reask: asks the baseline's system the cases of the run that it does not know.

    Raises:
        RunMismatchError: a path holds no run.
        ConfigError: what is demanded cannot be judged on this run.
    """
    path = path_of(path)
    run = read_run(path, with_texts=False)
    notes: list[str] = []
    baseline, found = None, None if config.baseline is None else Path(config.baseline)
    if config.baseline == AUTO:
        found = find_baseline(path, run, (run_around(path).absolute().parent, *folders))
        if found is None:
            notes.append(
                f"There is no earlier run of {run.rag} on the same dataset with the same metrics "
                f"beside {path}, nor in {', '.join(map(str, folders))}."
            )
    elif found is not None and not found.exists():
        raise RunMismatchError(
            f"the baseline {found} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {found}"
        )
    if found is not None:
        baseline = read_run(found, with_texts=False)
        if lacking := _lacking(run, baseline, found):
            baseline = _measured(baseline, found, lacking)
            notes.append(f"Computed on the baseline's stored answers: {', '.join(lacking)}.")
        if (age := age_note(run, baseline)) is not None:
            notes.append(age)
    changed = None if baseline is None else compare_inputs(run, baseline, ()).dataset
    if reask is not None and baseline is not None:
        baseline = reask(run, baseline)
        notes.append("The baseline's system was asked the cases that are new or edited.")
    if config.labels:
        book = LabelBook.read(config.labels)
        run, baseline = with_labels(run, book), baseline and with_labels(baseline, book)
        notes += notes_of(book, [run] if baseline is None else [run, baseline])
    if (right := reported_right(path)) is not None and right.by_words:
        notes.append(right_text(right))
    result = replace(gate(run, baseline, config, notes=notes), dataset=changed)
    asked = questions(path, {case.id for case in result.lost_cases})
    lost = (replace(case, query=asked.get(case.id)) for case in result.lost_cases)
    return replace(result, lost_cases=tuple(lost))


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
    from ragbench.stages.system import EvalSettings
    from ragbench.verbs.evaluate import evaluate

    with TemporaryDirectory() as folder:
        settings = EvalSettings(matching=Matching(baseline.matching))
        evaluate(
            run_around(path), out=Path(folder, "run"), metrics=",".join(names), settings=settings
        )
        more = read_run(Path(folder, "run"), with_texts=False)
    cells = {**baseline.table.cells, **more.beside(baseline).table.cells}
    cases = replace(baseline.table, cells=cells)
    return replace(baseline, metrics=(*baseline.metrics, *more.metrics), cases=cases)
