"""Retrieval from a collection that another program has filled."""

from __future__ import annotations

from ragbench.embedders.base import Embedder
from ragbench.errors import ConfigError
from ragbench.retrieval.strategies.dense import DenseStrategy
from ragbench.stores.foreign.collection import ForeignCollection

__all__ = ["DENSE_ONLY", "foreign_strategy"]

DENSE_ONLY = (
    "a collection that ragbench did not fill is searched by its vectors alone (dense): for an "
    "index of words (sparse, hybrid), ragbench has to have indexed the documents"
)
"""Why nothing else can be asked."""


def foreign_strategy(
    collection: ForeignCollection, embedder: Embedder, *, embedder_name: str
) -> DenseStrategy:
    """Dense retrieval; scores are the store's, with no calibration.

    Args:
        collection: what is searched.
        embedder: turns queries into vectors: the one that the collection was filled with. That it
            is, only the length of its vectors can tell.
        embedder_name: how messages call it.

    Raises:
        ConfigError: its vectors have another length than the collection's.
    """
    if embedder.dimension != collection.dimension:
        raise ConfigError(
            f"the collection '{collection.name}' keeps vectors of {collection.dimension} "
            f"dimensions, the embedder '{embedder_name}' makes such of {embedder.dimension}: name "
            "the embedder that the collection was filled with"
        )
    return DenseStrategy(store=collection, embedder=embedder, calibration=None)
