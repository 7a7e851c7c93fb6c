"""What only PostgreSQL does: tables of others with any columns, vectors and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from ragbench import Chunk, attach
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
    """The rows of the last statement."""
    import psycopg

    with cast("Any", psycopg.connect(address, autocommit=True)) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def table(
    address: str, name: str, columns: str, rows: str, key: str = "id int PRIMARY KEY"
) -> None:
    """Makes a table with a vector of two numbers in its last column."""
    run(address, f"CREATE TABLE {name} ({key}, {columns}, v vector(2))")
    run(address, f"INSERT INTO {name} VALUES {rows}")


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


# --- columns of any type

KEY = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"


@pytest.fixture(scope="module")
def odd_table(address: str) -> str:
    """A row with a column of each type that others have."""
    run(
        address,
        """CREATE TABLE odd (key uuid PRIMARY KEY, body text, at timestamptz, price numeric,
        tags text[], raw bytea, big numeric, nothing int, words tsvector, "50%" real,
        dense halfvec(2))""",
        f"""INSERT INTO odd VALUES ('{KEY}', 'Rent', '2023-05-01Z',
        1.5, '{{a,b}}', '\\x00ff', 'NaN', NULL, 'rent', 0.5, '[1,0]')""",
    )
    return "odd"


def test_columns_of_any_type_become_json(address: str, odd_table: str) -> None:
    with attach(address, odd_table) as collection:
        (chunk,) = collection.search(QUERY, k=3)[0]

    assert chunk.id == KEY
    assert chunk.text == "Rent"
    assert chunk.score == 1.0
    metadata = dict(chunk.metadata)
    # In the time zone of the server.
    assert metadata.pop("at").startswith("2023-0")
    assert metadata == {
        "price": 1.5,
        "tags": ["a", "b"],
        "raw": "00ff",
        "big": None,
        "nothing": None,
        "50%": 0.5,
    }


def test_a_table_is_described_with_what_was_guessed_and_assumed(
    address: str, odd_table: str
) -> None:
    with attach(address, odd_table) as collection:
        assert collection.guessed == ("text",)
        description = collection.described()
        *_, note_of_metric, note_of_words = collection.notes(by_words=True)

    assert description == (
        "text=body  id=key  vector=dense  (cosine, assumed, 2 dimensions)"
        "  words=words (ts_rank_cd, simple assumed)"
    )
    assert "cosine is assumed; correct it with --field metric=" in note_of_metric
    assert "ts_rank knows no rarity of words" in note_of_words


# --- names, vectors and keys


@pytest.fixture(scope="module")
def two_vectors(address: str) -> str:
    """In a schema of its own: rows 1 and 2 have both vectors, row 3 has "w" alone."""
    run(
        address,
        "CREATE SCHEMA kb",
        'CREATE TABLE kb."50% of ""it""" (id int PRIMARY KEY, text text, "my%v" vector, w vector)',
        '''INSERT INTO kb."50% of ""it""" VALUES (1, 'one', '[1,0]', '[1,0,0]'),
        (2, 'two', '[0,1]', '[0,1,0]'), (3, 'no vector', NULL, '[0,1,0]')''',
    )
    return 'kb.50% of "it"'


def test_of_several_vectors_one_must_be_chosen(address: str, two_vectors: str) -> None:
    with pytest.raises(ConfigError, match=r"has several vectors \(my%v, w\): choose the one"):
        attach(address, two_vectors)


def test_rows_without_the_vector_are_no_part_of_the_collection(
    address: str, two_vectors: str
) -> None:
    with attach(address, two_vectors, FieldMapping(vector="my%v", metric="dot")) as collection:
        assert collection.dimension == 2
        assert collection.count() == 2
        chunks = collection.search(QUERY, k=3)[0]

    assert ids(chunks) == ["1", "2"]
    assert [chunk.score for chunk in chunks] == [1.0, 0.0]


def test_the_length_of_the_chosen_vector_is_the_collection_s(
    address: str, two_vectors: str
) -> None:
    with attach(address, two_vectors, FieldMapping(vector="w")) as collection:
        assert collection.dimension == 3
        assert collection.count() == 3


@pytest.fixture(scope="module")
def keyless_table(address: str) -> str:
    rows = "('a', 'one', '[1,0]'), (NULL, 'two', '[0,1]')"
    table(address, "keyless", "text text", rows, key="name text")
    return "keyless"


