"""What holds for every collection that another program has filled: it is read, never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, Prefix, matches
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.search.stores.database import is_read_only, open_database
from ragbench.search.stores.mapping import FieldMapping
from tests.contract.foreign_places import LAYOUTS, PLACES, Place, StoredRow

DIMENSION = 8
QUERIES = np.random.default_rng(2).normal(size=(4, DIMENSION)).astype(np.float32)
COLLECTION_NUMBERS = count()


def thirty_rows() -> list[StoredRow]:
    """Ids 1 to 30, years 2000 to 2029; three rows to a document: "doc 0" to "doc 9"."""
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(30, DIMENSION)).round(3)
    rows: list[StoredRow] = []
    for position, vector in enumerate(vectors):
        row = StoredRow(
            id=str(position + 1),
            text=f"Text {position}: 合同 é",
            vector=[float(number) for number in vector],
            document_id=f"doc {position // 3}",
            metadata={"source": f"file {position}.pdf", "year": 2000 + position},
        )
        rows.append(row)
    return rows


ROWS = thirty_rows()
ROW_OF_ID = {row.id: row for row in ROWS}


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: place.name)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with request.param.started(tmp_path_factory) as place:
        yield place


def new_name() -> str:
    return f"docs_{next(COLLECTION_NUMBERS)}"


def fill(place: Place, name: str, *payloads: dict[str, Any]) -> None:
    """Rows 1, 2, ... with these fields: row 1 is nearest to the first query, row 2 the next."""
    rows: list[tuple[str, list[float], dict[str, Any]]] = []
    for position, payload in enumerate(payloads):
        vector = [float(number) + position for number in QUERIES[0]]
        rows.append((str(position + 1), vector, payload))
    place.fill(name, rows, dimension=DIMENSION)


def nearest_chunk_first(place: Place, name: str, mapping: FieldMapping) -> list[Chunk]:
    with place.open(name, mapping) as collection:
        (chunks,) = collection.search(QUERIES[:1], k=9)
    return chunks


def years_of(chunks: list[Chunk]) -> list[int]:
    return sorted(chunk.metadata["year"] for chunk in chunks)


# --- what frameworks write


@pytest.fixture(scope="module", params=LAYOUTS)
def framework_collection(place: Place, request: pytest.FixtureRequest) -> str:
    """The name of a collection of the thirty rows as this framework writes them."""
    return place.fill_as(request.param, new_name(), ROWS)


@pytest.fixture(scope="module")
def haystack_collection(place: Place) -> str:
    """The thirty rows in one layout, for what is the same in each."""
    return place.fill_as("haystack", new_name(), ROWS)


def exact_scores(metric: str, *, squared: bool) -> NDArray[Any]:
    """What every row scores for every query, by the definition of the metric."""
    rows = np.array([row.vector for row in ROWS])
    if metric == "dot":
        return np.asarray(QUERIES @ rows.T)
    if metric == "cosine":
        query_lengths = np.linalg.norm(QUERIES, axis=1)
        row_lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(QUERIES @ rows.T / np.outer(query_lengths, row_lengths))

    differences = QUERIES[:, None, :] - rows[None, :, :]
    order = 2 if metric == "euclid" else 1
    distances = np.linalg.norm(differences, ord=order, axis=2)
    return np.asarray(-(distances**2) if squared else -distances)


def test_the_fields_of_a_framework_s_collection_are_guessed(
    place: Place, framework_collection: str
) -> None:
    with place.open(framework_collection) as collection:
        assert "text" in collection.guessed
        assert "document_id" in collection.guessed


def test_the_size_of_a_framework_s_collection_is_read_from_the_store(
    place: Place, framework_collection: str
) -> None:
    with place.open(framework_collection) as collection:
        assert collection.count() == 30
        assert collection.dimension == DIMENSION
        assert collection.space.metric == "cosine"


def test_the_nearest_rows_of_a_framework_s_collection_come_first_and_whole(
    place: Place, framework_collection: str
) -> None:
    with place.open(framework_collection) as collection:
        rankings = collection.search(QUERIES, k=5)
        warnings = collection.warnings()

    expected = exact_scores("cosine", squared=False)
    for row_scores, chunks in zip(expected, rankings, strict=True):
        best_positions = np.argsort(-row_scores)[:5]
        best_rows = [ROWS[position] for position in best_positions]
        assert [chunk.id for chunk in chunks] == [row.id for row in best_rows]
        assert [chunk.text for chunk in chunks] == [row.text for row in best_rows]
        assert [chunk.document_id for chunk in chunks] == [row.document_id for row in best_rows]
        scores = [chunk.score for chunk in chunks]
        assert scores == pytest.approx(row_scores[best_positions], abs=1e-5)
        for row, chunk in zip(best_rows, chunks, strict=True):
            assert chunk.metadata.items() >= row.metadata.items()
    assert warnings == []


def test_a_search_leaves_the_collection_as_it_was(place: Place, framework_collection: str) -> None:
    before = place.everything(framework_collection)

    with place.open(framework_collection) as collection:
        collection.search(QUERIES, k=5)

    assert place.everything(framework_collection) == before


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclid", "manhattan"])
def test_scores_are_the_engine_s_turned_so_that_higher_is_better(place: Place, metric: str) -> None:
    if metric not in place.metrics:
        pytest.skip(f"the engine does not compare by {metric}")
    name = f"by_{metric}"
    rows = [(row.id, row.vector, {"body": row.text}) for row in ROWS]
    place.fill(name, rows, dimension=DIMENSION, metric=metric)

    with place.open(name, FieldMapping(text=f"{place.prefix}body")) as collection:
        assert collection.space.metric == metric
        assert collection.space.metric_known
        rankings = collection.search(QUERIES, k=30)

    expected = exact_scores(metric, squared=place.squared)
    for row_scores, chunks in zip(expected, rankings, strict=True):
        scores = [chunk.score for chunk in chunks]
        highest_first = sorted(row_scores, reverse=True)
        assert scores == pytest.approx(highest_first, rel=1e-4)
        for chunk in chunks:
            assert chunk.text == ROW_OF_ID[chunk.id].text


# --- which field holds what


@pytest.fixture(scope="module")
def own_fields_collection(place: Place) -> str:
    """One row whose fields have names that ragbench does not guess."""
    name = new_name()
    payload = {
        "body": "The text",
        "key": "k-1",
        "doc": 7,
        "head": "Title",
        "a": 1,
        "b": "x",
    }
    fill(place, name, payload)
    return name


def own_fields(place: Place) -> FieldMapping:
    prefix = place.prefix
    return FieldMapping(
        text=f"{prefix}body",
        id=f"{prefix}key",
        document_id=f"{prefix}doc",
        title=f"{prefix}head",
    )


def test_where_every_field_is_named_none_is_guessed(
    place: Place, own_fields_collection: str
) -> None:
    with place.open(own_fields_collection, own_fields(place)) as collection:
        assert collection.guessed == ()
        assert collection.notes(by_words=False)[1:] == []


def test_a_chunk_is_made_of_the_named_fields(place: Place, own_fields_collection: str) -> None:
    (chunk,) = nearest_chunk_first(place, own_fields_collection, own_fields(place))

    assert chunk.id == "k-1"
    assert chunk.text == "The text"
    assert chunk.document_id == "7"
    assert chunk.metadata["title"] == "Title"


def test_fields_that_are_not_named_become_metadata(
    place: Place, own_fields_collection: str
) -> None:
    (chunk,) = nearest_chunk_first(place, own_fields_collection, own_fields(place))

    assert chunk.metadata["a"] == 1
    assert chunk.metadata["b"] == "x"
    assert not {"body", "key", "doc", "head"} & set(chunk.metadata)


def listed_metadata(place: Place) -> FieldMapping:
    """Of the metadata the field b, and a field that no row has."""
    prefix = place.prefix
    return FieldMapping(text=f"{prefix}body", metadata=f"{prefix}b,{prefix}rare")


def test_metadata_is_limited_to_the_fields_that_a_mapping_lists(
    place: Place, own_fields_collection: str
) -> None:
    (chunk,) = nearest_chunk_first(place, own_fields_collection, listed_metadata(place))

    assert chunk.metadata == {"b": "x"}


def test_a_listed_field_of_metadata_that_no_row_has_is_noted(
    place: Place, own_fields_collection: str
) -> None:
    with place.open(own_fields_collection, listed_metadata(place)) as collection:
        _, note = collection.notes(by_words=False)

    field = f"{place.prefix}rare"
    assert note == f"(--field metadata={field}: no row that was looked at has such a field)"


@pytest.fixture(scope="module")
def incomplete_collection(place: Place) -> str:
    """Four rows: texts in two, ids in three of which two are the same."""
    name = new_name()
    fill(
        place,
        name,
        {"body": "one", "key": "same"},
        {"body": 5, "key": 17},
        {"other": True, "key": "same"},
        {"body": "four"},
    )
    return name


def text_and_id(place: Place) -> FieldMapping:
    return FieldMapping(text=f"{place.prefix}body", id=f"{place.prefix}key")


def test_rows_that_lack_a_text_or_an_id_of_their_own_are_kept(
    place: Place, incomplete_collection: str
) -> None:
    chunks = nearest_chunk_first(place, incomplete_collection, text_and_id(place))

    texts = {chunk.id: chunk.text for chunk in chunks}
    assert texts == {"same": "one", "17": "", "same#2": "", "4": "four"}


def test_rows_that_lack_a_text_or_an_id_of_their_own_are_counted(
    place: Place, incomplete_collection: str
) -> None:
    prefix = place.prefix

    with place.open(incomplete_collection, text_and_id(place)) as collection:
        first_chunks = collection.search(QUERIES[:1], k=9)
        second_chunks = collection.search(QUERIES[:1], k=9)
        without_text, repeated_id, without_id = collection.warnings()

    # Each row is counted once, however often it is found.
    assert second_chunks == first_chunks
    assert f"2 rows have no text under '{prefix}body'" in without_text
    assert "1 row has an id that a better row of the same result has" in repeated_id
    assert f"1 row has no id under '{prefix}key'" in without_id


# --- filters


@dataclass(frozen=True, kw_only=True)
class FilterCase:
    """Filters as a user writes them, and the years of the rows that pass."""

    written: Mapping[str, Any]
    years: tuple[int, ...]
    needs: str = ""
    """What an engine must be able to do for it; not every one is: see REFUSED."""


ALL_YEARS = tuple(range(2000, 2030))

FILTER_CASES = [
    FilterCase(written={"year": 2010}, years=(2010,)),
    FilterCase(written={"year": 2010.0}, years=(2010,)),
    # A number is no text, whatever its digits are.
    FilterCase(written={"year": "2010"}, years=()),
    FilterCase(
        written={"year": {"gte": 2010, "lt": 2015}},
        years=(2010, 2011, 2012, 2013, 2014),
    ),
    FilterCase(
        written={"source": {"in": ["file 1.pdf", "file 7.pdf", "no'such\"%s.pdf"]}},
        years=(2001, 2007),
    ),
    FilterCase(
        written={"not": {"year": 2010}},
        years=(*range(2000, 2010), *range(2011, 2030)),
    ),
    FilterCase(
        written={"not": {"source": {"in": ["file 1.pdf", "file 7.pdf"]}}},
        years=(2000, *range(2002, 2007), *range(2008, 2030)),
    ),
    FilterCase(written={"any": [{"year": 2003}, {"source": "file 9.pdf"}]}, years=(2003, 2009)),
    FilterCase(
        written={
            "all": [
                {"year": {"gt": 2003}},
                {"not": {"any": [{"year": 2005}, {"year": 2006}]}},
            ]
        },
        years=(2004, *range(2007, 2030)),
    ),
    FilterCase(written={"document_id": "doc 3"}, years=(2009, 2010, 2011)),
    FilterCase(written={"year": {"exists": True}}, years=ALL_YEARS, needs="exists"),
    FilterCase(written={"year": {"exists": False}}, years=(), needs="exists"),
    FilterCase(written={"document_id": "doc 3", "year": {"gt": 2010}}, years=(2011,)),
    FilterCase(
        written={"source": {"prefix": "file 1"}},
        years=(2001, *range(2010, 2020)),
        needs="prefix",
    ),
    FilterCase(written={"not": {"source": {"prefix": "file"}}}, years=(), needs="prefix"),
    FilterCase(
        written={"document_id": {"prefix": "doc 1"}},
        years=(2003, 2004, 2005),
        needs="prefix",
    ),
    # A number has no prefix, not even the empty one.
    FilterCase(written={"year": {"prefix": ""}}, years=(), needs="prefix of a number"),
]

KEYWORDS_ONLY = {"prefix of a number": "Can only use prefix queries on keyword"}
REFUSED = {
    "chroma": {
        "exists": "cannot say whether a field exists",
        "prefix": "knows no prefixes",
        "prefix of a number": "knows no prefixes",
    },
    "elasticsearch": KEYWORDS_ONLY,
    "opensearch": KEYWORDS_ONLY,
}
"""By engine: what it has no word for, and the error that says so."""


@pytest.mark.parametrize("case", FILTER_CASES, ids=lambda case: str(case.written))
def test_ragbench_s_own_filters_let_the_same_rows_pass(case: FilterCase) -> None:
    filters = parse_filters(case.written)

    passing = [row.metadata["year"] for row in ROWS if matches(filters, row.fields)]

    assert passing == list(case.years)


# One test for all filters: opening the collection costs more than any search.
def test_filters_are_executed_by_the_store(place: Place, framework_collection: str) -> None:
    refused = REFUSED.get(place.kind, {})

    with place.open(framework_collection) as collection:
        for case in FILTER_CASES:
            if case.needs in refused:
                continue
            filters = parse_filters(case.written)
            (chunks,) = collection.search(QUERIES[:1], k=40, filters=filters)
            assert years_of(chunks) == list(case.years), case.written
        assert collection.warnings() == []


def test_a_filter_that_the_store_cannot_execute_is_refused(
    place: Place, framework_collection: str
) -> None:
    refused = REFUSED.get(place.kind, {})

    with place.open(framework_collection) as collection:
        for case in FILTER_CASES:
            if case.needs not in refused:
                continue
            filters = parse_filters(case.written)
            with pytest.raises((ConfigError, StoreError), match=refused[case.needs]):
                collection.search(QUERIES[:1], k=40, filters=filters)


def test_a_prefix_is_no_pattern(place: Place) -> None:
    """What is a sign in the store's own language is a character here, or is refused."""
    sources = ["50% off", "50 off", "a_b", "axb", "a\\b", "q\"'x"]
    rows: list[StoredRow] = []
    for row, source in zip(ROWS, sources, strict=False):
        rows.append(replace(row, metadata={"source": source}))
    name = place.fill_as("haystack", new_name(), rows)
    only_source = {"50%": "50% off", "a_": "a_b", "a\\": "a\\b", "q\"'": "q\"'x"}

    with place.open(name) as collection:
        for prefix, source in only_source.items():
            filters = Prefix(field="source", prefix=prefix)
            try:
                (chunks,) = collection.search(QUERIES[:1], k=40, filters=filters)
            except ConfigError as error:
                assert "prefix" in str(error)
                continue
            assert [chunk.metadata["source"] for chunk in chunks] == [source]


