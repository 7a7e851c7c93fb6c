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
from ragbench.io.fields import field_names
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.search.stores.base import Effort, MetricName, Row, Rows, Space, Words, checked_native
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_MAX_ROWS = 10_000
"""Rows that one search can give: ``index.max_result_window``, unless somebody has changed it."""
_CANDIDATES = 100
"""The least that a search by vectors looks at in each shard."""
_TEXT_TYPES = ("text", "match_only_text")
"""Types of fields that are cut into words, and found by them."""
_VECTOR_TYPES = ("dense_vector", "knn_vector", "sparse_vector", "rank_features")
"""Types of fields that no search gives back: chunks do not show them, and they are large."""
_TIMEOUT = 60
"""Seconds that a request may take; a large index takes longer than the clients' own 10."""
_NATIVE = 'a JSON object of their query language, such as {"term": {"team": "legal"}}'
"""What a native filter is, for the error of one that is none."""


class ElasticDatabase(ReadableDatabase):
    """A server of either kind; its collections are its indices."""

    def __init__(self, address: str, kind: type[Elasticsearch]) -> None:
        """A database of an Elasticsearch or OpenSearch server.

        The server is reached at the first use, not here.

        Args:
            address: such as ``elasticsearch+https://USER:PASSWORD@HOST:9200``.
            kind: the class of its indices, which knows the server's client.
        """
        forms = f"{kind.extra}+https://USER:PASSWORD@HOST:9200"
        login = server_url(address, kind.extra.capitalize(), forms)
        super().__init__(mask_url(address), lambda: kind.connected(*login))
        self._kind = kind

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions of the server's client, by the names that its package has for them.

        `connected` turns these into errors of one line.
        """
        package = self._kind.client_package()
        errors: list[type[Exception]] = [getattr(package, name) for name in self._kind.errors]
        return (*errors, OSError, ValueError)

    def listed(self, connection: Any) -> list[str]:
        """The names of all indices of the server that are not hidden, for choices and errors.

        A user who names no index, or a wrong one, sees them. Hidden ones begin with a dot.
        """
        names = cast("Mapping[str, Any]", connection.indices.get_mapping(index="*"))
        return [name for name in names if not name.startswith(".")]  # those are hidden

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Elasticsearch | None:
        """An index for reading, with its vector, metric and text field; None where there is none.

        Of an alias of several indices the fields of the first one count.

        Raises:
            ConfigError: the user has to choose a vector, or the index compares them in an unknown
                way.
        """
        kind = self._kind
        if not connection.indices.exists(index=name):
            return None
        mappings = cast("Mapping[str, Any]", connection.indices.get_mapping(index=name))
        index = next(iter(mappings.values()))
        fields = dict(_fields_by_path(index["mappings"].get("properties", {}), ""))
        vector_fields: list[str] = []
        text_fields: list[str] = []
        for path, settings in fields.items():
            if settings["type"] == kind.vector_type:
                vector_fields.append(path)
            elif settings["type"] in _TEXT_TYPES:
                text_fields.append(path)

        vector = mapping.chosen_vector(name, vector_fields)
        usual_text = _usual_text(mapping, text_fields)
        words_field = mapping.chosen_words(name, text_fields, usual=usual_text)
        words = None
        if words_field is not None:
            words = Words(field=words_field, ranking="BM25 of the index")

        vector_settings = fields[vector]
        space_type = kind.space_type(vector_settings)
        if space_type not in kind.metrics:
            raise ConfigError(f"vectors that are compared by '{space_type}' are not read")
        metric = mapping.checked_metric(name, kind.metrics[space_type])
        # Elasticsearch calls it dims, OpenSearch dimension.
        dimension = vector_settings.get("dims", vector_settings.get("dimension"))
        dimension = int(dimension) if dimension else None
        space = Space(vector=vector, dimension=dimension, metric=metric)
        return kind(client=connection, name=name, space=space, words=words, fields=fields)


def _usual_text(mapping: FieldMapping, texts: Sequence[str]) -> str | None:
    """The text field that is searched by words where the user names none: the one of the chunks.

    It is the one that the mapping names as the text, or the only one with a usual name. None where
    several have such names: the user has to choose.

    Args:
        texts: paths of the index' text fields.
    """
    if mapping.text in texts:
        return mapping.text
    usual_names = field_names("hit")["text"]
    usual_paths: list[str] = []
    for path in texts:
        _, _, name = path.rpartition(".")  # of a field in an object its own name counts
        if name in usual_names:
            usual_paths.append(path)
    if len(usual_paths) != 1:
        return None
    return usual_paths[0]


@dataclass(frozen=True, kw_only=True)
class Elasticsearch:
    """An index that is read; see `ragbench.search.stores.base.Reader`.

    A row's fields are its ``_source``. What OpenSearch does otherwise is in its own class.
    """

    row_limit = _MAX_ROWS
    key = None
    extra: ClassVar[str] = "elasticsearch"
    """The extra with the client's package; addresses begin with it, too."""
    errors: ClassVar[tuple[str, ...]] = ("ApiError", "TransportError")
    """Names of the exceptions that the package raises."""
    metrics: ClassVar[Mapping[str, MetricName]] = {
        "cosine": "cosine",
        "dot_product": "dot",
        "max_inner_product": "dot",
        "l2_norm": "euclid",
    }
    """How vectors are compared, by what the index calls it."""
    vector_type: ClassVar[str] = "dense_vector"
    """The type of a vector's field."""
    client: Any
    name: str
    space: Space
    words: Words | None
    fields: Mapping[str, Mapping[str, Any]]
    """What the index' mapping says of each field."""

    @staticmethod
    def client_package() -> Any:
        """The Python package of Elasticsearch's client, imported at first use.

        OpenSearch has its own. The client is optional: without it an error names the extra to
        install.
        """
        return require("elasticsearch", extra="elasticsearch")

    @classmethod
    def connected(cls, host: str, user: str, password: str) -> Any:
        """Elasticsearch's client of a server; it connects with its first request.

        Requests may take a minute, as large indices need more than the client's own limit.

        Args:
            password: an API key where there is no user.
        """
        package = cls.client_package()
        login: dict[str, Any] = {}
        if user:
            login["basic_auth"] = (user, password)
        elif password:  # without a user it is a key
            login["api_key"] = password
        return package.Elasticsearch(host, request_timeout=_TIMEOUT, **login)

    @staticmethod
    def space_type(settings: Mapping[str, Any]) -> str:
        """The metric of a vector field by Elasticsearch's name for it, such as ``cosine``.

        `_measure_of_score` turns scores back into measures by it.

        Args:
            settings: of the field, in the index' mapping.
        """
        return str(settings.get("similarity", "cosine"))

    def count(self) -> int:
        """How many documents the index counts.

        Documents that were just written may not be counted yet. Reports show the number, and stored
        results of a search depend on it.
        """
        return int(self.client.count(index=self.name)["count"])

    def sample(self, limit: int) -> list[Row]:
        """Any documents of the index, at most `limit`, with score 0: fields are guessed from them.

        Scores of a search for all documents would be 1, and mean nothing.
        """
        rows = self._found_rows({"query": {"match_all": {}}}, limit)
        return [row._replace(score=0.0) for row in rows]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """The filters, and a native object of the query language, as a list of clauses.

        None without any. A search translates its filters once, and passes the result to `nearest`
        or `matching`.
        """
        dialect: Dialect[dict[str, Any]] = Dialect(
            both=lambda parts: {"bool": {"filter": parts}},
            either=lambda parts: {"bool": {"should": parts, "minimum_should_match": 1}},
            denied=lambda part: {"bool": {"must_not": [part]}},
            equal=lambda field, values: {"terms": {self._whole_value_field(field): list(values)}},
            within=_range_query,
            exists=lambda field: {"exists": {"field": field}},
            prefix=lambda field, text: {
                "prefix": {self._whole_value_field(field): {"value": text}}
            },
        )
        # A list, as both kinds of search take their filters so.
        parts: list[dict[str, Any]] = []
        if filters is not None:
            parts.append(dialect(filters))
        if native is not None:
            parts.append(checked_native(native, dict, "Elasticsearch and OpenSearch", _NATIVE))
        return parts or None

    @property
    def is_exact(self) -> bool:
        """Whether a search of the index compares every vector.

        Only a field of type ``flat`` is searched without a graph, by which an engine skips most
        vectors. Reports measure by exact searches how many chunks a graph misses.
        """
        options: Any = self.fields[self.space.vector].get("index_options")
        return bool(options) and options.get("type") == "flat"

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        """The documents nearest to each query vector.

        One request a query, as a search of the server takes a single vector. Scores are the measure
        itself.

        Raises:
            ConfigError: an exact search is wanted, and the index searches through its graph alone.
        """
        # Even with all candidates a graph may miss some: no number of them is an exact search.
        if effort.exact and not self.is_exact:
            raise ConfigError(
                f"the index '{self.name}' is searched through its graph alone: leave exact out, "
                "or set ef"
            )
        rankings: list[list[Row]] = []
        for row in rows:
            rankings.append(self._nearest(row.tolist(), limit, condition, effort.ef))
        return rankings

    def _nearest(self, query: list[float], limit: int, condition: Any, ef: int | None) -> list[Row]:
        """The documents nearest to one query vector, by the ``knn`` search.

        The scores of the documents are the measure itself: cosine, inner product or negative
        distance.

        Args:
            ef: how many candidates each shard looks at; None for `_CANDIDATES`.
        """
        # Fewer candidates than wanted documents are refused.
        candidates = max(ef or _CANDIDATES, limit)
        knn: dict[str, Any] = {
            "field": self.space.vector,
            "query_vector": query,
            "k": limit,
            "num_candidates": min(candidates, _MAX_ROWS),  # more are refused
        }
        if condition:
            knn["filter"] = condition
        space_type = self.space_type(self.fields[self.space.vector])
        return _rows_by_measure(self._found_rows({"knn": knn}, limit), space_type)

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """The documents that match each question in the text field, by the index' BM25.

        `words` names that field.
        """
        assert self.words is not None
        results: list[list[Row]] = []
        for text in texts:
            match = {"match": {self.words.field: {"query": text}}}
            clauses: dict[str, Any] = {"must": [match]}
            # As a filter, and not among `must`: it must not change the score.
            if condition:
                clauses["filter"] = condition
            results.append(self._found_rows({"query": {"bool": clauses}}, limit))
        return results

    def _found_rows(self, request: Mapping[str, Any], limit: int) -> list[Row]:
        """The documents that a request finds, with the index' scores and without their vectors.

        Every search of the index ends here. Vectors are large, and chunks do not show them.

        Args:
            request: the search, as ``query`` or ``knn``.
            limit: the most documents.

        Raises:
            StoreError: shards failed or took too long: figures of the rest would be too low.
        """
        vectors: list[str] = []
        for path, field in self.fields.items():
            if field["type"] in _VECTOR_TYPES:
                vectors.append(path)
        body: dict[str, Any] = {"size": limit, "_source": {"excludes": vectors}, **request}
        answer = self.client.search(index=self.name, body=body)
        # A partial answer comes without an error: figures made of it would be too low.
        shards = answer.get("_shards", {})
        if answer.get("timed_out") or shards.get("failed"):
            raise StoreError(
                f"the index '{self.name}' answered in part only: shards failed or took too long"
            )
        rows: list[Row] = []
        for hit in answer["hits"]["hits"]:
            source: Mapping[str, Any] = hit.get("_source") or {}  # an index may keep none
            score = float(hit.get("_score") or 0.0)
            rows.append(Row(str(hit["_id"]), source, score))
        return rows

    def _whole_value_field(self, name: str) -> str:
        """The path of a field that keeps whole values.

        For an analysed text its ``keyword`` subfield. A filter for "Legal" over the analysed field
        itself would find nothing: its words are usually kept in small letters.

        Raises:
            ConfigError: the index keeps the text as words only.
        """
        field = self.fields.get(name)
        if field is None or field["type"] not in _TEXT_TYPES:
            return name
        subfields = cast("Mapping[str, Any]", field.get("fields") or {})
        # The subfield is mostly named "keyword", but its type decides, not its name.
        for subfield, settings in subfields.items():
            if settings.get("type") == "keyword":
                return f"{name}.{subfield}"
        raise ConfigError(
            f"filter on '{name}': the index keeps it as words only, not whole; filter by a "
            'field of the type keyword, or natively by {"match_phrase": ...}'
        )


