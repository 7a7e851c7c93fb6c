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
from ragbench.io.fields import case_fields, field_names, squash
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.spans import answer_in, question_in
from ragbench.io.values import ValueProblem, describe, is_list, is_object

Values = Mapping[str, object]

_PARTS = PartNames(inputs="inputs", outputs="outputs", reference="expectations")
_PART_COLUMNS = frozenset(_PARTS)
# Agent Evaluation's columns, each with the field of a case that it is.
_REQUEST_FIELDS: Mapping[str, str] = {
    "request_id": "id",
    "request": "query",
    "response": "response",
    "retrieved_context": "retrieved_contexts",
}
_EXPECTATION_COLUMNS = frozenset(
    {"expected_response", "expected_facts", "expected_retrieved_context"}
)
_SCORE = re.compile(r".+/(?:score|justification)")
_MESSAGES = ("choices", "messages", "output")
"""Where a chat model's response, and an agent's, hold what was said."""


def read_rows(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question of an MLflow file, whichever of its three forms the row has.

    The forms are datasets with expectations, tables of results, and Agent Evaluation: a row's
    columns show which.
    """
    for row in container_rows(source, problems, field_names("array")["cases"]):
        try:
            if "request" in row.values and "inputs" not in row.values:
                case = _request_case(row, source)
            elif mlflow_results(row.values):
                # The user's own columns may spell lists: their cells are read by the next reader.
                yield _results_row(row, source)
                continue
            else:
                case = _dataset_case(row, source)
        except _FieldProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=problem.name)
            continue
        yield row._replace(values=case, cells=False)


class _FieldProblem(ValueProblem):
    """What is wrong with a field, which it names."""

    def __init__(self, name: str, message: str) -> None:
        """Takes the name of the wrong field, which a report shows beside the problem.

        The reader of the rows catches it, and reports the problem with the row's line.
        """
        super().__init__(message)
        self.name = name


# --- mlflow.genai


def _dataset_case(row: Row, source: Source) -> dict[str, object]:
    """The case of a row of ``mlflow.genai``, which has inputs, outputs and expectations.

    Raises:
        _FieldProblem: a field is no object, or no answer is recognised in the outputs.
    """
    values: dict[str, object] = {}
    for name, value in row.values.items():
        values[name] = spelled(value) if row.cells else value
    inputs = _inputs_with_question(_object_in(values, "inputs"))
    expectations = _object_in(values, "expectations")
    expected, own_expectations = _expected_fields(expectations, "expectations.", source)
    columns = {name: value for name, value in values.items() if name not in _PART_COLUMNS}
    if is_object(columns.get("tags")):
        # MLflow's tags are an object: under their own name they would be read as the tags of a
        # case, which are a list.
        columns["mlflow_tags"] = columns.pop("tags")
    for name, value in own_expectations.items():
        columns[f"expectations.{name}"] = value
    experiment = Experiment(
        inputs=inputs,
        outputs=_outputs_with_answer(values.get("outputs")),
        reference={},  # the expectations: they are read above, because their names are fixed
        columns=columns,
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


def _inputs_with_question(inputs: Values) -> Values:
    """The inputs of an MLflow row, with the last question of its conversation as ``query``.

    A row of an agent holds its question in chat messages. Inputs that name a question stay as they
    are.
    """
    query_names = {squash(name) for name in case_fields()["query"]}
    has_query = any(squash(key) in query_names for key in inputs)
    if has_query or not is_list(inputs.get("messages")):
        return inputs
    question = question_in(inputs["messages"])
    if question is None:
        return inputs
    return {**inputs, "query": question}


def _outputs_with_answer(value: object) -> Values:
    """The outputs of an MLflow row as an object, with the answer that its messages hold.

    MLflow stores whatever a model or an agent returned: a text, a list or a chat response.
    """
    if is_object(value) and any(is_list(value.get(name)) for name in _MESSAGES):
        answer = answer_in(value)
        if answer is not None:
            return {**value, "response": answer}
    if value is None or is_object(value) or isinstance(value, str):
        return part_of(value)
    # A list or a number is kept whole: no text is recognised in it.
    return {"value": value}


def _object_in(values: Values, name: str) -> Values:
    """The object in a field of an MLflow row; empty where the field is missing or null.

    Raises:
        _FieldProblem: the field holds something else, so that MLflow did not write it.
    """
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


def _expected_fields(
    expectations: Values, place: str, source: Source
) -> tuple[dict[str, object], dict[str, object]]:
    """A case's fields for the expectations that MLflow names, and the expectations of the user.

    MLflow reserves names such as ``expected_response``. The user's own ones become metadata.

    Args:
        expectations: by name.
        place: their path in a record, with the dot behind it: a report names it.
        source: its roles say afterwards which field comes from which expectation.
    """
    case: dict[str, object] = {}
    own_expectations: dict[str, object] = {}
    references = {squash(name) for name in (*case_fields()["reference"], "expected_response")}
    for name, value in expectations.items():
        fields: dict[str, object] = {}
        if name == "expected_retrieved_context":
            fields = _expected_documents(value)
        # The first of several counts; any other one is kept as the user's own.
        elif squash(name) in references and "reference" not in case:
            fields = {"reference": value}
        else:
            own_expectations[name] = value
        case |= fields
        source.roles.update(dict.fromkeys(fields, f"{place}{name}"))
    return case, own_expectations


def _expected_documents(value: object) -> dict[str, object]:
    """The relevant texts of an expectation, where each document has one; else the documents' names.

    A name is enough to see whether retrieval found the document.

    Raises:
        _FieldProblem: the value holds no documents, or one with neither a text nor a name.
    """
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
    # Texts count before names: by its text a chunk is found, whatever its document is called.
    if all(isinstance(text, str) and text.strip() for text in texts):
        return {"reference_contexts": texts}
    if all(isinstance(name, str) and name.strip() for name in names):
        return {"expected_sources": names}
    raise _FieldProblem(
        "expected_retrieved_context", "expected each document with its doc_uri, or with its content"
    )


# --- Agent Evaluation


def _request_case(row: Row, source: Source) -> dict[str, object]:
    """The case of a row of MLflow's Agent Evaluation, which has each expectation in its own column.

    A column that is neither an expectation nor a known field is kept as metadata.
    """
    case: dict[str, object] = {}
    expectations: dict[str, object] = {}
    metadata: dict[str, object] = {}
    for name, cell in row.values.items():
        value = spelled(cell) if row.cells else cell
        target = _REQUEST_FIELDS.get(name)
        if name in _EXPECTATION_COLUMNS:
            expectations[name] = value
            continue
        if target is None:
            metadata[name] = value
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
    # All at once, since of several references only the first counts.
    expected, own_expectations = _expected_fields(expectations, "", source)
    metadata |= own_expectations
    case["metadata"] = {name: value for name, value in metadata.items() if value is not None}
    return {**case, **expected}


def _chunks(value: object, source: Source) -> object:
    """The retrieved chunks of an Agent Evaluation row, with the document's name as metadata.

    Raises:
        _FieldProblem: a chunk is no object with a text.
    """
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
        # A chunk without the name of its document gets no metadata.
        if name is None:
            chunks.append(chunk)
            continue
        source.roles["chunk_metadata"] = "retrieved_context[].doc_uri"
        chunks.append({**chunk, "metadata": {"source": name}})
    return chunks


# --- mlflow.evaluate


def _results_row(row: Row, source: Source) -> Row:
    """A row of ``mlflow.evaluate`` with MLflow's own columns under the names of a case's fields.

    Other columns are the user's and keep their names. Scores of MLflow get names that mean no field
    of a case, and so become metadata.
    """
    case: dict[str, object] = {}
    for name, value in row.values.items():
        target = name
        if name == "outputs":
            target = "response"
        elif name == "inputs":
            target = "query"
        # A column ``ground_truth`` is recognised by itself, and is the surer one.
        elif name == "target" and "ground_truth" not in row.values:
            target = "reference"
        elif name == "latency":
            target = "seconds"
        elif _SCORE.fullmatch(name):
            target = f"mlflow {name}"
        source.roles[target] = name
        case[target] = value
    return row._replace(values=case)
