"""What a user is told before BM25 is built of very many chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.errors import RagbenchWarning
from ragbench.pipeline import sparse_index
from ragbench.pipeline.sparse_index import SparseIndex
from ragbench.stores.registry import create_store


def test_what_a_large_index_takes_is_said_once_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sparse_index, "_LARGE", 2500)
    with create_store("memory:", "x", dimension=2) as store:
        chunks = [Chunk(id=f"{n}", text="rent is due in May") for n in range(2499)]
        store.upsert(chunks, np.ones((2499, 2)))
        SparseIndex.build(store)
        assert not recwarn.list
        store.upsert([Chunk(id="last", text="rent")], np.ones((1, 2)))
        assert SparseIndex.build(store).search("rent", k=1)[0][0] == "last"
    (told,) = [str(one.message) for one in recwarn if one.category is RagbenchWarning]
    # 2,500 chunks of 5 words.
    assert told.startswith(
        "BM25 is built of all 2,500 chunks, once, in this process: about 1 minute"
    )
    assert "0.0 GB of memory" in told and "with other scores and another order" in told
    assert "index the corpus into Qdrant with --words store" in told
