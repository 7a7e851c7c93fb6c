"""Where each chunk stands: its document and section, before its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.derived import rewritten
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import not_empty

__all__ = ["Context"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Begins each chunk with a line that says where it stands.

    A passage cut out of its document no longer says what it is about; a heading in front of it
    does. The line holds those of ``fields`` that the chunk's metadata knows, outermost first, such
    as ``[Leave policy > Carry-over]``. A chunk that knows none stays as it is.

    Raises:
        ConfigError: there is no field.
    """

    fields: Sequence[str] = ("title", "section")
    """Metadata keys; ``document_id`` also finds the chunk's own."""
    joined_by: str = " > "
    """What stands between two of them."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(not_empty("fields", self.fields))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "augment.context"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        return OperatorOutput(chunks=tuple(map(self._headed, context.chunks)))

    def _headed(self, entry: RankedChunk) -> RankedChunk:
        chunk = entry.chunk
        known = {"document_id": chunk.document_id, **chunk.metadata}
        parts = [str(known[field]) for field in self.fields if known.get(field) not in (None, "")]
        if not parts:
            return entry
        return rewritten(entry, f"[{self.joined_by.join(parts)}]\n{chunk.text}", by=self.name)
