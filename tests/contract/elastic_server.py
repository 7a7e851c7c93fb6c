"""A server that answers as Elasticsearch and OpenSearch document it, as far as ragbench asks.

No real one can be started where these tests run (their registries carry neither). The server keeps
documents in memory, refuses what is not documented, and computes the scores of vectors by the
documented formulas; by words it counts.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.json_server import serving_json

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
SPACES = {
    "elasticsearch": (
        "dense_vector",
        "dims",
        "similarity",
        {"cosine": "cosine", "dot": "max_inner_product", "euclid": "l2_norm"},
    ),
    "opensearch": (
        "knn_vector",
        "dimension",
        "space_type",
        {"cosine": "cosinesimil", "dot": "innerproduct", "euclid": "l2"},
    ),
}
TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
KINDS: dict[object, dict[str, Any]] = {
    str: TEXT,
    bool: {"type": "boolean"},
    int: {"type": "long"},
    float: {"type": "float"},
}


class Refused(Exception):
    """A request that the server does not understand."""


class Server:
    """Indices by name: a mapping, and documents by id."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.indices: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.shards_failed = 0
        self.url = ""

    def make(self, name: str, properties: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
        self.indices[name] = {"properties": dict(properties), "rows": dict(rows)}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path = path.partition("?")[0].replace("%2A", "*")
        self.asked.append((path, body))
        name, _, action = path.strip("/").partition("/")
        if not name:
            return 200, {"version": {"number": "9.5.0"}, "tagline": "You Know, for Search"}
        if name != "*" and name not in self.indices:
            return failed(404, "index_not_found_exception", f"no such index [{name}]")
        if method == "HEAD":
            return 200, None
        if action == "_mapping":
            shown = self.indices if name == "*" else {name: self.indices[name]}
            kept = {at: {"properties": one["properties"]} for at, one in shown.items()}
            return 200, {at: {"mappings": one} for at, one in kept.items()}
        index = self.indices[name]
        if action == "_count":
            return 200, {"count": len(index["rows"])}
        try:
            return 200, self.search(index, body)
        except Refused as error:
            return failed(400, "parsing_exception", str(error))

    def search(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        if body.keys() - {"size", "_source", "query", "knn"} or body["size"] > 10_000:
            raise Refused(f"unknown key or size {body.keys()}")
        scores, excluded = self.ranked(index, body), body["_source"]["excludes"]
        hits: list[dict[str, Any]] = []
        for at in sorted(scores, key=lambda at: -scores[at])[: body["size"]]:
            kept = {k: v for k, v in index["rows"][at].items() if k not in excluded}
            hits.append({"_id": at, "_score": scores[at], "_source": kept})
        shards = {"total": 1, "failed": self.shards_failed}
        return {"timed_out": False, "_shards": shards, "hits": {"hits": hits}}

    def ranked(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, float]:
        rows, query = index["rows"], body.get("query", {})
        if query == {"match_all": {}}:
            return dict.fromkeys(rows, 1.0)
        if self.kind == "elasticsearch" and "knn" in body:
            asked = dict(body["knn"])
            field, vector, filters = asked["field"], asked["query_vector"], asked.get("filter", [])
            known = {"field", "query_vector", "k", "num_candidates", "filter"}
            if not asked["k"] <= asked["num_candidates"] <= 10_000:
                raise Refused("num_candidates")
        elif self.kind == "opensearch" and "knn" in query:
            [(field, asked)] = query["knn"].items()
            vector, filters = asked["vector"], [asked["filter"]] if "filter" in asked else []
            known = {"vector", "k", "filter", "method_parameters"}
        else:
            [match] = query["bool"]["must"]
            [(field, said)] = match["match"].items()
            wanted, filters = words(said["query"]), query["bool"].get("filter", [])
            counts = {
                at: sum(map(words(row.get(field, "")).count, wanted)) for at, row in rows.items()
            }
            return {
                at: float(one)
                for at, one in counts.items()
                if one and all(passes(index, rows[at], part) for part in filters)
            }
        if asked.keys() - known:
            raise Refused("knn")
        _, length, how, _ = SPACES[self.kind]
        settings = index["properties"][field]
        if len(vector) != settings[length]:
            raise Refused("the query vector has a different number of dimensions")
        found = {
            at: score(settings.get(how, "l2"), vector, row[field])
            for at, row in rows.items()
            if field in row and all(passes(index, row, one) for one in filters)
        }
        return {at: found[at] for at in sorted(found, key=lambda at: -found[at])[: asked["k"]]}


def failed(status: int, kind: str, why: str) -> tuple[int, Any]:
    reason = {"type": kind, "reason": why}
    return status, {"error": {**reason, "root_cause": [reason]}, "status": status}


def passes(index: Mapping[str, Any], row: Any, query: Any) -> bool:
    [(kind, said)] = query.items()
    if kind not in ("bool", "exists", "range", "term", "terms", "prefix"):
        raise Refused(f"unknown query [{kind}]")
    if kind == "bool":
        parts = {
            name: [passes(index, row, one) for one in inner]
            for name, inner in said.items()
            if name != "minimum_should_match"
        }
        needed, denied = all(parts.pop("filter", [])), any(parts.pop("must_not", []))
        return needed and any(parts.pop("should", [True])) and not denied and not parts
    if kind == "exists":
        return bool(values(row, said["field"]))
    [(field, wanted)] = said.items()
    name = field.removesuffix(".keyword")
    settings: Any = index
    for part in name.split("."):
        settings = settings.get("properties", {}).get(part, {})
    stored, found = settings.get("type"), values(row, name)
    if kind == "range":
        limits = dict(wanted)
        if (limits.pop("format", None) == "epoch_millis") != (stored == "date"):
            raise Refused("failed to parse date")
        numbers = [millis(one) if stored == "date" else one for one in found]
        return any(all(COMPARED[at](one, end) for at, end in limits.items()) for one in numbers)
    if stored == "text" and name == field:
        return False  # as words, no whole value is found
    if kind == "prefix" and stored not in ("text", "keyword", None):
        raise Refused(f"Can only use prefix queries on keyword and text, not on [{field}]")
    if kind == "prefix":
        return any(str(one).startswith(wanted["value"]) for one in found)
    return any(one in (wanted if kind == "terms" else [wanted]) for one in found)


def mapped(row: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that a document of this kind gets where nobody has made one."""
    found = dict[str, Any]()
    for name, value in row.items():
        one = value[0] if isinstance(value, list) and value else value
        if isinstance(one, dict):
            found[name] = {"properties": mapped(one)}
        elif type(one) in KINDS:
            found[name] = KINDS[type(one)]
    return found


def vector_field(kind: str, dimension: int, metric: str) -> dict[str, Any]:
    name, length, how, spaces = SPACES[kind]
    return {"type": name, length: dimension, how: spaces[metric]}


def millis(date: str) -> float:
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() * 1000


def values(row: Any, field: str) -> list[Any]:
    for name in field.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return [one for one in (row if isinstance(row, list) else [row]) if one is not None]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def score(how: str, query: list[float], row: list[float]) -> float:
    product = float(sum(map(operator.mul, query, row)))
    if how in ("cosine", "cosinesimil"):
        return (1 + product / (math.hypot(*query) * math.hypot(*row))) / 2
    if how in ("l2_norm", "l2"):
        return 1 / (1 + math.dist(query, row) ** 2)
    return 1 + product if product >= 0 else 1 / (1 - product)


@contextmanager
def serving(kind: str) -> Generator[Server]:
    server = Server(kind)
    known = {"x-elastic-product": "Elasticsearch"} if kind == "elasticsearch" else None
    with serving_json(server.answer, known) as url:
        server.url = f"{kind}+{url}"
        yield server
