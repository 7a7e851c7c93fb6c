"""Stores that other programs fill: each through its vendor's own client, as those programs do."""

from __future__ import annotations

import importlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import pytest

from ragbench import attach
from ragbench.search.stores.attached import ForeignCollection, read_foreign
from ragbench.search.stores.mapping import FieldMapping
from tests.contract.elastic_server import Server, mapped, serving, vector_field
from tests.contract.store_engines import POSTGRES, UnderTest, postgres, unclosed_qdrant

Payload: TypeAlias = Mapping[str, Any]
"""The fields of a row beside its id and its vector."""
Rows: TypeAlias = Sequence[tuple[str, Sequence[float], Payload]]
"""Ids, vectors and payloads."""
LAYOUTS = ("langchain", "llamaindex", "haystack")


@dataclass(frozen=True, kw_only=True)
class StoredRow:
    """A chunk as another program knows it; how it is written depends on the framework."""

    id: str
    text: str
    vector: Sequence[float]
    document_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as LangChain writes them."""
        return {"document_id": self.document_id, **self.metadata}

    @property
    def haystack_fields(self) -> dict[str, Any]:
        return {"source_id": self.document_id, **self.metadata}

    def llamaindex_fields(self, *, with_text: bool) -> dict[str, Any]:
        """LlamaIndex's node_to_metadata_dict(..., flat_metadata=True)."""
        node = {
            "id_": self.id,
            "metadata": dict(self.metadata),
            "class_name": "TextNode",
            "relationships": {"1": {"node_id": self.document_id}},
            "text": self.text if with_text else "",
        }
        return {
            **self.metadata,
            "_node_content": json.dumps(node),
            "_node_type": "TextNode",
            "document_id": self.document_id,
            "doc_id": self.document_id,
            "ref_doc_id": self.document_id,
        }


def _fields_beside_text(layout: str, row: StoredRow) -> dict[str, Any]:
    """The fields in a store that nests none and has a column for the text."""
    if layout == "llamaindex":
        return row.llamaindex_fields(with_text=False)
    return row.fields


Layouts: TypeAlias = Mapping[str, Callable[[StoredRow], dict[str, Any]]]
"""What a row's fields are, by framework."""


class Place(ABC):
    """A store, empty at first; `client` opens the vendor's client, where there is one."""

    prefix = ""
    """Where the fields of `fill` are found."""
    metrics: tuple[str, ...] = ("cosine", "dot", "euclid")
    squared = False
    """Whether the engine's euclidean distance is a squared one."""
    layouts: ClassVar[Layouts]

    def __init__(self, address: str, client: Callable[[], Any] = lambda: None) -> None:
        self.address = address
        self.kind = address.partition(":")[0].partition("+")[0]
        self._client = client

    @contextmanager
    def client(self) -> Generator[Any]:
        client = self._client()
        yield client
        client.close()

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        return attach(self.address, name, mapping, native_filter=native_filter)

    @abstractmethod
    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        """Makes a collection of ids, vectors and fields, as a program of one's own would."""

    def fill_as(self, layout: str, name: str, rows: Sequence[StoredRow]) -> str:
        """Makes a collection as this framework does, and gives the name by which it is opened."""
        payload_of = self.layouts[layout]
        laid_out = [(row.id, row.vector, payload_of(row)) for row in rows]
        self.fill(name, laid_out, dimension=len(rows[0].vector))
        return name

    def fill_words(self, name: str, rows: Sequence[StoredRow]) -> None:
        """Makes a collection that can be searched by words, too, as the vendor's guide does."""
        pytest.skip("the engine ranks by no words")

    @abstractmethod
    def everything(self, name: str) -> object:
        """All that is in a collection, vectors too, in a form that can be compared."""

    def drop(self, name: str) -> None:
        with self.client() as client:
            client.delete_collection(name)


