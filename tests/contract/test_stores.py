"""What every vector store promises, asked of all engines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from ragbench import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, Exists, Filter, In, Not, Prefix, matches
from ragbench.errors import ConfigError, StoreError
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import Database
from ragbench.search.stores.record import encode, searched_fields
from tests.contract.store_engines import ENGINES, Opening, UnderTest
from tests.unit.core import filter_cases

DIMENSION = 8
RANDOM = np.random.default_rng(7)
VECTORS = RANDOM.normal(size=(60, DIMENSION)).astype(np.float32)
QUERIES = RANDOM.normal(size=(5, DIMENSION)).astype(np.float32)
ANY_QUERY = VECTORS[0]
"""For searches that find as much by any other."""
ALL_OF_JSON: dict[str, Any] = {
    "year": 2023,
    "ratio": 0.1,
    "big": 2**63 - 1,
    "flag": False,
    "nothing": None,
    "empty": "",
    "list": ["a", 1, 1.5, True, None, [[]], {"b": []}],
    "nested": {"a.b": {"ü \"quoted' \\": [{"deep": "苹果 🍎"}]}, "": {}},
    "date": "2023-05-01T12:00:00+02:00",
    "$gt": "an operator",
    "id": "not the id",
    "text": "x" * 3000,
}
LONGEST_ID = "é" * 1024  # 2048 bytes
ODD_IDS = [
    "doc-1",
    "1",
    "-1",
    "苹果 🍎",
    "a/b?c=d#e",
    'o\'brien "x" \\ %s {}',
    " ",
    "\n",
    "$",
    LONGEST_ID,
]


@dataclass(kw_only=True)
class Subject:
    """An engine under test, with a database that is open."""

    name: str
    open: Opening
    database: Database
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_collection(self, *, dimension: int = DIMENSION) -> OwnCollection:
        return self.database.create(f"t{next(self.numbers)}", dimension=dimension)


@pytest.fixture(scope="module", params=ENGINES, ids=lambda engine: engine.name)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    engine: UnderTest[Opening] = request.param
    with engine.started(tmp_path_factory) as opening:
        database = opening()
        yield Subject(name=engine.name, open=opening, database=database)
        database.close()


def can_be_stored(metadata: dict[str, Any]) -> bool:
    try:
        encode(Chunk(id="a", text="", metadata=metadata))
    except StoreError:
        return False
    return True


def is_of_texts_that_can_be_stored(filters: Filter) -> bool:
    """No text with a NUL or with half of a surrogate pair."""
    written = repr(filters)
    return r"\x00" not in written and r"\ud83c" not in written


def any_metadata() -> list[dict[str, Any]]:
    """Metadata of every kind, the same in every run."""
    collected: list[dict[str, Any]] = []

    @settings(max_examples=3 * len(VECTORS), database=None)
    @given(filter_cases.metadata.filter(can_be_stored))
    def collect(metadata: dict[str, Any]) -> None:
        collected.append(metadata)

    collect()
    return collected


def chunks_of_any_metadata() -> list[Chunk]:
    """A chunk a vector: c00, c01, ...; of each ten in a row the first is of no document."""
    # The first two claim to be of a document: that of the chunk itself goes before.
    claims: list[dict[str, Any]] = [{"document_id": "d2"}, {"document_id": None}]
    metadata_of_chunks = [*claims, *any_metadata()][: len(VECTORS)]
    chunks: list[Chunk] = []
    for number, metadata in enumerate(metadata_of_chunks):
        document_id = f"d{number // 10}" if number % 10 else None
        chunk = Chunk(
            id=f"c{number:02}", text=f"text {number}", document_id=document_id, metadata=metadata
        )
        chunks.append(chunk)
    return chunks


CHUNKS = chunks_of_any_metadata()


@pytest.fixture(scope="module")
def filled(subject: Subject) -> OwnCollection:
    """With all of CHUNKS."""
    store = subject.new_collection()
    store.upsert(CHUNKS, VECTORS[: len(CHUNKS)])
    store.mark(complete=True)  # some make their indexes then
    return store


def ids_that_pass(filters: Filter | None) -> set[str]:
    """By ragbench's own reading of filters."""
    if filters is None:
        return {chunk.id for chunk in CHUNKS}
    return {chunk.id for chunk in CHUNKS if matches(filters, searched_fields(chunk))}


