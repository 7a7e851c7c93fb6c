"""What only PostgreSQL does: tables of others with any columns, vectors and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from ragbench import attach
from ragbench.errors import ConfigError, StoreError
from ragbench.search.stores.database import open_database
from ragbench.search.stores.mapping import FieldMapping
from tests.contract.store_engines import POSTGRES, postgres

for package in POSTGRES:
    pytest.importorskip(package)

QUERY = np.array([[1.0, 0.0]])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres() as address:
        run(address, "CREATE EXTENSION vector")
        yield address


def run(address: str, *statements: str) -> list[Any]:
    import psycopg

    with cast("Any", psycopg.connect(address, autocommit=True)) as connection:
        cursor = [connection.execute(statement) for statement in statements][-1]
        return cursor.fetchall() if cursor.description else []


def table(
    address: str, name: str, columns: str, rows: str, key: str = "id int PRIMARY KEY"
) -> None:
    run(address, f"CREATE TABLE {name} ({key}, {columns}, v vector(2))")
    run(address, f"INSERT INTO {name} VALUES {rows}")


def test_columns_of_any_type_become_json(address: str) -> None:
    run(
        address,
        """CREATE TABLE odd (key uuid PRIMARY KEY, body text, at timestamptz, price numeric,
        tags text[], raw bytea, big numeric, nothing int, words tsvector, "50%" real,
        dense halfvec(2))""",
        """INSERT INTO odd VALUES ('5c56c793-69f3-4fbf-87e6-c4bf54c28c26', 'Rent', '2023-05-01Z',
        1.5, '{a,b}', '\\x00ff', 'NaN', NULL, 'rent', 0.5, '[1,0]')""",
    )
    with attach(address, "odd") as collection:
        assert collection.guessed == ("text",)
        read = "text=body  id=key  vector=dense  (cosine, assumed, 2 dimensions)"
        assert collection.described() == f"{read}  words=words (ts_rank_cd, simple assumed)"
        *_, metric, rarity = collection.notes(by_words=True)
        assert "cosine is assumed; correct it with --field metric=" in metric
        assert "ts_rank knows no rarity of words" in rarity
        (chunk,) = collection.search(QUERY, k=3)[0]
    key = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"
    assert (chunk.id, chunk.text, chunk.score) == (key, "Rent", 1.0)
    at = chunk.metadata["at"]
    assert at.startswith("2023-0")
    known = {"price": 1.5, "tags": ["a", "b"], "raw": "00ff", "50%": 0.5}
    assert chunk.metadata == {"at": at, "big": None, "nothing": None, **known}


def test_a_table_may_have_any_name_schema_and_several_vectors(address: str) -> None:
    run(
        address,
        "CREATE SCHEMA kb",
        'CREATE TABLE kb."50% of ""it""" (id int PRIMARY KEY, text text, "my%v" vector, w vector)',
        '''INSERT INTO kb."50% of ""it""" VALUES (1, 'one', '[1,0]', '[1,0,0]'),
        (2, 'two', '[0,1]', '[0,1,0]'), (3, 'no vector', NULL, '[0,1,0]')''',
    )
    name = 'kb.50% of "it"'
    with pytest.raises(ConfigError, match=r"has several vectors \(my%v, w\): choose the one"):
        attach(address, name)
    mapping = FieldMapping(vector="my%v", metric="dot")
    with attach(address, name, mapping) as collection:
        assert (collection.dimension, collection.count()) == (2, 2)
        found = collection.search(QUERY, k=3)[0]
    assert [(chunk.id, chunk.score) for chunk in found] == [("1", 1.0), ("2", 0.0)]
    with attach(address, name, FieldMapping(vector="w")) as collection:
        assert (collection.dimension, collection.count()) == (3, 3)


def test_a_table_without_a_key_needs_an_id(address: str) -> None:
    rows = "('a', 'one', '[1,0]'), (NULL, 'two', '[0,1]')"
    table(address, "keyless", "text text", rows, key="name text")
    with pytest.raises(ConfigError, match="has no primary key of one column: name its id with"):
        attach(address, "keyless")
    with attach(address, "keyless", FieldMapping(id="name")) as collection:
        found = collection.search(QUERY, k=3)[0]
        assert [chunk.id for chunk in found] == ["a", "#2"]
        assert "1 row has no id under 'name'" in collection.warnings()[0]


def test_a_row_whose_score_is_no_number_is_counted(address: str) -> None:
    table(address, "zeros", "text text", "(1, 'one', '[1,0]'), (2, 'zeros', '[0,0]')")
    with attach(address, "zeros") as collection:
        assert [chunk.id for chunk in collection.search(QUERY, k=3)[0]] == ["1"]
        assert "1 row has a score that is not a number" in collection.warnings()[0]


def test_an_index_gives_as_many_rows_as_are_asked_for(address: str) -> None:
    rows = ", ".join(f"({at}, 'text', '[1,{at}]')" for at in range(1, 501))
    table(address, "many", "text text", rows)
    run(address, "CREATE INDEX ON many USING hnsw (v vector_l2_ops)")
    with attach(f"{address}&options=-c%20enable_seqscan%3Doff", "many") as collection:
        assert collection.space.metric == "euclid"
        found = collection.search(QUERY, k=60)[0]
    assert [chunk.id for chunk in found] == [f"{at}" for at in range(1, 61)]
    assert [chunk.score for chunk in found[:2]] == [-1.0, -2.0]


def test_the_server_itself_refuses_every_write(address: str) -> None:
    import psycopg

    table(address, "safe", "text text", "(1, 'one', '[1,0]')")
    with attach(address, "safe") as collection:
        connection = cast("Any", collection)._engine._connection
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM safe")


def test_whoever_may_read_may_search(address: str) -> None:
    open_database(address).create("ours", dimension=2).close()
    table(address, "shared", "text text", "(1, 'one', '[1,0]')")
    run(address, "CREATE ROLE reader LOGIN", "GRANT SELECT ON shared TO reader")
    reader = address.replace("//postgres:@", "//reader:@")
    assert reader != address
    with attach(reader, "shared") as collection:
        assert [chunk.id for chunk in collection.search(QUERY, k=1)[0]] == ["1"]


def test_what_is_no_table_of_vectors_is_none(address: str) -> None:
    run(address, "CREATE TABLE plain (id int PRIMARY KEY, text text)")
    for name in ("plain", "no.such", "a b; DROP TABLE plain", 'quo"te', "x" * 300, "."):
        with pytest.raises(StoreError, match="there is no collection"):
            attach(address, name)


def test_without_a_name_the_only_table_of_others_is_taken() -> None:
    with postgres() as address:
        run(address, "CREATE EXTENSION vector")
        table(address, "one", "t text", "(1, 'a', '[1,0]')", key="id int PRIMARY KEY")
        for name in ("own", "own too"):
            with attach(address, mapping=FieldMapping(text="t")) as collection:
                assert collection.name == "one"
            open_database(address).create(name, dimension=2).close()
        table(address, "two", "t text", "(1, 'a', '[1,0]')")
        with pytest.raises(ConfigError, match=r"with --collection: .* has one, two"):
            attach(address)


def test_a_collection_of_ragbench_s_own_needs_no_mapping(address: str) -> None:
    open_database(address).create("own", dimension=2).close()
    with pytest.raises(ConfigError, match="ragbench itself has filled the collection 'own'"):
        attach(address, "own", FieldMapping(text="body"))
