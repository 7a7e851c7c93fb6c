"""Stage 2 as a whole: a list of transforms between a question and retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ragbench.errors import (
    ConfigError,
    InputError,
    InterfaceError,
    LLMRefusedError,
    LLMReplyError,
    LLMTruncatedError,
)
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.preretrieval.transform import QueryTransform, Transformed
from ragbench.records.cells import Failure
from ragbench.settings.described import described

__all__ = ["PRE_RETRIEVAL_VERSION", "PreRetrieval", "PreRetrieved"]

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
        >>> from ragbench.preretrieval.normalise import Normalise
        >>> stage = PreRetrieval(transforms=(Normalise(),))
        >>> stage.run("What  is ＲＡＧ?").queries[0].text
        'What is RAG?'

    Raises:
        ConfigError: ``on_error`` is neither word.
    """

    transforms: tuple[QueryTransform, ...] = ()
    """None of them searches for the question as it is."""
    on_error: Literal["keep", "raise"] = "keep"
    """What happens when a language model's answer cannot be used (no JSON, a refusal, cut off).
    ``"keep"``: the query is searched for as it was, and the failure stands on the result.
    ``"raise"``: it is raised. Every other error is always raised."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        if self.on_error not in ("keep", "raise"):
            raise ConfigError(f"on_error must be one of keep, raise, not {self.on_error!r}")

    def run(self, question: str) -> PreRetrieved:
        """Takes one question through every transform.

        Args:
            question: the question; may be empty.

        Raises:
            RagbenchError: a transform failed, see ``on_error``.
        """
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
        except InputError:
            raise
        except _UNUSABLE as error:
            if self.on_error == "raise":
                raise
            failure = Failure.of(error, stage=transform.name)
            # Without the traceback: it is stored with every result, and tells of ragbench only.
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
    """Each text once a kind, where it stood first; what is said twice counts for both."""
    found: dict[tuple[str, str], SearchQuery] = {}
    for query in queries:
        key = (query.kind, query.text)
        known = found.get(key)
        if known is not None:
            query = replace(known, weight=known.weight + query.weight)
        found[key] = query
    return tuple(found.values())
