"""What only Qdrant's adapters do."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench.stores.qdrant import QdrantServerDatabase
from ragbench.stores.words import WordsForm

pytestmark = pytest.mark.extra("qdrant")


def test_a_server_counts_words_in_one_shard_and_soon_forgets_what_was_removed() -> None:
    from qdrant_client import QdrantClient, models

    made: list[dict[str, Any]] = []

    class Recording(QdrantClient):
        def create_collection(self, *args: Any, **settings: Any) -> bool:
            made.append(settings)
            return super().create_collection(*args, **settings)

    client = Recording(":memory:")
    database = QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)
    database.create("plain", dimension=2)
    database.create("kb", dimension=2, words=WordsForm(average=7.0))
    plain, words = made
    assert plain.keys() == {"vectors_config", "metadata"}
    assert words["sparse_vectors_config"]["words"].modifier is models.Modifier.IDF
    assert words["shard_number"] == 1
    assert words["optimizers_config"].deleted_threshold == 0.05
    assert database.open("kb").info().words == WordsForm(average=7.0)
    assert database.open("plain").info().words is None