class QdrantPlace(Place):
    metrics = ("cosine", "dot", "euclid", "manhattan")
    layouts: ClassVar[Layouts] = {
        "langchain": lambda row: {"page_content": row.text, "metadata": row.fields},
        "llamaindex": lambda row: row.llamaindex_fields(with_text=True),
        "haystack": lambda row: {
            "blob": None,
            "score": None,
            "sparse_embedding": None,
            "id": row.id,
            "content": row.text,
            "meta": row.haystack_fields,
        },
    }

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        from qdrant_client import models

        distance = models.Distance(metric.capitalize())
        vectors = models.VectorParams(size=dimension, distance=distance)
        points = [(id, list(vector), payload) for id, vector, payload in rows]
        self._create(name, vectors, points)

    def fill_words(self, name: str, rows: Sequence[StoredRow]) -> None:
        from qdrant_client import models

        size = len(rows[0].vector)
        dense = models.VectorParams(size=size, distance=models.Distance.COSINE)
        sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
        lengths = [len(_stems(row.text)) for row in rows]
        average_length = sum(lengths) / len(rows)
        points: list[tuple[str, Any, Payload]] = []
        for row in rows:
            words = _bm25_vector(row.text, average_length)
            vectors = {"dense": list(row.vector), "words": words}
            payload = {"text": row.text, **row.metadata}
            points.append((row.id, vectors, payload))
        self._create(name, {"dense": dense}, points, sparse_vectors={"words": sparse})

    def _create(
        self,
        name: str,
        vectors: Any,
        rows: Sequence[tuple[str, Any, Payload]],
        *,
        sparse_vectors: Any = None,
    ) -> None:
        from qdrant_client import models

        points: list[Any] = []
        for id, vector, payload in rows:
            # Qdrant takes numbers and UUIDs as ids, and no other texts.
            point_id = int(id) if id.isdecimal() else id
            points.append(models.PointStruct(id=point_id, vector=vector, payload=dict(payload)))
        with self.client() as client:
            client.create_collection(
                name, vectors_config=vectors, sparse_vectors_config=sparse_vectors
            )
            if points:
                client.upsert(name, points)

    def everything(self, name: str) -> object:
        with self.client() as client:
            points, _ = client.scroll(name, limit=1000, with_vectors=True)
        rows: list[object] = []
        for point in points:
            # The client's own engine brings vectors to unit length each time it gives them.
            vector = [round(number, 5) for number in point.vector]
            rows.append((str(point.id), point.payload, vector))
        return rows


class QdrantServerPlace(QdrantPlace):
    """The client's own engine in the place of a server's; it lives in this process only."""

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        from ragbench.search.stores.qdrant import QdrantServerDatabase

        database = QdrantServerDatabase(self.address, self._client, local=True)
        return read_foreign(database, name, mapping, native_filter=native_filter)


