"""MLflow's evaluations: datasets with expectations, tables of results, Agent Evaluation.

Facts of the forms:

- ``mlflow.genai`` takes and stores rows with ``inputs`` (an object), ``outputs`` (any value) and
  ``expectations``: an object in which ``expected_response``, ``expected_facts``,
  ``expected_retrieved_context`` (objects of ``doc_uri`` and ``content``) and ``guidelines`` are
  reserved. The other keys are the user's own. A table spells the objects as JSON or as Python does.
- ``mlflow.evaluate`` of MLflow 2 writes ``eval_results_table.json``: the user's columns,
  ``outputs`` or ``target`` where they had no name, ``METRIC/VERSION/score`` and
  ``.../justification``. ``latency`` is in seconds.
- Agent Evaluation has ``request``, ``response``, ``retrieved_context`` and the expectations in
  columns of their own.

Facts and guidelines are for a model to judge, and are kept as metadata, as the tool's scores are.
Its traces are read as traces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragbench.io.detect import container_rows, mlflow_results
from ragbench.io.experiments import Experiment, PartNames, experiment_case, part_of, spelled
from ragbench.io.fields import case_fields, named, squash
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.spans import answer_in, question_in
from ragbench.io.values import ValueProblem, describe, is_list, is_object

Values = Mapping[str, object]

_PARTS = PartNames(inputs="inputs", outputs="outputs", reference="expectations")
_OF_ROW = frozenset({"inputs", "outputs", "expectations"})
_OF_REQUEST: Mapping[str, str] = {
    "request_id": "id",
    "request": "query",
    "response": "response",
    "retrieved_context": "retrieved_contexts",
}
_EXPECTED = frozenset({"expected_response", "expected_facts", "expected_retrieved_context"})
_SCORE = re.compile(r".+/(?:score|justification)")
_MESSAGES = ("choices", "messages", "output")
"""Where a chat model's response, and an agent's, hold what was said."""


def read_rows(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question."""
    for row in container_rows(source, problems, named("array")["cases"]):
        try:
            if "request" in row.values and "inputs" not in row.values:
                case = _of_request(row, source)
            elif mlflow_results(row.values):
                yield _of_results(row, source)
                continue
            else:
                case = _of_dataset(row, source)
        except _FieldProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=problem.name)
            continue
        yield row._replace(values=case, cells=False)