def test_a_filter_by_a_field_that_no_row_has_is_reported(
    place: Place, haystack_collection: str
) -> None:
    misspelt = Equals(field="yaer", value=1)

    with place.open(haystack_collection) as collection:
        # A table knows its columns and refuses; the others find nothing and warn.
        if place.kind == "postgresql":
            with pytest.raises(ConfigError, match="no column 'yaer'"):
                collection.search(QUERIES[:1], k=4, filters=misspelt)
        else:
            assert collection.search(QUERIES[:1], k=4, filters=misspelt) == [[]]
            assert "has a field 'yaer'" in collection.warnings()[0]


FROM_2025: Mapping[str, object] = {
    "qdrant": {"must": [{"key": "meta.year", "range": {"gte": 2025}}]},
    "chroma": {"year": {"$gte": 2025}},
    "elasticsearch": {"range": {"year": {"gte": 2025}}},
    "opensearch": {"range": {"year": {"gte": 2025}}},
    "milvus": "year >= 2025",
    "postgresql": "(meta->>'year')::int >= 2025 AND '%' <> ''",
}
"""By engine: the filter "a year from 2025 on" in its own syntax."""

NOT_NATIVE: Mapping[str, object] = {
    "qdrant": {"mst": []},
    "chroma": "year >= 2025",
    "elasticsearch": "year",
    "opensearch": "year",
    "milvus": {"year": 2025},
    "postgresql": {"year": 2025},
}
"""By engine: what is no filter of its syntax."""


