"""Tables of Phoenix that are no spans: questions with documents, documents, experiments.

Facts of the forms:

- ``get_qa_with_reference`` writes ``context.span_id, input, output, reference``. ``reference`` is
  what was retrieved, all documents joined by blank lines; it is no right answer.
- ``get_retrieved_documents`` writes a row a document: ``context.span_id, document_position,
  context.trace_id, input, reference, document_score``, where ``reference`` is its text.
- an experiment's download has ``example_id, repetition_number, input, reference_output, output,
  error, latency_ms`` and annotations. The keys of inputs and outputs are the user's own.

Annotations are kept as metadata: another tool's scores are not measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ragbench.io.detect import container_rows
from ragbench.io.experiments import Experiment, PartNames, experiment_case, part_of, spelled
from ragbench.io.fields import field_names
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.spans import answer_in, question_in
from ragbench.io.values import as_score, is_missing

_SPAN = "context.span_id"
_POSITION = "document_position"
_SCORE = "document_score"
_JOINED_NOTE = (
    "Phoenix joins all retrieved documents of a question to one text under 'reference': it counts "
    "as one chunk. get_retrieved_documents writes each document with its score"
)
_PARTS = PartNames(inputs="input", outputs="output", reference="reference_output")


def read_table(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question of a table of Phoenix; of an experiment, one per run.

    Phoenix has three kinds of tables (runs of an experiment, retrieved documents, answers): the
    columns of each row show which one it is.
    """
    rows = container_rows(source, problems, field_names("array")["cases"])
    # Documents of one search have its span in common. A row without a span is a group of its own.
    for span, group in groupby(rows, lambda row: row.values.get(_SPAN) or row.line):
        span_rows = [*group]
        columns = span_rows[0].values
        if "reference_output" in columns:
            yield _run_row(span_rows[0], source)
        elif _POSITION in columns:
            yield _documents_row(span_rows, span, source)
        else:
            for row in span_rows:
                yield _answer_row(row, source)


def _answer_row(row: Row, source: Source) -> Row:
    """The row of a question with its answer, and with all retrieved documents as one text.

    Phoenix joins the documents there; a note tells the user of the table that has them apart.
    """
    source.notes[_JOINED_NOTE] = None
    source.roles |= {
        "id": _SPAN,
        "query": "input",
        "response": "output",
        "retrieved_contexts": "reference",
    }
    text = row.values.get("reference")
    # All documents in one text: where one of them ends is not known.
    chunks = None if is_missing(text) else [text]
    case: dict[str, object] = {
        "id": row.values.get(_SPAN),
        "query": question_in(row.values.get("input")),
        "response": answer_in(row.values.get("output")),
        "retrieved_contexts": chunks,
        "metadata": _columns_without(row, (_SPAN, "input", "output", "reference")),
    }
    return row._replace(values=case, cells=False)


def _documents_row(rows: Sequence[Row], span: object, source: Source) -> Row:
    """The rows of one search, a document each, as one row with all documents by position.

    Args:
        rows: the rows with the same span.
        span: the id of the search, which becomes the id of the case.
        source: takes the roles of the columns.
    """
    source.roles |= {
        "id": _SPAN,
        "query": "input",
        "retrieved_contexts": "reference",
        "retrieved_scores": _SCORE,
    }
    # Rows without a position keep their order.
    ranked = sorted(rows, key=lambda row: as_score(row.values.get(_POSITION)) or 0.0)
    documents = [row.values for row in ranked if not is_missing(row.values.get("reference"))]
    scores = [as_score(document.get(_SCORE)) for document in documents]
    case: dict[str, object] = {
        "id": span,
        "query": question_in(rows[0].values.get("input")),
        "retrieved_contexts": [document["reference"] for document in documents],
    }
    if scores and None not in scores:  # a score for a part of them says nothing of the others
        case["retrieved_scores"] = scores
    return rows[0]._replace(values=case, cells=False)


def _run_row(row: Row, source: Source) -> Row:
    """The row of a run in an experiment of Phoenix: an example with the answer of a system.

    A repetition of an example is a case of its own, in the same cluster, so that statistics do not
    count the two as independent.
    """
    values = dict(row.values)
    if row.cells:
        values = {name: spelled(value) for name, value in values.items()}
    # What is left of the columns once these are read is the case's metadata.
    inputs = part_of(values.pop("input", None))
    outputs = part_of(values.pop("output", None))
    reference = part_of(values.pop("reference_output", None))
    error = values.pop("error", None)
    milliseconds = values.pop("latency_ms", None)
    repetition = values.pop("repetition_number", None)
    experiment = Experiment(inputs, outputs, reference, columns=values, names=_PARTS)
    case = experiment_case(experiment, source.roles)
    # A repetition is another answer to the same question: a case of its own, in the same cluster.
    example = values.get("example_id")
    case["id"] = example
    if as_score(repetition) not in (None, 1.0):
        case["id"] = f"{example}/{repetition}"
    case["cluster"] = example
    case["error"] = error
    case["milliseconds"] = milliseconds
    source.roles |= {"id": "example_id", "cluster": "example_id", "milliseconds": "latency_ms"}
    return row._replace(values=case, cells=False)


def _columns_without(row: Row, names: Sequence[str]) -> dict[str, object]:
    """The columns of a row that did not become fields of the case: they are the case's metadata.

    Scores that Phoenix computed may be in such columns: they are kept as metadata, and ragbench's
    own metrics are computed all the same.
    """
    columns = dict(row.values)
    for name in names:
        columns.pop(name, None)
    return columns
