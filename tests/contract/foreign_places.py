"""Stores that other programs fill: each through its vendor's own client, as those programs do."""

from __future__ import annotations

import importlib
import json
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import pytest

from ragbench import attach
from ragbench.search.stores.attached import ForeignCollection, read_foreign
from ragbench.search.stores.mapping import FieldMapping
from tests.contract.elastic_server import Server, mapped, serving, vector_field
from tests.contract.store_engines import POSTGRES, UnderTest, postgres, unclosed_qdrant

Rows: TypeAlias = Sequence[tuple[str, Sequence[float], Mapping[str, Any]]]
"""Ids, vectors and fields."""
LAYOUTS = ("langchain", "llamaindex", "haystack")


@dataclass(frozen=True, kw_only=True)
class Written:
    id: str
    text: str
    vector: Sequence[float]
    document_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def fields(self) -> dict[str, Any]:
        return {"document_id": self.document_id, **self.metadata}

    @property
    def sourced(self) -> dict[str, Any]:
        """The fields as Haystack names them."""
        return {"source_id": self.document_id, **self.metadata}

    def node(self, *, text: bool) -> dict[str, Any]:
        """LlamaIndex's node_to_metadata_dict(..., flat_metadata=True)."""
        node = {
            "id_": self.id,
            "metadata": dict(self.metadata),
            "class_name": "TextNode",
            "relationships": {"1": {"node_id": self.document_id}},
            "text": self.text * text,
        }
        document = dict.fromkeys(("document_id", "doc_id", "ref_doc_id"), self.document_id)
        kept = {"_node_content": json.dumps(node), "_node_type": "TextNode"}
        return {**self.metadata, **kept, **document}


def _flat(layout: str, row: Written) -> dict[str, Any]:
    """Fields beside the text, where a store nests none."""
    return row.node(text=False) if layout == "llamaindex" else row.fields


Layouts: TypeAlias = Mapping[str, Callable[[Written], dict[str, Any]]]
"""What a row's fields are, by framework."""


