"""LlamaIndex's ``LabelledRagDataset``, and the predictions that a query engine makes on it.

Facts of the forms, as ``save_json`` and ``to_pandas`` write them:

- a dataset is ``{"examples": [...]}``, each with ``query``, ``query_by``, ``reference_answer``,
  ``reference_answer_by`` and ``reference_contexts``: the texts from which the answer was written,
  and no system's retrieval.
- predictions are ``{"predictions": [...]}``, each with ``response`` and ``contexts`` alone. They
  are in the order of the examples, which is all by which they belong to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.io.detect import container_rows
from ragbench.io.experiments import spelled
from ragbench.io.fields import field_names
from ragbench.io.json_files import read_json_arrays
from ragbench.io.source import Kind, Problems, Row, Source

IN_ORDER = "llamaindex-predictions"
"""The format whose records belong to cases by their order."""
IN_ORDER_OF = "llamaindex"
"""The format of these cases."""
_FIELDS = {
    "query": "query",
    "reference_answer": "reference",
    "reference_contexts": "reference_contexts",
}


def read_dataset(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per example of a LlamaIndex dataset: a question with its right answer.

    No system has answered it yet: answers come from a RAG, or from a file of predictions.
    """
    for row in container_rows(source, problems, field_names("array")["cases"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            target = _FIELDS.get(name, name)
            # Texts stay as they are: a question that begins with a bracket is no list.
            if target in ("query", "reference"):
                case[target] = value
            elif row.cells:
                case[target] = spelled(value)
            else:
                case[target] = value
            source.roles[target] = name
        yield row._replace(values=case, cells=False)


def read_predictions(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per prediction of LlamaIndex, in the order of the file.

    Predictions have no ids and no questions: by its place alone each belongs to an example.
    """
    source.roles["response"] = "response"
    source.roles["retrieved_contexts"] = "contexts"
    for number, row in enumerate(read_json_arrays(source, ("predictions",), problems), start=1):
        values = {
            # This is the id of no case: predictions are joined with cases by their order.
            "id": f"prediction {number}",
            "response": row.values.get("response"),
            "retrieved_contexts": row.values.get("contexts"),
        }
        yield row._replace(values=values)
