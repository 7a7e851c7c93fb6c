"""Indices of Elasticsearch and OpenSearch. ragbench never fills one; it reads those that are there.

Both speak nearly one language. What differs: the type of a vector's field, how its neighbours are
asked for, and how their likeness is turned into a score (https://www.elastic.co/docs/reference,
https://docs.opensearch.org/latest/vector-search). Scores are turned back into the measure itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from ragbench.core.filters import Dialect, Filter, Range
from ragbench.errors import ConfigError, StoreError
from ragbench.io.fields import named
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.search.stores.base import Effort, MetricName, Row, Rows, Space, Words, checked_native
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_MOST = 10_000
"""``index.max_result_window``, unless somebody has changed it."""
_CANDIDATES = 100
"""The least that a search by vectors looks at in each shard."""
_TEXTS = ("text", "match_only_text")
_VECTORS = ("dense_vector", "knn_vector", "sparse_vector", "rank_features")
_TIMEOUT = 60
_NATIVE = 'a JSON object of their query language, such as {"term": {"team": "legal"}}'


class ElasticDatabase(ReadableDatabase):
    def __init__(self, address: str, kind: type[Elasticsearch]) -> None:
        forms = f"{kind.extra}+https://USER:PASSWORD@HOST:9200"
        login = server_url(address, kind.extra.capitalize(), forms)
        super().__init__(mask_url(address), lambda: kind.connected(*login))
        self._kind = kind

    def load(self) -> tuple[type[Exception], ...]:
        package = self._kind.client_package()
        errors: list[type[Exception]] = [getattr(package, name) for name in self._kind.errors]
        return (*errors, OSError, ValueError)

    def listed(self, connection: Any) -> list[str]:
        names = cast("Mapping[str, Any]", connection.indices.get_mapping(index="*"))
        return [name for name in names if not name.startswith(".")]  # those are hidden

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Elasticsearch | None:
        """See `ReadableDatabase`; an alias is taken for its first index."""
        kind = self._kind
        if not connection.indices.exists(index=name):
            return None
        mappings = cast("Mapping[str, Any]", connection.indices.get_mapping(index=name))
        index = next(iter(mappings.values()))
        fields = dict(_flat(index["mappings"].get("properties", {}), ""))
        vectors = [path for path, field in fields.items() if field["type"] == kind.kind]
        vector = mapping.chosen_vector(name, vectors)
        texts = [path for path, field in fields.items() if field["type"] in _TEXTS]
        words = mapping.chosen_words(name, texts, usual=_usual_text(mapping, texts))
        settings = fields[vector]
        space_type = kind.space_type(settings)
        if space_type not in kind.metrics:
            raise ConfigError(f"vectors that are compared by '{space_type}' are not read")
        dimension = settings.get("dims", settings.get("dimension"))
        metric = mapping.checked_metric(name, kind.metrics[space_type])
        return kind(
            client=connection,
            name=name,
            space=Space(
                vector=vector, dimension=int(dimension) if dimension else None, metric=metric
            ),
            words=None if words is None else Words(field=words, ranking="BM25 of the index"),
            fields=fields,
        )


def _usual_text(mapping: FieldMapping, texts: Sequence[str]) -> str | None:
    """The text that is searched by words where none is named: that of the chunks."""
    if mapping.text in texts:
        return mapping.text
    usual = [path for path in texts if path.rpartition(".")[2] in named("hit")["text"]]
    return usual[0] if len(usual) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Elasticsearch:
    """See `ragbench.search.stores.base.Reader`. A row's fields are its ``_source``."""

    row_limit = _MOST
    key = None
    extra: ClassVar[str] = "elasticsearch"
    errors: ClassVar[tuple[str, ...]] = ("ApiError", "TransportError")
    metrics: ClassVar[Mapping[str, MetricName]] = {
        "cosine": "cosine",
        "dot_product": "dot",
        "max_inner_product": "dot",
        "l2_norm": "euclid",
    }
    kind: ClassVar[str] = "dense_vector"
    client: Any
    name: str
    space: Space
    words: Words | None
    fields: Mapping[str, Mapping[str, Any]]
    """What the index' mapping says of each field."""

    @staticmethod
    def client_package() -> Any:
        return require("elasticsearch", extra="elasticsearch")

    @classmethod
    def connected(cls, host: str, user: str, password: str) -> Any:
        package = cls.client_package()
        login: dict[str, Any] = {}
        if user:
            login["basic_auth"] = (user, password)
        elif password:  # without a user it is a key
            login["api_key"] = password
        return package.Elasticsearch(host, request_timeout=_TIMEOUT, **login)

    @staticmethod
    def space_type(settings: Mapping[str, Any]) -> str:
        return str(settings.get("similarity", "cosine"))

    def count(self) -> int:
        return int(self.client.count(index=self.name)["count"])

    def sample(self, limit: int) -> list[Row]:
        return [row._replace(score=0.0) for row in self._hits({"match_all": {}}, limit)]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `Reader`; a native one is an object of the query language."""
        dialect: Dialect[dict[str, Any]] = Dialect(
            both=lambda parts: {"bool": {"filter": parts}},
            either=lambda parts: {"bool": {"should": parts, "minimum_should_match": 1}},
            denied=lambda part: {"bool": {"must_not": [part]}},
            equal=lambda field, values: {"terms": {self._exact(field): list(values)}},
            within=_within,
            exists=lambda field: {"exists": {"field": field}},
            prefix=lambda field, text: {"prefix": {self._exact(field): {"value": text}}},
        )
        parts = [] if filters is None else [dialect(filters)]
        if native is not None:
            parts.append(checked_native(native, dict, "Elasticsearch and OpenSearch", _NATIVE))
        return parts or None

    @property
    def is_exact(self) -> bool:
        """See `Reader`: whether the vectors stand in no graph; k-NN searches have one, or lists."""
        options: Any = self.fields[self.space.vector].get("index_options")
        return bool(options) and options.get("type") == "flat"

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        if effort.exact and not self.is_exact:
            raise ConfigError(
                f"the index '{self.name}' is searched through its graph alone: leave exact out, "
                "or set ef"
            )
        return [self._nearest(row.tolist(), limit, condition, effort.ef) for row in rows]

    def _nearest(self, query: list[float], limit: int, condition: Any, ef: int | None) -> list[Row]:
        knn: dict[str, Any] = {"field": self.space.vector, "query_vector": query, "k": limit}
        knn["num_candidates"] = min(max(ef or _CANDIDATES, limit), _MOST)
        if condition:
            knn["filter"] = condition
        similarity = self.space_type(self.fields[self.space.vector])
        return _measured(self._hits(None, limit, knn=knn), similarity)

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        assert self.words is not None
        results: list[list[Row]] = []
        for text in texts:
            query: dict[str, Any] = {"must": [{"match": {self.words.field: {"query": text}}}]}
            if condition:
                query["filter"] = condition
            results.append(self._hits({"bool": query}, limit))
        return results

    def _hits(self, query: Mapping[str, Any] | None, limit: int, **more: Any) -> list[Row]:
        vectors = [path for path, field in self.fields.items() if field["type"] in _VECTORS]
        body: dict[str, Any] = {"size": limit, "_source": {"excludes": vectors}, **more}
        if query is not None:
            body["query"] = query
        answer = self.client.search(index=self.name, body=body)
        if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
            raise StoreError(
                f"the index '{self.name}' answered in part only: shards failed or took too long"
            )
        rows: list[Row] = []
        for hit in answer["hits"]["hits"]:
            score = float(hit.get("_score") or 0.0)
            rows.append(Row(str(hit["_id"]), hit.get("_source") or {}, score))
        return rows

    def _exact(self, name: str) -> str:
        """The field that keeps whole values: of an analysed text its part that does."""
        field = self.fields.get(name)
        if field is None or field["type"] not in _TEXTS:
            return name
        parts = cast("Mapping[str, Any]", field.get("fields") or {})
        for part, settings in parts.items():
            if settings.get("type") == "keyword":
                return f"{name}.{part}"
        raise ConfigError(
            f"filter on '{name}': the index keeps it as words only, not whole; filter by a "
            'field of the type keyword, or natively by {"match_phrase": ...}'
        )


class OpenSearch(Elasticsearch):
    """The same of OpenSearch, with its k-NN plugin."""

    extra: ClassVar[str] = "opensearch"
    errors: ClassVar[tuple[str, ...]] = ("OpenSearchException",)
    metrics: ClassVar[Mapping[str, MetricName]] = {
        "cosinesimil": "cosine",
        "innerproduct": "dot",
        "l2": "euclid",
    }
    kind: ClassVar[str] = "knn_vector"

    @staticmethod
    def client_package() -> Any:
        return require("opensearchpy", extra="opensearch")

    @classmethod
    def connected(cls, host: str, user: str, password: str) -> Any:
        package = cls.client_package()
        login: dict[str, Any] = {"http_auth": (user, password)} if user else {}
        return package.OpenSearch(host, timeout=_TIMEOUT, **login)

    @staticmethod
    def space_type(settings: Mapping[str, Any]) -> str:
        method = cast("Mapping[str, Any]", settings.get("method") or {})
        return str(settings.get("space_type") or method.get("space_type") or "l2")

    def _nearest(self, query: list[float], limit: int, condition: Any, ef: int | None) -> list[Row]:
        knn: dict[str, Any] = {"vector": query, "k": limit}
        if ef is not None:
            knn["method_parameters"] = {"ef_search": max(ef, limit)}
        if condition:
            knn["filter"] = {"bool": {"filter": condition}}
        rows = self._hits({"knn": {self.space.vector: knn}}, limit)
        settings = self.fields[self.space.vector]
        space_type = self.space_type(settings)
        method = cast("Mapping[str, Any]", settings.get("method") or {})
        if space_type == "cosinesimil" and method.get("engine") == "nmslib":
            # This engine alone scores 1 / (1 + (1 - cosine)).
            return [row._replace(score=2 - 1 / row.score) for row in rows]
        return _measured(rows, space_type)


open_elasticsearch = partial(ElasticDatabase, kind=Elasticsearch)
open_opensearch = partial(ElasticDatabase, kind=OpenSearch)


def _within(range_: Range) -> dict[str, Any]:
    limits: dict[str, Any] = dict(range_.limits())
    if range_.of_dates:
        limits = {word: int(limit) for word, limit in limits.items()}
        limits["format"] = "epoch_millis"
    return {"range": {range_.field: limits}}


def _flat(properties: Mapping[str, Any], before: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, settings in properties.items():
        if "properties" in settings:
            yield from _flat(settings["properties"], f"{before}{name}.")
        else:
            yield f"{before}{name}", {"type": "", **settings}


def _measured(rows: Sequence[Row], similarity: str) -> list[Row]:
    return [row._replace(score=_measure(row.score, similarity)) for row in rows]


def _measure(score: float, similarity: str) -> float:
    """What a score was made of: cosine, inner product, or the negative of a distance.

    Elasticsearch: (1 + cosine) / 2, also for products of vectors of length 1; 1 / (1 + distance
    squared); of any product p 1 + p, or 1 / (1 - p) below 0. OpenSearch has the same formulas.
    """
    if similarity in ("cosine", "dot_product", "cosinesimil"):
        return 2 * score - 1
    if similarity in ("l2_norm", "l2"):
        return -math.sqrt(max(1 / score - 1, 0.0))
    if score >= 1:
        return score - 1
    return 1 - 1 / score
