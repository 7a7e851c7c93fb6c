"""A RAG behind any HTTP service: asked by a mapping, one question per request (docs/http.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.case import Said
from ragbench.core.result import RetrievalResult
from ragbench.errors import ConfigError
from ragbench.io.http import HTTPRagError, JsonEndpoint
from ragbench.io.json_files import is_unambiguous
from ragbench.io.source import Problems
from ragbench.ledger.identity import AS_SAID, described
from ragbench.rag.contract import Contract, is_misunderstood
from ragbench.rag.interface import AsyncRAGInterface, RAGInterface
from ragbench.rag.parts import OneCall, Parts, compose, taking_history
from ragbench.rag.proposal import asks_for_credentials, error_in, proposed_send, proposed_take
from ragbench.rag.response_body import Body, read_body
from ragbench.rag.service_mapping import (
    MappingError,
    Service,
    ServiceMapping,
    read_mapping,
    read_response,
)
from ragbench.rag.service_request import Question, Request, request_of, send_lines
from ragbench.rag.shapes import read_retrieval

if TYPE_CHECKING:
    import httpx

MAPPING_OPTIONS = frozenset({"send", "take"})
"""Arguments of a RAG's address that say that it is a foreign service."""


class ServiceEndpoint(JsonEndpoint):
    """A foreign service, asked by a mapping."""

    def __init__(self, mapping: ServiceMapping, **options: Any) -> None:
        """Takes the service's mapping, and the options of `JsonEndpoint`, such as a timeout.

        As long as no answer could be read, an error ends the run.
        """
        super().__init__(mapping.address, headers=mapping.headers, **options)
        self.mapping = mapping
        self._contract = Contract()
        """Whether the service was understood so far, over all questions of the run."""

    @property
    def version(self) -> None:
        """The service's version: None, as a foreign service is asked nothing but questions.

        A server that speaks ragbench's own requests has a version in a header.
        """
        return

    @property
    def unseen_because(self) -> str:
        """Why the service's answers may change without a trace here: it names no version.

        Stored answers are so not reused by a later run.
        """
        return f"{self.url} is a service that names no version"

    def stage_identity(self, stage: str) -> object:
        """The service's address without credentials, with what is sent to it and taken from it.

        Results of another mapping are those of another system.
        """
        return {"url": self.url, "mapping": described(self.mapping.written, at=AS_SAID)}

    def ask(self, question: Question) -> dict[str, Any]:
        """The fields of the service's answer to a question, as the mapping takes them.

        The mapping names the service's own fields for the question, the answer and the contexts.

        Raises:
            ContractError: the service refuses the request, or does not answer as it is mapped.
            HTTPRagError: the service answered with an error of its own.
            UnreachableError: there is no connection.
            StageTimeoutError: the service did not answer in time.
        """
        mapping = self.mapping
        # Refused before the service is asked: it would give as many contexts as it likes, and
        # metrics would not be comparable.
        if question.top_k is not None and "top_k" not in mapping.placeholders:
            raise self._contract.error(
                f"{self.url} is not sent that {question.top_k} contexts are wanted: add --send "
                "top_k={top_k}, with the field of the service, or leave out --top-k"
            )
        try:
            body = self.body_of(question)
        except HTTPRagError as error:
            status = error.status
            if status is None or not is_misunderstood(status):
                raise
            advice = proposed_send(status, error.body, mapping.method, mapping.send)
            if status in (401, 403):
                advice = asks_for_credentials(error.body, mapping.key)
            raise self._contract.error(f"{error}. {advice}", status) from None
        if not mapping.take:
            problem = f"{self.url} answers, and --take names nothing in its response"
            raise self._contract.error(f"{problem}. {proposed_take(body)}")
        try:
            fields = read_response(body, mapping)
        except MappingError as error:
            reason = self._masked(f"{error}{error_in(body)}")
            problem = f"{self.url} answers otherwise than it is mapped: {reason}"
            raise self._contract.error(f"{problem}. {proposed_take(body)}") from None
        self._contract.is_met = True
        return fields

    def body_of(self, question: Question) -> Body:
        """The body of the service's response to a question, read by its form.

        JSON in which a key is there twice is refused: readers would disagree on its value.
        """
        mapping = self.mapping
        request = request_of(
            mapping.method, mapping.address, mapping.send, mapping.headers, question
        )
        response = self._successful_response(request.address, self.url, request)
        body = read_body(response.text, response.headers.get("content-type", ""))
        # Of a stream or a text no single document is all of the content.
        if body.is_json and not body.is_stream:
            problems = Problems()
            document = body.documents[0]
            if not is_unambiguous(response.content, document, "its answer", 1, problems):
                raise HTTPRagError(f"{self.url}: {problems.items[0]}")
        return body

    def _request_of(self, address: str | httpx.URL, payload: Any) -> dict[str, Any]:
        """The options with which httpx sends a request to the service.

        The fields are JSON, a form, or in the address already. `JsonEndpoint`, which makes the
        exchange, calls this method by its name.
        """
        # What `body_of` passes on as the payload.
        request = cast("Request", payload)
        options: dict[str, Any] = {"method": request.method, "url": address}
        if request.json is not None:
            options["json"] = request.json
        if request.form is not None:
            options["data"] = request.form
        return options