def test_a_filter_in_the_store_s_own_syntax_is_passed_through(
    place: Place, haystack_collection: str
) -> None:
    from_2025 = FROM_2025[place.kind]

    with place.open(haystack_collection, native_filter=from_2025) as collection:
        (chunks,) = collection.search(QUERIES[:1], k=40)

    assert years_of(chunks) == [2025, 2026, 2027, 2028, 2029]


def test_a_native_filter_holds_beside_ragbench_s_filters(
    place: Place, haystack_collection: str
) -> None:
    from_2025 = FROM_2025[place.kind]
    in_2027 = Equals(field="year", value=2027)
    in_2010 = Equals(field="year", value=2010)

    with place.open(haystack_collection, native_filter=from_2025) as collection:
        (chunks_of_2027,) = collection.search(QUERIES[:1], k=40, filters=in_2027)
        (chunks_of_2010,) = collection.search(QUERIES[:1], k=40, filters=in_2010)

    assert years_of(chunks_of_2027) == [2027]
    assert chunks_of_2010 == []


def test_what_is_no_native_filter_is_refused_on_opening(
    place: Place, haystack_collection: str
) -> None:
    no_filter = NOT_NATIVE[place.kind]

    with pytest.raises(ConfigError, match="native filter of"):
        place.open(haystack_collection, native_filter=no_filter)