def test_a_table_without_a_key_needs_an_id(address: str, keyless_table: str) -> None:
    with pytest.raises(ConfigError, match="has no primary key of one column: name its id with"):
        attach(address, keyless_table)


def test_a_row_without_an_id_or_a_key_is_named_by_its_place(
    address: str, keyless_table: str
) -> None:
    with attach(address, keyless_table, FieldMapping(id="name")) as collection:
        chunks = collection.search(QUERY, k=3)[0]
        warnings = collection.warnings()

    assert ids(chunks) == ["a", "#2"]
    assert "1 row has no id under 'name'" in warnings[0]


# --- search


def test_a_row_whose_score_is_no_number_is_left_out_and_counted(address: str) -> None:
    # A vector of zeros has no angle.
    table(address, "zeros", "text text", "(1, 'one', '[1,0]'), (2, 'zeros', '[0,0]')")

    with attach(address, "zeros") as collection:
        chunks = collection.search(QUERY, k=3)[0]
        warnings = collection.warnings()

    assert ids(chunks) == ["1"]
    assert "1 row has a score that is not a number" in warnings[0]


def test_an_index_gives_as_many_rows_as_are_asked_for(address: str) -> None:
    """By itself an HNSW index of pgvector gives forty."""
    # Row n is at a distance of n.
    rows = ", ".join(f"({number}, 'text', '[1,{number}]')" for number in range(1, 501))
    table(address, "many", "text text", rows)
    run(address, "CREATE INDEX ON many USING hnsw (v vector_l2_ops)")

    with attach(f"{address}&options=-c%20enable_seqscan%3Doff", "many") as collection:
        metric = collection.space.metric
        chunks = collection.search(QUERY, k=60)[0]

    assert metric == "euclid"
    assert ids(chunks) == [str(number) for number in range(1, 61)]
    assert chunks[0].score == -1.0
    assert chunks[1].score == -2.0


# --- rights


def test_the_server_itself_refuses_every_write(address: str) -> None:
    import psycopg

    table(address, "safe", "text text", "(1, 'one', '[1,0]')")

    with attach(address, "safe") as collection:
        connection = cast("Any", collection)._engine._connection
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM safe")


def test_an_index_of_a_table_with_a_percent_sign_is_seen(address: str) -> None:
    table(address, '"50% off"', "text text", "(1, 'one', '[1,0]')")
    with attach(address, "50% off") as collection:
        assert collection.is_exact

    run(address, 'CREATE INDEX ON "50% off" USING hnsw (v vector_cosine_ops)')

    with attach(address, "50% off") as collection:
        assert not collection.is_exact


def test_whoever_may_read_may_search(address: str) -> None:
    open_database(address).create("ours", dimension=2).close()
    table(address, "shared", "text text", "(1, 'one', '[1,0]')")
    run(address, "CREATE ROLE reader LOGIN", "GRANT SELECT ON shared TO reader")
    address_of_reader = address.replace("//postgres:@", "//reader:@")
    assert address_of_reader != address

    with attach(address_of_reader, "shared") as collection:
        chunks = collection.search(QUERY, k=1)[0]

    assert ids(chunks) == ["1"]


# --- what is taken for a collection


@pytest.mark.parametrize(
    "name", ["plain", "no.such", "a b; DROP TABLE plain", 'quo"te', "x" * 300, "."]
)
def test_what_is_no_table_of_vectors_is_none(address: str, name: str) -> None:
    run(address, "CREATE TABLE IF NOT EXISTS plain (id int PRIMARY KEY, text text)")

    with pytest.raises(StoreError, match="there is no collection"):
        attach(address, name)


def test_without_a_name_the_only_table_of_others_is_taken() -> None:
    with postgres() as address:
        run(address, "CREATE EXTENSION vector")
        table(address, "one", "t text", "(1, 'a', '[1,0]')")
        with attach(address, mapping=FieldMapping(text="t")) as collection:
            assert collection.name == "one"

        # Collections of ragbench's own do not count.
        open_database(address).create("own", dimension=2).close()
        with attach(address, mapping=FieldMapping(text="t")) as collection:
            assert collection.name == "one"

        table(address, "two", "t text", "(1, 'a', '[1,0]')")
        with pytest.raises(ConfigError, match=r"with --collection: .* has one, two"):
            attach(address)


def test_a_collection_of_ragbench_s_own_needs_no_mapping(address: str) -> None:
    open_database(address).create("own", dimension=2).close()

    with pytest.raises(ConfigError, match="ragbench itself has filled the collection 'own'"):
        attach(address, "own", FieldMapping(text="body"))