class OpenSearch(Elasticsearch):
    """An index of OpenSearch, with its k-NN plugin."""

    extra: ClassVar[str] = "opensearch"
    errors: ClassVar[tuple[str, ...]] = ("OpenSearchException",)
    metrics: ClassVar[Mapping[str, MetricName]] = {
        "cosinesimil": "cosine",
        "innerproduct": "dot",
        "l2": "euclid",
    }
    vector_type: ClassVar[str] = "knn_vector"

    @staticmethod
    def client_package() -> Any:
        """The Python package of OpenSearch's client; its requests are Elasticsearch's.

        The client is optional: without it an error names the extra to install.
        """
        return require("opensearchpy", extra="opensearch")

    @classmethod
    def connected(cls, host: str, user: str, password: str) -> Any:
        """OpenSearch's client of a server; it takes no API keys, only users with a password.

        Requests may take a minute, as large indices need more than the client's own limit.
        """
        package = cls.client_package()
        login: dict[str, Any] = {}
        if user:
            login["http_auth"] = (user, password)
        return package.OpenSearch(host, timeout=_TIMEOUT, **login)

    @staticmethod
    def space_type(settings: Mapping[str, Any]) -> str:
        """The metric of a vector field by the name that OpenSearch has for it, such as ``l2``.

        Newer versions keep it with the field, older ones with its method.

        Args:
            settings: of the field, in the index' mapping.
        """
        method = cast("Mapping[str, Any]", settings.get("method") or {})
        space_type = settings.get("space_type") or method.get("space_type")
        if not space_type:
            return "l2"  # the plugin's default
        return str(space_type)

    def _nearest(self, query: list[float], limit: int, condition: Any, ef: int | None) -> list[Row]:
        """The documents nearest to one query vector, by the k-NN plugin's query.

        The scores of the documents are the measure itself: cosine, inner product or negative
        distance.

        Args:
            ef: how many candidates the index looks at; None leaves it to the index.
        """
        knn: dict[str, Any] = {"vector": query, "k": limit}
        # With an `ef` below the limit fewer documents than wanted could come back.
        if ef is not None:
            knn["method_parameters"] = {"ef_search": max(ef, limit)}
        if condition:
            knn["filter"] = {"bool": {"filter": condition}}
        query_body = {"knn": {self.space.vector: knn}}
        rows = self._found_rows({"query": query_body}, limit)
        settings = self.fields[self.space.vector]
        space_type = self.space_type(settings)
        method = cast("Mapping[str, Any]", settings.get("method") or {})
        if space_type == "cosinesimil" and method.get("engine") == "nmslib":
            # This engine alone scores 1 / (1 + (1 - cosine)).
            return [row._replace(score=2 - 1 / row.score) for row in rows]
        return _rows_by_measure(rows, space_type)