def exact_ranking(query: Any, *, k: int, filters: Filter | None) -> list[tuple[str, float]]:
    """Ids and cosines by the definition; of equals the lower id first."""
    unit_vectors = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    cosines = unit_vectors @ (query / np.linalg.norm(query))
    passing = ids_that_pass(filters)
    ranking: list[tuple[str, float]] = []
    for chunk, cosine in zip(CHUNKS, cosines, strict=False):
        if chunk.id in passing:
            ranking.append((chunk.id, float(cosine)))
    ranking.sort(key=lambda pair: (-pair[1], pair[0]))
    return ranking[:k]


def written(chunks: Iterable[Chunk]) -> list[str]:
    """All of some chunks but for the order of keys: 1, 1.0 and True are three things."""
    return [json.dumps(asdict(chunk), sort_keys=True) for chunk in chunks]


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def ranking_of(
    store: OwnCollection, query: Any, *, k: int, filters: Filter | None = None
) -> list[Chunk]:
    """The chunks that a search by a single query finds."""
    (ranking,) = store.search(np.array([query]), k=k, filters=filters)
    return ranking


# --- chunks

KINDS_OF_CHUNKS = [
    Chunk(
        id="all",
        text="e\u0301 \x01 \r\n",
        document_id="d",
        start=0,
        end=9,
        metadata=ALL_OF_JSON,
    ),
    Chunk(id="empty", text=""),
    Chunk(id="long", text="日本 text\n" * 60_000, metadata={"also": "x" * 100_000}),
]


@pytest.fixture(scope="module")
def of_all_kinds(subject: Subject) -> OwnCollection:
    store = subject.new_collection()
    store.upsert(KINDS_OF_CHUNKS, VECTORS[:3])
    return store


def test_any_chunk_is_read_back_unchanged(of_all_kinds: OwnCollection) -> None:
    chunks = of_all_kinds.get(["all", "empty", "long"])

    assert written(chunks.values()) == written(KINDS_OF_CHUNKS)


def test_any_chunk_is_found_unchanged(of_all_kinds: OwnCollection) -> None:
    ranking = ranking_of(of_all_kinds, ANY_QUERY, k=3)

    without_scores = {chunk.id: replace(chunk, score=None) for chunk in ranking}
    in_order = [without_scores[chunk.id] for chunk in KINDS_OF_CHUNKS]
    assert written(in_order) == written(KINDS_OF_CHUNKS)


def test_the_digest_of_each_chunk_is_kept(of_all_kinds: OwnCollection) -> None:
    digests = {chunk.id: encode(chunk).digest for chunk in KINDS_OF_CHUNKS}

    assert of_all_kinds.digests() == digests


def test_an_id_may_be_any_text(subject: Subject) -> None:
    store = subject.new_collection()
    chunks = [Chunk(id=id, text=f"text of {id}") for id in ODD_IDS]

    store.upsert(chunks, VECTORS[: len(chunks)])

    stored_chunks = store.get(ODD_IDS)
    assert stored_chunks == dict(zip(ODD_IDS, chunks, strict=True))
    assert store.digests().keys() == set(ODD_IDS)


def test_a_chunk_of_any_id_is_deleted(subject: Subject) -> None:
    store = subject.new_collection()
    chunks = [Chunk(id=id, text=f"text of {id}") for id in ODD_IDS]
    store.upsert(chunks, VECTORS[: len(chunks)])

    store.delete(ODD_IDS[1:])

    remaining = ranking_of(store, ANY_QUERY, k=99)
    assert ids(remaining) == ["doc-1"]


OLD = Chunk(id="a", text="old", metadata={"year": 1, "gone": 2, "tags": ["x"]})
NEW = Chunk(id="a", text="new", metadata={"year": 3})


@pytest.fixture(scope="module")
def rewritten(subject: Subject) -> OwnCollection:
    """Two chunks, of which "a" was written twice: in the place of OLD is NEW."""
    store = subject.new_collection()
    store.upsert([OLD, Chunk(id="b", text="b")], VECTORS[:2])
    store.upsert([NEW], VECTORS[2:3])
    return store


