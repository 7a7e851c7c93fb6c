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
    """Name, parent, kind, and what goes in and comes out, in the order in which they end."""
    found = [
        {"page_content": text, "metadata": {"source": id, "id": id}} for id, text in asked.documents
    ]
    kept = [found[at] for at in asked.kept]
    search = {"kind": "RETRIEVER", "in": asked.question, "out": {"documents": found}}
    rows: dict[str, Record] = {
        "_search": {**search, "parent": "search"},
        "search": {**search, "parent": "chain"},
        "rerank": {
            "kind": "RERANKER",
            "parent": "chain",
            "in": {"query": asked.question, "documents": found},
            "out": {"documents": kept},
        },
        "model": {
            "kind": "LLM",
            "parent": "chain",
            "in": {"messages": [{"role": "user", "content": f"{asked.question}\n{found}"}]},
            "out": {"generations": [[{"text": asked.answer, "message": {}}]]},
        },
        "chain": {
            "kind": "CHAIN",
            "parent": None,
            "in": {"question": asked.question},
            "out": {"answer": asked.answer},
        },
    }
    at = {name: 10 * asked.number + place for place, name in enumerate(("chain", "search"))}
    for place, (name, row) in enumerate(rows.items()):
        row |= {"name": name, "start": at.get(name, 10 * asked.number + place + 2)}
        row["end"] = row["start"] + 1
    return list(rows.values())


def _ids(asked: Asked, row: Record) -> tuple[str, str, str | None]:
    parent = row["parent"]
    one = f"{asked.number:x}"
    return f"t-{one}", f"{row['name']}-{one}", parent and f"{parent}-{one}"


def _nanoseconds(second: int) -> int:
    return (1_790_000_000 + second) * 1_000_000_000


def _iso(second: int) -> str:
    return f"2026-09-21T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"


def _attributes(asked: Asked, row: Record) -> Record:
    """OpenInference's: documents as an attribute a field."""
    held = {
        "openinference.span.kind": row["kind"],
        "input.value": row["in"] if isinstance(row["in"], str) else json.dumps(row["in"]),
        "output.value": json.dumps(row["out"]),
        "session.id": asked.session,
    }
    lists: dict[str, Any] = {}
    given: Any = row["in"]
    left: Any = row["out"]
    if row["kind"] == "RETRIEVER":
        lists = {"retrieval.documents": left["documents"]}
    if row["kind"] == "RERANKER":
        lists = {
            "reranker.input_documents": given["documents"],
            "reranker.output_documents": left["documents"],
        }
    for name, documents in lists.items():
        for place, one in enumerate(documents):
            held[f"{name}.{place}.document.content"] = one["page_content"]
            held[f"{name}.{place}.document.metadata"] = json.dumps(one["metadata"])
    return held


def sdk(asked: Asked) -> list[Record]:
    return [
        {
            "name": row["name"],
            "context": {"trace_id": trace, "span_id": id, "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": parent,
            "start_time": _iso(row["start"]),
            "end_time": _iso(row["end"]),
            "status": {"status_code": "OK"},
            "attributes": _attributes(asked, row),
        }
        for row in _spans(asked)
        for trace, id, parent in [_ids(asked, row)]
    ]


def otlp(asked: Asked) -> list[Record]:
    spans = [
        {
            "traceId": trace,
            "spanId": id,
            "parentSpanId": parent or "",
            "name": row["name"],
            "startTimeUnixNano": str(_nanoseconds(row["start"])),
            "endTimeUnixNano": str(_nanoseconds(row["end"])),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in _attributes(asked, row).items()
            ],
            "status": {"code": "STATUS_CODE_OK"},
        }
        for row in _spans(asked)
        for trace, id, parent in [_ids(asked, row)]
    ]
    return [{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}]


def phoenix(asked: Asked) -> list[Record]:
    rows: list[Record] = []
    for one in sdk(asked):
        attributes = one.pop("attributes")
        context = one.pop("context")
        lists: dict[str, dict[int, Record]] = {}
        flat = {}
        for key, value in attributes.items():
            name, dot, rest = key.partition("documents.")
            if dot:
                place, _, field = rest.partition(".")
                lists.setdefault(f"{name}documents", {}).setdefault(int(place), {})[field] = value
            else:
                flat[f"attributes.{key}"] = value
        flat |= {f"attributes.{name}": [*held.values()] for name, held in lists.items()}
        ids = {f"context.{name}": context[name] for name in ("trace_id", "span_id")}
        kind = attributes["openinference.span.kind"]
        rows.append({**one, **ids, **flat, "span_kind": kind, "status_code": "OK"})
    return rows


def langfuse(asked: Asked) -> list[Record]:
    kinds = {"LLM": "GENERATION"}
    return [
        {
            "id": id,
            "trace_id": trace,
            "parent_observation_id": parent or "",
            "type": kinds.get(row["kind"], row["kind"]),
            "name": row["name"],
            "start_time": _iso(row["start"]),
            "end_time": _iso(row["end"]),
            "input": json.dumps(row["in"]),
            "output": json.dumps(row["out"]),
            "session_id": asked.session,
            "level": "DEFAULT",
        }
        for row in _spans(asked)
        for trace, id, parent in [_ids(asked, row)]
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
            "id": id,
            "trace_id": trace,
            "parent_run_id": parent,
            "dotted_order": "",
            "run_type": row["kind"].lower(),
            "name": row["name"],
            "start_time": _iso(row["start"]),
            "end_time": _iso(row["end"]),
            "inputs": row["in"] if isinstance(row["in"], dict) else {"query": row["in"]},
            "outputs": row["out"],
            "extra": {"metadata": {"session_id": asked.session}},
            "status": "success",
        }
        for row in _spans(asked)
        for trace, id, parent in [_ids(asked, row)]
    ]


def mlflow(asked: Asked) -> list[Record]:
    def spelled(row: Record) -> Record:
        held = {"spanType": row["kind"], "spanInputs": row["in"], "spanOutputs": row["out"]}
        named = {f"mlflow.{name}": json.dumps(value) for name, value in held.items()}
        return {**named, "mlflow.trace.session": json.dumps(asked.session)}

    spans = [
        {
            "trace_id": trace,
            "span_id": id,
            "parent_span_id": parent,
            "name": row["name"],
            "start_time_unix_nano": _nanoseconds(row["start"]),
            "end_time_unix_nano": _nanoseconds(row["end"]),
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": spelled(row),
        }
        for row in _spans(asked)
        for trace, id, parent in [_ids(asked, row)]
    ]
    return [{"info": {"trace_id": "tr"}, "data": {"spans": spans}}]


FORMS: dict[str, Callable[[Asked], list[Record]]] = {
    "sdk": sdk,
    "otlp": otlp,
    "phoenix": phoenix,
    "langfuse": langfuse,
    "langfuse_api": langfuse_api,
    "langsmith": langsmith,
    "mlflow": mlflow,
}
