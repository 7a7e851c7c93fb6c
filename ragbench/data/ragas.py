"""RAGAS files: an EvaluationDataset or a test set as JSONL, CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ragbench.data.delimited import read_csv
from ragbench.data.json_file import read as read_json
from ragbench.data.json_lines import read as read_json_lines
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source

__all__ = ["read"]


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a sample; a test set's ``eval_sample`` is unpacked.

    ``response``, ``retrieved_contexts`` and the like, which a system said, become metadata.
    Several turns (``user_input`` as a list) are a problem: a case asks one question.
    """
    reader = {".csv": read_csv, ".json": read_json}.get(source.suffix, read_json_lines)
    for row in reader(source, kind=kind, problems=problems):
        values = row.values
        inner = values.get("eval_sample")
        if isinstance(inner, Mapping):
            rest = {name: value for name, value in values.items() if name != "eval_sample"}
            values = {**cast("Mapping[str, object]", inner), **rest}
        if isinstance(values.get("user_input"), list):
            message = "expected one question as text, found a conversation of several turns"
            problems.add(message, path=row.path, line=row.line, field="user_input")
            continue
        # RAGAS writes every field of every sample, null where it has none.
        known = {name: value for name, value in values.items() if value is not None}
        yield row._replace(values=known)
