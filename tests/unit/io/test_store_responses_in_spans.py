"""A store's response in a span is read as it is in a dump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source
from ragbench.io.dumps.forms import forms
from ragbench.io.joined import open_dump
from tests.unit.io.traces import lines

FRAMEWORKS = {"ragbench", "plain", "openinference", "langchain", "llamaindex", "ragas", "pgvector"}
STORES = [name for name in forms() if name not in FRAMEWORKS]
QUESTION = "When does the pool open?"


def openinference(response: object) -> list[dict[str, Any]]:
    def span(name: str, kind: str, parent: str | None, question: str, output: str) -> Any:
        return {
            "name": name,
            "parent_id": parent,
            "context": {"trace_id": "0x1", "span_id": name},
            "attributes": {
                "openinference.span.kind": kind,
                "input.value": question,
                "output.value": output,
            },
        }

    return [
        span("rag", "CHAIN", None, QUESTION, "At seven."),
        span("search", "RETRIEVER", "rag", QUESTION, json.dumps(response)),
    ]


def mlflow(response: object) -> list[dict[str, Any]]:
    def span(name: str, kind: str, parent: str | None, question: object, output: object) -> Any:
        return {
            "name": name,
            "span_id": name,
            "trace_id": "t",
            "parent_id": parent,
            "attributes": {
                "mlflow.spanType": json.dumps(kind),
                "mlflow.spanInputs": json.dumps(question),
                "mlflow.spanOutputs": json.dumps(output),
            },
        }

    spans = [
        span("rag", "CHAIN", None, {"question": QUESTION}, "At seven."),
        span("search", "RETRIEVER", "rag", {"query": QUESTION}, response),
    ]
    return [{"info": {"trace_id": "t"}, "data": {"spans": spans}}]


def langfuse(response: object) -> list[dict[str, Any]]:
    search = {
        "id": "s",
        "traceId": "t",
        "type": "RETRIEVER",
        "parentObservationId": None,
        "input": {"query": QUESTION},
        "output": response,
    }
    trace = {"id": "t", "input": {"question": QUESTION}, "output": "At seven.", "latency": 1.0}
    return [{"trace": trace, "observations": [search]}]


@pytest.mark.parametrize("dialect", [openinference, mlflow, langfuse])
@pytest.mark.parametrize("name", STORES)
def test_a_span_holds_the_chunks_of_the_dump(
    tmp_path: Path, name: str, dialect: Callable[[object], list[dict[str, Any]]]
) -> None:
    response = json.loads(forms()[name].example)
    dump_path = lines(tmp_path / "dump.jsonl", [{"query": QUESTION, "response": response}])
    trace_path = lines(tmp_path / "trace.jsonl", dialect(response))

    with open_dump(dump_path) as dump:
        (retrieval,) = dump
    with open_source(trace_path) as source:
        (entry,) = source

    assert entry.case.query == QUESTION
    result = entry.recorded["retrieve"].value
    assert result is not None
    assert list(result.contexts) == [chunk.text for chunk in retrieval.chunks]
    # A dump numbers chunks without ids; a span leaves them without.
    if dump.mapping.id is not None:
        assert list(result.context_ids or ()) == [chunk.id for chunk in retrieval.chunks]
    if dump.mapping.score is not None:
        assert list(result.scores or ()) == [chunk.score for chunk in retrieval.chunks]
