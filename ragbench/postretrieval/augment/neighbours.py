"""The passages around each chunk, within its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.derived import rewritten
from ragbench.postretrieval.merge.fusion import newcomers
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.service import ChunkNeighbours
from ragbench.postretrieval.settings import at_least
from ragbench.records.corpus import Chunk

__all__ = ["Neighbours"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """Widens the first chunks by the texts of their neighbours, in reading order.

    A neighbour that is known to stand earlier in the same document goes before the chunk's text,
    every other behind it. A text that already stands among the chunks is not repeated.

    Raises:
        ConfigError: a setting is below 1.
    """

    service: ChunkNeighbours
    """Where the chunks came from."""
    first: int = 3
    """How many chunks are widened."""
    top_k: int = 2
    """How many neighbours to ask for at each."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(at_least("first", self.first, 1), at_least("top_k", self.top_k, 1))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "augment.neighbours"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        present = {entry.chunk.id for entry in context.chunks}
        widened: list[RankedChunk] = []
        for entry in context.chunks[: self.first]:
            given = newcomers(self.service.neighbours(entry.chunk.id, self.top_k))[: self.top_k]
            fresh = [found.chunk for found in given if found.chunk.id not in present]
            present.update(chunk.id for chunk in fresh)
            widened.append(self._widened(entry, fresh))
        return OperatorOutput(chunks=(*widened, *context.chunks[self.first :]))

    def _widened(self, entry: RankedChunk, around: Sequence[Chunk]) -> RankedChunk:
        if not around:
            return entry
        before = sorted(
            (chunk for chunk in around if _stands_before(chunk, entry.chunk)),
            key=lambda chunk: chunk.start or 0,
        )
        behind = sorted(
            (chunk for chunk in around if not _stands_before(chunk, entry.chunk)),
            key=lambda chunk: (chunk.document_id != entry.chunk.document_id, chunk.start or 0),
        )
        pieces = [*before, entry.chunk, *behind]
        text = "\n".join(chunk.text for chunk in pieces)
        return rewritten(entry, text, by=self.name, more=[chunk.id for chunk in around])


def _stands_before(chunk: Chunk, other: Chunk) -> bool:
    if chunk.document_id is None or chunk.document_id != other.document_id:
        return False
    return chunk.start is not None and other.start is not None and chunk.start < other.start
