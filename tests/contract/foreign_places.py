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
from tests.contract.elastic_server import Server, mapped, serving, vector_field
from tests.contract.store_engines import POSTGRES, UnderTest, postgres, unclosed_qdrant

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

    @property
    def fields(self) -> dict[str, Any]:
        return {"document_id": self.document_id, **self.metadata}

    @property
    def array(self) -> str:
        """The vector as SQL writes it."""
        return str(list(self.vector))


class Place(ABC):
    """A store, empty at first; `client` opens the vendor's client, where there is one."""

    prefix = ""
    """Where the fields of `fill` are found."""
    metrics: tuple[str, ...] = ("cosine", "dot", "euclid")
    squared = False
    """Whether the engine's euclidean distance is a squared one."""
    nested = True
    """Whether fields can be any JSON."""
    here_only = False
    """Whether the store lives in this process only."""

    def __init__(self, address: str, client: Callable[[], Any] = lambda: None) -> None:
        self.address = address
        self._client = client

    @property
    def kind(self) -> str:
        return self.address.partition(":")[0].partition("+")[0]

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        return attach(self.address, name, mapping, native_filter=native_filter)

    @abstractmethod
    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        """Makes a collection of ids, vectors and fields, as a program of one's own would."""

    @abstractmethod
    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        """Makes a collection as a framework does; gives its name."""

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        """Makes a collection that can be searched by words, too, as the vendor's guide does."""
        pytest.skip("the engine ranks by no words")

    def filled_elsewhere(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        """`fill_as` in another process, as users' collections are filled."""
        if self.here_only:
            return self.fill_as(layout, name, rows)
        return cast("str", _elsewhere(self.address, "fill_as", (layout, name, rows)))

    def words_filled_elsewhere(self, name: str, rows: Sequence[Written]) -> None:
        """`fill_words` in another process."""
        if self.here_only or type(self).fill_words is Place.fill_words:
            self.fill_words(name, rows)
        else:
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
        payload: Callable[[Written], dict[str, Any]] = {
            "langchain": lambda row: {"page_content": row.text, "metadata": row.fields},
            "llamaindex": lambda row: llama_node(row, text=True),
            "haystack": lambda row: {
                "id": row.id,
                "content": row.text,
                "meta": {"source_id": row.document_id, **row.metadata},
                **dict.fromkeys(("blob", "score", "sparse_embedding")),
            },
        }[layout]
        triples = [(row.id, row.vector, payload(row)) for row in rows]
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

    here_only = True

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
            llama_node(row, text=False) if layout == "llamaindex" else row.fields for row in rows
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
            rest = llama_node(row, text=False) if layout == "llamaindex" else row.fields
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

    def run(self, sql: str, *rows: Sequence[object]) -> list[Any]:
        import psycopg

        with cast("Any", psycopg.connect(self.address, autocommit=True)) as connection:
            cursor = connection.cursor()
            if rows:
                cursor.executemany(sql, rows)
            else:
                cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def table(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> None:
        """Makes a table of columns and their types; rows hold the first of them."""
        made = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        self.run(f'CREATE TABLE IF NOT EXISTS "{name}" ({made})')
        if rows:
            kinds = list(columns.values())[: len(rows[0])]
            marks = ", ".join(f"%s::{kind.partition(' ')[0]}" for kind in kinds)
            self.run(f'INSERT INTO "{name}" VALUES ({marks})', *rows)

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        kind = {"cosine": "cosine", "dot": "ip", "euclid": "l2", "manhattan": "l1"}[metric]
        columns = {"id": "text PRIMARY KEY", "payload": "jsonb", "v": f"vector({dimension})"}
        made = [(id, json.dumps(fields), str(list(vector))) for id, vector, fields in rows]
        self.table(name, columns, made)
        self.run(f'CREATE INDEX ON "{name}" USING hnsw (v vector_{kind}_ops)')

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        columns = {"id": "text PRIMARY KEY", "text": "text", "year": "int", "source": "text"}
        self.table(
            name,
            columns | {"v": f"vector({len(rows[0].vector)})"},
            [
                (row.id, row.text, row.metadata["year"], row.metadata["source"], row.array)
                for row in rows
            ],
        )
        stems = "to_tsvector('english', text)"
        self.run(f'ALTER TABLE "{name}" ADD words tsvector GENERATED ALWAYS AS ({stems}) STORED')
        self.run(f'CREATE INDEX ON "{name}" USING gin (words)')

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        vector = f"vector({len(rows[0].vector)})"
        if layout == "langchain":
            self._langchain(name, rows)
        elif layout == "llamaindex":
            name = f"data_{name}"
            columns = {"id": "bigint PRIMARY KEY", "text": "varchar", "metadata_": "json"}
            self.table(
                name,
                columns | {"node_id": "varchar", "embedding": vector},
                [
                    (row.id, row.text, json.dumps(llama_node(row, text=False)), "node", row.array)
                    for row in rows
                ],
            )
        else:
            columns = {"id": "varchar PRIMARY KEY", "embedding": vector, "content": "text"}
            blob = {"blob_data": "bytea", "blob_meta": "jsonb", "blob_mime_type": "varchar"}
            meta = [{"source_id": row.document_id, **row.metadata} for row in rows]
            self.table(
                name,
                columns | {"meta": "jsonb"} | blob,
                [
                    (row.id, row.array, row.text, json.dumps(at))
                    for row, at in zip(rows, meta, strict=True)
                ],
            )
        return name

    def _langchain(self, name: str, rows: Sequence[Written]) -> None:
        """All collections are in one table: here with another one, whose rows are hidden."""
        collections = [(str(uuid.uuid4()), name), (str(uuid.uuid4()), f"not {name}")]
        columns = {"uuid": "uuid PRIMARY KEY", "name": "varchar", "cmetadata": "json"}
        self.table("langchain_pg_collection", columns, collections)
        columns = {"id": "varchar PRIMARY KEY", "collection_id": "uuid", "embedding": "vector"}
        self.run("DROP TABLE IF EXISTS langchain_pg_embedding")
        self.table(
            "langchain_pg_embedding",
            columns | {"document": "varchar", "cmetadata": "jsonb"},
            [
                (f"{prefix}{row.id}", collection, row.array, text, json.dumps(row.fields))
                for row in rows
                for (collection, _), prefix, text in zip(
                    collections, ("", "not "), (row.text, "hidden"), strict=True
                )
            ],
        )

    def everything(self, name: str) -> object:
        public = "relnamespace = 'public'::regnamespace"
        tables = self.run(f"SELECT relname::text FROM pg_class WHERE {public}")
        table = name if (name,) in tables else "langchain_pg_embedding"
        rows = self.run(f'SELECT ctid::text, xmin::text, t::text FROM "{table}" t')
        return sorted(tables), rows

    def drop(self, name: str) -> None:
        self.run(f'DROP TABLE "{name}"')


class ElasticPlace(Place):
    """Indices of the server of `elastic_server`."""

    here_only = True

    def __init__(self, server: Server) -> None:
        super().__init__(server.url)
        self._server = server

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        made = {id: {**fields, "vector": list(vector)} for id, vector, fields in rows}
        self._index(name, made, "vector", dimension, metric)

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        vector = "vector" if layout == "langchain" else "embedding"
        fields: Callable[[Written], dict[str, Any]] = {
            "langchain": lambda row: {"text": row.text, "metadata": row.fields},
            "llamaindex": lambda row: {
                "content": row.text,
                "metadata": llama_node(row, text=False),
            },
            "haystack": lambda row: {"content": row.text, **row.fields},
        }[layout]
        made = {row.id: {**fields(row), vector: list(row.vector)} for row in rows}
        self._index(name, made, vector, len(rows[0].vector), "cosine")
        return name

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        triples = [(row.id, row.vector, {"text": row.text, **row.metadata}) for row in rows]
        self.fill(name, triples, dimension=len(rows[0].vector))

    def _index(
        self, name: str, rows: Mapping[str, Any], vector: str, dimension: int, metric: str
    ) -> None:
        properties = dict[str, Any]()
        for row in rows.values():
            properties |= mapped(row)
        properties[vector] = vector_field(self._server.kind, dimension, metric)
        self._server.make(name, properties, rows)

    def everything(self, name: str) -> object:
        return json.dumps(self._server.indices[name])

    def drop(self, name: str) -> None:
        del self._server.indices[name]


def _folder(pattern: str) -> Callable[[Path, ExitStack], Place]:
    """A store that is there, and that nobody has open."""

    def begin(folder: Path, _: ExitStack) -> Place:
        place = place_at(pattern.format(folder))
        place._client().close()
        return place

    return begin


def _qdrant_server(_: Path, __: ExitStack) -> Place:
    client = unclosed_qdrant()
    return QdrantServerPlace("qdrant+http://in.test", lambda: client)


def _chroma(folder: Path, closing: ExitStack) -> Place:
    place = place_at(f"chroma:{folder}/c")
    closing.callback(place._client().close)
    return place


def _postgres(_: Path, closing: ExitStack) -> Place:
    place = PostgresPlace(closing.enter_context(postgres()))
    place.run("CREATE EXTENSION vector")
    return place


def _elastic(kind: str) -> Callable[[Path, ExitStack], Place]:
    return lambda _, closing: ElasticPlace(closing.enter_context(serving(kind)))


PLACES = (
    UnderTest("qdrant folder", ("qdrant_client",), _folder("qdrant:{}/q")),
    UnderTest("qdrant client", ("qdrant_client",), _qdrant_server),
    UnderTest("chroma", ("chromadb",), _chroma),
    UnderTest("milvus lite", ("pymilvus", "milvus_lite"), _folder("milvus:{}/m.db")),
    UnderTest("pgvector", POSTGRES, _postgres),
    UnderTest("elasticsearch", ("elasticsearch",), _elastic("elasticsearch")),
    UnderTest("opensearch", ("opensearchpy",), _elastic("opensearch")),
)
