"""The operator that does nothing: the variant that others are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput

__all__ = ["Nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nothing:
    """Leaves everything as it is."""

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "none"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        return OperatorOutput(chunks=context.chunks)
