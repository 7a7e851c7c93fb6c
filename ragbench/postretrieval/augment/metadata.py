"""What is known of each chunk, behind its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.derived import rewritten
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import not_empty

__all__ = ["Metadata"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """Ends each chunk with a line ``key: value`` for each of some metadata fields.

    A field that a chunk does not know gives no line; a chunk that knows none stays as it is.

    Raises:
        ConfigError: there is no field.
    """

    fields: Sequence[str]
    """Metadata keys, in the order in which they are written."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(not_empty("fields", self.fields))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "augment.metadata"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        return OperatorOutput(chunks=tuple(map(self._described, context.chunks)))

    def _described(self, entry: RankedChunk) -> RankedChunk:
        known = entry.chunk.metadata
        lines = [
            f"{field}: {known[field]}" for field in self.fields if known.get(field) is not None
        ]
        if not lines:
            return entry
        return rewritten(entry, "\n".join([entry.chunk.text, *lines]), by=self.name)
