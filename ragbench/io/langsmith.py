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
from ragbench.io.fields import field_names
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import as_object, is_object

Values = Mapping[str, object]


def read_experiment(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per example and run of a LangSmith experiment, of the SDK or of a table.

    So answers that were given there are scored here without asking the system again.
    """
    for row in container_rows(source, problems, field_names("array")["cases"]):
        if is_object(row.values.get("run")):
            experiment = _sdk_experiment(row.values)
        else:
            experiment = _table_experiment(row)
        yield row._replace(values=experiment_case(experiment, source.roles), cells=False)


def _sdk_experiment(values: Values) -> Experiment:
    """The experiment in a row of LangSmith's SDK, which holds a run beside its example.

    The example's outputs are the reference, the run's are the system's answer.
    """
    run = as_object(values["run"])
    example = as_object(values.get("example"))
    columns: dict[str, object] = {
        "error": run.get("error"),
        "example_id": example.get("id", run.get("reference_example_id")),
        "feedback": as_object(values.get("evaluation_results")).get("results"),
        "metadata": example.get("metadata"),
    }
    return Experiment(
        # A run without an example holds its inputs itself.
        inputs=part_of(example.get("inputs")) or part_of(run.get("inputs")),
        outputs=part_of(run.get("outputs")),
        reference=part_of(example.get("outputs")),
        columns=columns,
    )


def _table_experiment(row: Row) -> Experiment:
    """The experiment in a row of LangSmith's table.

    The table has a column per key (``inputs.question``), or one per part (``inputs``) with all
    keys.
    """
    part_by_name: dict[str, str] = {}
    parts: dict[str, dict[str, object]] = {}
    for part_name, column_names in field_names("langsmith").items():
        parts[part_name] = {}
        part_by_name.update(dict.fromkeys(column_names, part_name))
    columns: dict[str, object] = {}
    for column, cell in row.values.items():
        value = spelled(cell) if row.cells else cell
        name, dot, key = column.partition(".")
        part = part_by_name.get(name)
        # A column of its own, or feedback that is not divided by keys: kept under its name.
        if part is None or (not dot and part == "feedback"):
            columns[column] = value
        elif dot:
            parts[part][key] = value
        else:
            parts[part].update(part_of(value))
    if parts["feedback"]:
        columns["feedback"] = parts["feedback"]
    return Experiment(
        inputs=parts["inputs"],
        outputs=parts["outputs"],
        reference=parts["reference"],
        columns=columns,
    )
