"""Fields of rows that other programs wrote: named, guessed, and made JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias
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


def test_a_set_becomes_a_list_in_the_same_order_each_time() -> None:
    assert json_value({"tags": {"b", "a", "c"}}) == {"tags": ["a", "b", "c"]}


# --- which field holds what


def completed(
    *payloads: dict[str, Any], mapping: FieldMapping | None = None
) -> tuple[FieldMapping, tuple[str, ...]]:
    """The mapping after a look at the rows, and what of it was guessed."""
    rows = [Row("1", payload) for payload in payloads]
    completed_mapping, guessed, *_ = complete_mapping("docs", mapping or FieldMapping(), rows)
    return completed_mapping, guessed


@pytest.mark.parametrize(
    ("payload", "text", "document_id"),
    [
        ({"page_content": "a", "metadata": {"doc_id": "d"}}, "page_content", "metadata.doc_id"),
        ({"_node_content": '{"text": "a"}', "ref_doc_id": "d"}, "_node_content.text", "ref_doc_id"),
        ({"content": "a", "meta": {"source_id": 3}}, "content", "meta.source_id"),
    ],
    ids=["LangChain", "LlamaIndex", "Haystack"],
)
def test_the_fields_of_frameworks_are_guessed(
    payload: dict[str, Any], text: str, document_id: str
) -> None:
    mapping, guessed = completed(payload)

    assert mapping.text == text
    assert mapping.document_id == document_id
    assert guessed == ("text", "document_id")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        pytest.param({"body": "a", "author": "b"}, "body", id="no document id"),
        pytest.param({"text": None, "payload": {"chunk": "a"}}, "payload.chunk", id="null"),
        pytest.param({"text": "a", "document_id": "None"}, "text", id="no id but its name"),
        pytest.param(
            {"document": "a", "metadata": {"text": "b"}}, "document", id="outer before inner"
        ),
    ],
)
def test_a_text_is_guessed_where_no_document_id_is(payload: dict[str, Any], text: str) -> None:
    mapping, guessed = completed(payload)

    assert mapping.text == text
    assert mapping.document_id is None
    assert guessed == ("text",)


def test_the_name_that_most_rows_have_wins() -> None:
    mapping, _ = completed({"text": "a"}, {"text": "", "body": "b"}, {"body": "c"})

    assert mapping.text == "body"


def test_beside_what_is_named_nothing_is_guessed() -> None:
    complete = FieldMapping(text="body", id="doc_id")

    mapping, guessed = completed({"text": "a", "body": "b", "doc_id": "d"}, mapping=complete)

    assert mapping == complete
    assert guessed == ()


def test_a_blank_name_of_a_field_is_refused() -> None:
    with pytest.raises(ConfigError, match="text names no field"):
        attach("qdrant:nowhere", "docs", {"text": " "})


def test_a_misspelt_name_of_a_field_is_refused_with_the_likely_one() -> None:
    with pytest.raises(ConfigError, match=r"no row .* Did you mean 'body'"):
        completed({"body": "b"}, mapping=FieldMapping(text="bdoy"))


# --- values


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), None),
        (Decimal("1.5"), 1.5),
        (b"\x00\xff", "00ff"),
        (datetime(2023, 5, 1, tzinfo=UTC), "2023-05-01T00:00:00+00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ((1, frozenset({2})), [1, [2]]),
    ],
    ids=["NaN", "Decimal", "bytes", "datetime", "UUID", "tuple and set"],
)
def test_values_of_databases_become_json(value: object, written: object) -> None:
    assert json_value({"a": value}) == {"a": written}


@pytest.mark.parametrize(
    "value",
    [2**70, "\ud800", json.loads("[" * 201 + "]" * 201)],
    ids=["number beyond 64 bits", "half of a surrogate pair", "201 levels"],
)
def test_what_no_json_can_hold_is_a_problem(value: object) -> None:
    with pytest.raises(ValueProblem):
        json_value({"odd": value})


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.text(max_size=5))
def test_any_row_becomes_a_chunk(payload: dict[str, Any], name: str) -> None:
    mapping = FieldMapping(text=f"{name}x", id=f"{name}x.id", title="t")
    reader = AttachedRows(mapping)

    first_chunk, second_chunk = reader.chunks([Row("1", payload, 0.5), Row("1", payload, 0.4)])

    assert first_chunk.id != second_chunk.id
    # What cannot be written raises.
    orjson.dumps([first_chunk.id, first_chunk.text, first_chunk.metadata])
    orjson.dumps([second_chunk.id, second_chunk.text, second_chunk.metadata])
    assert "\n" not in "".join(reader.warnings())


def test_metadata_that_nothing_can_write_are_left_out_and_counted() -> None:
    too_deep = json.loads("[" * 300 + "]" * 300)
    reader = AttachedRows(FieldMapping(text="text"))

    (chunk,) = reader.chunks([Row("1", {"text": "a", "deep": too_deep, "year": 1})])

    assert chunk.text == "a"
    assert chunk.metadata == {}
    assert "1 row has metadata that no JSON can hold" in reader.warnings()[0]


# --- ids


@pytest.mark.parametrize(
    ("value", "document_id"),
    [("d", "d"), (7, "7"), (UUID(int=1), "00000000-0000-0000-0000-000000000001")],
    ids=["text", "number", "UUID"],
)
def test_texts_numbers_and_uuids_are_document_ids(value: object, document_id: str) -> None:
    reader = AttachedRows(FieldMapping(text="text", document_id="from"))

    (chunk,) = reader.chunks([Row("1", {"text": "a", "from": value})])

    assert chunk.document_id == document_id
    assert reader.warnings() == []


@pytest.mark.parametrize("value", [None, ""], ids=["null", "empty text"])
def test_a_row_may_be_of_no_document(value: object) -> None:
    reader = AttachedRows(FieldMapping(text="text", document_id="from"))

    (chunk,) = reader.chunks([Row("1", {"text": "a", "from": value})])

    assert chunk.document_id is None
    assert reader.warnings() == []


def test_what_is_no_document_id_is_counted() -> None:
    reader = AttachedRows(FieldMapping(text="text", document_id="from"))
    rows = [
        Row("0", {"text": "a", "from": True}),
        Row("1", {"text": "a", "from": ["d"]}),
        Row("2", {"text": "a", "from": {"id": "d"}}),
    ]

    chunks = reader.chunks(rows)

    assert [chunk.document_id for chunk in chunks] == [None, None, None]
    assert "3 rows have what is not a document id under 'from'" in reader.warnings()[0]


@pytest.mark.parametrize(
    ("value", "id"),
    [
        pytest.param(" a ", " a ", id="text with spaces"),
        pytest.param(
            Decimal("12345678901234567890"), "12345678901234567890", id="number of 20 digits"
        ),
        pytest.param(1.0, "1", id="whole number"),
        pytest.param(" ", "row 5", id="blank"),
        pytest.param(None, "row 5", id="null"),
        pytest.param("\0", "row 5", id="NUL"),
    ],
)
def test_an_id_is_kept_as_it_is_and_a_blank_one_is_the_row_s(value: object, id: str) -> None:
    reader = AttachedRows(FieldMapping(text="text", id="id"))

    (chunk,) = reader.chunks([Row("row 5", {"text": "a", "id": value})])

    assert chunk.id == id


# --- metadata


def test_the_fields_of_an_object_stand_among_the_row_s_and_keep_apart_by_its_name() -> None:
    reader = AttachedRows(FieldMapping(text="text", title="meta.head"))
    payload = {"text": "a", "id": 1, "meta": {"id": 2, "head": "T", "year": 3}}

    (chunk,) = reader.chunks([Row("1", payload)])

    assert chunk.metadata == {"id": 1, "meta.id": 2, "year": 3, "title": "T"}


def test_listed_fields_of_one_name_keep_apart_by_their_objects() -> None:
    mapping = FieldMapping(text="text", title="head", metadata="a.source,b.source,b")
    payload = {"text": "a", "head": "T", "a": {"source": 1}, "b": {"source": 2, "title": 3}}

    (chunk,) = AttachedRows(mapping).chunks([Row("1", payload)])

    assert chunk.metadata == {
        "title": "T",
        "source": 1,
        "b.source": 2,
        "b.b.source": 2,
        "b.title": 3,
    }


# --- words


def test_a_word_weighs_its_frequency_beside_the_length_of_the_chunk() -> None:
    weights = WordsForm(average=4.0).vector(Chunk(id="a", text="rent fee rent"))

    # Three words of four on average: 1.2 * (0.25 + 0.75 * 3 / 4) = 0.975.
    assert weights[word_number("rent")] == pytest.approx(2 / (2 + 0.975))
    assert weights[word_number("fee")] == pytest.approx(1 / (1 + 0.975))


def test_the_words_of_a_title_count_twice() -> None:
    chunk = Chunk(id="a", text="rent fee", metadata={"title": "Rent"})

    weights = WordsForm(average=4.0).vector(chunk)

    # Rent three times, four words: 1.2 * (0.25 + 0.75) = 1.2.
    assert weights[word_number("rent")] == pytest.approx(3 / (3 + 1.2))
    assert weights[word_number("fee")] == pytest.approx(1 / (1 + 1.2))


def test_chinese_is_kept_as_pairs() -> None:
    weights = WordsForm(average=2.0).vector(Chunk(id="a", text="合同条款"))

    assert set(weights) == {word_number("合同"), word_number("同条"), word_number("条款")}


def test_a_text_without_a_word_has_no_weights() -> None:
    assert WordsForm(average=2.0).vector(Chunk(id="a", text=" ... ")) == {}


def test_the_number_of_a_word_never_changes() -> None:
    # The first four bytes of BLAKE2b of that length, the lowest first.
    assert word_number("rent") == 1224338906


def test_what_is_no_text_has_a_number_all_the_same() -> None:
    assert 0 <= word_number("\ud800") < 2**32


# --- collections of words on a Qdrant server


Created: TypeAlias = tuple[QdrantServerDatabase, list[dict[str, Any]]]


@pytest.fixture
def created() -> Created:
    """A database in memory, and the settings of each collection that is created in it."""
    from qdrant_client import QdrantClient

    settings_of_each: list[dict[str, Any]] = []

    class Recording(QdrantClient):
        def create_collection(self, *args: Any, **settings: Any) -> bool:
            settings_of_each.append(settings)
            return super().create_collection(*args, **settings)

    client = Recording(":memory:")
    database = QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)
    return database, settings_of_each


@pytest.mark.extra("qdrant")
def test_a_collection_without_words_has_the_server_s_settings(created: Created) -> None:
    database, settings_of_each = created

    database.create("plain", dimension=2)

    assert settings_of_each[0].keys() == {"vectors_config", "metadata"}
    assert database.open("plain").info().words is None


@pytest.mark.extra("qdrant")
def test_a_server_counts_words_in_one_shard_and_soon_forgets_what_was_removed(
    created: Created,
) -> None:
    from qdrant_client import models

    database, settings_of_each = created

    database.create("kb", dimension=2, words=WordsForm(average=7.0))

    (settings,) = settings_of_each
    assert settings["sparse_vectors_config"]["words"].modifier is models.Modifier.IDF
    assert settings["shard_number"] == 1
    assert settings["optimizers_config"].deleted_threshold == 0.05
    assert database.open("kb").info().words == WordsForm(average=7.0)