# --- words


def rows_about_flats() -> list[StoredRow]:
    """Every fifth row is about gardens: rows 3, 8, 13, ...; row 8 is about rent by mail, too."""
    subjects = ("rent", "fees", "garden", "dogs", "keys")
    rows: list[StoredRow] = []
    for position, row in enumerate(ROWS):
        text = f"The {subjects[position % 5]} of flat {position}."
        if row.id == "8":
            text += " Rent is paid by mail."
        rows.append(replace(row, text=text))
    return rows


@pytest.fixture(scope="module")
def words_collection(place: Place) -> str:
    """Skips where the engine ranks by no words."""
    name = new_name()
    place.fill_words(name, rows_about_flats())
    return name


def by_words(place: Place) -> FieldMapping:
    # Qdrant's sparse vectors do not say in which language their words were stemmed.
    if place.kind == "qdrant":
        return FieldMapping(text="text", language="english")
    return FieldMapping(text="text")


def test_the_field_that_is_ranked_by_words_is_described(
    place: Place, words_collection: str
) -> None:
    with place.open(words_collection, by_words(place)) as collection:
        assert collection.words is not None
        assert f"words={collection.words.field}" in collection.described()


def test_words_are_ranked_by_the_store(place: Place, words_collection: str) -> None:
    with place.open(words_collection, by_words(place)) as collection:
        gardens, rent = collection.search_words(["garden", "paying rent by mail"], k=10)

    assert {chunk.id for chunk in gardens} == {"3", "8", "13", "18", "23", "28"}
    assert rent[0].id == "8"
    scores = [chunk.score or 0.0 for chunk in rent]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0


