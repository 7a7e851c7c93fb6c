"""Experiments of LangSmith: what a system was asked, what it gave, and what was expected.

Facts of the forms:

- ``ExperimentResults.to_pandas`` of the SDK writes ``inputs.NAME``, ``outputs.NAME``,
  ``reference.NAME``, ``feedback.KEY``, ``error``, ``execution_time`` (seconds) and ``example_id``;
  a download calls the reference ``reference_outputs``.
- A row of the SDK is ``{"run": ..., "example": ..., "evaluation_results": ...}``: the example's
  ``outputs`` are the reference, the run's are the system's.
- The keys of inputs and outputs are the user's own: a key with a recognised name counts, or the
  only one that holds a text.

Feedback is kept as metadata: another tool's scores are not measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.io.detect import container_rows
from ragbench.io.experiments import Experiment, experiment_case, part_of, spelled
from ragbench.io.fields import named
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import as_object, is_object

Values = Mapping[str, object]


def read_experiment(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per example and run."""
    for row in container_rows(source, problems, named("array")["cases"]):
        is_sdk = is_object(row.values.get("run"))
        experiment = _of_sdk(row.values) if is_sdk else _of_columns(row)
        yield row._replace(values=experiment_case(experiment, source.roles), cells=False)


def _of_sdk(values: Values) -> Experiment:
    run, example = as_object(values["run"]), as_object(values.get("example"))
    rest: dict[str, object] = {
        "error": run.get("error"),
        "example_id": example.get("id", run.get("reference_example_id")),
        "feedback": as_object(values.get("evaluation_results")).get("results"),
        "metadata": example.get("metadata"),
    }
    return Experiment(
        inputs=part_of(example.get("inputs")) or part_of(run.get("inputs")),
        outputs=part_of(run.get("outputs")),
        reference=part_of(example.get("outputs")),
        rest=rest,
    )


def _of_columns(row: Row) -> Experiment:
    parts: dict[str, dict[str, object]] = {name: {} for name in named("langsmith")}
    rest: dict[str, object] = {}
    for column, cell in row.values.items():
        value = spelled(cell) if row.cells else cell
        name, dot, key = column.partition(".")
        part = next((part for part, names in named("langsmith").items() if name in names), None)
        if part is None or (not dot and part == "feedback"):
            rest[column] = value
        elif dot:
            parts[part][key] = value
        else:
            parts[part].update(part_of(value))
    if parts["feedback"]:
        rest["feedback"] = parts["feedback"]
    return Experiment(
        inputs=parts["inputs"], outputs=parts["outputs"], reference=parts["reference"], rest=rest
    )
