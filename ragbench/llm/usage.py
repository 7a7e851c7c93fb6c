"""How many tokens a call took."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Usage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens of a call, or of several."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Hidden reasoning included."""
    cached_prompt_tokens: int = 0
    """Part of ``prompt_tokens`` that the endpoint had in its own cache."""
    reported: bool = True
    """False when the endpoint did not say: then the numbers are 0 and mean nothing."""

    def __add__(self, other: Usage) -> Usage:
        """Both together; reported only when both are."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            reported=self.reported and other.reported,
        )
