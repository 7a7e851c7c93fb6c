"""What holds for every collection that another program has filled: it is read, never written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, Prefix, matches
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.search.stores.database import is_read_only, open_database
from ragbench.search.stores.mapping import FieldMapping
from tests.contract.foreign_places import LAYOUTS, PLACES, Place, Written

DIMENSION = 8
ROWS = [
    Written(
        id=str(at + 1),
        text=f"Text {at}: 合同 é",
        vector=[float(x) for x in row],
        document_id=f"doc {at // 3}",
        metadata={"source": f"file {at}.pdf", "year": 2000 + at},
    )
    for at, row in enumerate(np.random.default_rng(1).normal(size=(30, DIMENSION)).round(3))
]
QUERIES = np.random.default_rng(2).normal(size=(4, DIMENSION)).astype(np.float32)
NAMES = count()


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: place.name)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with request.param.started(tmp_path_factory) as place:
        yield place


@pytest.fixture
def name() -> str:
    return f"docs_{next(NAMES)}"


def scores(metric: str, *, squared: bool) -> np.ndarray[Any, Any]:
    """What every row scores for every query, by the definition."""
    rows = np.array([row.vector for row in ROWS])
    if metric == "dot":
        found = QUERIES @ rows.T
    elif metric == "cosine":
        lengths = np.linalg.norm(QUERIES, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
        found = QUERIES @ rows.T / lengths
    else:
        apart = QUERIES[:, None, :] - rows[None, :, :]
        order = 2 if metric == "euclid" else 1
        found = -np.linalg.norm(apart, ord=order, axis=2)
        found = -(found**2) if squared else found
    return np.asarray(found)


def fill(place: Place, name: str, *fields: dict[str, Any], metric: str = "cosine") -> None:
    """Rows with these fields; the first of them is nearest to the first query."""
    near = [list(map(float, QUERIES[0] + at)) for at in range(len(fields))]
    rows = [(str(at + 1), near[at], one) for at, one in enumerate(fields)]
    place.fill(name, rows, dimension=DIMENSION, metric=metric)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_framework_wrote_is_found_and_left_as_it_was(
    place: Place, name: str, layout: str
) -> None:
    name = place.fill_as(layout, name, ROWS)
    before = place.everything(name)
    wanted = scores("cosine", squared=False)
    with place.open(name) as collection:
        assert "text" in collection.guessed
        assert "document_id" in collection.guessed
        assert (collection.count(), collection.dimension) == (30, DIMENSION)
        assert collection.space.metric == "cosine"
        found = collection.search(QUERIES, k=5)
        assert collection.warnings() == []
    for row, chunks in zip(wanted, found, strict=True):
        best = [ROWS[at] for at in np.argsort(-row)[:5]]
        assert [chunk.id for chunk in chunks] == [one.id for one in best]
        assert [chunk.text for chunk in chunks] == [one.text for one in best]
        assert [chunk.document_id for chunk in chunks] == [one.document_id for one in best]
        shown = [chunk.metadata for chunk in chunks]
        assert all(dict(one.metadata).items() <= shown[at].items() for at, one in enumerate(best))
        assert [chunk.score for chunk in chunks] == pytest.approx(np.sort(-row)[:5] * -1, abs=1e-5)
    assert place.everything(name) == before


def test_scores_are_the_engine_s_turned_so_that_higher_is_better(place: Place) -> None:
    rows = [(row.id, row.vector, {"body": row.text}) for row in ROWS]
    for metric in place.metrics:
        name = f"by_{metric}"
        place.fill(name, rows, dimension=DIMENSION, metric=metric)
        with place.open(name, FieldMapping(text=f"{place.prefix}body")) as collection:
            assert collection.space.metric == metric
            assert collection.space.metric_known
            found = collection.search(QUERIES, k=30)
        wanted = scores(metric, squared=place.squared)
        for row, chunks in zip(wanted, found, strict=True):
            assert [chunk.score for chunk in chunks] == pytest.approx(sorted(row)[::-1], rel=1e-4)
            assert [ROWS[int(chunk.id) - 1].text for chunk in chunks] == [c.text for c in chunks]


def test_a_mapping_says_what_is_where(place: Place, name: str) -> None:
    fields = {"body": "The text", "key": "k-1", "doc": 7, "head": "Title", "a": 1, "b": "x"}
    fill(place, name, fields)
    at = place.prefix
    said = {"text": "body", "id": "key", "document_id": "doc", "title": "head"}
    mapping = FieldMapping(**{name: f"{at}{path}" for name, path in said.items()})  # type: ignore[arg-type]
    with place.open(name, mapping) as collection:
        assert (collection.guessed, collection.notes(by_words=False)[1:]) == ((), [])
        (chunk,) = collection.search(QUERIES[:1], k=3)[0]
    assert (chunk.id, chunk.text, chunk.document_id) == ("k-1", "The text", "7")
    kept = {key: value for key, value in chunk.metadata.items() if key in ("a", "b", "title")}
    assert kept == {"a": 1, "b": "x", "title": "Title"}
    assert not {"body", "key", "doc", "head"} & set(chunk.metadata)
    picked = FieldMapping(text=f"{at}body", metadata=f"{at}b,{at}rare")
    with place.open(name, picked) as collection:
        absent = f"(--field metadata={at}rare: no row that was looked at has such a field)"
        assert collection.notes(by_words=False)[1] == absent
        assert collection.search(QUERIES[:1], k=3)[0][0].metadata == {"b": "x"}


def test_rows_that_lack_something_are_kept_and_counted(place: Place, name: str) -> None:
    first, second = {"body": "one", "key": "same"}, {"body": 5, "key": 17}
    fill(place, name, first, second, {"other": True, "key": "same"}, {"body": "four"})
    mapping = FieldMapping(text=f"{place.prefix}body", id=f"{place.prefix}key")
    with place.open(name, mapping) as collection:
        chunks = collection.search(QUERIES[:1], k=9)[0]
        assert collection.search(QUERIES[:1], k=9)[0] == chunks
        shown = collection.warnings()
    texts = {chunk.id: chunk.text for chunk in chunks}
    assert texts == {"same": "one", "17": "", "same#2": "", "4": "four"}
    at = place.prefix
    textless, twice, nameless = shown
    assert f"2 rows have no text under '{at}body'" in textless
    assert "1 row has an id that a better row of the same result has" in twice
    assert f"1 row has no id under '{at}key'" in nameless


FILTERS: list[dict[str, Any]] = [
    {"year": 2010},
    {"year": 2010.0},
    {"year": "2010"},
    {"year": {"gte": 2010, "lt": 2015}},
    {"source": {"in": ["file 1.pdf", "file 7.pdf", "no'such\"%s.pdf"]}},
    {"not": {"year": 2010}},
    {"not": {"source": {"in": ["file 1.pdf", "file 7.pdf"]}}},
    {"any": [{"year": 2003}, {"source": "file 9.pdf"}]},
    {"all": [{"year": {"gt": 2003}}, {"not": {"any": [{"year": 2005}, {"year": 2006}]}}]},
    {"document_id": "doc 3"},
    {"year": {"exists": True}},
    {"year": {"exists": False}},
    {"document_id": "doc 3", "year": {"gt": 2010}},
    {"source": {"prefix": "file 1"}},
    {"not": {"source": {"prefix": "file"}}},
    {"document_id": {"prefix": "doc 1"}},
    {"year": {"prefix": ""}},
]
OF_NUMBERS = {"{'year': {'prefix'": "Can only use prefix queries on keyword"}
REFUSED = {
    "chroma": {"exists": "cannot say whether a field exists", "prefix": "knows no prefixes"},
    "elasticsearch": OF_NUMBERS,
    "opensearch": OF_NUMBERS,
}
"""What an engine has no word for, and what is said then."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_filters_are_executed_by_the_store(place: Place, name: str, layout: str) -> None:
    name = place.fill_as(layout, name, ROWS)
    refusals = REFUSED.get(place.kind, {})
    with place.open(name) as collection:
        for given in FILTERS:
            filters = parse_filters(given)
            refused = [said for word, said in refusals.items() if word in str(given)]
            if refused:
                with pytest.raises((ConfigError, StoreError), match=refused[0]):
                    collection.search(QUERIES[:1], k=40, filters=filters)
                continue
            wanted = {row.id for row in ROWS if matches(filters, row.fields)}
            found = collection.search(QUERIES[:1], k=40, filters=filters)[0]
            numbers = {str(chunk.metadata["year"] - 1999) for chunk in found}
            assert numbers == wanted, given
        assert collection.warnings() == []


