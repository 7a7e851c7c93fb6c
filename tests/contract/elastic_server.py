"""A server that answers as Elasticsearch and OpenSearch document it, as far as ragbench asks.

No real one can be started where these tests run (their registries carry neither). The server keeps
documents in memory, refuses what is not documented, and computes scores by the documented formulas.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
        self.asked.append((path, body))
        name, _, action = path.strip("/").partition("/")
        if not name:
            return 200, {"version": {"number": "9.5.0"}, "tagline": "You Know, for Search"}
        if name != "*" and name not in self.indices:
            reason = {"type": "index_not_found_exception", "reason": f"no such index [{name}]"}
            return 404, {"error": {**reason, "root_cause": [reason]}, "status": 404}
        if method == "HEAD":
            return 200, None
        if action == "_mapping":
            shown = self.indices if name == "*" else {name: self.indices[name]}
            return 200, {at: {"mappings": {"properties": one["properties"]}}
                         for at, one in shown.items()}  # fmt: skip
        if action == "_count":
            return 200, {"count": len(self.indices[name]["rows"])}
        if action != "_search":
            raise Refused(action)
        return 200, self.search(self.indices[name], body)

    def search(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        unknown = body.keys() - {"size", "_source", "query", "knn"}
        if unknown or body["size"] > 10_000:
            raise Refused(f"unknown key {unknown}")
        scores = self.ranked(index, body)
        order = sorted(scores, key=lambda at: -scores[at])[: body["size"]]
        excluded = body["_source"]["excludes"]
        hits = [
            {
                "_id": at,
                "_score": scores[at],
                "_source": {k: v for k, v in index["rows"][at].items() if k not in excluded},
            }
            for at in order
        ]
        return {
            "timed_out": False,
            "_shards": {"total": 1, "failed": self.shards_failed},
            "hits": {"hits": hits},
        }

    def ranked(self, index: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, float]:
        query = body.get("query", {})
        if self.kind == "elasticsearch" and "knn" in body:
            asked = body["knn"]
            known = {"field", "query_vector", "k", "num_candidates", "filter"}
            if asked.keys() - known or not asked["k"] <= asked["num_candidates"] <= 10_000:
                raise Refused("knn")
            filters = asked.get("filter", [])
            return self.near(index, asked["field"], asked["query_vector"], filters, asked["k"])
        if self.kind == "opensearch" and "knn" in query:
            [(field, asked)] = query["knn"].items()
            if asked.keys() - {"vector", "k", "filter", "method_parameters"}:
                raise Refused("knn")
            filters = [asked["filter"]] if "filter" in asked else []
            return self.near(index, field, asked["vector"], filters, asked["k"])
        if "knn" in body or "knn" in query:
            raise Refused("this server has no such search")
        if query == {"match_all": {}}:
            return dict.fromkeys(index["rows"], 1.0)
        [match] = query["bool"]["must"]
        [(field, said)] = match["match"].items()
        filters = query["bool"].get("filter", [])
        return self.bm25(index, field, said["query"], filters)

    def near(
        self, index: Mapping[str, Any], field: str, query: list[float], filters: Any, k: int
    ) -> dict[str, float]:
        settings = index["properties"][field]
        if len(query) != settings.get("dims", settings.get("dimension")):
            raise Refused("the query vector has a different number of dimensions")
        how = settings.get("similarity") or settings.get("space_type", "l2")
        found = {
            at: score(how, query, row[field])
            for at, row in index["rows"].items()
            if field in row and all(self.passes(index, row, at, one) for one in filters)
        }
        best = sorted(found, key=lambda at: -found[at])[:k]
        return {at: found[at] for at in best}

    def bm25(
        self, index: Mapping[str, Any], field: str, query: str, filters: Any
    ) -> dict[str, float]:
        texts = {at: words(row.get(field, "")) for at, row in index["rows"].items()}
        average = sum(map(len, texts.values())) / len(texts)
        found: dict[str, float] = {}
        for word in words(query):
            holding = [at for at, text in texts.items() if word in text]
            idf = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
            for at in holding:
                times = texts[at].count(word)
                norm = 1.2 * (0.25 + 0.75 * len(texts[at]) / average)
                found[at] = found.get(at, 0.0) + idf * times / (times + norm)
        rows = index["rows"]
        return {
            at: one
            for at, one in found.items()
            if all(self.passes(index, rows[at], at, part) for part in filters)
        }

    def passes_all(self, index: Mapping[str, Any], row: Any, at: str, said: Any) -> bool:
        if said.keys() - {"filter", "should", "must_not", "minimum_should_match"}:
            raise Refused("bool")
        parts = {
            name: [self.passes(index, row, at, one) for one in said.get(name, [])]
            for name in ("filter", "should", "must_not")
        }
        either = any(parts["should"]) or "should" not in said
        return all(parts["filter"]) and either and not any(parts["must_not"])

    def passes(self, index: Mapping[str, Any], row: Any, at: str, query: Any) -> bool:
        [(kind, said)] = query.items()
        if kind == "bool":
            return self.passes_all(index, row, at, said)
        if kind == "exists":
            return bool(values(row, said["field"]))
        if kind not in ("range", "term", "terms", "prefix"):
            raise Refused(f"unknown query [{kind}]")
        [(field, wanted)] = said.items()
        name = field.removesuffix(".keyword")
        stored, found = settings_of(index, name).get("type"), values(row, name)
        if kind == "range":
            return within(wanted, stored == "date", found)
        if stored == "text" and name == field:
            return False  # as words, no whole value is found
        if kind != "prefix":
            return any(one in (wanted if kind == "terms" else [wanted]) for one in found)
        if stored not in ("text", "keyword", None):
            raise Refused(f"Can only use prefix queries on keyword and text, not on [{field}]")
        return any(str(one).startswith(wanted["value"]) for one in found)


def mapped(row: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that a document of this kind gets where nobody has made one."""
    text = {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
    kinds: dict[object, dict[str, Any]] = {
        str: text, bool: {"type": "boolean"}, int: {"type": "long"}, float: {"type": "float"},
    }  # fmt: skip
    found = dict[str, Any]()
    for name, value in row.items():
        one = value[0] if isinstance(value, list) and value else value
        if isinstance(one, dict):
            found[name] = {"properties": mapped(one)}
        elif type(one) in kinds:
            found[name] = kinds[type(one)]
    return found


def vector_field(kind: str, dimension: int, metric: str) -> dict[str, Any]:
    if kind == "elasticsearch":
        space = {"cosine": "cosine", "dot": "max_inner_product", "euclid": "l2_norm"}[metric]
        return {"type": "dense_vector", "dims": dimension, "similarity": space}
    space = {"cosine": "cosinesimil", "dot": "innerproduct", "euclid": "l2"}[metric]
    return {"type": "knn_vector", "dimension": dimension, "space_type": space}


def settings_of(index: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found: Any = {"properties": index["properties"]}
    for name in field.split("."):
        found = found.get("properties", {}).get(name, {})
    return dict(found)


def millis(date: str) -> float:
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() * 1000


def values(row: Any, field: str) -> list[Any]:
    for name in field.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return [one for one in (row if isinstance(row, list) else [row]) if one is not None]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def score(how: str, query: list[float], row: list[float]) -> float:
    product = sum(one * other for one, other in zip(query, row, strict=True))
    if how in ("cosine", "cosinesimil"):
        lengths = math.sqrt(sum(x * x for x in query) * sum(x * x for x in row))
        return (1 + product / lengths) / 2
    if how in ("l2_norm", "l2"):
        return 1 / (1 + sum((x - y) ** 2 for x, y in zip(query, row, strict=True)))
    return 1 + product if product >= 0 else 1 / (1 - product)


@contextmanager
def serving(kind: str) -> Generator[Server]:
    server = Server(kind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            path = self.path.partition("?")[0].replace("%2A", "*")
            try:
                status, answer = server.answer(self.command, path, body)
            except Refused as error:
                reason = {"type": "parsing_exception", "reason": str(error)}
                status, answer = 400, {"error": {**reason, "root_cause": [reason]}, "status": 400}
            content = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            if kind == "elasticsearch":
                self.send_header("x-elastic-product", "Elasticsearch")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_HEAD = respond

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"{kind}+http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def within(wanted: Mapping[str, Any], is_date: bool, found: Any) -> bool:
    """Whether any of the values lies in a range."""
    limits = dict(wanted)
    if (limits.pop("format", None) == "epoch_millis") != is_date:
        raise Refused("failed to parse date")
    sign: dict[str, Callable[[Any, Any], bool]] = {
        "gt": lambda a, b: a > b, "gte": lambda a, b: a >= b,
        "lt": lambda a, b: a < b, "lte": lambda a, b: a <= b,
    }  # fmt: skip
    return any(
        all(sign[name](millis(one) if is_date else one, limit) for name, limit in limits.items())
        for one in found
    )
