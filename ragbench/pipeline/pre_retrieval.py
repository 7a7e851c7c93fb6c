"""From a question to what is searched for.

Other packages add theirs through entry points in the group ``ragbench.query_transforms``::

    [project.entry-points."ragbench.query_transforms"]
    glossary = "my_package.glossary:Glossary"
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from ragbench.core.outcome import Failure
from ragbench.core.result import RetrievalResult
from ragbench.errors import (
    ConfigError,
    InterfaceError,
    LLMRefusedError,
    LLMReplyError,
    LLMTruncatedError,
)
from ragbench.ledger.identity import described
from ragbench.plugins import Registry
from ragbench.post.stage import record_of

QueryKind = Literal["query", "passage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery:
    """One of the texts that are searched for in place of a question."""

    text: str
    kind: QueryKind = "query"
    """``"query"``: a question, or words of one. ``"passage"``: a text that looks like what is
    sought; an embedder with a way of its own for passages embeds it in that way."""
    weight: float = 1.0
    """How much its ranking counts among those of the other texts; above 0."""

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"the weight of a search query must be above 0, not {self.weight}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Transformed:
    """What a transform made of a query."""

    queries: tuple[SearchQuery, ...]
    """What is searched for in its place; the query itself is among them or is not."""
    failures: tuple[Failure, ...] = ()
    """What went wrong inside and was made up for."""


@runtime_checkable
class QueryTransform(Protocol):
    """One step between a question and retrieval: a frozen dataclass whose fields are settings."""

    @property
    def name(self) -> str:
        """How results and reports call it, such as ``"multi_query"``."""
        ...

    def transform(self, query: SearchQuery) -> Transformed:
        """Makes one or more queries of a query."""
        ...


PRE_RETRIEVAL_VERSION = 1
"""Raised whenever a transform gives something else for the same input."""

_UNUSABLE = (LLMReplyError, LLMRefusedError, LLMTruncatedError)
"""The model has answered, and asking again would give the same. What may pass (an endpoint that is
down, a budget that is spent) is no reason to search for something else: the question fails, and can
be asked again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreRetrieved:
    """What is searched for in place of one question."""

    queries: tuple[SearchQuery, ...]
    """At least one; each text once a kind."""
    failures: tuple[Failure, ...] = ()
    """What went wrong and was made up for; ``stage`` names the transform."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreRetrieval:
    """Transforms, applied one after the other to each query that is there.

    Example:
        from ragbench.pipeline.query_transforms import Normalise
        >>> stage = PreRetrieval(transforms=(Normalise(),))
        >>> stage.run("What  is ＲＡＧ?").queries[0].text
        'What is RAG?'
    """

    transforms: tuple[QueryTransform, ...] = ()
    """None of them searches for the question as it is."""
    on_error: Literal["keep", "raise"] = "keep"
    """What happens when a language model's answer cannot be used (no JSON, a refusal, cut off).
    ``"keep"``: the query is searched for as it was, and the failure stands on the result.
    ``"raise"``: it is raised. Every other error is always raised."""

    def __post_init__(self) -> None:
        if self.on_error not in ("keep", "raise"):
            raise ConfigError(f"on_error must be one of keep, raise, not {self.on_error!r}")

    def run(self, question: str) -> PreRetrieved:
        """Takes one question through every transform."""
        queries: tuple[SearchQuery, ...] = (SearchQuery(text=question),)
        failures: list[Failure] = []
        for transform in self.transforms:
            found: list[SearchQuery] = []
            for query in queries:
                if query.kind == "query":
                    done = self._applied(transform, query)
                    failures += done.failures
                    found += done.queries
                else:
                    found.append(query)
            queries = _merged(found)
        return PreRetrieved(queries=queries, failures=tuple(failures))

    @property
    def identity(self) -> dict[str, Any]:
        """All that the stage's results depend on besides the question, as plain values."""
        return {
            "version": PRE_RETRIEVAL_VERSION,
            "on_error": self.on_error,
            "transforms": [described(transform) for transform in self.transforms],
        }

    def _applied(self, transform: QueryTransform, query: SearchQuery) -> Transformed:
        try:
            return _checked(transform.transform(query), transform)
        except _UNUSABLE as error:
            if self.on_error == "raise":
                raise
            failure = Failure.of(error, stage=transform.name)
            # Without the traceback: it is stored with every result, and names only ragbench's code.
            return Transformed(queries=(query,), failures=(replace(failure, traceback=None),))


def _checked(output: object, transform: QueryTransform) -> Transformed:
    """A transform's output; texts alone are taken for queries."""
    if isinstance(output, Transformed) and output.queries:
        return output
    raise InterfaceError(
        f"{transform.name}.transform returned "
        f"{'no query' if isinstance(output, Transformed) else type(output).__name__}: it must be a "
        "Transformed with at least one query"
    )


def _merged(queries: Iterable[SearchQuery]) -> tuple[SearchQuery, ...]:
    """Each text once a kind, where it stood first; a repeated one counts for both."""
    found: dict[tuple[str, str], SearchQuery] = {}
    for query in queries:
        key = (query.kind, query.text)
        known = found.get(key)
        if known is not None:
            query = replace(known, weight=known.weight + query.weight)
        found[key] = query
    return tuple(found.values())


PRE_RETRIEVE = "pre_retrieve"
"""The key of what was searched for, in a result's metadata."""


def transformed_object(asked: PreRetrieved) -> dict[str, Any]:
    """What was searched for and what went wrong, as JSON holds it."""
    failures = tuple(replace(failure, traceback=None) for failure in asked.failures)
    found: dict[str, Any] = msgspec.to_builtins(replace(asked, failures=failures))
    return {key: list(value) for key, value in found.items() if value}


def pre_retrieved(result: RetrievalResult[Any]) -> PreRetrieved:
    """What was searched for; nothing where a result does not say."""
    try:
        return msgspec.convert(record_of(result, PRE_RETRIEVE), PreRetrieved)
    except (
        msgspec.ValidationError,
        ConfigError,
    ):  # a RAG of a user's may have a key of this name, too
        return PreRetrieved(queries=())


QUERY_TRANSFORMS = Registry(
    kind="query_transforms",
    builtin={
        "normalise": "ragbench.pipeline.query_transforms:Normalise",
        "rewrite": "ragbench.pipeline.query_transforms:Rewrite",
        "multi_query": "ragbench.pipeline.query_transforms:MultiQuery",
        "hyde": "ragbench.pipeline.query_transforms:HyDE",
    },
)
