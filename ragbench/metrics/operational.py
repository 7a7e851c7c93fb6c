"""Times and tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ragbench.core.metric import Skip
from ragbench.io.values import is_object
from ragbench.metrics.metric import metric

_MEASURED = "measured around the call"
_REPORTED = "usage as reported by the RAG; never estimated"


@metric(
    group="retriever", direction="lower", high=None, unit="s", deterministic=False, cite=_MEASURED
)
def retrieval_latency(retrieval_seconds: float) -> float:
    """Wall time of retrieving; not known of cases that shared a call (`--batch-size 1`).

    Measured around the call, so that it has the network in it. It differs from run to run.
    """
    return retrieval_seconds


@metric(
    group="generator", direction="lower", high=None, unit="s", deterministic=False, cite=_MEASURED
)
def generation_latency(generation_seconds: float) -> float:
    """Wall time of generating; not known of cases that shared a call (`--batch-size 1`).

    Measured around the call, so that it has the network in it. It differs from run to run.
    """
    return generation_seconds


@metric(group="generator", direction="lower", high=None, unit="tokens", cite=_REPORTED)
def prompt_tokens(tokens: Mapping[str, float]) -> float | Skip:
    """Tokens of the prompt with its contexts, as the RAG reports them in its metadata.

    More contexts cost more of them, which the scores of answers do not show.
    """
    return tokens.get("prompt_tokens", _NO_USAGE)


@metric(
    group="generator",
    direction="neither",
    high=None,
    unit="tokens",
    aliases=("completion_tokens",),
    cite=_REPORTED,
)
def response_tokens(tokens: Mapping[str, float]) -> float | Skip:
    """Tokens of the response, as the RAG reports them in its metadata.

    Long answers cost time and money, which the scores of answers do not show.
    """
    return tokens.get("response_tokens", _NO_USAGE)


@metric(group="generator", direction="lower", high=None, unit="tokens", cite=_REPORTED)
def total_tokens(tokens: Mapping[str, float]) -> float | Skip:
    """Prompt and response tokens, as the RAG reports them in its metadata.

    The sum is computed where the RAG reports only its two parts.
    """
    return tokens.get("total_tokens", _NO_USAGE)


@metric(group="generator", direction="lower", high=None, cite="as reported by the RAG")
def generation_cost(tokens: Mapping[str, float]) -> float | Skip:
    """Cost of the answer, as the RAG reports it in its metadata, in its own currency.

    Only within one RAG do values compare: the currency is not known.
    """
    return tokens.get("cost", _NO_COST)


_NO_USAGE = Skip("generation reported no token usage")
_NO_COST = Skip("generation reported no cost")
_HOLDERS = ("usage", "token_usage", "usage_metadata")
"""Fields in which clients of language models put their counts."""
_SPELLINGS = {
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "response_tokens": ("completion_tokens", "output_tokens", "response_tokens"),
    "total_tokens": ("total_tokens",),
    "cost": ("cost", "total_cost", "response_cost"),
}


def token_counts(metadata: object) -> dict[str, float]:
    """Token counts and cost of a generation, by name, as the metadata of the answer hold them.

    Every client of a language model has its own fields for them; all known ones are tried
    (`_HOLDERS`, `_SPELLINGS`), the first with a value counts. Nothing is estimated: an estimate
    would look like the bill.
    """
    holders = [metadata]
    for name in _HOLDERS:
        # A holder that is missing gives None, of which each field is None as well.
        holders.append(_value_of(metadata, name))
    counts: dict[str, float] = {}
    for name, spellings in _SPELLINGS.items():
        for holder in holders:
            for spelling in spellings:
                value = _value_of(holder, spelling)
                # bool is an int in Python, and NaN or a negative count is a client's mark for
                # "unknown".
                is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
                if is_number and math.isfinite(value) and value >= 0:
                    counts.setdefault(name, float(value))
    # The one sum that is made: both parts are as reported.
    if "total_tokens" not in counts and {"prompt_tokens", "response_tokens"} <= counts.keys():
        counts["total_tokens"] = counts["prompt_tokens"] + counts["response_tokens"]
    return counts


def _value_of(holder: object, name: str) -> Any:
    """A value of a mapping or an attribute of an object by its name; None where there is none.

    Clients of language models report usage in either. What a RAG puts into its metadata may be of
    any class.
    """
    if is_object(holder):
        return holder.get(name)
    return getattr(holder, name, None)
