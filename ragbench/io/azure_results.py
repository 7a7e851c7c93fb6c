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
    """Yields one row per question, with what was asked, answered and retrieved as outcomes."""
    for row in container_rows(source, problems, field_names("array")["azure"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            if name in _CONTEXT:
                retrieved = _retrieved(value)
                source.roles.update(dict.fromkeys(retrieved, name))
                case |= retrieved
                continue
            target = _FIELDS.get(name, name)
            source.roles[target] = name
            case[target] = value
        yield row._replace(values=case, cells=False)


def _retrieved(context: object) -> dict[str, object]:
    """The chunks of a context, with their ids where it names them."""
    if context is None or context == "":
        return {}
    value = context
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = context
    if is_object(value):
        return _of_mapping(value)
    if is_list(value):
        return {"retrieved_contexts": list(value)}
    return _of_lines(str(value))


def _of_mapping(chunks: Mapping[str, object]) -> dict[str, object]:
    """Chunks under their ids: texts, or objects with a text; any other object is one text."""
    texts: list[object] = []
    for chunk in chunks.values():
        text = chunk
        if is_object(chunk):
            names = [name for name in field_names("hit")["text"] if name in chunk]
            text = chunk[names[0]] if names else None
        texts.append(text)
    if not all(isinstance(text, str) for text in texts):
        return {"retrieved_contexts": [orjson.dumps(chunks).decode()]}
    return {"retrieved_contexts": texts, "retrieved_context_ids": list(chunks)}


def _of_lines(text: str) -> dict[str, object]:
    """Chunks that each begin with the name of their file; a text without names is one chunk."""
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
