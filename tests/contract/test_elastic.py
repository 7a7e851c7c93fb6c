"""Indices of Elasticsearch and OpenSearch are read by their own clients, against a server of their
documentation (`tests.contract.elastic_server`); no real one can be started here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ragbench import attach
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, matches
from ragbench.errors import ConfigError, StoreError
from ragbench.stores.base import Effort
from ragbench.stores.registry import open_database
from ragbench_cli.main import main
from tests.contract.elastic_server import Server, serving

DIMENSION = 4
VECTORS = np.random.default_rng(1).normal(size=(30, DIMENSION))
QUERIES = np.random.default_rng(2).normal(size=(3, DIMENSION))
SUBJECTS = ("rent", "fees", "garden", "dogs", "keys")
ROWS: list[dict[str, Any]] = [
    {
        "content": f"The {SUBJECTS[at % 5]} of flat {at}." + " Rent is paid by mail." * (at == 7),
        "metadata": {
            "year": 2000 + at,
            "source": f"file {at}.pdf",
            "document_id": f"doc {at // 3}",
            "valid": f"2024-01-{at + 1:02}",
            **({"note": "checked"} if at % 2 else {}),
        },
        "embedding": VECTORS[at].tolist(),
    }
    for at in range(30)
]
METADATA = {
    "properties": {
        "year": {"type": "integer"},
        "source": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "document_id": {"type": "keyword"},
        "valid": {"type": "date"},
        "note": {"type": "text"},
    }
}
SPACES = {
    "elasticsearch": {"cosine": "cosine", "dot": "max_inner_product", "euclid": "l2_norm"},
    "opensearch": {"cosine": "cosinesimil", "dot": "innerproduct", "euclid": "l2"},
}
PACKAGES = {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}


@pytest.fixture(params=list(PACKAGES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    pytest.importorskip(PACKAGES[request.param])
    with serving(request.param) as opened:
        yield opened


def fill(server: Server, name: str = "docs", *, metric: str = "cosine") -> Server:
    space = SPACES[server.kind][metric]
    vector = (
        {"type": "dense_vector", "dims": DIMENSION, "similarity": space}
        if server.kind == "elasticsearch"
        else {"type": "knn_vector", "dimension": DIMENSION, "space_type": space}
    )
    rows: dict[str, Any] = {str(at + 1): row for at, row in enumerate(ROWS)}
    properties = {"content": {"type": "text"}, "metadata": METADATA, "embedding": vector}
    server.make(name, properties, rows)
    return server


def ids(chunks: Any) -> list[str]:
    return [chunk.id for chunk in chunks]


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclid"])
def test_scores_are_the_measure_and_not_what_the_engine_makes_of_it(
    server: Server, metric: str
) -> None:
    fill(server, metric=metric)
    products = QUERIES @ VECTORS.T
    lengths = np.linalg.norm(QUERIES, axis=1)[:, None] * np.linalg.norm(VECTORS, axis=1)
    apart = np.linalg.norm(QUERIES[:, None, :] - VECTORS[None, :, :], axis=2)
    wanted = {"cosine": products / lengths, "dot": products, "euclid": -apart}[metric]
    with attach(server.url) as docs:
        assert (docs.name, docs.count(), docs.dimension) == ("docs", 30, DIMENSION)
        assert docs.space.metric == metric
        assert docs.guessed[0] == "text"
        found = docs.search(QUERIES, k=30)
    for row, chunks in zip(wanted, found, strict=True):
        assert ids(chunks) == [str(at + 1) for at in np.argsort(-row)]
        assert [chunk.score for chunk in chunks] == pytest.approx(np.sort(row)[::-1], abs=1e-5)
    best = found[0][0]
    assert best.text == ROWS[int(best.id) - 1]["content"]
    assert best.document_id == f"doc {(int(best.id) - 1) // 3}"
    assert best.metadata["year"] == 1999 + int(best.id)
    assert "embedding" not in json.dumps(dict(best.metadata))


FILTERS: list[dict[str, Any]] = [
    {"year": 2010},
    {"year": 2010.0},
    {"metadata.year": {"gte": 2010, "lt": 2015}},
    {"source": {"in": ["file 1.pdf", "file 7.pdf", "no'such\"%s.pdf"]}},
    {"not": {"year": 2010}},
    {"any": [{"year": 2003}, {"source": "file 9.pdf"}]},
    {"all": [{"year": {"gt": 2003}}, {"not": {"any": [{"year": 2005}, {"year": 2006}]}}]},
    {"document_id": "doc 3"},
    {"source": {"prefix": "file 1"}},
    {"not": {"source": {"prefix": "file 1"}}},
    {"note": {"exists": True}},
    {"note": {"exists": False}},
    {"valid": {"gte": "2024-01-05", "lt": "2024-01-09"}},
    {"document_id": "doc 3", "year": {"gt": 2010}},
]


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_filters_are_executed_by_the_server_in_every_search(
    server: Server, given: dict[str, Any]
) -> None:
    filters = parse_filters(given)
    wanted = {
        str(at + 1)
        for at, row in enumerate(ROWS)
        if matches(filters, {**row["metadata"], "metadata": row["metadata"]})
    }
    with attach(fill(server).url, "docs") as docs:
        found = docs.search(QUERIES[:1], k=30, filters=filters)[0]
        assert set(ids(found)) == wanted
        words = docs.search_words(["flat"], k=30, filters=filters)[0]
        assert set(ids(words)) == wanted
        assert docs.warnings() == []


def test_words_are_ranked_by_the_server(server: Server) -> None:
    with attach(fill(server).url, "docs", {"text": "content"}) as docs:
        assert docs.words is not None
        assert "words=content (BM25 of the index)" in docs.described()
        gardens, rent, blank, none = docs.search_words(["garden", "rent mail", " ", "zzqx"], k=10)
    assert set(ids(gardens)) == {"3", "8", "13", "18", "23", "28"}
    assert rent[0].id == "8"
    assert (blank, none) == ([], [])
    assert all((chunk.score or 0) > 0 for chunk in rent)


def test_hybrid_and_a_native_filter_from_the_command_line(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(server)
    options = ["--store", server.url, "--map", "text=content", "--embedder", "hashing:4"]
    native = ["--native-filter", '{"term": {"metadata.year": 2012}}']
    assert main(["search", "garden", *options, "--strategy", "hybrid", *native, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [chunk["metadata"]["year"] for chunk in told["chunks"]] == [2012]
    assert set(told["chunks"][0]["metadata"]["ranked_by"]) == {"dense", "sparse"}
    with pytest.raises(ConfigError, match="native filter of Elasticsearch and OpenSearch"):
        attach(server.url, "docs", native_filter="year:2012")
    with (
        attach(server.url, "docs", native_filter={"no_such": {}}) as docs,
        pytest.raises(StoreError, match=r"parsing_exception|unknown query"),
    ):
        docs.search(QUERIES[:1], k=1)


def test_only_reading_requests_are_sent_and_vectors_are_not_fetched(server: Server) -> None:
    with attach(fill(server).url, "docs") as docs:
        docs.search(QUERIES, k=3, effort=Effort(ef=300))
        docs.search_words(["rent"], k=3)
    paths = {path.rpartition("/")[2] for path, _ in server.asked}
    assert paths <= {"docs", "_mapping", "_count", "_search", ""}
    bodies = [body for _, body in server.asked if body]
    assert all(body["_source"] == {"excludes": ["embedding"]} for body in bodies)
    told = json.dumps(bodies)
    assert ('"num_candidates": 300' in told) == (server.kind == "elasticsearch")
    assert ('"ef_search": 300' in told) == (server.kind == "opensearch")


def test_what_does_not_fit_is_one_error(server: Server) -> None:
    fill(server)
    with pytest.raises(StoreError, match="there is no collection 'nowhere'; there are: docs"):
        attach(server.url, "nowhere")
    with attach(server.url, "docs") as docs:
        with pytest.raises(ConfigError, match="keeps it as words only, not whole"):
            docs.search(QUERIES, k=1, filters=Equals(field="note", value="checked"))
        with pytest.raises(ConfigError, match="through its graph alone"):
            docs.search(QUERIES, k=1, effort=Effort(exact=True))
        server.shards_failed = 1
        with pytest.raises(StoreError, match="answered in part only"):
            docs.search(QUERIES, k=1)
        server.shards_failed = 0
        del server.indices["docs"]
        with pytest.raises(StoreError, match="no such index") as raised:
            docs.search(QUERIES, k=1)
        assert str(raised.value).startswith(server.url)
    with pytest.raises(ConfigError, match="holds none"):
        attach(server.url)
    server.make("plain", {"content": {"type": "text"}}, {"1": {"content": "a"}})
    with pytest.raises(ConfigError, match="keeps no dense vectors"):
        attach(server.url, "plain")
    with pytest.raises(ConfigError, match="and fills none"):
        open_database(server.url)


@pytest.mark.parametrize("kind", list(PACKAGES))
def test_an_address_is_checked_and_a_server_that_is_not_there_is_one_line(kind: str) -> None:
    pytest.importorskip(PACKAGES[kind])
    with pytest.raises(ConfigError, match=f"write {kind}\\+https://USER:PASSWORD@HOST:9200"):
        attach(f"{kind}:localhost", "docs")
    with pytest.raises(StoreError, match="cannot be reached") as raised:
        attach(f"{kind}+http://me:secret-1234567@127.0.0.1:9", "docs")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