# ``parts.toml`` names these two for addresses that begin so.
open_elasticsearch = partial(ElasticDatabase, kind=Elasticsearch)
open_opensearch = partial(ElasticDatabase, kind=OpenSearch)


def _range_query(range_: Range) -> dict[str, Any]:
    """A range filter in the query language of Elasticsearch and OpenSearch.

    Dates are compared in milliseconds since 1970, as ragbench's filters hold them. The keys are
    those of the servers' range query.
    """
    limits: dict[str, Any] = dict(range_.limits())
    if range_.of_dates:
        # Whole milliseconds: the format knows no fractions.
        limits = {word: int(limit) for word, limit in limits.items()}
        limits["format"] = "epoch_millis"
    return {"range": {range_.field: limits}}


def _fields_by_path(
    properties: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of an index' mapping with their settings, those within objects by their paths.

    Queries name a field by its path, such as ``metadata.team``.

    Args:
        properties: the mapping's fields, or those of an object.
        prefix: the object's path with a dot at its end; empty for the mapping itself.
    """
    for name, settings in properties.items():
        path = f"{prefix}{name}"
        if "properties" in settings:
            yield from _fields_by_path(settings["properties"], f"{path}.")
        else:
            # Readers ask each field for its type: one that is left out is empty.
            yield path, {"type": "", **settings}


def _rows_by_measure(rows: Sequence[Row], space_type: str) -> list[Row]:
    """Rows with cosine, inner product or negative distance in the place of the index' own score.

    So a threshold on scores means the same for every store.
    """
    measured_rows: list[Row] = []
    for row in rows:
        measure = _measure_of_score(row.score, space_type)
        measured_rows.append(row._replace(score=measure))
    return measured_rows


def _measure_of_score(score: float, space_type: str) -> float:
    """The cosine, inner product, or negative distance that an index' score was made of.

    Elasticsearch scores (1 + cosine) / 2, also for products of vectors of length 1; 1 / (1 +
    distance squared); of any product p 1 + p, or 1 / (1 - p) below 0. OpenSearch has the same
    formulas. The formulas are the vendors': this turns them round.
    """
    if space_type in ("cosine", "dot_product", "cosinesimil"):
        return 2 * score - 1
    if space_type in ("l2_norm", "l2"):
        # A rounded score may be a little above 1: its distance is 0.
        return -math.sqrt(max(1 / score - 1, 0.0))
    if score >= 1:
        return score - 1
    return 1 - 1 / score