class _FieldProblem(ValueProblem):
    """What is wrong with a field, which it names."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


# --- mlflow.genai


def _of_dataset(row: Row, source: Source) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in row.values.items():
        values[name] = spelled(value) if row.cells else value
    inputs = _with_question(_object(values, "inputs"))
    expectations = _object(values, "expectations")
    expected, kept = _expected(expectations, "expectations.", source)
    rest = {name: value for name, value in values.items() if name not in _OF_ROW}
    if is_object(rest.get("tags")):
        rest["mlflow_tags"] = rest.pop("tags")
    kept_keys = {f"expectations.{name}": value for name, value in kept.items()}
    experiment = Experiment(
        inputs=inputs,
        outputs=_outputs(values.get("outputs")),
        reference={},
        rest={**rest, **kept_keys},
        names=_PARTS,
    )
    case = experiment_case(experiment, source.roles)
    if values.get("outputs") is not None and "response" not in case:
        raise _FieldProblem(
            "outputs",
            f"no answer is recognised in it ({describe(values['outputs'])}). Name it: "
            "--format json --field query=inputs.NAME --field response=outputs.NAME "
            "--field expectations=",
        )
    for name in ("dataset_record_id", "request_id"):
        if values.get(name):
            case["id"] = values[name]
            source.roles["id"] = name
            break
    return {**case, **expected}


def _with_question(inputs: Values) -> Values:
    """The inputs with the last question of a conversation, where no key is one."""
    names = {squash(name) for name in case_fields()["query"]}
    if any(squash(key) in names for key in inputs) or not is_list(inputs.get("messages")):
        return inputs
    question = question_in(inputs["messages"])
    return inputs if question is None else {**inputs, "query": question}


def _outputs(value: object) -> Values:
    if is_object(value) and any(is_list(value.get(name)) for name in _MESSAGES):
        answer = answer_in(value)
        if answer is not None:
            return {**value, "response": answer}
    if value is None or is_object(value) or isinstance(value, str):
        return part_of(value)
    return {"value": value}


def _object(values: Values, name: str) -> Values:
    value = values.get(name)
    if value is None:
        return {}
    if not is_object(value):
        raise _FieldProblem(
            name,
            f"expected an object, as MLflow writes it, found {describe(value)}. Where MLflow did "
            f"not write the file: --format NAME (csv, json, jsonl ...) --field query={name} "
            "--field expectations=",
        )
    return value


# --- what is expected


def _expected(
    expectations: Values, place: str, source: Source
) -> tuple[dict[str, object], dict[str, object]]:
    """Fields of a case for the expectations with a known meaning; and the others.

    Args:
        expectations: by name.
        place: where they stand in a record, with the dot behind it.
        source: takes which field has which.
    """
    case: dict[str, object] = {}
    kept: dict[str, object] = {}
    references = {squash(name) for name in (*case_fields()["reference"], "expected_response")}
    for name, value in expectations.items():
        fields: dict[str, object] = {}
        if name == "expected_retrieved_context":
            fields = _expected_documents(value)
        elif squash(name) in references and "reference" not in case:
            fields = {"reference": value}
        else:
            kept[name] = value
        case |= fields
        source.roles.update(dict.fromkeys(fields, f"{place}{name}"))
    return case, kept


def _expected_documents(value: object) -> dict[str, object]:
    """The relevant texts, where all documents have one; else the documents that must be found."""
    if not is_list(value) or not value:
        return {}
    texts: list[object] = []
    names: list[object] = []
    for document in value:
        if not is_object(document):
            raise _FieldProblem(
                "expected_retrieved_context",
                f"expected objects of doc_uri and content, found {describe(document)}",
            )
        texts.append(document.get("content"))
        names.append(document.get("doc_uri"))
    if all(isinstance(text, str) and text.strip() for text in texts):
        return {"reference_contexts": texts}
    if all(isinstance(name, str) and name.strip() for name in names):
        return {"expected_sources": names}
    raise _FieldProblem(
        "expected_retrieved_context", "expected each document with its doc_uri, or with its content"
    )


# --- Agent Evaluation


def _of_request(row: Row, source: Source) -> dict[str, object]:
    case: dict[str, object] = {}
    expectations: dict[str, object] = {}
    kept: dict[str, object] = {}
    for name, cell in row.values.items():
        value = spelled(cell) if row.cells else cell
        target = _OF_REQUEST.get(name)
        if name in _EXPECTED:
            expectations[name] = value
            continue
        if target is None:
            kept[name] = value
            continue
        source.roles[target] = name
        if target == "query":
            case[target] = question_in(value)
        elif target == "response":
            case[target] = None if value is None else answer_in(value)
        elif target == "retrieved_contexts":
            case[target] = _chunks(value, source)
        else:
            case[target] = value
    expected, more = _expected(expectations, "", source)
    kept |= more
    case["metadata"] = {name: value for name, value in kept.items() if value is not None}
    return {**case, **expected}


def _chunks(value: object, source: Source) -> object:
    """What was retrieved, as chunks with a text and the document's name."""
    if not is_list(value):
        return value
    chunks: list[object] = []
    for chunk in value:
        if not is_object(chunk) or not isinstance(chunk.get("content"), str):
            raise _FieldProblem(
                "retrieved_context",
                f"expected objects of content and doc_uri, found {describe(chunk)}",
            )
        name = chunk.get("doc_uri")
        if name is None:
            chunks.append(chunk)
            continue
        source.roles["chunk_metadata"] = "retrieved_context[].doc_uri"
        chunks.append({**chunk, "metadata": {"source": name}})
    return chunks


# --- mlflow.evaluate


def _of_results(row: Row, source: Source) -> Row:
    """The user's columns by their names; those that MLflow named by its names."""
    case: dict[str, object] = {}
    for name, value in row.values.items():
        target = name
        if name == "outputs":
            target = "response"
        elif name == "inputs":
            target = "query"
        elif name == "target" and "ground_truth" not in row.values:
            target = "reference"
        elif name == "latency":
            target = "seconds"
        elif _SCORE.fullmatch(name):
            target = f"mlflow {name}"  # of no field of a case
        source.roles[target] = name
        case[target] = value
    return row._replace(values=case)