def test_a_prefix_is_no_pattern(place: Place, name: str) -> None:
    """What is a sign in the store's own language is a character here, or is refused."""
    sources = ("50% off", "50 off", "a_b", "axb", "a\\b", "q\"'x")
    rows = [replace(ROWS[at], metadata={"source": one}) for at, one in enumerate(sources)]
    name = place.fill_as("haystack", name, rows)
    with place.open(name) as collection:
        signs = {"50%": "50% off", "a_": "a_b", "a\\": "a\\b", "q\"'": "q\"'x"}
        for prefix, wanted in signs.items():
            filters = Prefix(field="source", prefix=prefix)
            try:
                found = collection.search(QUERIES[:1], k=40, filters=filters)[0]
            except ConfigError as error:
                assert "prefix" in str(error)
                continue
            assert [chunk.metadata["source"] for chunk in found] == [wanted]


def test_a_field_that_no_row_has_is_reported(place: Place, name: str) -> None:
    name = place.fill_as("haystack", name, ROWS)
    with place.open(name) as collection:
        asked = Equals(field="yaer", value=1)
        try:
            assert collection.search(QUERIES[:1], k=4, filters=asked) == [[]]
            assert "has a field 'yaer'" in collection.warnings()[0]
        except ConfigError as error:
            assert "no column 'yaer'" in str(error)


