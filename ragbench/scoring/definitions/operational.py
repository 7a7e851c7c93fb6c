"""Times and token counts, as measured by ragbench or reported by the RAG."""

from __future__ import annotations

from dataclasses import replace

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need

__all__ = ["DEFINITIONS"]

_LATENCY = MetricDefinition(
    name="retrieval_latency",
    group=Group.RETRIEVER,
    needs=frozenset({Need.RETRIEVAL_LATENCY}),
    direction=Direction.LOWER,
    summary="Wall time of retrieving; a batch's time is shared equally by its cases",
    citation="measured around the call",
    scorer="ragbench.scoring.operational:LatencyScorer",
    high=None,
    unit="s",
    deterministic=False,
)
_TOKENS = MetricDefinition(
    name="response_tokens",
    group=Group.GENERATOR,
    needs=frozenset({Need.TOKENS}),
    direction=Direction.NEITHER,
    summary="Tokens of the response, as the RAG reports them in its metadata",
    citation="usage as reported by the RAG; never estimated",
    scorer="ragbench.scoring.operational:TokenScorer",
    aliases=("completion_tokens",),
    high=None,
    unit="tokens",
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    _LATENCY,
    replace(
        _LATENCY,
        name="generation_latency",
        group=Group.GENERATOR,
        needs=frozenset({Need.GENERATION_LATENCY}),
        summary="Wall time of generating; a batch's time is shared equally by its cases",
    ),
    replace(
        _TOKENS,
        name="prompt_tokens",
        aliases=(),
        direction=Direction.LOWER,
        summary="Tokens of the prompt with its contexts, as the RAG reports them in its metadata",
    ),
    _TOKENS,
    replace(
        _TOKENS,
        name="total_tokens",
        aliases=(),
        direction=Direction.LOWER,
        summary="Prompt and response tokens, as the RAG reports them in its metadata",
    ),
)