class Place(ABC):
    """A store, empty at first; `client` opens the vendor's client, where there is one."""

    prefix = ""
    """Where the fields of `fill` are found."""
    metrics: tuple[str, ...] = ("cosine", "dot", "euclid")
    squared = False
    """Whether the engine's euclidean distance is a squared one."""
    nested = True
    """Whether fields can be any JSON."""
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

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        made = [(row.id, row.vector, self.layouts[layout](row)) for row in rows]
        self.fill(name, made, dimension=len(rows[0].vector))
        return name

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
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
        "llamaindex": lambda row: row.node(text=True),
        "haystack": lambda row: {
            **dict.fromkeys(("blob", "score", "sparse_embedding")),
            "id": row.id,
            "content": row.text,
            "meta": row.sourced,
        },
    }

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        from qdrant_client import models

        distance = models.Distance(metric.capitalize())
        self._made(name, models.VectorParams(size=dimension, distance=distance), rows)

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        from qdrant_client import models

        size, distance = len(rows[0].vector), models.Distance.COSINE
        dense = {"dense": models.VectorParams(size=size, distance=distance)}
        sparse = {"words": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        average = sum(len(_stems(row.text)) for row in rows) / len(rows)
        made: list[Any] = []
        for row in rows:
            vectors = {"dense": list(row.vector), "words": _bm25_vector(row.text, average)}
            made.append((row.id, vectors, {"text": row.text, **row.metadata}))
        self._made(name, dense, made, sparse_vectors_config=sparse)

    def _made(self, name: str, vectors: Any, rows: Rows, **more: Any) -> None:
        from qdrant_client import models

        made: list[tuple[Any, Any, Any]] = [
            (int(id) if id.isdecimal() else id, vector, dict(fields)) for id, vector, fields in rows
        ]
        points = [models.PointStruct(id=id, vector=v, payload=fields) for id, v, fields in made]
        with self.client() as client:
            client.create_collection(name, vectors_config=vectors, **more)
            if points:
                client.upsert(name, points)

    def everything(self, name: str) -> object:
        with self.client() as client:
            points, _ = client.scroll(name, limit=1000, with_vectors=True)
            # The client's own engine brings vectors to unit length each time it gives them.
            return [(str(at.id), at.payload, [round(x, 5) for x in at.vector]) for at in points]


class QdrantServerPlace(QdrantPlace):
    """The client's own engine in the place of a server's; it lives in this process only."""

    def open(
        self, name: str | None, mapping: FieldMapping | None = None, *, native_filter: object = None
    ) -> ForeignCollection:
        from ragbench.search.stores.qdrant import QdrantServerDatabase

        database = QdrantServerDatabase(self.address, self._client, local=True)
        return read_foreign(database, name, mapping, native_filter=native_filter)


def _stems(text: str) -> list[str]:
    words = "".join(at if at.isalnum() or at == "_" else " " for at in text.lower()).split()
    stemmer: Any = importlib.import_module("Stemmer")
    return list(stemmer.Stemmer("english").stemWords(words))


def _bm25_vector(text: str, average: float) -> Any:
    """fastembed's Qdrant/bm25: k 1.2, b 0.75, words hashed by mmh3."""
    import mmh3
    from qdrant_client import models

    stems = _stems(text)
    room = 1.2 * (0.25 + 0.75 * len(stems) / average)
    weights = {
        abs(mmh3.hash(stem)): times * 2.2 / (times + room) for stem, times in Counter(stems).items()
    }
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


class ChromaPlace(Place):
    prefix = "metadata."
    squared = True
    nested = False

    @contextmanager
    def client(self) -> Generator[Any]:
        yield self._client()  # one for all: it lives as long as the tests

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        space = {"cosine": "cosine", "dot": "ip", "euclid": "l2"}[metric]
        how = {"embedding_function": None, "configuration": {"hnsw": {"space": space}}}
        self._made(name, how, [(*row, None) for row in rows])

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        made = [(row.id, row.vector, _flat(layout, row), row.text) for row in rows]
        self._made(name, {"metadata": {"hnsw:space": "cosine"}}, made)
        return name

    def _made(self, name: str, how: dict[str, Any], rows: Sequence[tuple[Any, ...]]) -> None:
        collection = self._client().create_collection(name, **how)
        if rows:
            ids, vectors, fields, texts = zip(*rows, strict=True)
            kept = {"ids": list(ids), "metadatas": [dict(one) or {"-": 0} for one in fields]}
            kept |= {"documents": list(texts)} if texts[0] is not None else {}
            collection.add(embeddings=[list(vector) for vector in vectors], **kept)

    def everything(self, name: str) -> object:
        collection = self._client().get_collection(name, embedding_function=None)
        got = collection.get(include=["documents", "metadatas", "embeddings"])
        vectors = [list(map(float, row)) for row in got["embeddings"]]
        return got["ids"], got["documents"], got["metadatas"], vectors, collection.metadata


class MilvusPlace(Place):
    squared = True

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        kind = {"cosine": "COSINE", "dot": "IP", "euclid": "L2"}[metric]
        how = {"metric_type": kind, "id_type": "string", "max_length": 200}
        with self.client() as client:
            client.create_collection(name, dimension=dimension, **how)
            if rows:
                made = [{"id": id, "vector": list(vector), **fields} for id, vector, fields in rows]
                client.insert(name, made)

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        key, text, vector = {
            "langchain": ("pk", "text", "vector"),
            "llamaindex": ("id", "text", "embedding"),
            "haystack": ("id", "content", "vector"),
        }[layout]
        named = [(row, _flat(layout, row)) for row in rows]
        made = [{key: r.id, text: r.text, vector: list(r.vector), **more} for r, more in named]
        self._made(name, (key, text, vector), made, words=False)
        return name

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        made = [{"id": r.id, "text": r.text, "vector": list(r.vector), **r.metadata} for r in rows]
        self._made(name, ("id", "text", "vector"), made, words=True)

    def _made(
        self, name: str, fields: tuple[str, str, str], rows: list[dict[str, Any]], *, words: bool
    ) -> None:
        pymilvus = pytest.importorskip("pymilvus")
        kind, (key, text, vector) = pymilvus.DataType, fields
        with self.client() as client:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
            schema.add_field(key, kind.VARCHAR, is_primary=True, max_length=100)
            schema.add_field(text, kind.VARCHAR, max_length=1000, enable_analyzer=words)
            schema.add_field(vector, kind.FLOAT_VECTOR, dim=len(rows[0][vector]))
            index = client.prepare_index_params()
            index.add_index(vector, index_type="FLAT", metric_type="COSINE")
            if words:
                schema.add_field("words", kind.SPARSE_FLOAT_VECTOR)
                by = pymilvus.FunctionType.BM25
                schema.add_function(pymilvus.Function("bm25", by, [text], ["words"]))
                index.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
            client.create_collection(name, schema=schema, index_params=index)
            client.insert(name, rows)

    def everything(self, name: str) -> object:
        with self.client() as client:
            client.load_collection(name)
            rows = client.query(name, filter="", limit=1000, output_fields=["*"])
            # As whoever has filled it left it: nobody has loaded it.
            client.release_collection(name)
            return sorted(json.dumps(dict(row), default=str, sort_keys=True) for row in rows)

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
        made = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        self.run(f'CREATE TABLE IF NOT EXISTS "{name}" ({made})')
        if rows:
            kinds = list(columns.values())[: len(rows[0])]
            marks = ", ".join(f"%s::{kind.partition(' ')[0]}" for kind in kinds)
            said = [[json.dumps(v) if isinstance(v, dict) else str(v) for v in row] for row in rows]
            self.run(f'INSERT INTO "{name}" VALUES ({marks})', *said)

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        kind = {"cosine": "cosine", "dot": "ip", "euclid": "l2", "manhattan": "l1"}[metric]
        columns = {"id": "text PRIMARY KEY", "payload": "jsonb", "v": f"vector({dimension})"}
        self.table(name, columns, [(id, dict(fields), vector) for id, vector, fields in rows])
        self.run(f'CREATE INDEX ON "{name}" USING hnsw (v vector_{kind}_ops)')

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        columns = {"id": "text PRIMARY KEY", "text": "text", "source": "text", "year": "int"}
        made = [(row.id, row.text, *row.metadata.values(), row.vector) for row in rows]
        self.table(name, columns | {"v": f"vector({len(rows[0].vector)})"}, made)
        stems = "to_tsvector('english', text)"
        self.run(f'ALTER TABLE "{name}" ADD words tsvector GENERATED ALWAYS AS ({stems}) STORED')
        self.run(f'CREATE INDEX ON "{name}" USING gin (words)')

    def fill_as(self, layout: str, name: str, rows: Sequence[Written]) -> str:
        vector = f"vector({len(rows[0].vector)})"
        made: list[tuple[Any, ...]]
        if layout == "langchain":
            # All collections are in one table: here with another one, whose rows are hidden.
            collections = [(str(uuid.uuid4()), name), (str(uuid.uuid4()), f"not {name}")]
            columns = {"uuid": "uuid PRIMARY KEY", "name": "varchar", "cmetadata": "json"}
            self.table("langchain_pg_collection", columns, collections)
            self.run("DROP TABLE IF EXISTS langchain_pg_embedding")
            columns = {"id": "varchar PRIMARY KEY", "collection_id": "uuid", "embedding": "vector"}
            columns |= {"document": "varchar", "cmetadata": "jsonb"}
            (own, _), (other, _) = collections
            made = [(row.id, own, row.vector, row.text, row.fields) for row in rows]
            made += [(f"not {row.id}", other, row.vector, "hidden", row.fields) for row in rows]
            self.table("langchain_pg_embedding", columns, made)
            return name
        if layout == "llamaindex":
            name = f"data_{name}"
            columns = {"id": "bigint PRIMARY KEY", "text": "varchar", "metadata_": "json"}
            columns |= {"node_id": "varchar", "embedding": vector}
            made = [(row.id, row.text, row.node(text=False), "node", row.vector) for row in rows]
        else:
            columns = {"id": "varchar PRIMARY KEY", "embedding": vector, "content": "text"}
            columns |= {"meta": "jsonb", "blob_data": "bytea", "blob_meta": "jsonb"}
            made = [(row.id, row.vector, row.text, row.sourced) for row in rows]
        self.table(name, columns, made)
        return name

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

    layouts: ClassVar[Layouts] = {
        "langchain": lambda row: {"text": row.text, "metadata": row.fields},
        "llamaindex": lambda row: {"content": row.text, "metadata": row.node(text=False)},
        "haystack": lambda row: {"content": row.text, **row.fields},
    }

    def __init__(self, server: Server) -> None:
        super().__init__(server.url)
        self._server = server

    def fill(self, name: str, rows: Rows, *, dimension: int, metric: str = "cosine") -> None:
        properties = dict[str, Any]()
        for _, _, fields in rows:
            properties |= mapped(fields)
        properties["vector"] = vector_field(self._server.kind, dimension, metric)
        made = {id: {**fields, "vector": list(vector)} for id, vector, fields in rows}
        self._server.make(name, properties, made)

    def fill_words(self, name: str, rows: Sequence[Written]) -> None:
        made = [(row.id, row.vector, {"text": row.text, **row.metadata}) for row in rows]
        self.fill(name, made, dimension=len(rows[0].vector))

    def everything(self, name: str) -> object:
        return json.dumps(self._server.indices[name])

    def drop(self, name: str) -> None:
        del self._server.indices[name]


def _made(place: Place) -> Place:
    """A store that is there, and that nobody has open."""
    with place.client():
        return place


def _qdrant(folder: Path, _: ExitStack) -> Place:
    from qdrant_client import QdrantClient

    return _made(QdrantPlace(f"qdrant:{folder}/q", lambda: QdrantClient(path=f"{folder}/q")))


def _qdrant_server(_: Path, __: ExitStack) -> Place:
    client = unclosed_qdrant()
    return QdrantServerPlace("qdrant+http://in.test", lambda: client)


def _chroma(folder: Path, closing: ExitStack) -> Place:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    client = cast("Any", chromadb.PersistentClient(f"{folder}/c", settings))
    closing.callback(client.close)
    return ChromaPlace(f"chroma:{folder}/c", lambda: client)


def _milvus(folder: Path, _: ExitStack) -> Place:
    client = pytest.importorskip("pymilvus").MilvusClient
    return _made(MilvusPlace(f"milvus:{folder}/m.db", lambda: client(f"{folder}/m.db")))


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