def service_rag(service: Service, **options: Any) -> RAGInterface[Any] | AsyncRAGInterface[Any]:
    """The RAG of a foreign service, one that does not speak ragbench's own requests.

    The service is asked one question per request, by a mapping of its fields.

    Args:
        options: ``send``, ``take`` and ``headers``, and those of the endpoint.
    """
    mapping_options = {name: options.pop(name, None) for name in ("send", "take", "headers")}
    mapping = read_mapping(service, **mapping_options)
    unknown = sorted(options.keys() - {"timeout", "retries", "repeatable"})
    if unknown:
        raise ConfigError(
            f"a service takes no {', '.join(unknown)}; it takes send, take, headers, timeout, "
            "retries, repeatable"
        )
    endpoint = ServiceEndpoint(mapping, **options)
    rag: Any = compose("ServiceRag", [_parts_of_service(endpoint)])
    # Set here, as the class was made of the parts alone.
    rag.adapts = (endpoint,)
    rag.bears_calls = True
    rag.close = endpoint.close
    rag.rebuild = partial(service_rag, service, **mapping_options, **options)
    return cast("RAGInterface[Any] | AsyncRAGInterface[Any]", rag)


def mapping_notes(rag: object) -> tuple[str, ...]:
    """A note for the report on how a foreign service is asked; none for any other RAG.

    Readers of the numbers see by it what was measured.
    """
    notes: list[str] = []
    for source in getattr(rag, "adapts", ()):
        if isinstance(source, ServiceEndpoint):
            notes.append(_note_on_mapping(source.mapping))
    return tuple(notes)


def _note_on_mapping(mapping: ServiceMapping) -> str:
    """A sentence on how a service was asked and read, without credentials.

    Fields and paths are as in the options ``--send`` and ``--take``.
    """
    # As the user wrote it, with secrets masked: the filled-in fields may hold them.
    sent = send_lines(cast("dict[str, Any]", described(mapping.written["send"], at=AS_SAID)))
    taken = [f"{taken.name}={taken.paths[0].text}" for taken in mapping.take]
    return (
        f"The service was asked by {mapping.method} with {', '.join(sent) or 'its address alone'}; "
        f"of its response was taken {', '.join(taken)}."
    )


def _parts_of_service(endpoint: ServiceEndpoint) -> Parts:
    """The methods of a RAG that a service gives: both halves of one call, or retrieval alone.

    Retrieval alone, where the mapping takes contexts and no answer.
    """
    mapping = endpoint.mapping
    history = None
    if mapping.placeholders & {"history", "messages"}:
        history = "history"
    # Without anything to take it is asked as well: its first response shows what could be taken.
    if not mapping.take or "answer" in mapping.names:
        call = OneCall(
            endpoint,
            partial(_ask_service, endpoint),
            endpoint.url,
            keyword="top_k",
            history=history,
            remedy="To have it measured, say where they are: --take contexts=PATH",
        )
        return call.parts()
    method: Callable[..., Any] = taking_history(partial(_retrieve_by_service, endpoint), history)
    methods: Mapping[str, Callable[..., Any]] = {"retrieve_with_metadata": method}
    return Parts(source=endpoint, methods=methods)


def _ask_service(
    endpoint: ServiceEndpoint, /, query: str, top_k: int | None = None, history: Said = ()
) -> dict[str, Any]:
    """The fields of a foreign service's answer to one query, as its mapping takes them.

    `OneCall` asks by it, and splits the fields into retrieval and answer.
    """
    return endpoint.ask(Question(query=query, top_k=top_k, said=history))


def _retrieve_by_service(
    endpoint: ServiceEndpoint, /, query: str, top_k: int | None = None, history: Said = ()
) -> RetrievalResult[Any]:
    """The interface's method for a foreign service that only retrieves: a query's contexts.

    The mapping takes no answer then.
    """
    fields = _ask_service(endpoint, query, top_k, history)
    return read_retrieval(fields, endpoint.url)
