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
from ragbench.core.filters import Equals
from ragbench.errors import ConfigError, StoreError
from ragbench.search.stores.base import Effort
from ragbench_cli.main import main
from tests.contract.elastic_server import Server, serving, vector_field

PACKAGES = {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}
QUERIES = np.random.default_rng(2).normal(size=(3, 4))


def thirty_rows() -> dict[str, dict[str, Any]]:
    """Ids 0 to 29, of the years 2000 to 2029 and the first thirty days of January 2024."""
    subjects = ("rent", "fees", "garden")
    vectors = np.random.default_rng(1).normal(size=(30, 4)).tolist()
    rows = dict[str, dict[str, Any]]()
    for number, vector in enumerate(vectors):
        metadata: dict[str, Any] = {
            "year": 2000 + number,
            "valid": f"2024-01-{number + 1:02}",
        }
        if number >= 27:
            metadata["note"] = "checked"
        rows[str(number)] = {
            "content": f"The {subjects[number % 3]} of flat {number}.",
            "metadata": metadata,
            "embedding": vector,
        }
    return rows


@pytest.fixture(params=list(PACKAGES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """With an index "docs" of the thirty rows."""
    pytest.importorskip(PACKAGES[request.param])
    with serving(request.param) as server:
        types = {
            "year": {"type": "integer"},
            "valid": {"type": "date"},
            "note": {"type": "text"},
        }
        properties = {
            "content": {"type": "text"},
            "metadata": {"properties": types},
            "embedding": vector_field(server.kind, 4, "cosine"),
        }
        server.make("docs", properties, thirty_rows())
        yield server


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (
            {"metadata.year": {"gte": 2010, "lt": 2013}},
            ["10", "11", "12"],
        ),
        (
            {"note": {"exists": True}},
            ["27", "28", "29"],
        ),
        (
            {"note": {"exists": False}, "year": {"gt": 2024}},
            ["25", "26"],
        ),
        (
            {"valid": {"gte": "2024-01-05", "lt": "2024-01-08"}},
            ["4", "5", "6"],
        ),
    ],
    ids=["numbers", "a field that exists", "a field that is absent", "dates"],
)
def test_filters_know_the_kinds_of_fields_in_every_search(
    server: Server, written: dict[str, Any], ids: list[str]
) -> None:
    filters = parse_filters(written)

    with attach(server.url, "docs") as docs:
        (by_vectors,) = docs.search(QUERIES[:1], k=30, filters=filters)
        (by_words,) = docs.search_words(["flat"], k=30, filters=filters)
        warnings = docs.warnings()

    assert sorted(chunk.id for chunk in by_vectors) == ids
    assert sorted(chunk.id for chunk in by_words) == ids
    assert warnings == []


def test_the_command_line_searches_by_both_under_a_native_filter(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["search", "garden", "--strategy", "hybrid", "--json"]
    collection = ["--store", server.url, "--map", "text=content", "--embedder", "hashing:4"]
    native_filter = ["--native-filter", '{"term": {"metadata.year": 2014}}']

    code = main([*command, *collection, *native_filter])

    assert code == 0
    first_line, *_ = capsys.readouterr().out.splitlines()
    result = json.loads(first_line)
    (chunk,) = result["chunks"]
    assert chunk["metadata"]["year"] == 2014
    assert set(chunk["metadata"]["ranked_by"]) == {"dense", "sparse"}


def test_a_native_filter_that_the_server_does_not_know_is_one_error(server: Server) -> None:
    with (
        attach(server.url, "docs", native_filter={"no_such": {}}) as docs,
        pytest.raises(StoreError, match=r"parsing_exception|unknown query"),
    ):
        docs.search(QUERIES[:1], k=1)


def test_only_reading_requests_are_sent(server: Server) -> None:
    with attach(server.url, "docs") as docs:
        docs.search(QUERIES, k=3)
        docs.search_words(["rent"], k=3)

    actions = {path.rpartition("/")[2] for path, _ in server.requests}
    assert actions <= {"docs", "_mapping", "_count", "_search", ""}


def test_vectors_are_not_fetched(server: Server) -> None:
    with attach(server.url, "docs") as docs:
        docs.search(QUERIES, k=3)
        docs.search_words(["rent"], k=3)

    sources = [body["_source"] for _, body in server.requests if body]
    assert sources
    for source in sources:
        assert source == {"excludes": ["embedding"]}


def test_the_effort_of_a_search_is_passed_on_by_the_server_s_own_name(server: Server) -> None:
    with attach(server.url, "docs") as docs:
        docs.search(QUERIES, k=3, effort=Effort(ef=300))

    setting, setting_of_the_rival = "num_candidates", "ef_search"
    if server.kind == "opensearch":
        setting, setting_of_the_rival = setting_of_the_rival, setting
    requests = json.dumps(server.requests)
    assert f'"{setting}": 300' in requests
    assert f'"{setting_of_the_rival}": 300' not in requests


def test_a_field_of_words_alone_is_not_compared_whole(server: Server) -> None:
    whole_note = Equals(field="note", value="checked")

    with (
        attach(server.url, "docs") as docs,
        pytest.raises(ConfigError, match="keeps it as words only, not whole"),
    ):
        docs.search(QUERIES, k=1, filters=whole_note)


def test_an_exact_search_is_refused(server: Server) -> None:
    with (
        attach(server.url, "docs") as docs,
        pytest.raises(ConfigError, match="through its graph alone"),
    ):
        docs.search(QUERIES, k=1, effort=Effort(exact=True))


def test_an_answer_of_some_shards_only_is_an_error(server: Server) -> None:
    with attach(server.url, "docs") as docs:
        server.shards_failed = 1
        with pytest.raises(StoreError, match="answered in part only"):
            docs.search(QUERIES, k=1)


def test_a_server_without_an_index_is_refused(server: Server) -> None:
    del server.indices["docs"]

    with pytest.raises(ConfigError, match="holds none"):
        attach(server.url)


def test_an_index_without_vectors_is_refused(server: Server) -> None:
    properties = {"content": {"type": "text"}}
    rows = {"1": {"content": "a"}}
    server.make("plain", properties, rows)

    with pytest.raises(ConfigError, match="keeps no dense vectors"):
        attach(server.url, "plain")


@pytest.mark.parametrize("kind", list(PACKAGES))
def test_an_address_without_a_host_is_refused_with_an_example(kind: str) -> None:
    pytest.importorskip(PACKAGES[kind])

    with pytest.raises(ConfigError, match=f"write {kind}\\+https://USER:PASSWORD@HOST:9200"):
        attach(f"{kind}:localhost", "docs")


@pytest.mark.parametrize("kind", list(PACKAGES))
def test_a_server_that_is_not_there_is_one_line_without_the_password(kind: str) -> None:
    pytest.importorskip(PACKAGES[kind])

    with pytest.raises(StoreError, match="cannot be reached") as raised:
        attach(f"{kind}+http://me:secret-1234567@127.0.0.1:9", "docs")

    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
