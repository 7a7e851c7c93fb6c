"""The first k chunks."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.settings import at_least

__all__ = ["TopK"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TopK:
    """Keeps the first k chunks in their present order; all of them when there are fewer.

    Raises:
        ConfigError: k is below 1.
    """

    k: int
    """How many chunks to keep."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(at_least("k", self.k, 1))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.top_k"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        return OperatorOutput(chunks=context.chunks[: self.k])
