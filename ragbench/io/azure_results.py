"""Results of evaluations of Azure's samples and of azure-ai-evaluation.

Facts of the forms:

- Azure's RAG samples write ``question, truth, answer, context, latency`` and their own metrics
  (``gpt_groundedness``, ...): ``truth`` is the reference, ``answer`` is the system's, ``context``
  is what was retrieved, a source a line as ``name.md: text``, or JSON text keyed by id.
- azure-ai-evaluation writes ``inputs.query``, ``inputs.response``, ``inputs.context`` and
  ``inputs.ground_truth``, and its scores under ``outputs.EVALUATOR.METRIC``.

Scores of the other tool are kept as metadata: they are not measured here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import orjson

from ragbench.io.detect import container_rows
from ragbench.io.fields import field_names
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import is_list, is_object

_FIELDS: Mapping[str, str] = {
    "question": "query",
    "truth": "reference",
    "answer": "response",
    "latency": "seconds",
    "inputs.query": "query",
    "inputs.ground_truth": "reference",
    "inputs.response": "response",
    "outputs.response": "response",
}
_CONTEXT = frozenset({"context", "inputs.context"})
"""Columns with all that was retrieved in one text."""
_SOURCE = re.compile(r"^(?P<id>[^\s:]+\.\w{1,5}(?:#[^\s:]+)?): ?", re.MULTILINE)
"""The name of a file at the beginning of a line, as the samples write it before its text."""


def read_results(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question of Azure's results, with its answer and context as outcomes.

    So a system that was evaluated there is scored here without asking it again. Azure's own scores
    stay under their names and become metadata.
    """
    for row in container_rows(source, problems, field_names("array")["azure"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            if name in _CONTEXT:
                retrieved = _retrieved_chunks(value)
                source.roles.update(dict.fromkeys(retrieved, name))
                case |= retrieved
                continue
            target = _FIELDS.get(name, name)
            source.roles[target] = name
            case[target] = value
        # The context is spelled out already: a text that looks like a list is a text from here on.
        yield row._replace(values=case, cells=False)


def _retrieved_chunks(context: object) -> dict[str, object]:
    """The retrieved chunks in a context cell of Azure's results, as fields of a case.

    Azure's samples write the cell in three forms: JSON keyed by id, a JSON list, or lines that each
    begin with a file's name. A text that only looks like JSON is read by its lines.

    Returns:
        ``retrieved_contexts``, and ``retrieved_context_ids`` where the cell has ids; empty where
            nothing was retrieved.
    """
    # Nothing was retrieved, or nothing was logged, which is not the same as no chunks: no field.
    if context is None or context == "":
        return {}
    value = context
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = context
    if is_object(value):
        return _chunks_by_id(value)
    if is_list(value):
        return {"retrieved_contexts": list(value)}
    return _chunks_by_lines(str(value))


def _chunks_by_id(chunks: Mapping[str, object]) -> dict[str, object]:
    """The retrieved chunks of a JSON object that is keyed by chunk id, as fields of a case.

    A chunk is a text, or an object with a text under a known name. Where one is neither, the object
    is not such a list of chunks, and its whole JSON is taken as one retrieved text.
    """
    texts: list[object] = []
    for chunk in chunks.values():
        text = chunk
        if is_object(chunk):
            names = [name for name in field_names("hit")["text"] if name in chunk]
            text = chunk[names[0]] if names else None
        texts.append(text)
    # With a value that has no text, the keys are names of fields, not ids of chunks.
    if not all(isinstance(text, str) for text in texts):
        return {"retrieved_contexts": [orjson.dumps(chunks).decode()]}
    return {"retrieved_contexts": texts, "retrieved_context_ids": list(chunks)}


def _chunks_by_lines(text: str) -> dict[str, object]:
    """The retrieved chunks of a text in which each begins with the name of its file.

    A text without such names is one chunk. The names are ids only where each is there once: two
    chunks of a file share its name.
    """
    names = list(_SOURCE.finditer(text))
    if not names or names[0].start() != 0:
        return {"retrieved_contexts": [text]}
    # A chunk ends where the name of the next one begins.
    ends = [name.start() for name in names[1:]]
    ends.append(len(text))
    ids: list[str] = []
    texts: list[str] = []
    for name, end in zip(names, ends, strict=True):
        ids.append(name["id"])
        texts.append(text[name.end() : end].strip())
    if len(set(ids)) < len(ids):  # two chunks of a file: its name is no id of a chunk
        return {"retrieved_contexts": texts}
    return {"retrieved_contexts": texts, "retrieved_context_ids": ids}
