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

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import orjson

from ragbench.io.detect import container_rows
from ragbench.io.fields import case_fields, entry_fields, named, outcome_fields, squash, targets
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import ValueProblem, as_object, is_missing, is_object, spelled_list

Values = Mapping[str, object]


class _Experiment(NamedTuple):
    inputs: Values
    outputs: Values
    reference: Values
    rest: Values
    """What else the row holds, by its name there."""


def read_experiment(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per example and run."""
    for row in container_rows(source, problems, named("array")["cases"]):
        is_sdk = is_object(row.values.get("run"))
        experiment = _of_sdk(row.values) if is_sdk else _of_columns(row)
        yield row._replace(values=_case(experiment), cells=False)


def _of_sdk(values: Values) -> _Experiment:
    run, example = as_object(values["run"]), as_object(values.get("example"))
    rest: dict[str, object] = {
        "error": run.get("error"),
        "example_id": example.get("id", run.get("reference_example_id")),
        "feedback": as_object(values.get("evaluation_results")).get("results"),
        "metadata": example.get("metadata"),
    }
    return _Experiment(
        inputs=_part(example.get("inputs")) or _part(run.get("inputs")),
        outputs=_part(run.get("outputs")),
        reference=_part(example.get("outputs")),
        rest=rest,
    )


def _of_columns(row: Row) -> _Experiment:
    parts: dict[str, dict[str, object]] = {name: {} for name in named("langsmith")}
    rest: dict[str, object] = {}
    for column, cell in row.values.items():
        value = _spelled(cell) if row.cells else cell
        name, dot, key = column.partition(".")
        part = next((part for part, names in named("langsmith").items() if name in names), None)
        if part is None or (not dot and part == "feedback"):
            rest[column] = value
        elif dot:
            parts[part][key] = value
        else:
            parts[part].update(_part(value))
    if parts["feedback"]:
        rest["feedback"] = parts["feedback"]
    return _Experiment(
        inputs=parts["inputs"], outputs=parts["outputs"], reference=parts["reference"], rest=rest
    )


def _part(value: object) -> Values:
    """Inputs or outputs as an object; a text alone is the only thing in them."""
    if is_object(value):
        return value
    return {} if value is None or is_missing(value) else {"value": value}


def _spelled(cell: object) -> object:
    """What a cell holds: an object or a list is spelled as JSON; an empty one holds nothing."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text:
        return None
    if text.startswith(("{", "[")):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            try:
                return spelled_list("retrieved_contexts", text)
            except ValueProblem:
                return cell
    return cell


def _case(experiment: _Experiment) -> dict[str, object]:
    case: dict[str, object] = {}
    kept: dict[str, object] = {}
    query = _key(experiment.inputs, case_fields()["query"])
    for key, value in experiment.inputs.items():
        if key == query:
            case["query"] = value
        else:
            kept[f"inputs.{key}"] = value
    _take_outputs(experiment.outputs, case, kept)
    _take_reference(experiment.reference, case, kept)
    for name, value in experiment.rest.items():
        if name == "error":
            case["error"] = value
        elif name == "example_id":
            case["id"] = value
        elif name == "execution_time":
            case["seconds"] = value
        elif name == "metadata" and is_object(value):
            kept |= value
        elif value is not None and name != "id":  # of the run
            kept[name] = value
    case["metadata"] = {name: value for name, value in kept.items() if value is not None}
    return case


def _take_outputs(outputs: Values, case: dict[str, object], kept: dict[str, object]) -> None:
    """What the system gave: its answer, and what it retrieved."""
    names = named("returned")
    answer = _key(outputs, (*outcome_fields()["response"], *names["answer"]))
    contexts = _named_key(outputs, (*outcome_fields()["retrieved_contexts"], *names["contexts"]))
    ids = _named_key(outputs, (*outcome_fields()["retrieved_context_ids"], *names["context_ids"]))
    fields = {answer: "response", contexts: "retrieved_contexts", ids: "retrieved_context_ids"}
    for key, value in outputs.items():
        field = fields.get(key)
        if field is not None:
            case[field] = value
        else:
            kept[f"outputs.{key}"] = value


def _take_reference(reference: Values, case: dict[str, object], kept: dict[str, object]) -> None:
    """What was expected: fields of a case by their names, and texts that hold the answer."""
    answer = _key(reference, (*case_fields()["reference"], *named("returned")["answer"]))
    contexts = _named_key(reference, named("returned")["contexts"])
    for key, value in reference.items():
        field = targets("cases").get(squash(key), "")
        if key == answer:
            case["reference"] = value
        elif key == contexts:
            case["reference_contexts"] = value
        elif field in case_fields() and field not in ("id", "query", "metadata", "reference"):
            case[field] = value
        else:
            kept[f"reference.{key}"] = value


def _named_key(values: Values, names: Iterable[str]) -> str | None:
    """The key with the first of some names."""
    by_name = {squash(key): key for key in reversed([*values])}
    return next((by_name[squash(name)] for name in names if squash(name) in by_name), None)


def _key(values: Values, names: Iterable[str]) -> str | None:
    """The key with the first of some names, else the only one that holds a text."""
    key = _named_key(values, names)
    if key is not None:
        return key
    known = {squash(name) for all_names in entry_fields().values() for name in all_names}
    texts = [
        key
        for key, value in values.items()
        if isinstance(value, str) and value.strip() and squash(key) not in known
    ]
    return texts[0] if len(texts) == 1 else None