NATIVE: dict[str, tuple[object, object]] = {
    "qdrant": ({"must": [{"key": "meta.year", "range": {"gte": 2025}}]}, {"mst": []}),
    "chroma": ({"year": {"$gte": 2025}}, "year >= 2025"),
    **dict.fromkeys(("elasticsearch", "opensearch"), ({"range": {"year": {"gte": 2025}}}, "year")),
    "milvus": ("year >= 2025", {"year": 2025}),
    "postgresql": ("(meta->>'year')::int >= 2025 AND '%' <> ''", {"year": 2025}),
}


def test_a_filter_in_the_store_s_own_syntax_is_passed_through(place: Place, name: str) -> None:
    good, bad = NATIVE[place.kind]
    name = place.fill_as("haystack", name, ROWS)
    with place.open(name, native_filter=good) as collection:
        found = collection.search(QUERIES[:1], k=40)[0]
        assert {chunk.metadata["year"] for chunk in found} == {2025, 2026, 2027, 2028, 2029}
        both = collection.search(QUERIES[:1], k=40, filters=Equals(field="year", value=2027))[0]
        assert [chunk.metadata["year"] for chunk in both] == [2027]
    with pytest.raises(ConfigError, match="native filter of"):
        place.open(name, native_filter=bad)


SUBJECTS = ("rent", "fees", "garden", "dogs", "keys")
SAID = [f"The {SUBJECTS[at % 5]} of flat {at}." for at in range(30)]
SAID[7] += " Rent is paid by mail."
TEXTS = [replace(row, text=text) for row, text in zip(ROWS, SAID, strict=True)]


