"""Chunks whose score reaches a limit."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.filter.scored import reaching
from ragbench.postretrieval.settings import finite

__all__ = ["Threshold"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """Keeps chunks with a present score of at least ``min_score``, in their order.

    A chunk without a score is kept: nothing is known against it.

    Raises:
        ConfigError: ``min_score`` is NaN or infinite.
    """

    min_score: float
    """On the scale of whatever scored the chunks last."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(finite("min_score", self.min_score))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.threshold"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        return reaching(context.chunks, self.min_score)
