"""RAGs behind HTTP; the JSON contract is described in docs/http.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from ragbench.core.case import Said
from ragbench.core.result import GenerationResult, Metadata, RetrievalResult
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.http import VERSION_HEADER, HTTPRagError, JsonEndpoint
from ragbench.rag.fallback import settled, to_generation_result, to_retrieval_result
from ragbench.rag.interface import AsyncRAGInterface, RAGInterface
from ragbench.rag.parts import Parts, compose, parts_of_one_call
from ragbench.rag.shapes import as_mapping

_Read = Callable[[Mapping[str, Any], str], Any]
"""Makes a result of the fields of one; the second argument names it in errors."""


class RemoteQueryError(HTTPRagError):
    """The server says that one query of a batch failed."""


class RagEndpoint(JsonEndpoint):
    """A server that is a RAG, or a part of one."""

    @property
    def unseen_because(self) -> str | None:
        """Why its answers may change without anybody here seeing it; None where they may not."""
        if self.version is None:
            return f"{self.url} names no version ({VERSION_HEADER})"
        if len(self.versions) > 1:
            named = " and ".join(f"'{version}'" for version in self.versions)
            return f"{self.url} answered in several versions, {named}"
        return None

    def results(self, path: str, payload: Mapping[str, Any], read: _Read) -> list[Any]:
        """The result of each query, or the exception that it failed with."""
        where, size = f"{self.url}{path}", len(payload["queries"])
        results = (as_mapping(self.post(path, payload)) or {}).get("results")
        if not isinstance(results, list):
            raise HTTPRagError(f"{where} must answer with {{'results': [...]}}")
        items = cast("list[Any]", results)
        if len(items) != size:
            raise HTTPRagError(f"{where} answered with {len(items)} results for {size} queries")
        return [_result(item, read, where) for item in items]


def _result(item: Any, read: _Read, where: str) -> Any:
    fields = as_mapping(item)
    if fields is None:
        return HTTPRagError(f"{where}: a result must be an object, not {type(item).__name__}")
    error = fields.get("error")
    if error is not None:
        failure = as_mapping(error) or {"message": error}
        kind = failure.get("type") or "error"
        return RemoteQueryError(f"{where}: {kind}: {failure.get('message') or 'no message'}")
    try:
        return read(fields, where)
    except InterfaceError as problem:
        return problem


def http_rag(url: str, **options: Any) -> RAGInterface[Any] | AsyncRAGInterface[Any]:
    """The RAG behind a URL, by its last segment."""
    unknown = sorted(options.keys() - {"headers", "timeout", "retries"})
    if unknown:
        raise ConfigError(
            f"an HTTP endpoint takes no {', '.join(unknown)}; it takes headers, timeout, retries"
        )
    parts = urlsplit(url)
    base, _, last = parts.path.rstrip("/").rpartition("/")
    makes = {"retrieve": (_retrieving,), "generate": (_generating,), "answer": (_answering,)}
    address = parts._replace(path=base).geturl() if last in makes else url
    endpoint = RagEndpoint(address, **options)
    chosen = makes.get(last, (_retrieving, _generating))
    rag: Any = compose("HTTPRag", [make(endpoint) for make in chosen])
    rag.adapts = (endpoint,)
    rag.close = endpoint.close
    rag.rebuild = partial(http_rag, url, **options)
    return cast("RAGInterface[Any] | AsyncRAGInterface[Any]", rag)


def _retrieving(endpoint: RagEndpoint) -> Parts:
    def read(fields: Mapping[str, Any], where: str) -> RetrievalResult[Any]:
        return to_retrieval_result(RetrievalResult.from_mapping(fields), where)

    def retrieve(
        queries: list[str], top_k: int | None = None, history: Sequence[Said] = ()
    ) -> list[RetrievalResult[Metadata]]:
        payload = {"queries": queries, "top_k": top_k, **_said(history)}
        found = endpoint.results("/retrieve", payload, read)
        return settled(found, f"{endpoint.url}/retrieve")

    return Parts(source=endpoint, methods={"batch_retrieve_with_metadata": retrieve})


def _generating(endpoint: RagEndpoint) -> Parts:
    def read(fields: Mapping[str, Any], where: str) -> GenerationResult[Any]:
        return to_generation_result(GenerationResult.from_mapping(fields), where)

    def generate(
        queries: list[str], contexts_list: list[list[str]], history: Sequence[Said] = ()
    ) -> list[GenerationResult[Metadata]]:
        contexts = [list(given) for given in contexts_list]
        payload = {"queries": queries, "contexts": contexts, **_said(history)}
        found = endpoint.results("/generate", payload, read)
        return settled(found, f"{endpoint.url}/generate")

    return Parts(source=endpoint, methods={"batch_generate_with_metadata": generate})


def _answering(endpoint: RagEndpoint) -> Parts:
    where = f"{endpoint.url}/answer"

    def ask_batch(
        queries: list[str], top_k: int | None = None, history: Sequence[Said] = ()
    ) -> list[Any]:
        payload = {"queries": queries, "top_k": top_k, **_said(history)}
        return endpoint.results("/answer", payload, lambda fields, _: dict(fields))

    def ask(query: str, top_k: int | None = None, history: Said = ()) -> Any:
        return settled(ask_batch([query], top_k, [history]), where)[0]

    return parts_of_one_call(
        endpoint, ask, where, ask_batch=ask_batch, keyword="top_k", history="history"
    )


def _said(history: Sequence[Said]) -> dict[str, Any]:
    """What was said before each query; nothing where nothing was."""
    return {"history": [list(said) for said in history]} if any(history) else {}
