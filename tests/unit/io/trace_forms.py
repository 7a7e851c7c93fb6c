"""The same traces as each tool writes them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A trace: a chain that searches (as two nested spans), reranks and asks a model."""

    number: int
    question: str
    documents: list[tuple[str, str]]
    """Id and text."""
    kept: list[int]
    """Which of them the reranker leaves, best first."""
    answer: str
    session: str = "s-1"


Record = dict[str, Any]


def _spans(asked: Asked) -> list[Record]:
    """Ids, kind, second, and what goes in and comes out, in the order in which they end."""
    found = [
        {"page_content": text, "metadata": {"source": id, "id": id}} for id, text in asked.documents
    ]
    given = {"query": asked.question, "documents": found}
    left = {"documents": [found[at] for at in asked.kept]}
    prompt = {"messages": [{"role": "user", "content": f"{asked.question}\n{found}"}]}
    said = {"generations": [[{"text": asked.answer, "message": {}}]]}
    rows: list[tuple[str, str | None, str, int, Any, Any]] = [
        ("_search", "search", "RETRIEVER", 2, asked.question, {"documents": found}),
        ("search", "chain", "RETRIEVER", 1, asked.question, {"documents": found}),
        ("rerank", "chain", "RERANKER", 4, given, left),
        ("model", "chain", "LLM", 5, prompt, said),
        ("chain", None, "CHAIN", 0, {"question": asked.question}, {"answer": asked.answer}),
    ]
    one = f"{asked.number:x}"
    return [
        {
            "trace": f"t-{one}",
            "id": f"{name}-{one}",
            "parent": parent and f"{parent}-{one}",
            "name": name,
            "kind": kind,
            "at": 10 * asked.number + place,
            "in": put,
            "out": out,
        }
        for name, parent, kind, place, put, out in rows
    ]


def _nanoseconds(second: int) -> int:
    return (1_790_000_000 + second) * 1_000_000_000


def _iso(second: int) -> str:
    return f"2026-09-21T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"


def _times(row: Record) -> Record:
    return {"start_time": _iso(row["at"]), "end_time": _iso(row["at"] + 1)}


def _attributes(asked: Asked, row: Record) -> Record:
    """OpenInference's: documents as an attribute a field."""
    held = {
        "openinference.span.kind": row["kind"],
        "input.value": row["in"] if isinstance(row["in"], str) else json.dumps(row["in"]),
        "output.value": json.dumps(row["out"]),
        "session.id": asked.session,
    }
    given, left = "reranker.input_documents", "reranker.output_documents"
    lists = {
        "RETRIEVER": {"retrieval.documents": row["out"]},
        "RERANKER": {given: row["in"], left: row["out"]},
    }.get(row["kind"], {})
    side: Any
    for name, side in lists.items():
        documents: list[Record] = side["documents"]
        for place, one in enumerate(documents):
            held[f"{name}.{place}.document.content"] = one["page_content"]
            held[f"{name}.{place}.document.metadata"] = json.dumps(one["metadata"])
    return held


def sdk(asked: Asked) -> list[Record]:
    return [
        {
            "name": row["name"],
            "kind": "SpanKind.INTERNAL",
            "parent_id": row["parent"],
            "context": {"trace_id": row["trace"], "span_id": row["id"], "trace_state": "[]"},
            **_times(row),
            "status": {"status_code": "OK"},
            "attributes": _attributes(asked, row),
        }
        for row in _spans(asked)
    ]


def otlp(asked: Asked) -> list[Record]:
    def listed(row: Record) -> list[Record]:
        found = _attributes(asked, row).items()
        return [{"key": key, "value": {"stringValue": value}} for key, value in found]

    spans = [
        {
            "traceId": row["trace"],
            "spanId": row["id"],
            "parentSpanId": row["parent"] or "",
            "name": row["name"],
            "startTimeUnixNano": str(_nanoseconds(row["at"])),
            "endTimeUnixNano": str(_nanoseconds(row["at"] + 1)),
            "attributes": listed(row),
            "status": {"code": "STATUS_CODE_OK"},
        }
        for row in _spans(asked)
    ]
    return [{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}]


def phoenix(asked: Asked) -> list[Record]:
    rows: list[Record] = []
    for one in sdk(asked):
        attributes, context = one.pop("attributes"), one.pop("context")
        flat: Record = {}
        for key, value in attributes.items():
            name, dot, rest = key.partition("documents.")
            if dot:
                place, _, field = rest.partition(".")
                listed = flat.setdefault(f"attributes.{name}documents", [])
                listed += [{}] * (int(place) == len(listed))
                listed[int(place)] = {**listed[int(place)], field: value}
            else:
                flat[f"attributes.{key}"] = value
        ids = {f"context.{name}": context[name] for name in ("trace_id", "span_id")}
        kind = attributes["openinference.span.kind"]
        rows.append({**one, **ids, **flat, "span_kind": kind, "status_code": "OK"})
    return rows


def langfuse(asked: Asked) -> list[Record]:
    return [
        {
            "id": row["id"],
            "trace_id": row["trace"],
            "parent_observation_id": row["parent"] or "",
            "type": {"LLM": "GENERATION"}.get(row["kind"], row["kind"]),
            "name": row["name"],
            **_times(row),
            "input": json.dumps(row["in"]),
            "output": json.dumps(row["out"]),
            "session_id": asked.session,
            "level": "DEFAULT",
        }
        for row in _spans(asked)
    ]


def langfuse_api(asked: Asked) -> list[Record]:
    def camel(name: str) -> str:
        first, *others = name.split("_")
        return first + "".join(map(str.title, others))

    rows = [{camel(name): value for name, value in row.items()} for row in langfuse(asked)]
    return [{**row, "parentObservationId": row["parentObservationId"] or None} for row in rows]


def langsmith(asked: Asked) -> list[Record]:
    return [
        {
            "id": row["id"],
            "trace_id": row["trace"],
            "parent_run_id": row["parent"],
            "dotted_order": "",
            "run_type": row["kind"].lower(),
            "name": row["name"],
            **_times(row),
            "inputs": row["in"] if isinstance(row["in"], dict) else {"query": row["in"]},
            "outputs": row["out"],
            "extra": {"metadata": {"session_id": asked.session}},
            "status": "success",
        }
        for row in _spans(asked)
    ]


def mlflow(asked: Asked) -> list[Record]:
    def spelled(row: Record) -> Record:
        held = {"spanType": row["kind"], "spanInputs": row["in"], "spanOutputs": row["out"]}
        named = {f"mlflow.{name}": json.dumps(value) for name, value in held.items()}
        return {**named, "mlflow.trace.session": json.dumps(asked.session)}

    spans = [
        {
            "trace_id": row["trace"],
            "span_id": row["id"],
            "parent_span_id": row["parent"],
            "name": row["name"],
            "start_time_unix_nano": _nanoseconds(row["at"]),
            "end_time_unix_nano": _nanoseconds(row["at"] + 1),
            "attributes": spelled(row),
            "status": {"code": "STATUS_CODE_OK", "message": ""},
        }
        for row in _spans(asked)
    ]
    return [{"info": {"trace_id": "tr"}, "data": {"spans": spans}}]


FORMS: dict[str, Callable[[Asked], list[Record]]] = {
    form.__name__: form for form in (sdk, otlp, phoenix, langfuse, langfuse_api, langsmith, mlflow)
}