def test_a_query_without_a_word_of_the_collection_finds_nothing(
    place: Place, words_collection: str
) -> None:
    with place.open(words_collection, by_words(place)) as collection:
        blank, unknown_word = collection.search_words([" ", "zzqx"], k=10)

    assert blank == []
    assert unknown_word == []


def test_filters_hold_in_a_search_by_words(place: Place, words_collection: str) -> None:
    from_2020 = parse_filters({"year": {"gte": 2020}})

    with place.open(words_collection, by_words(place)) as collection:
        (gardens,) = collection.search_words(["garden"], k=10, filters=from_2020)

    # Row 23 is of 2022, row 28 of 2027.
    assert {chunk.id for chunk in gardens} == {"23", "28"}


def test_a_search_by_words_leaves_a_table_as_it_was(place: Place, words_collection: str) -> None:
    if place.kind != "postgresql":
        pytest.skip("only a table is listed with its words")
    before = place.everything(words_collection)

    with place.open(words_collection, by_words(place)) as collection:
        collection.search_words(["garden"], k=10)

    assert place.everything(words_collection) == before


def test_a_collection_without_words_says_so(place: Place, single_row_collection: str) -> None:
    if place.kind in ("elasticsearch", "opensearch"):
        pytest.skip("the engine ranks every text by words")

    with place.open(single_row_collection, single_text(place)) as collection:
        assert collection.words is None
        with pytest.raises(ConfigError, match="cannot be searched by words"):
            collection.search_words(["one"], k=1)


