"""One answer of an experiment, in parts whose keys are the user's own, as a case.

Tools that run experiments store what went into a system, what came out of it and what was expected
as objects. A key with a recognised name counts, or the only one that holds a text; the rest is
metadata. `ragbench.io.langsmith`, `mlflow_tables` and `phoenix` call it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from ragbench.io.fields import case_fields, field_names, outcome_fields, squash, targets
from ragbench.io.values import ValueProblem, is_missing, is_object, spelled_list

Values = Mapping[str, object]


class PartNames(NamedTuple):
    """What a tool calls the parts."""

    inputs: str = "inputs"
    outputs: str = "outputs"
    reference: str = "reference"


class Experiment(NamedTuple):
    """One question of an experiment with its answer, as a tool's file holds them."""

    inputs: Values
    outputs: Values
    reference: Values
    columns: Values
    """What else the row holds, by its name there."""
    names: PartNames = PartNames()


_SOLE_KEY = "value"
"""The key of a part that is no object, but a text."""


def part_of(value: object) -> Values:
    """Inputs or outputs of an experiment as an object; a text alone becomes its only value.

    Tools store either: with this, one reader handles both.
    """
    if is_object(value):
        return value
    if value is None or is_missing(value):
        return {}
    return {_SOLE_KEY: value}


def spelled(cell: object) -> object:
    """The value of a table's cell: an object or a list that its text spells; None if it is empty.

    Tables have text only, so tools write objects into them as JSON, and pandas as Python prints
    them.
    """
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
        return _python_literal(text)


def _python_literal(text: str) -> object:
    """The object or list that a cell spells as Python prints it; else the cell's text.

    pandas writes such cells. Only literals are evaluated, never code.
    """
    try:
        # `spelled_list` gives the text itself where it is not clear which list the text spells.
        if text.startswith("["):
            return spelled_list("retrieved_contexts", text)
        value: object = ast.literal_eval(text)
    # Python raises the last two for a text that is nested too deep.
    except (ValueProblem, ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return value


def experiment_case(experiment: Experiment, roles: dict[str, str]) -> dict[str, object]:
    """One question of an experiment with its answer, as the fields of a case.

    The keys in the parts are the user's own: those that are recognised become fields, the others
    metadata.

    Args:
        experiment: the parts.
        roles: has afterwards the tool's name of each field that was recognised.
    """
    case: dict[str, object] = {}
    metadata: dict[str, object] = {}
    inputs, outputs, reference, columns, names = experiment
    # Later parts win: a field that two parts hold is the one of the reference.
    parts = (
        (names.inputs, inputs, _input_fields(inputs)),
        (names.outputs, outputs, _output_fields(outputs)),
        (names.reference, reference, _reference_fields(reference)),
    )
    for part_name, part, fields in parts:
        for key, value in part.items():
            field = fields.get(key)
            if field is None:
                metadata[f"{part_name}.{key}"] = value
                continue
            case[field] = value
            roles[field] = part_name if key == _SOLE_KEY else f"{part_name}.{key}"
    for name, value in columns.items():
        if name == "error":
            case["error"] = value
        elif name == "example_id":
            case["id"] = value
        elif name == "execution_time":
            case["seconds"] = value
        elif name == "metadata" and is_object(value):
            metadata |= value
        elif value is not None and name != "id":  # the id is that of the run, not of the case
            metadata[name] = value
    case["metadata"] = {name: value for name, value in metadata.items() if value is not None}
    return case


def _input_fields(inputs: Values) -> dict[str, str]:
    """The key of the question among an experiment's inputs, to the field of a case; else empty.

    A tool's inputs have the user's own keys: a recognised name counts, or the only key with a text.
    """
    query = _key_by_name_or_text(inputs, case_fields()["query"])
    if query is None:
        return {}
    return {query: "query"}


def _output_fields(outputs: Values) -> dict[str, str]:
    """The keys of the answer and the retrieved texts in an experiment's outputs.

    Each key comes with the field of a case that it is. Names that ragbench has for outcomes count
    before those that frameworks use.
    """
    usual = outcome_fields()
    returned = field_names("returned")
    id_names = (*usual["retrieved_context_ids"], *returned["context_ids"])
    context_names = (*usual["retrieved_contexts"], *returned["contexts"])
    answer_names = (*usual["response"], *returned["answer"])
    keys = {
        "retrieved_context_ids": _key_by_name(outputs, id_names),
        "retrieved_contexts": _key_by_name(outputs, context_names),
        "response": _key_by_name_or_text(outputs, answer_names),
    }
    return {key: field for field, key in keys.items() if key is not None}


def _reference_fields(reference: Values) -> dict[str, str]:
    """The keys of an experiment's reference side, to the fields of a case that they are.

    Here ``answer`` and ``contexts`` are the right ones, not a system's: this side is the example's.
    """
    answer = _key_by_name_or_text(
        reference, (*case_fields()["reference"], *field_names("returned")["answer"])
    )
    contexts = _key_by_name(reference, field_names("returned")["contexts"])
    fields: dict[str, str] = {}
    for key in reference:
        field = targets("cases").get(squash(key), "")
        if key == answer:
            fields[key] = "reference"
        elif key == contexts:
            fields[key] = "reference_contexts"
        # The id and the question of a case are on the side of the inputs.
        elif field in case_fields() and field not in ("id", "query", "metadata", "reference"):
            fields[key] = field
    return fields


def _key_by_name(values: Values, names: Iterable[str]) -> str | None:
    """The key of an object that has the first of some names, in any spelling; None without one.

    A user's own spelling of a known name, such as ``Chunk_IDs``, is found as well.

    Args:
        names: the names, the most telling first: an earlier one counts, wherever its key is.
    """
    # Reversed, so that of two keys that differ in their spelling alone the first one counts.
    key_by_name = {squash(key): key for key in reversed([*values])}
    for name in names:
        if squash(name) in key_by_name:
            return key_by_name[squash(name)]
    return None


def _key_by_name_or_text(values: Values, names: Iterable[str]) -> str | None:
    """The key with the first of some names; else the only key that holds a text; else None.

    Keys are the user's own: of a single text there is no doubt which it is.
    """
    key = _key_by_name(values, names)
    if key is not None:
        return key
    text_keys: list[str] = []
    for key, value in values.items():
        # A key that names another field of a case, such as an id, is no answer.
        if isinstance(value, str) and value.strip() and squash(key) not in targets("cases"):
            text_keys.append(key)
    return text_keys[0] if len(text_keys) == 1 else None
