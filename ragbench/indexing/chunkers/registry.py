"""Chunkers by name."""

from __future__ import annotations

from typing import cast

from ragbench.indexing.chunkers.size import ChunkSize
from ragbench.indexing.pieces import Chunker
from ragbench.registry import Registry

__all__ = ["CHUNKERS", "make_chunker"]

CHUNKERS = Registry(
    kind="chunkers",
    builtin={
        "auto": "ragbench.indexing.chunkers.auto:AutoChunker",
        "tokens": "ragbench.indexing.chunkers.tokens:TokenChunker",
        "sentences": "ragbench.indexing.chunkers.sentences:SentenceChunker",
        "markdown": "ragbench.indexing.chunkers.markdown:MarkdownChunker",
        "whole": "ragbench.indexing.chunkers.whole:WholeChunker",
    },
)


def make_chunker(name: str = "auto", size: ChunkSize | None = None) -> Chunker:
    """The chunker of a name; ``whole`` has no use for a size.

    Raises:
        ConfigError: no such name.
    """
    make = CHUNKERS.load(name)
    return cast("Chunker", make() if name == "whole" else make(size=size or ChunkSize()))
