"""One chunk of those with the same text."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, in_order
from ragbench.postretrieval.ranked import RankedChunk

__all__ = ["Dedup"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dedup:
    """Keeps the first of the chunks that share an id or a text.

    Texts are compared in Unicode NFKC, with runs of white space as one space.
    """

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.dedup"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        kept: list[RankedChunk] = []
        ids: set[str] = set()
        texts: set[str] = set()
        for entry in context.chunks:
            text = _plain(entry.chunk.text)
            if entry.chunk.id not in ids and text not in texts:
                kept.append(entry)
            ids.add(entry.chunk.id)
            texts.add(text)
        return OperatorOutput(chunks=in_order(kept))


def _plain(text: str) -> str:
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(normal.split())
