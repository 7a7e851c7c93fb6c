"""Tables of PostgreSQL with pgvector that ragbench did not fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from ragbench.errors import ConfigError
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.engine import ForeignRow, Space, chosen_vector
from ragbench.stores.foreign.mapping import FieldMapping, MetricName
from ragbench.stores.pgvector import open_pgvector
from ragbench.stores.pgvector_tables import Column, Table, find_table, table_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ForeignPgvector"]

_OPERATORS: dict[MetricName, str] = {
    "cosine": "<=>",
    "dot": "<#>",
    "euclid": "<->",
    "manhattan": "<+>",
}
_CLASSES: dict[str, MetricName] = {
    "cosine": "cosine",
    "ip": "dot",
    "l2": "euclid",
    "l1": "manhattan",
}
"""What the names of index operator classes say, such as ``vector_cosine_ops``."""
_LEFT_OUT = ("vector", "halfvec", "sparsevec", "tsvector")
"""Types of columns that are for searching, not for reading."""


class ForeignPgvector:
    """See `ragbench.stores.foreign.engine.ForeignEngine`. A row's fields are its columns."""

    most = None

    def __init__(self, connection: Any, table: Table, space: Space, *, key: str | None) -> None:
        """Takes what is open.

        Args:
            connection: one of psycopg.
            table: what is read.
            space: what is searched.
            key: the column that is the primary key.
        """
        self.space = space
        self.key = key
        self._connection = connection
        self._table = _escaped(table.sql)
        self._part = table.part
        self._columns = [one.name for one in table.columns if one.kind not in _LEFT_OUT]
        vector = next(one for one in table.columns if one.name == space.vector)
        self._vector = _quoted(vector.name)
        self._kind = vector.kind

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """See `ForeignEngine`."""
        return open_pgvector(address)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        """See `ForeignEngine`."""
        return table_names(connection)

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        """See `ForeignEngine`; from here on the server refuses every write of the connection."""
        connection.execute("SET default_transaction_read_only = on")
        _look_on(connection)
        table = find_table(connection, name)
        if table is None:
            return None
        columns = {one.name: one for one in table.columns if one.is_vector}
        vector = columns[chosen_vector(name, mapping.vector, list(columns))]
        key = _key(connection, table)
        if key is None and mapping.id is None:
            raise ConfigError(
                f"the table '{name}' has no primary key of one column: name its id with "
                "--map id=COLUMN"
            )
        metrics = _indexed(connection, table, vector)
        metric = mapping.metric or (metrics[0] if len(metrics) == 1 else None)
        space = Space(
            vector=vector.name,
            dimension=vector.dimension or _dimension(connection, table, vector),
            metric=metric or "cosine",
            metric_told=metric is not None,
        )
        return cls(connection, table, space, key=key)

    def count(self) -> int:
        """See `ForeignEngine`."""
        where, values = self._where()
        asked = f"SELECT count(*) FROM {self._table} WHERE {where}"
        return int(self._connection.execute(asked, values).fetchone()[0])

    def sample(self, limit: int) -> list[ForeignRow]:
        """See `ForeignEngine`."""
        where, values = self._where()
        asked = f"SELECT {self._listed('0::float8')} FROM {self._table} WHERE {where} LIMIT %s"
        rows = self._connection.execute(asked, (*values, limit)).fetchall()
        return [self._row(row) for row in rows]

    def nearest(self, rows: NDArray[np.float32], limit: int) -> list[list[ForeignRow]]:
        """See `ForeignEngine`."""
        where, values = self._where()
        compared = f"{self._vector} {_OPERATORS[self.space.metric]} %s::{self._kind}"
        asked = (
            f"SELECT {self._listed(compared)} FROM {self._table} WHERE {where} ORDER BY 1 LIMIT %s"
        )
        found: list[list[ForeignRow]] = []
        for row in rows:
            query = f"[{','.join(map(repr, row.tolist()))}]"
            hits = self._connection.execute(asked, (query, *values, limit)).fetchall()
            found.append([self._row(hit) for hit in hits])
        return found

    def _listed(self, first: str) -> str:
        return ", ".join([first, *map(_quoted, self._columns)])

    def _where(self) -> tuple[str, tuple[object, ...]]:
        there = f"{self._vector} IS NOT NULL"
        if self._part is None:
            return there, ()
        return f"{there} AND collection_id = %s", (self._part,)

    def _row(self, row: Sequence[Any]) -> ForeignRow:
        fields = dict(zip(self._columns, row[1:], strict=True))
        own = "" if self.key is None else str(fields[self.key])
        # A cosine distance is one minus the cosine; the inner product comes as its negative.
        score = 1.0 - row[0] if self.space.metric == "cosine" else -row[0]
        return ForeignRow(own, fields, float(score))


def _look_on(connection: Any) -> None:
    """Lets an HNSW index look on until enough rows are found, where the server's pgvector can.

    Without, it gives 40 rows at most, however many are asked for.
    """
    there = "SELECT to_regtype('vector') IS NOT NULL"
    if not connection.execute(there).fetchone()[0]:
        return
    connection.execute("SELECT NULL::vector")  # what pgvector can is known once it is loaded
    connection.execute(
        "SELECT set_config(name, 'strict_order', false) FROM pg_settings "
        "WHERE name = 'hnsw.iterative_scan'"
    )


def _key(connection: Any, table: Table) -> str | None:
    """The primary key, where it is one column that can be read."""
    rows = connection.execute(
        "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s::regclass AND i.indisprimary",
        (table.sql,),
    ).fetchall()
    return rows[0][0] if len(rows) == 1 else None


def _indexed(connection: Any, table: Table, vector: Column) -> list[MetricName]:
    """The metrics that indexes of the vectors are made for."""
    rows = connection.execute(
        "SELECT DISTINCT o.opcname::text FROM pg_index i "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
        "JOIN pg_opclass o ON o.oid = i.indclass[0] "
        "WHERE i.indrelid = %s::regclass AND a.attname = %s ORDER BY 1",
        (table.sql, vector.name),
    ).fetchall()
    parts = [str(row[0]).split("_") for row in rows]
    return [_CLASSES[part[1]] for part in parts if len(part) == 3 and part[1] in _CLASSES]


def _dimension(connection: Any, table: Table, vector: Column) -> int | None:
    """Of a column without a length, that of one row."""
    name = _quoted(vector.name)
    row = connection.execute(
        f"SELECT vector_dims({name}) FROM {_escaped(table.sql)} WHERE {name} IS NOT NULL LIMIT 1",
        (),
    ).fetchone()
    return None if row is None else int(row[0])


def _quoted(name: str) -> str:
    return _escaped('"' + name.replace('"', '""') + '"')


def _escaped(sql: str) -> str:
    """A name in a statement with placeholders: a percent sign is none."""
    return sql.replace("%", "%%")
