"""A server that answers as Elasticsearch and OpenSearch document it, as far as ragbench asks.

No real one can be started where these tests run (their registries carry neither). The server keeps
documents in memory, refuses what is not documented, and computes the scores of vectors by the
documented formulas; by words it counts.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.json_server import serving_json


@dataclass(frozen=True, kw_only=True)
class VectorSettings:
    """What the mapping of a vector field is called by a kind of server."""

    type: str
    dimension_key: str
    space_key: str
    space_of_metric: Mapping[str, str]


VECTOR_SETTINGS = {
    "elasticsearch": VectorSettings(
        type="dense_vector",
        dimension_key="dims",
        space_key="similarity",
        space_of_metric={"cosine": "cosine", "dot": "max_inner_product", "euclid": "l2_norm"},
    ),
    "opensearch": VectorSettings(
        type="knn_vector",
        dimension_key="dimension",
        space_key="space_type",
        space_of_metric={"cosine": "cosinesimil", "dot": "innerproduct", "euclid": "l2"},
    ),
}

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}

TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
MAPPING_OF_TYPE: dict[object, dict[str, Any]] = {
    str: TEXT,
    bool: {"type": "boolean"},
    int: {"type": "long"},
    float: {"type": "float"},
}
"""What a field becomes by its first value, where nobody has made a mapping."""


class Refused(Exception):
    """A request that the server does not understand."""


@dataclass(frozen=True, kw_only=True)
class VectorQuery:
    """A search for the nearest vectors, as either kind of server is asked for it."""

    field: str
    vector: list[float]
    filters: Sequence[Any]
    k: int


class Server:
    """Indices by name: a mapping, and documents by id."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.indices: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, Any]] = []
        """The path and the body of each request, in their order."""
        self.shards_failed = 0
        self.url = ""

    def make(self, name: str, properties: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
        self.indices[name] = {"properties": dict(properties), "rows": dict(rows)}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path = path.partition("?")[0].replace("%2A", "*")
        self.requests.append((path, body))
        name, _, action = path.strip("/").partition("/")
        if not name:
            return 200, {"version": {"number": "9.5.0"}, "tagline": "You Know, for Search"}
        if name != "*" and name not in self.indices:
            return failed(404, "index_not_found_exception", f"no such index [{name}]")
        if method == "HEAD":
            return 200, None
        if action == "_mapping":
            return 200, self.mappings(name)
        index = self.indices[name]
        if action == "_count":
            return 200, {"count": len(index["rows"])}
        try:
            return 200, self.search(index, body)
        except Refused as error:
            return failed(400, "parsing_exception", str(error))

    def mappings(self, pattern: str) -> dict[str, Any]:
        """Of the index of this name, or of all for "*"."""
        names = list(self.indices) if pattern == "*" else [pattern]
        mappings = dict[str, Any]()
        for name in names:
            properties = self.indices[name]["properties"]
            mappings[name] = {"mappings": {"properties": properties}}
        return mappings

    def search(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """The documents with the highest scores, and how many shards did not answer."""
        unknown_keys = body.keys() - {"size", "_source", "query", "knn"}
        if unknown_keys or body["size"] > 10_000:
            raise Refused(f"unknown key or size {body.keys()}")
        scores = self.scores(index, body)
        excluded = body["_source"]["excludes"]
        hits: list[dict[str, Any]] = []
        for id in _highest(scores, body["size"]):
            row = index["rows"][id]
            hit = {
                "_id": id,
                "_score": scores[id],
                "_source": {name: value for name, value in row.items() if name not in excluded},
            }
            hits.append(hit)
        return {
            "timed_out": False,
            "_shards": {"total": 1, "failed": self.shards_failed},
            "hits": {"hits": hits},
        }

    def scores(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, float]:
        """Of the rows that are found, by id."""
        query = body.get("query", {})
        if query == {"match_all": {}}:
            return dict.fromkeys(index["rows"], 1.0)
        if self.kind == "elasticsearch" and "knn" in body:
            vector_query = elasticsearch_vector_query(body["knn"])
            return self.vector_scores(index, vector_query)
        if self.kind == "opensearch" and "knn" in query:
            vector_query = opensearch_vector_query(query["knn"])
            return self.vector_scores(index, vector_query)
        return word_scores(index, query["bool"])

    def vector_scores(self, index: Mapping[str, Any], query: VectorQuery) -> dict[str, float]:
        """Of the nearest rows that pass the query's filters."""
        names = VECTOR_SETTINGS[self.kind]
        settings = index["properties"][query.field]
        if len(query.vector) != settings[names.dimension_key]:
            raise Refused("the query vector has a different number of dimensions")
        space = settings.get(names.space_key, "l2")
        scores = dict[str, float]()
        for id, row in index["rows"].items():
            if query.field in row and passes_all(index, row, query.filters):
                scores[id] = vector_score(space, query.vector, row[query.field])
        nearest = _highest(scores, query.k)
        return {id: scores[id] for id in nearest}


def elasticsearch_vector_query(knn: Mapping[str, Any]) -> VectorQuery:
    _refuse_other_keys(knn, {"field", "query_vector", "k", "num_candidates", "filter"})
    if not knn["k"] <= knn["num_candidates"] <= 10_000:
        raise Refused("num_candidates")
    return VectorQuery(
        field=knn["field"],
        vector=knn["query_vector"],
        filters=knn.get("filter", []),
        k=knn["k"],
    )


def opensearch_vector_query(knn: Mapping[str, Any]) -> VectorQuery:
    [(field, query)] = knn.items()
    _refuse_other_keys(query, {"vector", "k", "filter", "method_parameters"})
    filters = [query["filter"]] if "filter" in query else []
    return VectorQuery(field=field, vector=query["vector"], filters=filters, k=query["k"])


def _refuse_other_keys(query: Mapping[str, Any], documented: set[str]) -> None:
    if query.keys() - documented:
        raise Refused("knn")


def word_scores(index: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, float]:
    """How often the words of the query are in each row; rows without one are not found."""
    [must] = query["must"]
    [(field, match)] = must["match"].items()
    query_words = words(match["query"])
    filters = query.get("filter", [])
    scores = dict[str, float]()
    for id, row in index["rows"].items():
        row_words = words(row.get(field, ""))
        matches = sum(row_words.count(word) for word in query_words)
        if matches and passes_all(index, row, filters):
            scores[id] = float(matches)
    return scores


def _highest(scores: Mapping[str, float], count: int) -> list[str]:
    """The ids of the highest scores, the best first; of equals the earlier row."""
    return sorted(scores, key=lambda id: -scores[id])[:count]


def failed(status: int, kind: str, message: str) -> tuple[int, Any]:
    reason = {"type": kind, "reason": message}
    return status, {"error": {**reason, "root_cause": [reason]}, "status": status}


def passes_all(index: Mapping[str, Any], row: Any, queries: Sequence[Any]) -> bool:
    # Every query is looked at, so that one that is not understood is refused in any case.
    passed = [passes(index, row, query) for query in queries]
    return all(passed)


def passes(index: Mapping[str, Any], row: Any, query: Any) -> bool:
    [(kind, clause)] = query.items()
    if kind not in ("bool", "exists", "range", "term", "terms", "prefix"):
        raise Refused(f"unknown query [{kind}]")
    if kind == "bool":
        return passes_bool(index, row, clause)
    if kind == "exists":
        return bool(values(row, clause["field"]))

    [(field, condition)] = clause.items()
    name = field.removesuffix(".keyword")
    stored_type = type_of_field(index, name)
    stored_values = values(row, name)
    if kind == "range":
        return passes_range(stored_type, stored_values, condition)
    if stored_type == "text" and name == field:
        return False  # as words, no whole value is found
    if kind == "prefix":
        if stored_type not in ("text", "keyword", None):
            raise Refused(f"Can only use prefix queries on keyword and text, not on [{field}]")
        prefix = condition["value"]
        return any(str(value).startswith(prefix) for value in stored_values)
    accepted = condition if kind == "terms" else [condition]
    return any(value in accepted for value in stored_values)


def passes_bool(index: Mapping[str, Any], row: Any, clause: Mapping[str, Any]) -> bool:
    if clause.keys() - {"filter", "must_not", "should", "minimum_should_match"}:
        raise Refused(f"unknown clause of [bool] {clause.keys()}")
    required = passes_all(index, row, clause.get("filter", []))
    excluded = [passes(index, row, query) for query in clause.get("must_not", [])]
    if "should" in clause:
        alternatives = [passes(index, row, query) for query in clause["should"]]
    else:
        alternatives = [True]
    return required and any(alternatives) and not any(excluded)


def passes_range(
    stored_type: str | None, stored_values: list[Any], condition: Mapping[str, Any]
) -> bool:
    limits = dict(condition)
    in_milliseconds = limits.pop("format", None) == "epoch_millis"
    is_date = stored_type == "date"
    if in_milliseconds != is_date:
        raise Refused("failed to parse date")
    for value in stored_values:
        number = milliseconds(value) if is_date else value
        within = [COMPARISONS[sign](number, limit) for sign, limit in limits.items()]
        if all(within):
            return True
    return False


def type_of_field(index: Mapping[str, Any], path: str) -> str | None:
    """What the mapping says of a dotted path; None where it says nothing."""
    settings: Any = index
    for part in path.split("."):
        settings = settings.get("properties", {}).get(part, {})
    return settings.get("type")  # type: ignore[no-any-return]


def mapped(row: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that a document of this kind gets where nobody has made one."""
    properties = dict[str, Any]()
    for name, value in row.items():
        # A list has the type of its first value.
        first_value = value[0] if isinstance(value, list) and value else value
        if isinstance(first_value, dict):
            properties[name] = {"properties": mapped(first_value)}
        elif type(first_value) in MAPPING_OF_TYPE:
            properties[name] = MAPPING_OF_TYPE[type(first_value)]
    return properties


def vector_field(kind: str, dimension: int, metric: str) -> dict[str, Any]:
    names = VECTOR_SETTINGS[kind]
    return {
        "type": names.type,
        names.dimension_key: dimension,
        names.space_key: names.space_of_metric[metric],
    }


def milliseconds(date: str) -> float:
    midnight = datetime.fromisoformat(date).replace(tzinfo=UTC)
    return midnight.timestamp() * 1000


def values(row: Any, path: str) -> list[Any]:
    """What a row holds under a dotted path; nulls are as good as absent."""
    value = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    listed = value if isinstance(value, list) else [value]
    return [item for item in listed if item is not None]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def vector_score(space: str, query: list[float], row: list[float]) -> float:
    """By the formulas of the servers' documents; every score is above zero."""
    if space in ("l2_norm", "l2"):
        return 1 / (1 + math.dist(query, row) ** 2)
    product = float(sum(map(operator.mul, query, row)))
    if space in ("cosine", "cosinesimil"):
        lengths = math.hypot(*query) * math.hypot(*row)
        cosine = product / lengths
        return (1 + cosine) / 2
    return 1 + product if product >= 0 else 1 / (1 - product)


@contextmanager
def serving(kind: str) -> Generator[Server]:
    server = Server(kind)
    # Elasticsearch's client refuses a server that does not name itself.
    headers = {"x-elastic-product": "Elasticsearch"} if kind == "elasticsearch" else None
    with serving_json(server.answer, headers) as url:
        server.url = f"{kind}+{url}"
        yield server
