"""What further queries find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.merge.fusion import FUSIONS, Fusion, fuse, newcomers
from ragbench.postretrieval.service import ChunkSearch
from ragbench.postretrieval.settings import above, at_least, not_empty, one_of

__all__ = ["MultiQuery", "SecondaryQuery"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondaryQuery:
    """One more query to ask.

    Raises:
        ConfigError: a setting is empty or out of its range.
    """

    query: str
    """Its text; ``{question}`` stands for the question."""
    top_k: int = 5
    """How many chunks to ask for."""
    weight: float = 1.0
    """Against 1 for the chunks that stand; for ``weighted`` and ``rrf``."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            not_empty("query", self.query.strip()),
            at_least("top_k", self.top_k, 1),
            above("weight", self.weight, 0),
        )

    def about(self, question: str) -> str:
        """The query for a question."""
        return self.query.replace("{question}", question)


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiQuery:
    """Searches by further queries and fuses what they find with what stands.

    Raises:
        ConfigError: there is no query, or no such fusion.
    """

    service: ChunkSearch
    """Where the chunks came from."""
    queries: Sequence[SecondaryQuery]
    """What else to ask."""
    fusion: Fusion = "concat"
    """How the rankings become one; see `ragbench.postretrieval.merge.fusion`."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(not_empty("queries", self.queries), one_of("fusion", self.fusion, FUSIONS))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "merge.multi_query"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: every chunk that came in is among those that go out."""
        found = [
            newcomers(self.service.search(query.about(context.query.text), query.top_k))[
                : query.top_k
            ]
            for query in self.queries
        ]
        weights = (1.0, *(query.weight for query in self.queries))
        chunks = fuse([context.chunks, *found], self.fusion, weights)
        added = len(chunks) - len({entry.chunk.id for entry in context.chunks})
        return OperatorOutput(chunks=chunks, notes=(f"{added} chunks were added",))