# --- errors


@pytest.fixture(scope="module")
def single_row_collection(place: Place) -> str:
    name = new_name()
    fill(place, name, {"text": "a"})
    return name


def single_text(place: Place) -> FieldMapping:
    return FieldMapping(text=f"{place.prefix}text")


@pytest.fixture(scope="module")
def ambiguous_collection(place: Place) -> str:
    """A row in which nothing says which field is the text."""
    name = new_name()
    # A field's name may itself begin with the prefix under which the fields are found.
    dotted = f"{place.prefix or 'x'}body"
    fill(place, name, {"words": "a b c", "body1": 7, dotted: 1, "body": 7})
    return name


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        pytest.param(
            {"text": "bdoy"},
            "--field text=bdoy: no row .* has such a field.*There are:",
            id="no such text",
        ),
        pytest.param(
            {"text": "{prefix}words", "id": "{prefix}nope"},
            "--field id=.*nope: no row",
            id="no such id",
        ),
        pytest.param(
            {"text": "{prefix}words", "vector": "nope"},
            "has no vector 'nope'; it",
            id="no such vector",
        ),
        pytest.param(
            {},
            "is known to hold the text: name it with --field text=FIELD. There are: ",
            id="no text named",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_one_error(
    place: Place, ambiguous_collection: str, mapped: dict[str, str], message: str
) -> None:
    mapping = FieldMapping()
    for field, path in mapped.items():
        mapping = replace(mapping, **{field: path.format(prefix=place.prefix)})  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=message) as caught:
        place.open(ambiguous_collection, mapping)

    assert "\n" not in str(caught.value)


def test_a_collection_that_does_not_exist_is_one_error(place: Place) -> None:
    with pytest.raises(StoreError, match="there is no collection 'nowhere'; "):
        place.open("nowhere")


def test_an_empty_collection_is_one_error(place: Place) -> None:
    name = new_name()
    place.fill(name, [], dimension=DIMENSION)

    with pytest.raises(StoreError, match=f"the collection '{name}' is empty"):
        place.open(name)


def test_a_query_of_another_dimension_is_one_error(
    place: Place, single_row_collection: str
) -> None:
    three_dimensions = np.ones((1, 3))

    with (
        place.open(single_row_collection, single_text(place)) as collection,
        pytest.raises(StoreError, match="has 3 dimensions, the collection 8"),
    ):
        collection.search(three_dimensions, k=1)


def test_a_closed_collection_is_not_searched(place: Place, single_row_collection: str) -> None:
    with place.open(single_row_collection, single_text(place)) as collection:
        pass

    with pytest.raises(StoreError, match="is closed"):
        collection.search(QUERIES, k=1)


def test_a_metric_that_the_engine_lacks_is_refused(
    place: Place, single_row_collection: str
) -> None:
    if "manhattan" in place.metrics:
        pytest.skip("the engine compares by manhattan")
    mapping = replace(single_text(place), metric="manhattan")

    with pytest.raises(ConfigError, match="compares vectors by cosine, not by manhattan"):
        place.open(single_row_collection, mapping)


def test_a_collection_that_vanishes_is_one_error(place: Place) -> None:
    if place.address.startswith("qdrant:"):
        pytest.skip("one program at a time opens the folder")
    name = new_name()
    fill(place, name, {"text": "a"})

    with place.open(name, single_text(place)) as collection:
        place.drop(name)
        with pytest.raises(StoreError) as on_search:
            collection.search(QUERIES, k=1)
        with pytest.raises(StoreError) as on_count:
            collection.count()

    for caught in (on_search, on_count):
        assert str(caught.value).startswith(collection.address)
        assert "\n" not in str(caught.value)


def test_opened_as_one_of_ragbench_s_it_says_how_to_name_its_fields(
    place: Place, single_row_collection: str
) -> None:
    if place.address.startswith("qdrant+") or is_read_only(place.address):
        pytest.skip("no server is at hand, or the tests of addresses hold it")
    before = place.everything(single_row_collection)
    database = open_database(place.address)

    message = "name its fields with --field text=FIELD and its embedder with --embedder"
    with pytest.raises(ForeignCollectionError, match=message):
        database.open(single_row_collection)
    assert single_row_collection not in database.collections()

    database.close()
    assert place.everything(single_row_collection) == before
