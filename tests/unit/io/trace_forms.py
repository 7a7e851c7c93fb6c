"""The same traces as each tool writes them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class TracedQuestion(NamedTuple):
    """A trace: a chain that searches (as two nested spans), reranks and asks a model."""

    number: int
    question: str
    documents: list[tuple[str, str]]
    """Id and text."""
    reranked: list[int]
    """Which of them the reranker leaves, best first."""
    answer: str
    session: str = "s-1"


Record = dict[str, Any]


class Span(NamedTuple):
    """A span, before a tool writes it in its own form."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    second: int
    """When it begins; each span takes a second."""
    input: Any
    output: Any


def _spans(traced: TracedQuestion) -> list[Span]:
    """The spans of a trace, in the order in which they end."""
    documents: list[Record] = []
    for document_id, text in traced.documents:
        documents.append(
            {"page_content": text, "metadata": {"source": document_id, "id": document_id}}
        )
    retrieved = {"documents": documents}
    to_rerank = {"query": traced.question, "documents": documents}
    best = {"documents": [documents[position] for position in traced.reranked]}
    prompt = {"messages": [{"role": "user", "content": f"{traced.question}\n{documents}"}]}
    completion = {"generations": [[{"text": traced.answer, "message": {}}]]}
    question = {"question": traced.question}
    answer = {"answer": traced.answer}

    suffix = f"{traced.number:x}"

    def span(
        name: str, parent: str | None, kind: str, offset: int, input: Any, output: Any
    ) -> Span:
        return Span(
            trace_id=f"t-{suffix}",
            span_id=f"{name}-{suffix}",
            parent_id=None if parent is None else f"{parent}-{suffix}",
            name=name,
            kind=kind,
            second=10 * traced.number + offset,
            input=input,
            output=output,
        )

    return [
        span("_search", "search", "RETRIEVER", 2, traced.question, retrieved),
        span("search", "chain", "RETRIEVER", 1, traced.question, retrieved),
        span("rerank", "chain", "RERANKER", 4, to_rerank, best),
        span("model", "chain", "LLM", 5, prompt, completion),
        span("chain", None, "CHAIN", 0, question, answer),
    ]


def _nanoseconds(second: int) -> int:
    return (1_790_000_000 + second) * 1_000_000_000


def _iso(second: int) -> str:
    minute, second_of_minute = divmod(second, 60)
    hour, minute_of_hour = divmod(minute, 60)
    return f"2026-09-21T{hour % 24:02}:{minute_of_hour:02}:{second_of_minute:02}.000000Z"


def _times(span: Span) -> Record:
    return {"start_time": _iso(span.second), "end_time": _iso(span.second + 1)}


def _attributes(traced: TracedQuestion, span: Span) -> dict[str, str]:
    """OpenInference's: of each document a text, and its metadata as JSON."""
    question = span.input
    if not isinstance(question, str):
        question = json.dumps(question)
    attributes: dict[str, str] = {
        "openinference.span.kind": span.kind,
        "input.value": question,
        "output.value": json.dumps(span.output),
        "session.id": traced.session,
    }
    documents_by_name: dict[str, list[Record]] = {}
    if span.kind == "RETRIEVER":
        documents_by_name["retrieval.documents"] = span.output["documents"]
    elif span.kind == "RERANKER":
        documents_by_name["reranker.input_documents"] = span.input["documents"]
        documents_by_name["reranker.output_documents"] = span.output["documents"]
    for name, documents in documents_by_name.items():
        for position, document in enumerate(documents):
            prefix = f"{name}.{position}.document"
            attributes[f"{prefix}.content"] = document["page_content"]
            attributes[f"{prefix}.metadata"] = json.dumps(document["metadata"])
    return attributes


def sdk(traced: TracedQuestion) -> list[Record]:
    """As the console exporter of OpenTelemetry's Python SDK prints spans."""
    return [
        {
            "name": span.name,
            "kind": "SpanKind.INTERNAL",
            "parent_id": span.parent_id,
            "context": {"trace_id": span.trace_id, "span_id": span.span_id, "trace_state": "[]"},
            **_times(span),
            "status": {"status_code": "OK"},
            "attributes": _attributes(traced, span),
        }
        for span in _spans(traced)
    ]