def test_words_are_ranked_by_the_store(place: Place, name: str) -> None:
    place.fill_words(name, TEXTS)
    before = place.everything(name) if place.kind == "postgresql" else None
    mapping = FieldMapping(text="text", language="english" if place.kind == "qdrant" else None)
    with place.open(name, mapping) as collection:
        assert collection.words is not None
        assert f"words={collection.words.field}" in collection.described()
        asked = ["garden", "paying rent by mail", " ", "zzqx"]
        gardens, rent, blank, nothing = collection.search_words(asked, k=10)
        assert (blank, nothing) == ([], [])
        assert {chunk.id for chunk in gardens} == {"3", "8", "13", "18", "23", "28"}
        assert rent[0].id == "8"
        scores = [chunk.score or 0.0 for chunk in rent]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) > 0
        year = parse_filters({"year": {"gte": 2020}})
        late = collection.search_words(["garden"], k=10, filters=year)[0]
        assert {chunk.id for chunk in late} == {"23", "28"}
    if before is not None:
        assert place.everything(name) == before


def test_a_collection_without_words_says_so(place: Place, name: str) -> None:
    if place.kind in ("elasticsearch", "opensearch"):
        pytest.skip("the engine ranks every text by words")
    fill(place, name, {"body": "one"})
    with place.open(name, FieldMapping(text=f"{place.prefix}body")) as collection:
        assert collection.words is None
        with pytest.raises(ConfigError, match="cannot be searched by words"):
            collection.search_words(["one"], k=1)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"text": "bdoy"}, "--field text=bdoy: no row .* has such a field.*There are:"),
        ({"id": "{at}nope"}, "--field id=.*nope: no row"),
        ({"vector": "nope"}, "has no vector 'nope'; it"),
        ({}, "is known to hold the text: name it with --field text=FIELD. There are: "),
    ],
)
def test_what_does_not_fit_is_one_error(
    place: Place, name: str, mapping: dict[str, str], message: str
) -> None:
    fill(place, name, {"words": "a b c", "body1": 7, f"{place.prefix or 'x'}body": 1, "body": 7})
    given = {"text": f"{place.prefix}words"} if mapping else {}
    given |= {key: value.format(at=place.prefix) for key, value in mapping.items()}
    with pytest.raises(ConfigError, match=message) as caught:
        place.open(name, FieldMapping(**given))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_what_cannot_be_searched_is_one_error(place: Place, name: str) -> None:
    with pytest.raises(StoreError, match="there is no collection 'nowhere'; "):
        place.open("nowhere")
    place.fill(name, [], dimension=DIMENSION)
    with pytest.raises(StoreError, match=f"the collection '{name}' is empty"):
        place.open(name)
    name = f"{name}_2"
    fill(place, name, {"text": "a"})
    mapping = FieldMapping(text=f"{place.prefix}text")
    wrong = pytest.raises(StoreError, match="has 3 dimensions, the collection 8")
    with place.open(name, mapping) as collection, wrong:
        collection.search(np.ones((1, 3)), k=1)
    with pytest.raises(StoreError, match="is closed"):
        collection.search(QUERIES, k=1)
    if "manhattan" not in place.metrics:
        with pytest.raises(ConfigError, match="compares vectors by cosine, not by manhattan"):
            place.open(name, replace(mapping, metric="manhattan"))


def test_a_collection_that_vanishes_is_one_error(place: Place, name: str) -> None:
    if place.address.startswith("qdrant:"):
        pytest.skip("one program at a time opens the folder")
    fill(place, name, {"text": "a"})
    with place.open(name, FieldMapping(text=f"{place.prefix}text")) as collection:
        place.drop(name)
        for ask in (lambda: collection.search(QUERIES, k=1), collection.count):
            with pytest.raises(StoreError) as caught:
                ask()
            assert str(caught.value).startswith(collection.address)
            assert "\n" not in str(caught.value)


def test_opened_as_one_of_ragbench_s_it_says_how_to_name_its_fields(
    place: Place, name: str
) -> None:
    if place.address.startswith("qdrant+") or is_read_only(place.address):
        pytest.skip("no server is at hand, or the tests of addresses hold it")
    fill(place, name, {"text": "a"})
    before = place.everything(name)
    database = open_database(place.address)
    message = "name its fields with --field text=FIELD and its embedder with --embedder"
    with pytest.raises(ForeignCollectionError, match=message):
        database.open(name)
    assert name not in database.collections()
    database.close()
    assert place.everything(name) == before
