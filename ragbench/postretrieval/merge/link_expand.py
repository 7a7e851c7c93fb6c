"""The neighbours of the best chunks."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.merge.fusion import FUSIONS, Fusion, fuse, newcomers
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.service import ChunkNeighbours
from ragbench.postretrieval.settings import above, at_least, one_of

__all__ = ["LinkExpand"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkExpand:
    """Asks the service for the neighbours of the first chunks, then for those of what it found.

    Raises:
        ConfigError: a setting is out of its range.
    """

    service: ChunkNeighbours
    """Where the chunks came from."""
    first: int = 3
    """How many of the chunks that stand are expanded."""
    depth: int = 1
    """How many links away a chunk may be."""
    top_k: int = 5
    """How many neighbours to ask for at each chunk."""
    fusion: Fusion = "concat"
    """How what was found joins what stood there; see `ragbench.postretrieval.merge.fusion`."""
    weight: float = 0.5
    """Of what was found, against 1 for what stood there; for ``weighted`` and ``rrf``."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            at_least("first", self.first, 1),
            at_least("depth", self.depth, 1),
            at_least("top_k", self.top_k, 1),
            one_of("fusion", self.fusion, FUSIONS),
            above("weight", self.weight, 0),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "merge.link_expand"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: every chunk that came in is among those that go out."""
        found = self._neighbours(context.chunks[: self.first])
        chunks = fuse([context.chunks, found], self.fusion, (1.0, self.weight))
        added = len(chunks) - len({entry.chunk.id for entry in context.chunks})
        return OperatorOutput(chunks=chunks, notes=(f"{added} chunks were added",))

    def _neighbours(self, starts: tuple[RankedChunk, ...]) -> list[RankedChunk]:
        """In breadth: all that is one link away, then all that is two ..."""
        asked: set[str] = set()
        found: dict[str, RankedChunk] = {}
        frontier = [entry.chunk.id for entry in starts]
        for _ in range(self.depth):
            following: list[str] = []
            for id in frontier:
                if id in asked:
                    continue
                asked.add(id)
                for entry in newcomers(self.service.neighbours(id, self.top_k))[: self.top_k]:
                    if entry.chunk.id not in found:
                        found[entry.chunk.id] = entry
                        following.append(entry.chunk.id)
            frontier = following
        return list(found.values())