def test_writing_again_replaces_the_chunk(rewritten: OwnCollection) -> None:
    assert rewritten.count() == 2
    assert rewritten.get(["a"]) == {"a": NEW}


def test_writing_again_replaces_the_vector(rewritten: OwnCollection) -> None:
    (best,) = ranking_of(rewritten, VECTORS[2], k=1)

    assert best.id == "a"
    assert best.score == 1.0


@pytest.mark.parametrize(
    "only_of_the_old_chunk",
    [
        {"year": 1},
        {"gone": 2},
        {"gone": {"gte": 0}},
        {"tags": "x"},
    ],
    ids=str,
)
def test_writing_again_removes_what_filters_knew(
    rewritten: OwnCollection, only_of_the_old_chunk: dict[str, Any]
) -> None:
    filters = parse_filters(only_of_the_old_chunk)

    assert ranking_of(rewritten, ANY_QUERY, k=2, filters=filters) == []


def test_what_is_written_again_is_found_by_its_new_fields(rewritten: OwnCollection) -> None:
    of_the_new_year = Equals(field="year", value=3)

    ranking = ranking_of(rewritten, ANY_QUERY, k=2, filters=of_the_new_year)

    assert ids(ranking) == ["a"]


def test_deleting_removes_and_may_miss(subject: Subject) -> None:
    store = subject.new_collection()
    store.upsert(CHUNKS[:5], VECTORS[:5])

    store.delete(["c01", "c03", "c03", "never"])
    store.delete([])

    assert store.count() == 3
    remaining = ranking_of(store, ANY_QUERY, k=9)
    assert sorted(ids(remaining)) == ["c00", "c02", "c04"]
    assert store.get(["c01", "c02"]).keys() == {"c02"}


def test_many_chunks_are_written_and_listed(subject: Subject) -> None:
    store = subject.new_collection(dimension=2)
    chunks = [Chunk(id=f"{number}", text="") for number in range(2100)]

    store.upsert(chunks, np.ones((2100, 2)))
    store.upsert([], np.zeros((0, 2)))

    assert store.count() == 2100
    assert len(store.digests()) == 2100
    assert len(store.get([chunk.id for chunk in chunks])) == 2100


# --- search


with_and_without_filters = pytest.mark.parametrize(
    "filters", [None, Not(filter=Equals(field="year", value=2023))], ids=str
)


@with_and_without_filters
def test_search_agrees_with_the_definition(filled: OwnCollection, filters: Filter | None) -> None:
    rankings = filled.search(QUERIES, k=10, filters=filters)

    for query, ranking in zip(QUERIES, rankings, strict=True):
        expected = exact_ranking(query, k=10, filters=filters)
        assert ids(ranking) == [id for id, _ in expected]
        scores = [chunk.score for chunk in ranking]
        cosines = [cosine for _, cosine in expected]
        assert scores == pytest.approx(cosines, abs=2e-6)


@with_and_without_filters
def test_a_query_finds_the_same_alone_as_in_a_batch(
    filled: OwnCollection, filters: Filter | None
) -> None:
    batch = filled.search(QUERIES, k=10, filters=filters)

    for query, ranking in zip(QUERIES, batch, strict=True):
        alone = ranking_of(filled, query, k=10, filters=filters)
        assert ids(alone) == ids(ranking)
        scores = [chunk.score for chunk in ranking]
        scores_alone = [chunk.score for chunk in alone]
        assert scores_alone == pytest.approx(scores, abs=2e-6)


def test_no_queries_find_nothing(filled: OwnCollection) -> None:
    assert filled.search(np.zeros((0, DIMENSION)), k=4) == []


@pytest.fixture(scope="module")
def of_known_angles(subject: Subject) -> OwnCollection:
    """Cosines with the first axis: a 1, b 0.6, c 0, d -1; e has no direction."""
    store = subject.new_collection(dimension=2)
    vectors = {
        "a": [5, 0],
        "b": [0.0006, 0.0008],
        "c": [0, 1e30],
        "d": [-3, 0],
        "e": [0, 0],
    }
    chunks = [Chunk(id=id, text="") for id in vectors]
    store.upsert(chunks, np.array([*vectors.values()]))
    return store


