"""The retrieval of a pipeline, for operators that are built before it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ragbench.errors import ConfigError
from ragbench.pipeline.stages import Retriever
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.corpus import Chunk

__all__ = ["LateSearch"]


@dataclass(slots=True)
class LateSearch:
    """A `ragbench.postretrieval.service.ChunkSearch` over the retriever that is put into it."""

    name: str = "pipeline"
    retriever: Retriever | None = field(default=None, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """See `ragbench.postretrieval.service.ChunkSearch.search`.

        Raises:
            ConfigError: the pipeline is not open.
        """
        if self.retriever is None:
            raise ConfigError("the pipeline is not open: nothing can be searched")
        return self.retriever.search([SearchQuery(text=query)], top_k)[0]