def otlp(traced: TracedQuestion) -> list[Record]:
    """OpenTelemetry's protocol as JSON: a trace in one record, attributes as typed pairs."""
    spans: list[Record] = []
    for span in _spans(traced):
        attributes: list[Record] = []
        for key, value in _attributes(traced, span).items():
            attributes.append({"key": key, "value": {"stringValue": value}})
        spans.append(
            {
                "traceId": span.trace_id,
                "spanId": span.span_id,
                "parentSpanId": span.parent_id or "",
                "name": span.name,
                "startTimeUnixNano": str(_nanoseconds(span.second)),
                "endTimeUnixNano": str(_nanoseconds(span.second + 1)),
                "attributes": attributes,
                "status": {"code": "STATUS_CODE_OK"},
            }
        )
    return [{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}]


def phoenix(traced: TracedQuestion) -> list[Record]:
    """As Phoenix exports a data frame: ``context.`` and ``attributes.`` are parts of column names.

    Documents are one column, a list of flat records.
    """
    rows: list[Record] = []
    for span, record in zip(_spans(traced), sdk(traced), strict=True):
        row: Record = {
            "name": span.name,
            "kind": record["kind"],
            "parent_id": span.parent_id,
            **_times(span),
            "status": record["status"],
            "context.trace_id": span.trace_id,
            "context.span_id": span.span_id,
            "span_kind": span.kind,
            "status_code": "OK",
        }
        for key, value in record["attributes"].items():
            before, separator, position_and_field = key.partition("documents.")
            if not separator:
                row[f"attributes.{key}"] = value
                continue
            position, _, field = position_and_field.partition(".")
            documents = row.setdefault(f"attributes.{before}documents", [])
            if int(position) == len(documents):
                documents.append({})
            documents[int(position)][field] = value
        rows.append(row)
    return rows


def langfuse(traced: TracedQuestion) -> list[Record]:
    return [
        {
            "id": span.span_id,
            "trace_id": span.trace_id,
            "parent_observation_id": span.parent_id or "",
            "type": "GENERATION" if span.kind == "LLM" else span.kind,
            "name": span.name,
            **_times(span),
            "input": json.dumps(span.input),
            "output": json.dumps(span.output),
            "session_id": traced.session,
            "level": "DEFAULT",
        }
        for span in _spans(traced)
    ]


def _camel_case(name: str) -> str:
    start, *words = name.split("_")
    return start + "".join(word.title() for word in words)


def langfuse_api(traced: TracedQuestion) -> list[Record]:
    rows: list[Record] = []
    for record in langfuse(traced):
        row = {_camel_case(name): value for name, value in record.items()}
        row["parentObservationId"] = row["parentObservationId"] or None
        rows.append(row)
    return rows


def langsmith(traced: TracedQuestion) -> list[Record]:
    return [
        {
            "id": span.span_id,
            "trace_id": span.trace_id,
            "parent_run_id": span.parent_id,
            "dotted_order": "",
            "run_type": span.kind.lower(),
            "name": span.name,
            **_times(span),
            "inputs": span.input if isinstance(span.input, dict) else {"query": span.input},
            "outputs": span.output,
            "extra": {"metadata": {"session_id": traced.session}},
            "status": "success",
        }
        for span in _spans(traced)
    ]


def mlflow(traced: TracedQuestion) -> list[Record]:
    """A trace in one record, whose attributes are JSON in JSON."""
    spans: list[Record] = []
    for span in _spans(traced):
        spans.append(
            {
                "trace_id": span.trace_id,
                "span_id": span.span_id,
                "parent_span_id": span.parent_id,
                "name": span.name,
                "start_time_unix_nano": _nanoseconds(span.second),
                "end_time_unix_nano": _nanoseconds(span.second + 1),
                "attributes": {
                    "mlflow.spanType": json.dumps(span.kind),
                    "mlflow.spanInputs": json.dumps(span.input),
                    "mlflow.spanOutputs": json.dumps(span.output),
                    "mlflow.trace.session": json.dumps(traced.session),
                },
                "status": {"code": "STATUS_CODE_OK", "message": ""},
            }
        )
    return [{"info": {"trace_id": "tr"}, "data": {"spans": spans}}]


FORMS: dict[str, Callable[[TracedQuestion], list[Record]]] = {
    "sdk": sdk,
    "otlp": otlp,
    "phoenix": phoenix,
    "langfuse": langfuse,
    "langfuse_api": langfuse_api,
    "langsmith": langsmith,
    "mlflow": mlflow,
}