def test_scores_are_cosines_whatever_the_lengths(of_known_angles: OwnCollection) -> None:
    ranking = ranking_of(of_known_angles, [1e-20, 0], k=9)

    scores = [(chunk.id, chunk.score) for chunk in ranking]
    assert scores == [
        ("a", 1.0),
        ("b", 0.6),
        ("c", 0.0),
        ("e", 0.0),
        ("d", -1.0),
    ]


def test_for_a_query_without_direction_all_scores_are_0(of_known_angles: OwnCollection) -> None:
    ranking = ranking_of(of_known_angles, [0.0, 0.0], k=9)

    assert [chunk.score for chunk in ranking] == [0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("size", [20, 200])
def test_ties_are_cut_and_ordered_by_id(subject: Subject, size: int) -> None:
    store = subject.new_collection(dimension=2)
    all_ids = [f"{number:03}" for number in range(size)]
    random_order = [all_ids[number] for number in np.random.default_rng(1).permutation(size)]
    # All have the score 1, but for three chunks somewhere, which share a lower one.
    lower = sorted(random_order[:3])
    higher = [id for id in all_ids if id not in lower]
    chunks: list[Chunk] = []
    vectors: list[list[float]] = []
    for id in random_order:
        chunks.append(Chunk(id=id, text=""))
        vectors.append([1.0, 0.9] if id in lower else [1.0, 1.0])
    store.upsert(chunks, np.array(vectors))

    expected = [*higher, *lower]
    for k in (1, 7, size - 4, size - 2, size + 100):
        ranking = ranking_of(store, [1.0, 1.0], k=k)
        assert ids(ranking) == expected[:k]


def test_vectors_come_back_at_unit_length(filled: OwnCollection) -> None:
    vectors = filled.vectors(["c03", "never", "c01"])

    assert list(vectors) == ["c03", "c01"]
    written_vectors = {"c03": VECTORS[3], "c01": VECTORS[1]}
    for id, vector in written_vectors.items():
        unit_vector = vector / np.linalg.norm(vector)
        assert vectors[id].dtype == np.float32
        np.testing.assert_allclose(vectors[id], unit_vector, atol=1e-6)


# --- filters


@settings(max_examples=60)
@given(filters=filter_cases.filters.filter(is_of_texts_that_can_be_stored))
@example(Equals(field="document_id", value="d1"))
@example(In(field="document_id", values=("d2", "d3")))
@example(Prefix(field="document_id", prefix="d"))
@example(Exists(field="document_id"))
@example(Not(filter=Equals(field="document_id", value="d1")))
def test_filters_agree_with_the_reference(filled: OwnCollection, filters: Filter) -> None:
    ranking = ranking_of(filled, QUERIES[0], k=len(CHUNKS), filters=filters)

    assert sorted(ids(ranking)) == sorted(ids_that_pass(filters))


# --- collections


IDENTITY: dict[str, Any] = {
    "embedder": {"name": "é", "dimension": DIMENSION},
    "corpus": "f00",
    "n": None,
}


def test_a_collection_keeps_what_it_was_made_with(subject: Subject) -> None:
    store = subject.database.create("Made: né/1.0", dimension=DIMENSION, identity=IDENTITY)

    info = store.info()

    assert info.name == "Made: né/1.0"
    assert info.dimension == DIMENSION
    assert info.identity == IDENTITY
    assert not info.complete


def test_a_mark_changes_what_it_names_and_nothing_else(subject: Subject) -> None:
    store = subject.database.create("marked", dimension=DIMENSION, identity=IDENTITY)
    info = store.info()

    store.mark(complete=True)
    assert store.info() == replace(info, complete=True)

    store.mark(complete=False, identity={"corpus": "bar"})
    assert store.info() == replace(info, identity={"corpus": "bar"})


def test_a_collection_outlives_its_connection(subject: Subject) -> None:
    store = subject.database.create("Kept: né/1.0", dimension=DIMENSION, identity=IDENTITY)
    store.upsert(CHUNKS[:3], VECTORS[:3])
    store.mark(complete=True, identity={"corpus": "bar"})
    info = store.info()
    store.close()

    c00, c01, c02 = CHUNKS[:3]
    with subject.open().open("Kept: né/1.0") as reopened:
        assert reopened.info() == info
        assert reopened.get(["c00", "c01", "c02"]) == {"c00": c00, "c01": c01, "c02": c02}
        nearest = ranking_of(reopened, VECTORS[2], k=1)
        assert ids(nearest) == ["c02"]


ODD_NAMES = ["a", "x" * 200, "1 - ü?", "drop table", 'q"; --', "..", "Abc_1"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_collection_may_have_any_name(subject: Subject, name: str) -> None:
    database = subject.database
    assert name not in database.collections()

    store = database.create(name, dimension=DIMENSION)
    store.upsert(CHUNKS[:1], VECTORS[:1])
    assert name in database.collections()
    assert database.open(name).count() == 1
    with pytest.raises(StoreError, match=r"there is a collection .* already"):
        database.create(name, dimension=DIMENSION)
    store.close()

    database.drop(name)
    database.drop(name)  # may miss
    assert name not in database.collections()


def test_two_collections_do_not_mix(subject: Subject) -> None:
    store = subject.new_collection()
    other_store = subject.new_collection()

    store.upsert(CHUNKS[:2], VECTORS[:2])
    other_store.upsert(CHUNKS[1:4], VECTORS[1:4])
    other_store.delete(["c01"])

    assert sorted(store.digests()) == ["c00", "c01"]
    assert sorted(other_store.digests()) == ["c02", "c03"]


# --- errors


def test_a_missing_collection_is_named(subject: Subject) -> None:
    with pytest.raises(StoreError, match=r"there is no collection 'no such'; "):
        subject.database.open("no such")


@pytest.fixture(scope="module")
def empty(subject: Subject) -> OwnCollection:
    """For calls that are refused: it stays empty."""
    return subject.new_collection()


def two_vectors_with(number: float) -> Any:
    """The second one is of this number alone."""
    vectors = VECTORS[:2].copy()
    vectors[1] = number
    return vectors


not_finite = pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])