def _stems(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    stemmer: Any = importlib.import_module("Stemmer")
    return list(stemmer.Stemmer("english").stemWords(words))


def _bm25_vector(text: str, average_length: float) -> Any:
    """fastembed's Qdrant/bm25: k 1.2, b 0.75, words hashed by mmh3."""
    import mmh3
    from qdrant_client import models

    stems = _stems(text)
    relative_length = len(stems) / average_length
    saturation = 1.2 * (0.25 + 0.75 * relative_length)
    weights = dict[int, float]()
    for stem, frequency in Counter(stems).items():
        number = abs(mmh3.hash(stem))
        weights[number] = frequency * 2.2 / (frequency + saturation)
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


class ChromaPlace(Place):
    prefix = "metadata."
    squared = True

    @contextmanager
    def client(self) -> Generator[Any]:
        # One client for all tests: it is closed with the place.
        yield self._client()

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        space = {"cosine": "cosine", "dot": "ip", "euclid": "l2"}[metric]
        settings = {"embedding_function": None, "configuration": {"hnsw": {"space": space}}}
        self._create(name, settings, rows)

    def fill_as(self, layout: str, name: str, rows: Sequence[StoredRow]) -> str:
        laid_out = [(row.id, row.vector, _fields_beside_text(layout, row)) for row in rows]
        texts = [row.text for row in rows]
        # Not "configuration", as `fill` has it: frameworks write the space among the metadata.
        self._create(name, {"metadata": {"hnsw:space": "cosine"}}, laid_out, texts)
        return name

    def _create(
        self, name: str, settings: dict[str, Any], rows: Rows, texts: list[str] | None = None
    ) -> None:
        collection = self._client().create_collection(name, **settings)
        if not rows:
            return
        collection.add(
            ids=[id for id, _, _ in rows],
            embeddings=[list(vector) for _, vector, _ in rows],
            # Chroma refuses empty metadata.
            metadatas=[dict(payload) or {"-": 0} for _, _, payload in rows],
            documents=texts,
        )

    def everything(self, name: str) -> object:
        collection = self._client().get_collection(name, embedding_function=None)
        content = collection.get(include=["documents", "metadatas", "embeddings"])
        vectors = np.asarray(content["embeddings"]).tolist()
        return (
            content["ids"],
            content["documents"],
            content["metadatas"],
            vectors,
            collection.metadata,
        )


class MilvusPlace(Place):
    squared = True

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        metric_type = {"cosine": "COSINE", "dot": "IP", "euclid": "L2"}[metric]
        with self.client() as client:
            client.create_collection(
                name,
                dimension=dimension,
                metric_type=metric_type,
                id_type="string",
                max_length=200,
            )
            entities: list[dict[str, Any]] = []
            for id, vector, payload in rows:
                entities.append({"id": id, "vector": list(vector), **payload})
            if entities:
                client.insert(name, entities)

    def fill_as(self, layout: str, name: str, rows: Sequence[StoredRow]) -> str:
        key, text, vector = {
            "langchain": ("pk", "text", "vector"),
            "llamaindex": ("id", "text", "embedding"),
            "haystack": ("id", "content", "vector"),
        }[layout]
        entities: list[dict[str, Any]] = []
        for row in rows:
            entity = {key: row.id, text: row.text, vector: list(row.vector)}
            entities.append(entity | _fields_beside_text(layout, row))
        self._create(name, (key, text, vector), entities, words=False)
        return name

    def fill_words(self, name: str, rows: Sequence[StoredRow]) -> None:
        entities: list[dict[str, Any]] = []
        for row in rows:
            entity = {"id": row.id, "text": row.text, "vector": list(row.vector)}
            entities.append(entity | dict(row.metadata))
        self._create(name, ("id", "text", "vector"), entities, words=True)

    def _create(
        self,
        name: str,
        columns: tuple[str, str, str],
        entities: list[dict[str, Any]],
        *,
        words: bool,
    ) -> None:
        """Columns for id, text and vector; all other fields are dynamic ones."""
        pymilvus = pytest.importorskip("pymilvus")
        kind = pymilvus.DataType
        key, text, vector = columns
        with self.client() as client:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
            schema.add_field(key, kind.VARCHAR, is_primary=True, max_length=100)
            schema.add_field(text, kind.VARCHAR, max_length=1000, enable_analyzer=words)
            schema.add_field(vector, kind.FLOAT_VECTOR, dim=len(entities[0][vector]))
            index = client.prepare_index_params()
            index.add_index(vector, index_type="FLAT", metric_type="COSINE")
            if words:
                schema.add_field("words", kind.SPARSE_FLOAT_VECTOR)
                bm25 = pymilvus.FunctionType.BM25
                schema.add_function(pymilvus.Function("bm25", bm25, [text], ["words"]))
                index.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
            client.create_collection(name, schema=schema, index_params=index)
            client.insert(name, entities)

    def everything(self, name: str) -> object:
        with self.client() as client:
            client.load_collection(name)
            rows = client.query(name, filter="", limit=1000, output_fields=["*"])
            # As whoever has filled it left it: nobody has loaded it.
            client.release_collection(name)
            written = [json.dumps(dict(row), default=str, sort_keys=True) for row in rows]
            return sorted(written)

    def drop(self, name: str) -> None:
        with self.client() as client:
            client.drop_collection(name)


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
        """Makes a table of columns by name and type, where there is none, and adds the rows."""
        definitions = [f"{column} {kind}" for column, kind in columns.items()]
        self.run(f'CREATE TABLE IF NOT EXISTS "{name}" ({", ".join(definitions)})')
        if not rows:
            return
        # Rows may be shorter than the table: the last columns stay empty.
        kinds = list(columns.values())[: len(rows[0])]
        placeholders: list[str] = []
        for kind in kinds:
            # Of "text PRIMARY KEY" the type alone.
            placeholders.append(f"%s::{kind.partition(' ')[0]}")
        sql_rows: list[list[str]] = []
        for row in rows:
            sql_rows.append([_sql_text(value) for value in row])
        self.run(f'INSERT INTO "{name}" VALUES ({", ".join(placeholders)})', *sql_rows)

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        distance_of_metric = {
            "cosine": "cosine",
            "dot": "ip",
            "euclid": "l2",
            "manhattan": "l1",
        }
        distance = distance_of_metric[metric]
        columns = {
            "id": "text PRIMARY KEY",
            "payload": "jsonb",
            "v": f"vector({dimension})",
        }
        values = [(id, dict(payload), vector) for id, vector, payload in rows]
        self.table(name, columns, values)
        self.run(f'CREATE INDEX ON "{name}" USING hnsw (v vector_{distance}_ops)')

    def fill_words(self, name: str, rows: Sequence[StoredRow]) -> None:
        columns = {
            "id": "text PRIMARY KEY",
            "text": "text",
            "source": "text",
            "year": "int",
            "v": f"vector({len(rows[0].vector)})",
        }
        values: list[tuple[Any, ...]] = []
        for row in rows:
            source, year = row.metadata["source"], row.metadata["year"]
            values.append((row.id, row.text, source, year, row.vector))
        self.table(name, columns, values)
        stems = "to_tsvector('english', text)"
        self.run(f'ALTER TABLE "{name}" ADD words tsvector GENERATED ALWAYS AS ({stems}) STORED')
        self.run(f'CREATE INDEX ON "{name}" USING gin (words)')

    def fill_as(self, layout: str, name: str, rows: Sequence[StoredRow]) -> str:
        if layout == "langchain":
            return self._fill_as_langchain(name, rows)
        if layout == "llamaindex":
            return self._fill_as_llamaindex(name, rows)
        return self._fill_as_haystack(name, rows)

    def _fill_as_langchain(self, name: str, rows: Sequence[StoredRow]) -> str:
        """All collections are in one table: here with a second one, whose rows are hidden."""
        uuid_of_rows = str(uuid.uuid4())
        uuid_of_hidden_rows = str(uuid.uuid4())
        self.table(
            "langchain_pg_collection",
            {"uuid": "uuid PRIMARY KEY", "name": "varchar", "cmetadata": "json"},
            [(uuid_of_rows, name), (uuid_of_hidden_rows, f"not {name}")],
        )

        values: list[tuple[Any, ...]] = []
        for row in rows:
            values.append((row.id, uuid_of_rows, row.vector, row.text, row.fields))
        for row in rows:
            hidden_id = f"not {row.id}"
            values.append((hidden_id, uuid_of_hidden_rows, row.vector, "hidden", row.fields))
        columns = {
            "id": "varchar PRIMARY KEY",
            "collection_id": "uuid",
            "embedding": "vector",
            "document": "varchar",
            "cmetadata": "jsonb",
        }
        self.run("DROP TABLE IF EXISTS langchain_pg_embedding")
        self.table("langchain_pg_embedding", columns, values)
        return name

    def _fill_as_llamaindex(self, name: str, rows: Sequence[StoredRow]) -> str:
        """LlamaIndex puts "data_" before the name."""
        columns = {
            "id": "bigint PRIMARY KEY",
            "text": "varchar",
            "metadata_": "json",
            "node_id": "varchar",
            "embedding": f"vector({len(rows[0].vector)})",
        }
        values: list[tuple[Any, ...]] = []
        for row in rows:
            fields = row.llamaindex_fields(with_text=False)
            values.append((row.id, row.text, fields, "node", row.vector))
        self.table(f"data_{name}", columns, values)
        return f"data_{name}"

    def _fill_as_haystack(self, name: str, rows: Sequence[StoredRow]) -> str:
        columns = {
            "id": "varchar PRIMARY KEY",
            "embedding": f"vector({len(rows[0].vector)})",
            "content": "text",
            "meta": "jsonb",
            "blob_data": "bytea",
            "blob_meta": "jsonb",
        }
        values = [(row.id, row.vector, row.text, row.haystack_fields) for row in rows]
        self.table(name, columns, values)
        return name

    def everything(self, name: str) -> object:
        public = "relnamespace = 'public'::regnamespace"
        tables = self.run(f"SELECT relname::text FROM pg_class WHERE {public}")
        table = name if (name,) in tables else "langchain_pg_embedding"
        # A row that is written again, even unchanged, has another place and transaction.
        rows = self.run(f'SELECT ctid::text, xmin::text, t::text FROM "{table}" t')
        return sorted(tables), rows

    def drop(self, name: str) -> None:
        self.run(f'DROP TABLE "{name}"')


def _sql_text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


class ElasticPlace(Place):
    """Indices of the server of `elastic_server`."""

    layouts: ClassVar[Layouts] = {
        "langchain": lambda row: {"text": row.text, "metadata": row.fields},
        "llamaindex": lambda row: {
            "content": row.text,
            "metadata": row.llamaindex_fields(with_text=False),
        },
        "haystack": lambda row: {"content": row.text, **row.fields},
    }

    def __init__(self, server: Server) -> None:
        super().__init__(server.url)
        self._server = server

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        properties = dict[str, Any]()
        documents = dict[str, Any]()
        for id, vector, payload in rows:
            properties |= mapped(payload)
            documents[id] = {**payload, "vector": list(vector)}
        properties["vector"] = vector_field(self._server.kind, dimension, metric)
        self._server.make(name, properties, documents)

    def fill_words(self, name: str, rows: Sequence[StoredRow]) -> None:
        with_text: list[tuple[str, Sequence[float], Payload]] = []
        for row in rows:
            payload = {"text": row.text, **row.metadata}
            with_text.append((row.id, row.vector, payload))
        self.fill(name, with_text, dimension=len(rows[0].vector))

    def everything(self, name: str) -> object:
        return json.dumps(self._server.indices[name])

    def drop(self, name: str) -> None:
        del self._server.indices[name]


def _created(place: Place) -> Place:
    """The place, once its folder is there: opening its client makes it."""
    with place.client():
        return place


def _qdrant(folder: Path, _: ExitStack) -> Place:
    from qdrant_client import QdrantClient

    path = f"{folder}/q"
    return _created(QdrantPlace(f"qdrant:{path}", lambda: QdrantClient(path=path)))


def _qdrant_server(_: Path, __: ExitStack) -> Place:
    client = unclosed_qdrant()
    return QdrantServerPlace("qdrant+http://in.test", lambda: client)


def _chroma(folder: Path, closing: ExitStack) -> Place:
    import chromadb
    from chromadb.config import Settings

    path = f"{folder}/c"
    settings = Settings(anonymized_telemetry=False)
    client = cast("Any", chromadb.PersistentClient(path, settings))
    closing.callback(client.close)
    return ChromaPlace(f"chroma:{path}", lambda: client)


def _milvus(folder: Path, _: ExitStack) -> Place:
    pymilvus = pytest.importorskip("pymilvus")
    path = f"{folder}/m.db"
    return _created(MilvusPlace(f"milvus:{path}", lambda: pymilvus.MilvusClient(path)))


def _postgres(_: Path, closing: ExitStack) -> Place:
    place = PostgresPlace(closing.enter_context(postgres()))
    place.run("CREATE EXTENSION vector")
    return place


def _elastic(kind: str) -> Callable[[Path, ExitStack], Place]:
    return lambda _, closing: ElasticPlace(closing.enter_context(serving(kind)))


PLACES = (
    UnderTest("qdrant folder", ("qdrant_client",), _qdrant),
    UnderTest("qdrant client", ("qdrant_client",), _qdrant_server),
    UnderTest("chroma", ("chromadb",), _chroma),
    UnderTest("milvus lite", ("pymilvus", "milvus_lite"), _milvus),
    UnderTest("pgvector", POSTGRES, _postgres),
    UnderTest("elasticsearch", ("elasticsearch",), _elastic("elasticsearch")),
    UnderTest("opensearch", ("opensearchpy",), _elastic("opensearch")),
)
