"""What only indices of Elasticsearch and OpenSearch are; all else is in `test_foreign_collections`.

Their own clients read them, from a server made after their documentation (`elastic_server`).
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
from ragbench.search.stores.base import Effort
from ragbench_cli.main import main
from tests.contract.elastic_server import Server, serving, vector_field

QUERIES = np.random.default_rng(2).normal(size=(3, 4))
ROWS: list[dict[str, Any]] = []
for at, row in enumerate(np.random.default_rng(1).normal(size=(30, 4))):
    known = {"year": 2000 + at, "valid": f"2024-01-{at + 1:02}"}
    known |= {"note": "checked"} if at % 2 else {}
    text = f"The {('rent', 'fees', 'garden')[at % 3]} of flat {at}."
    ROWS.append({"content": text, "metadata": known, "embedding": row.tolist()})
PACKAGES = {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}


@pytest.fixture(params=list(PACKAGES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    pytest.importorskip(PACKAGES[request.param])
    with serving(request.param) as opened:
        yield opened


def fill(server: Server) -> Server:
    kinds = {"year": {"type": "integer"}, "valid": {"type": "date"}, "note": {"type": "text"}}
    properties = {"content": {"type": "text"}, "metadata": {"properties": kinds}}
    properties["embedding"] = vector_field(server.kind, 4, "cosine")
    server.make("docs", properties, {str(at + 1): row for at, row in enumerate(ROWS)})
    return server


@pytest.mark.parametrize(
    "given",
    [
        {"metadata.year": {"gte": 2010, "lt": 2015}},
        {"note": {"exists": True}},
        {"note": {"exists": False}},
        {"valid": {"gte": "2024-01-05", "lt": "2024-01-09"}},
    ],
    ids=str,
)
def test_filters_know_the_kinds_of_fields_in_every_search(
    server: Server, given: dict[str, Any]
) -> None:
    filters = parse_filters(given)
    known = [{**row["metadata"], "metadata": row["metadata"]} for row in ROWS]
    wanted = {str(at + 1) for at, row in enumerate(known) if matches(filters, row)}
    with attach(fill(server).url, "docs") as docs:
        for (found,) in (
            docs.search(QUERIES[:1], k=30, filters=filters),
            docs.search_words(["flat"], k=30, filters=filters),
        ):
            assert {chunk.id for chunk in found} == wanted
        assert docs.warnings() == []


def test_hybrid_and_a_native_filter_from_the_command_line(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(server)
    options = ["--store", server.url, "--map", "text=content", "--embedder", "hashing:4"]
    native = ["--native-filter", '{"term": {"metadata.year": 2014}}']
    assert main(["search", "garden", *options, "--strategy", "hybrid", *native, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [chunk["metadata"]["year"] for chunk in shown["chunks"]] == [2014]
    assert set(shown["chunks"][0]["metadata"]["ranked_by"]) == {"dense", "sparse"}
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
    shown = json.dumps(bodies)
    assert ('"num_candidates": 300' in shown) == (server.kind == "elasticsearch")
    assert ('"ef_search": 300' in shown) == (server.kind == "opensearch")


def test_what_does_not_fit_is_one_error(server: Server) -> None:
    fill(server)
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
    with pytest.raises(ConfigError, match="holds none"):
        attach(server.url)
    server.make("plain", {"content": {"type": "text"}}, {"1": {"content": "a"}})
    with pytest.raises(ConfigError, match="keeps no dense vectors"):
        attach(server.url, "plain")


@pytest.mark.parametrize("kind", list(PACKAGES))
def test_an_address_is_checked_and_a_server_that_is_not_there_is_one_line(kind: str) -> None:
    pytest.importorskip(PACKAGES[kind])
    with pytest.raises(ConfigError, match=f"write {kind}\\+https://USER:PASSWORD@HOST:9200"):
        attach(f"{kind}:localhost", "docs")
    with pytest.raises(StoreError, match="cannot be reached") as raised:
        attach(f"{kind}+http://me:secret-1234567@127.0.0.1:9", "docs")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
