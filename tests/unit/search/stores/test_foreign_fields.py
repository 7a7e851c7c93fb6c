"""Fields of rows that other programs wrote: named, guessed, and made JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, attach
from ragbench.errors import ConfigError
from ragbench.io.values import ValueProblem
from ragbench.search.stores.base import Row
from ragbench.search.stores.mapping import AttachedRows, FieldMapping, complete_mapping, json_value
from ragbench.search.stores.qdrant import QdrantServerDatabase
from ragbench.search.stores.record import WordsForm, word_number

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def guessed(*fields: dict[str, Any], **said: Any) -> tuple[FieldMapping, tuple[str, ...]]:
    rows = [Row("1", one) for one in fields]
    return complete_mapping("docs", FieldMapping(**said), rows)[:2]


@pytest.mark.parametrize(
    ("fields", "text", "document_id"),
    [
        ({"body": "a", "author": "b"}, "body", None),
        ({"page_content": "a", "metadata": {"doc_id": "d"}}, "page_content", "metadata.doc_id"),
        ({"_node_content": '{"text": "a"}', "ref_doc_id": "d"}, "_node_content.text", "ref_doc_id"),
        ({"content": "a", "meta": {"source_id": 3}}, "content", "meta.source_id"),
        ({"text": None, "payload": {"chunk": "a"}}, "payload.chunk", None),
        ({"text": "a", "document_id": "None"}, "text", None),
        ({"document": "a", "metadata": {"text": "b"}}, "document", None),
    ],
)
def test_the_usual_names_are_guessed(
    fields: dict[str, Any], text: str, document_id: str | None
) -> None:
    found, shown = guessed(fields)
    assert (found.text, found.document_id) == (text, document_id)
    assert shown == (("text",) if document_id is None else ("text", "document_id"))


def test_the_name_of_most_rows_wins_and_what_is_named_is_not_guessed() -> None:
    assert guessed({"text": "a"}, {"text": "", "body": "b"}, {"body": "c"})[0].text == "body"
    found, shown = guessed({"text": "a", "body": "b", "doc_id": "d"}, text="body", id="doc_id")
    assert (found, shown) == (FieldMapping(text="body", id="doc_id"), ())


def test_what_names_no_field_is_refused() -> None:
    with pytest.raises(ConfigError, match="text names no field"):
        attach("qdrant:nowhere", "docs", {"text": " "})
    with pytest.raises(ConfigError, match=r"no row .* Did you mean 'body'"):
        guessed({"body": "b"}, text="bdoy")


def test_values_of_databases_become_json() -> None:
    made = {
        float("nan"): None,
        Decimal("1.5"): 1.5,
        b"\x00\xff": "00ff",
        datetime(2023, 5, 1, tzinfo=UTC): "2023-05-01T00:00:00+00:00",
        UUID(int=1): "00000000-0000-0000-0000-000000000001",
        (1, frozenset({2})): [1, [2]],
    }
    for value, wanted in made.items():
        assert json_value({"a": value}) == {"a": wanted}
    for odd in (2**70, "\ud800", json.loads("[" * 201 + "]" * 201)):
        with pytest.raises(ValueProblem):
            json_value({"odd": odd})


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.text(max_size=5))
def test_any_row_becomes_a_chunk(fields: dict[str, Any], name: str) -> None:
    mapping = FieldMapping(text=f"{name}x", id=f"{name}x.id", title="t")
    reader = AttachedRows(mapping)
    chunks = reader.chunks([Row("1", fields, 0.5), Row("1", fields, 0.4)])
    assert len({chunk.id for chunk in chunks}) == 2
    orjson.dumps([[chunk.id, chunk.text, chunk.metadata] for chunk in chunks])
    assert all("\n" not in line for line in reader.warnings())


def test_metadata_that_nothing_can_write_are_left_out_and_counted() -> None:
    deep = json.loads("[" * 300 + "]" * 300)
    reader = AttachedRows(FieldMapping(text="text"))
    (chunk,) = reader.chunks([Row("1", {"text": "a", "deep": deep, "year": 1})])
    assert (chunk.text, chunk.metadata) == ("a", {})
    assert "1 row has metadata that no JSON can hold" in reader.warnings()[0]


def test_what_is_no_document_id_is_counted() -> None:
    reader = AttachedRows(FieldMapping(text="text", document_id="from"))
    values: list[object] = ["d", 7, UUID(int=1), None, "", True, ["d"], {"id": "d"}]
    rows = [Row(str(at), {"text": "a", "from": one}) for at, one in enumerate(values)]
    found = [chunk.document_id for chunk in reader.chunks(rows)]
    assert found == ["d", "7", str(UUID(int=1)), None, None, None, None, None]
    assert "3 rows have what is not a document id under 'from'" in reader.warnings()[0]


def test_objects_with_metadata_stand_among_the_others() -> None:
    reader = AttachedRows(FieldMapping(text="text", title="meta.head"))
    fields = {"text": "a", "id": 1, "meta": {"id": 2, "head": "T", "year": 3}}
    (chunk,) = reader.chunks([Row("1", fields)])
    assert chunk.metadata == {"id": 1, "meta.id": 2, "year": 3, "title": "T"}
    both = AttachedRows(FieldMapping(text="text", title="head", metadata="a.source,b.source,b"))
    fields = {"text": "a", "head": "T", "a": {"source": 1}, "b": {"source": 2, "title": 3}}
    (chunk,) = both.chunks([Row("1", fields)])
    known = {"title": "T", "source": 1, "b.source": 2, "b.b.source": 2, "b.title": 3}
    assert chunk.metadata == known


def test_an_id_is_kept_as_it_is() -> None:
    reader = AttachedRows(FieldMapping(text="text", id="id"))
    values: list[object] = [" a ", Decimal("12345678901234567890"), 1.0, " ", None, "\0"]
    rows = [Row(f"own {at}", {"text": "a", "id": id}) for at, id in enumerate(values)]
    found = [chunk.id for chunk in reader.chunks(rows)]
    assert found == [" a ", "12345678901234567890", "1", "own 3", "own 4", "own 5"]


def test_a_word_has_the_value_that_can_be_worked_out_by_hand() -> None:
    form = WordsForm(average=4.0)
    found = form.vector(Chunk(id="a", text="rent fee rent"))
    # Three words of four on average: 1.2 * (0.25 + 0.75 * 3 / 4) = 0.975.
    assert found[word_number("rent")] == pytest.approx(2 / 2.975)
    assert found[word_number("fee")] == pytest.approx(1 / 1.975)
    # A title counts twice: rent three times, four words: 1.2 * (0.25 + 0.75) = 1.2.
    found = form.vector(Chunk(id="a", text="rent fee", metadata={"title": "Rent"}))
    assert found[word_number("rent")] == pytest.approx(3 / 4.2)
    assert found[word_number("fee")] == pytest.approx(1 / 2.2)


def test_chinese_is_kept_as_pairs_and_what_has_no_word_as_nothing() -> None:
    form = WordsForm(average=2.0)
    found = form.vector(Chunk(id="a", text="合同条款"))
    assert set(found) == {word_number(pair) for pair in ("合同", "同条", "条款")}
    assert form.vector(Chunk(id="a", text=" ... ")) == {}


def test_the_number_of_a_word_never_changes() -> None:
    # The first four bytes of BLAKE2b of that length, the lowest first.
    assert word_number("rent") == 1224338906
    assert 0 <= word_number("\ud800") < 2**32


@pytest.mark.extra("qdrant")
def test_a_server_counts_words_in_one_shard_and_soon_forgets_what_was_removed() -> None:
    from qdrant_client import QdrantClient, models

    made: list[dict[str, Any]] = []

    class Recording(QdrantClient):
        def create_collection(self, *args: Any, **settings: Any) -> bool:
            made.append(settings)
            return super().create_collection(*args, **settings)

    client = Recording(":memory:")
    database = QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)
    database.create("plain", dimension=2)
    database.create("kb", dimension=2, words=WordsForm(average=7.0))
    plain, words = made
    assert plain.keys() == {"vectors_config", "metadata"}
    assert words["sparse_vectors_config"]["words"].modifier is models.Modifier.IDF
    assert words["shard_number"] == 1
    assert words["optimizers_config"].deleted_threshold == 0.05
    assert database.open("kb").info().words == WordsForm(average=7.0)
    assert database.open("plain").info().words is None
