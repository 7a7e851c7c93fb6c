"""Times as ragbench measured them, tokens as the RAG reports them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.measured import measured

__all__ = ["LatencyScorer", "TokenScorer", "token_counts"]

_NO_USAGE = Cell.skipped("generation reported no token usage")
_HOLDERS = ("usage", "token_usage", "usage_metadata")
_SPELLINGS = {
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "response_tokens": ("completion_tokens", "output_tokens", "response_tokens"),
    "total_tokens": ("total_tokens",),
}


class LatencyScorer:
    """Computes retrieval_latency and generation_latency."""

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        return [
            [
                _seconds(
                    trace.retrieval.seconds
                    if metric.definition.name == "retrieval_latency"
                    else trace.generation.seconds
                )
                for trace in traces
            ]
            for metric in metrics
        ]


class TokenScorer:
    """Computes prompt_tokens, response_tokens and total_tokens."""

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        counts = [
            token_counts(
                None if trace.generation.value is None else trace.generation.value.metadata
            )
            for trace in traces
        ]
        return [[_count(found, metric.definition.name) for found in counts] for metric in metrics]


def token_counts(metadata: object) -> dict[str, float]:
    """Finds token counts in what a RAG said of a generation; none is ever estimated.

    Args:
        metadata: a mapping or an object with attributes that holds the counts, or holds such a
            thing as ``usage``, ``token_usage`` or ``usage_metadata``. The names of the OpenAI
            (``completion_tokens``) and Anthropic (``output_tokens``) interfaces are known.

    Returns:
        Those of ``prompt_tokens``, ``response_tokens`` and ``total_tokens`` that are known. The
        total of a prompt and a response that are both known is known.
    """
    places = [metadata, *(_get(metadata, holder) for holder in _HOLDERS)]
    found: dict[str, float] = {}
    for name, spellings in _SPELLINGS.items():
        known = next(_numbers(places, spellings), None)
        if known is not None:
            found[name] = known
    if "total_tokens" not in found and len(found) == 2:
        found["total_tokens"] = sum(found.values())
    return found


def _numbers(places: Sequence[object], spellings: Sequence[str]) -> Iterator[float]:
    for place in places:
        for spelling in spellings:
            value = _get(place, spelling)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if math.isfinite(value) and value >= 0:
                yield float(value)


def _get(place: object, name: str) -> object:
    if isinstance(place, Mapping):
        return cast("Mapping[str, Any]", place).get(name)
    return getattr(place, name, None)


def _seconds(seconds: float | None) -> Cell:
    # No two times are alike: keeping these cells would only fill the cache.
    return Cell.skipped("no time was measured") if seconds is None else Cell.measured(seconds)


def _count(found: Mapping[str, float], name: str) -> Cell:
    return measured(found[name]) if name in found else _NO_USAGE
