"""The cheap validator first; the expensive one only where the cheap one is unsure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.errors import ConfigError
from ragbench.records.corpus import Chunk
from ragbench.records.validation import Validation
from ragbench.validation.validator import Validator

__all__ = ["CascadeValidator"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CascadeValidator:
    """Asks ``second`` when ``first`` gives the answer a probability in [low, high).

    ``details["escalated"]`` is 1 for verdicts of the second validator, else 0: its mean over a run
    is the share that was passed on.
    """

    first: Validator
    """The cheap one."""
    second: Validator
    """The expensive one: its verdict counts where it is asked."""
    low: float = 0.05
    """Below this probability the first one's verdict stands, in [0, 1]."""
    high: float = 0.95
    """From this probability on the first one's verdict stands, above ``low``, in [0, 1]."""

    def __post_init__(self) -> None:
        """Refuses a band that is none."""
        if not 0 <= self.low < self.high <= 1:
            raise ConfigError(
                f"cascade: low and high must lie in [0, 1], low first, not {self.low:g} and "
                f"{self.high:g}"
            )

    @property
    def name(self) -> str:
        """``"cascade"``."""
        return "cascade"

    @property
    def identity(self) -> str:
        """Names the band and both validators."""
        return f"cascade:{self.low:g}:{self.high:g}:({self.first.identity})({self.second.identity})"

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Validation:
        """Judges what was retrieved for one query; see `ragbench.validation.validator`.

        Raises:
            RagbenchError: what the validators raise passes through.
        """
        cheap = self.first.validate(query, chunks)
        unsure = self.low <= cheap.answer_probability < self.high
        verdict = self.second.validate(query, chunks) if unsure and chunks else cheap
        escalated = verdict is not cheap
        told = (
            f"{self.first.name} was unsure ({cheap.answer_probability:.2f}): "
            f"{self.second.name} decided"
            if escalated
            else f"{self.first.name} was sure enough"
        )
        return replace(
            verdict,
            validator=f"cascade: {verdict.validator}",
            reasons=(told, *verdict.reasons),
            details={**verdict.details, "escalated": float(escalated)},
        )
