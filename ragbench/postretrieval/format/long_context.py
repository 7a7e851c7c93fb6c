"""The best chunks at both ends, the others in the middle."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, in_order

__all__ = ["LongContext"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LongContext:
    """Puts the first chunk first, the second last, the third second, and so on.

    Language models use what stands at the ends of a long context better than what stands in its
    middle (Liu et al. 2023, "Lost in the Middle: How Language Models Use Long Contexts"). Five
    chunks come to stand as 1, 3, 5, 4, 2. It belongs behind every operator that cuts: what is
    left out then is the end, and no longer the worst. Rank metrics read the new order.
    """

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "format.long_context"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: a permutation."""
        chunks = context.chunks
        return OperatorOutput(chunks=in_order([*chunks[::2], *chunks[1::2][::-1]]))
