"""What only Qdrant's adapters do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.errors import StoreError
from ragbench.stores import qdrant_points
from ragbench.stores.qdrant import QdrantServerDatabase
from ragbench.stores.record import encode
from ragbench.stores.registry import create_store
from ragbench.stores.words import WordsForm

pytestmark = pytest.mark.extra("qdrant")


def test_ids_that_give_one_uuid_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = qdrant_points.point_id
    for module in ("qdrant_points", "qdrant_embedded"):
        monkeypatch.setattr(f"ragbench.stores.{module}.point_id", lambda id: real(id.rstrip("'")))
    with create_store(f"qdrant:{tmp_path}", "c", dimension=1) as store:
        store.upsert([Chunk(id="a", text="1")], np.ones((1, 1)))
        with pytest.raises(StoreError, match="the ids 'a' and 'a'' are one to Qdrant"):
            store.upsert([Chunk(id="a'", text="2")], np.ones((1, 1)))
        with pytest.raises(StoreError, match="the ids 'b' and 'b'' are one to Qdrant"):
            store.upsert([Chunk(id=id, text="2") for id in ("b", "b'")], np.ones((2, 1)))
        store.upsert([Chunk(id="a", text="3")], np.ones((1, 1)))
        assert store.digests() == {"a": encode(Chunk(id="a", text="3")).digest}


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