def test_vectors_of_another_dimension_are_not_written(empty: OwnCollection) -> None:
    of_three_dimensions = VECTORS[1:2, :3]

    message = f"the vector has 3 dimensions, the collection {DIMENSION}"
    with pytest.raises(StoreError, match=message):
        empty.upsert(CHUNKS[1:2], of_three_dimensions)

    assert empty.count() == 0


def test_queries_of_another_dimension_are_refused(empty: OwnCollection) -> None:
    of_three_dimensions = VECTORS[:1, :3]

    message = f"the query vector has 3 dimensions, the collection {DIMENSION}"
    with pytest.raises(StoreError, match=message):
        empty.search(of_three_dimensions, k=1)


def test_a_vector_too_few_is_refused(empty: OwnCollection) -> None:
    with pytest.raises(StoreError, match="2 chunks came with 1 vector"):
        empty.upsert(CHUNKS[:2], VECTORS[:1])

    assert empty.count() == 0


@not_finite
def test_vectors_without_a_direction_are_not_written(empty: OwnCollection, number: float) -> None:
    with pytest.raises(StoreError, match="vector 1 holds NaN or infinity"):
        empty.upsert(CHUNKS[:2], two_vectors_with(number))

    assert empty.count() == 0


@not_finite
def test_queries_without_a_direction_are_refused(empty: OwnCollection, number: float) -> None:
    with pytest.raises(StoreError, match="query vector 1 holds NaN or infinity"):
        empty.search(two_vectors_with(number), k=1)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_a_number_of_results_that_cannot_be_is_refused(empty: OwnCollection, k: Any) -> None:
    with pytest.raises(ConfigError, match="k, the number of results, is a whole"):
        empty.search(QUERIES[:1], k=k)


@pytest.mark.parametrize("id", [3, None, ""])
def test_what_is_no_id_is_not_looked_up(empty: OwnCollection, id: Any) -> None:
    with pytest.raises(StoreError, match="chunk's id"):
        empty.get(["c00", id])


