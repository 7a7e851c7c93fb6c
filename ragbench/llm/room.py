"""How much an endpoint takes at a time, as it says when it was asked for more."""

from __future__ import annotations

import re
from typing import NamedTuple

_N = r"(\d[\d,]*)"
_LIMITS = re.compile(
    rf"maximum (?:context|model) length (?:is|of) (?:only )?{_N}|"
    rf"with {_N} maximum context|"
    rf"context (?:size|window|limit|length)[^\d+>]{{0,30}}{_N}(?![\d,]| \+)|"
    rf"\d \+ \d+ > {_N}|max_new_tokens. must be <= {_N}|\bLimit:? {_N},[^.]*? Requested|"
    rf"\bn_ctx\W+{_N}",
    re.IGNORECASE,
)
_PROMPTS = re.compile(
    rf"{_N} (?:in the messages|of text input|input tokens|tokens from the input|.inputs. tokens)|"
    rf"resulted in {_N} tokens|length {_N}\) is longer|\bcontains {_N} tokens|{_N} \+ \d+ > \d|"
    rf"input \({_N} tokens|"
    rf"\bn_prompt_tokens\W+{_N}",
    re.IGNORECASE,
)
_BOTH = re.compile(rf"\brequested(?: about| a total of)? {_N}", re.IGNORECASE)
_PER_MINUTE = re.compile(r"\bLimit:? [\d,]+,[^.]*? Requested|tokens per min", re.IGNORECASE)


class Limit(NamedTuple):
    """What a request was refused for: prompt and answer together were too long."""

    most: int
    """Tokens that both may have."""
    prompt: int | None
    """Those of the prompt; None where that is not said."""
    is_rate: bool
    """Whether it is the most of a minute, not the length of the context."""

    @property
    def remedy(self) -> str:
        if self.is_rate:
            return "judge with fewer contexts, or ask for a higher limit"
        return "judge with fewer contexts, or give it more (vLLM: --max-model-len; llama.cpp: -c)"


def limit_of(text: str, asked: int | None) -> Limit | None:
    """What an error says of the room for prompt and answer; None where it says nothing.

    Args:
        asked: tokens that the answer was given room for.

    Example:
        >>> limit_of("TPM: Limit 30000, Requested 60000.", 4096)
        Limit(most=30000, prompt=55904, is_rate=True)
    """
    most, prompt, both = (_number(pattern, text) for pattern in (_LIMITS, _PROMPTS, _BOTH))
    if most is None:
        return None
    if prompt is None and both is not None:
        prompt = both - (asked or 0)
    is_rate = _PER_MINUTE.search(text) is not None
    if is_rate and (both or 0) <= most:  # it will fit in another minute
        return None
    return Limit(most, prompt, is_rate)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    first = next(filter(None, found.groups()), None) if found else None
    return None if first is None else int(first.replace(",", ""))
