"""The operator that puts chunks into the order of a reranker's scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.postretrieval.apply import rerank
from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.reranker import Reranker
from ragbench.postretrieval.settings import above, at_least

__all__ = ["Rerank"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerank:
    """Best first by a reranker, and the first ones of that. See `ragbench.postretrieval.apply`.

    Raises:
        ConfigError: a setting is out of its range.
    """

    reranker: Reranker
    """What scores the chunks."""
    top_k: int | None = None
    """How many chunks to keep, at least 1; all when not given."""
    timeout: float | None = None
    """Seconds that the reranker may take; no limit when not given."""
    on_error: Literal["keep", "raise"] = "keep"
    """What happens when the reranker fails: the chunks keep their order, or the error is raised."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            None if self.top_k is None else at_least("top_k", self.top_k, 1),
            None if self.timeout is None else above("timeout", self.timeout, 0),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return f"rerank.{self.reranker.name}"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: a permutation of the chunks, or the first ``top_k`` of one."""
        done = rerank(
            context.query,
            context.chunks,
            self.reranker,
            on_error=self.on_error,
            timeout=self.timeout,
            top_k=self.top_k,
        )
        return OperatorOutput(
            chunks=done.chunks,
            notes=done.notes,
            failures=() if done.failure is None else (done.failure,),
        )