@pytest.mark.parametrize("id", [3, None, ""])
def test_what_is_no_id_is_not_deleted(empty: OwnCollection, id: Any) -> None:
    with pytest.raises(StoreError, match="chunk's id"):
        empty.delete([id])


def test_one_id_is_no_list_of_ids(empty: OwnCollection) -> None:
    with pytest.raises(StoreError, match="expected a list of ids"):
        empty.get("c00")


def nested(levels: int) -> dict[str, Any]:
    innermost: dict[str, Any] = {}
    for _ in range(levels):
        innermost = {"x": innermost}
    return innermost


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"id": 3}, "a chunk's id is a text, found int 3", id="number as id"),
        pytest.param({"id": ""}, "a chunk's id is empty", id="empty id"),
        pytest.param(
            {"id": "ü" * 1025},
            "chunk's id .*longer than 2048 bytes",
            id="id of 2050 bytes",
        ),
        pytest.param({"id": "a\x00"}, "chunk's id .*NUL character", id="NUL in an id"),
        pytest.param(
            {"id": "a\ud800"},
            "chunk's id .*half of a surrogate pair",
            id="half in an id",
        ),
        pytest.param({"text": "a\x00"}, "chunk 'a': .*NUL character", id="NUL in a text"),
        pytest.param({"text": None}, "chunk 'a': its text is none", id="no text"),
        pytest.param(
            {"metadata": {"x": ["\ud800"]}},
            "chunk 'a' holds a value .* JSON: .*surrogates",
            id="half in metadata",
        ),
        pytest.param({"metadata": {"x": 2**64}}, "64-bit", id="number beyond 64 bits"),
        pytest.param(
            {"metadata": {"at": date(2023, 5, 1)}},
            "chunk 'a' holds a value .* JSON: .*date",
            id="date",
        ),
        pytest.param(
            {"metadata": {"x": [np.nan]}},
            "chunk 'a' holds a value .* JSON: .*JSON compliant",
            id="NaN",
        ),
        pytest.param(
            {"metadata": {"x": {1: 2}}},
            "chunk 'a' holds a value .* JSON: .*str",
            id="number as key",
        ),
        pytest.param({"metadata": nested(2000)}, "Recursion limit", id="2000 levels"),
    ],
)
def test_a_chunk_that_cannot_be_stored_is_named_and_nothing_is_written(
    empty: OwnCollection, wrong: dict[str, Any], message: str
) -> None:
    wrong_chunk = replace(Chunk(id="a", text=""), **wrong)

    with pytest.raises(StoreError, match=message):
        empty.upsert([CHUNKS[0], wrong_chunk], VECTORS[:2])

    assert empty.count() == 0


@pytest.mark.parametrize("dimension", [0, -1, 2.5, True])
def test_a_length_that_vectors_cannot_have_is_refused(subject: Subject, dimension: Any) -> None:
    with pytest.raises(StoreError, match="vectors have a length of at least 1"):
        subject.database.create("wrong", dimension=dimension)

    assert "wrong" not in subject.database.collections()


@pytest.mark.parametrize(
    "name",
    ["", " ", "a\x00", "x" * 201, 3],
    ids=["empty", "blank", "NUL", "long", "number"],
)
def test_a_name_that_a_collection_cannot_have_is_refused(subject: Subject, name: Any) -> None:
    with pytest.raises(StoreError, match="name"):
        subject.database.create(name, dimension=2)

    assert name not in subject.database.collections()


def test_an_identity_that_is_no_json_is_refused(subject: Subject) -> None:
    identity: Any = {"x": {1}}

    with pytest.raises(StoreError, match="the identity of a collection is JSON"):
        subject.database.create("wrong", dimension=2, identity=identity)

    assert "wrong" not in subject.database.collections()


def test_closing_may_be_repeated(subject: Subject) -> None:
    store = subject.new_collection()

    store.close()
    store.close()


def test_a_closed_collection_is_not_used_further(subject: Subject) -> None:
    if subject.name == "memory":
        pytest.skip("memory can be used further: there is nothing to lose")

    with subject.new_collection() as store:
        store.upsert(CHUNKS[:1], VECTORS[:1])

    with pytest.raises(StoreError, match="is closed"):
        store.count()
