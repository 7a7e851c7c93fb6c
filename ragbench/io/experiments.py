"""One answer of an experiment, in parts whose keys are the user's own, as a case.

Tools that run experiments store what went into a system, what came out of it and what was expected
as objects. A key with a recognised name counts, or the only one that holds a text; the rest is
metadata. `ragbench.io.langsmith`, `mlflow` and `phoenix` call it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from ragbench.io.fields import case_fields, entry_fields, named, outcome_fields, squash, targets
from ragbench.io.values import ValueProblem, is_missing, is_object, spelled_list

Values = Mapping[str, object]


class PartNames(NamedTuple):
    """What a tool calls the parts."""

    inputs: str = "inputs"
    outputs: str = "outputs"
    reference: str = "reference"


class Experiment(NamedTuple):
    inputs: Values
    outputs: Values
    reference: Values
    rest: Values
    """What else the row holds, by its name there."""
    names: PartNames = PartNames()


_ALONE = "value"
"""The key of a part that is no object, but a text."""


def part_of(value: object) -> Values:
    """Inputs or outputs as an object; a text alone is the only thing in them."""
    if is_object(value):
        return value
    return {} if value is None or is_missing(value) else {_ALONE: value}


def spelled(cell: object) -> object:
    """What a cell holds: an object or a list is spelled as JSON; an empty one holds nothing."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text:
        return None
    if not text.startswith(("{", "[")):
        return cell
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _printed(text)


def _printed(text: str) -> object:
    """An object or a list as Python prints it, which pandas writes into a cell; else the text."""
    try:
        if text.startswith("["):
            return spelled_list("retrieved_contexts", text)
        value: object = ast.literal_eval(text)
    except (ValueProblem, ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return value


def experiment_case(experiment: Experiment, roles: dict[str, str]) -> dict[str, object]:
    """The answer of an experiment as the fields of a case.

    Args:
        experiment: the parts.
        roles: takes the tool's name of each field that was recognised.
    """
    case: dict[str, object] = {}
    kept: dict[str, object] = {}
    names = experiment.names
    _take(experiment.inputs, names.inputs, _of_inputs(experiment.inputs), case, kept, roles)
    _take(experiment.outputs, names.outputs, _of_outputs(experiment.outputs), case, kept, roles)
    fields = _of_reference(experiment.reference)
    _take(experiment.reference, names.reference, fields, case, kept, roles)
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


def _take(
    part: Values,
    name: str,
    fields: Mapping[str, str],
    case: dict[str, object],
    kept: dict[str, object],
    roles: dict[str, str],
) -> None:
    """Takes what has a field of a case; the rest is kept under the part's name."""
    for key, value in part.items():
        field = fields.get(key)
        if field is None:
            kept[f"{name}.{key}"] = value
            continue
        case[field] = value
        roles[field] = name if key == _ALONE else f"{name}.{key}"


def _of_inputs(inputs: Values) -> dict[str, str]:
    query = _key(inputs, case_fields()["query"])
    return {} if query is None else {query: "query"}


def _of_outputs(outputs: Values) -> dict[str, str]:
    """What the system gave: its answer, and what it retrieved."""
    names = named("returned")
    keys = {
        "retrieved_context_ids": _named_key(
            outputs, (*outcome_fields()["retrieved_context_ids"], *names["context_ids"])
        ),
        "retrieved_contexts": _named_key(
            outputs, (*outcome_fields()["retrieved_contexts"], *names["contexts"])
        ),
        "response": _key(outputs, (*outcome_fields()["response"], *names["answer"])),
    }
    return {key: field for field, key in keys.items() if key is not None}


def _of_reference(reference: Values) -> dict[str, str]:
    """What was expected: fields of a case by their names, and texts that hold the answer."""
    answer = _key(reference, (*case_fields()["reference"], *named("returned")["answer"]))
    contexts = _named_key(reference, named("returned")["contexts"])
    fields: dict[str, str] = {}
    for key in reference:
        field = targets("cases").get(squash(key), "")
        if key == answer:
            fields[key] = "reference"
        elif key == contexts:
            fields[key] = "reference_contexts"
        elif field in case_fields() and field not in ("id", "query", "metadata", "reference"):
            fields[key] = field
    return fields


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
