"""What every vector store promises, asked of all engines. Each test is a line of the table."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
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
EVERYTHING: dict[str, Any] = {
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
ODD_IDS = ["doc-1", "1", "-1", "苹果 🍎", "a/b?c=d#e", 'o\'brien "x" \\ %s {}', " ", "\n", "$"]
LONG_ID = "é" * 1024


@dataclass(kw_only=True)
class Subject:
    name: str
    open: Opening
    database: Database
    names: Iterator[str] = field(default_factory=lambda: (f"t{n}" for n in itertools.count()))

    def fresh(self, *, dimension: int = DIMENSION) -> OwnCollection:
        return self.database.create(next(self.names), dimension=dimension)


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
    return not any(odd in repr(filters) for odd in (r"\x00", r"\ud83c"))


def _metadata() -> list[dict[str, Any]]:
    """Metadata of every kind, the same in every run."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=3 * len(VECTORS), database=None)
    @given(filter_cases.metadata.filter(can_be_stored))
    def collect(metadata: dict[str, Any]) -> None:
        found.append(metadata)

    collect()
    return found


OF_DOCUMENTS: list[dict[str, Any]] = [{"document_id": "d2"}, {"document_id": None}]
CHUNKS = [
    Chunk(
        id=f"c{number:02}",
        text=f"text {number}",
        document_id=f"d{number // 10}" if number % 10 else None,
        metadata=metadata,
    )
    for number, metadata in enumerate([*OF_DOCUMENTS, *_metadata()])
][: len(VECTORS)]


@pytest.fixture(scope="module")
def filled(subject: Subject) -> OwnCollection:
    store = subject.fresh()
    store.upsert(CHUNKS, VECTORS[: len(CHUNKS)])
    store.mark(complete=True)  # some make their indexes then
    return store


def reference(query: Any, *, k: int, filters: Filter | None = None) -> list[tuple[str, float]]:
    """Ids and scores by the definition."""
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    scores = unit @ (query / np.linalg.norm(query))
    kept = [
        (chunk.id, float(score))
        for chunk, score in zip(CHUNKS, scores, strict=False)
        if filters is None or matches(filters, searched_fields(chunk))
    ]
    return sorted(kept, key=lambda pair: (-pair[1], pair[0]))[:k]


def kinds(chunks: Iterable[Chunk]) -> list[str]:
    """All of some chunks but for the order of keys: 1, 1.0 and True are three things."""
    return [json.dumps(asdict(chunk), sort_keys=True) for chunk in chunks]


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


# --- chunks


def test_any_chunk_comes_back_unchanged(subject: Subject) -> None:
    store = subject.fresh()
    text = "e\u0301 \x01 \r\n"
    chunks = [
        Chunk(id="all", text=text, document_id="d", start=0, end=9, metadata=EVERYTHING),
        Chunk(id="empty", text=""),
        Chunk(id="long", text="日本 text\n" * 60_000, metadata={"also": "x" * 100_000}),
    ]
    store.upsert(chunks, VECTORS[:3])
    assert kinds(store.get(["all", "empty", "long"]).values()) == kinds(chunks)
    assert store.digests() == {one.id: encode(one).digest for one in chunks}
    found = {one.id: replace(one, score=None) for one in store.search(VECTORS[:1], k=3)[0]}
    assert kinds(found[one.id] for one in chunks) == kinds(chunks)


def test_an_id_may_be_any_text(subject: Subject) -> None:
    store = subject.fresh()
    every = [*ODD_IDS, LONG_ID]
    chunks = [Chunk(id=id, text=f"text of {id}") for id in every]
    store.upsert(chunks, VECTORS[: len(chunks)])
    assert store.get(every) == {chunk.id: chunk for chunk in chunks}
    assert store.digests().keys() == set(every)
    store.delete(every[1:])
    assert ids(store.search(VECTORS[:1], k=99)[0]) == ODD_IDS[:1]


def test_writing_again_replaces(subject: Subject) -> None:
    store = subject.fresh()
    old = Chunk(id="a", text="old", metadata={"year": 1, "gone": 2, "tags": ["x"]})
    new = Chunk(id="a", text="new", metadata={"year": 3})
    store.upsert([old, Chunk(id="b", text="b")], VECTORS[:2])
    store.upsert([new], VECTORS[2:3])
    assert store.count() == 2
    assert store.get(["a"]) == {"a": new}
    assert store.search(VECTORS[2:3], k=1)[0][0].score == 1.0
    for gone in ({"year": 1}, {"gone": 2}, {"gone": {"gte": 0}}, {"tags": "x"}):
        assert store.search(VECTORS[:1], k=2, filters=parse_filters(gone)) == [[]], gone
    assert ids(store.search(VECTORS[:1], k=2, filters=Equals(field="year", value=3))[0]) == ["a"]


def test_deleting_removes_and_may_miss(subject: Subject) -> None:
    store = subject.fresh()
    store.upsert(CHUNKS[:5], VECTORS[:5])
    store.delete(["c01", "c03", "c03", "never"])
    store.delete([])
    assert store.count() == 3
    assert sorted(ids(store.search(VECTORS[:1], k=9)[0])) == ["c00", "c02", "c04"]
    assert store.get(["c01", "c02"]).keys() == {"c02"}


def test_many_chunks_are_written_and_listed(subject: Subject) -> None:
    store = subject.fresh(dimension=2)
    chunks = [Chunk(id=f"{number}", text="") for number in range(2100)]
    store.upsert(chunks, np.ones((2100, 2)))
    store.upsert([], np.zeros((0, 2)))
    assert store.count() == len(store.digests()) == 2100
    assert len(store.get([chunk.id for chunk in chunks])) == 2100


# --- search


@pytest.mark.parametrize("filters", [None, Not(filter=Equals(field="year", value=2023))], ids=str)
def test_search_agrees_with_the_definition_one_by_one_and_in_a_batch(
    filled: OwnCollection, filters: Filter | None
) -> None:
    batch = filled.search(QUERIES, k=10, filters=filters)
    for query, found in zip(QUERIES, batch, strict=True):
        expected = reference(query, k=10, filters=filters)
        for each in (found, filled.search(query[None], k=10, filters=filters)[0]):
            assert ids(each) == [id for id, _ in expected]
            scores = [chunk.score for chunk in each]
            assert scores == pytest.approx([score for _, score in expected], abs=2e-6)
    assert filled.search(np.zeros((0, DIMENSION)), k=4) == []


def test_scores_are_cosines(subject: Subject) -> None:
    store = subject.fresh(dimension=2)
    vectors = [[5, 0], [0.0006, 0.0008], [0, 1e30], [-3, 0], [0, 0]]
    store.upsert([Chunk(id=id, text="") for id in "abcde"], np.array(vectors))
    found = store.search(np.array([[1e-20, 0]]), k=9)[0]
    scores = [(chunk.id, chunk.score) for chunk in found]
    assert scores == [("a", 1.0), ("b", 0.6), ("c", 0.0), ("e", 0.0), ("d", -1.0)]
    assert {chunk.score for chunk in store.search(np.zeros((1, 2)), k=9)[0]} == {0.0}


@pytest.mark.parametrize("size", [20, 200])
def test_ties_are_cut_and_ordered_by_id(subject: Subject, size: int) -> None:
    store = subject.fresh(dimension=2)
    chunks = [Chunk(id=f"{number:03}", text="") for number in range(size)]
    order = np.random.default_rng(1).permutation(size)
    vectors = np.tile([[1.0, 1.0]], (size, 1))
    vectors[order[:3]] = [1.0, 0.9]
    store.upsert([chunks[place] for place in order], vectors[order])
    low = sorted(f"{number:03}" for number in order[:3])
    expected = [chunk.id for chunk in chunks if chunk.id not in low] + low
    for k in (1, 7, size - 4, size - 2, size + 100):
        assert ids(store.search(np.array([[1.0, 1.0]]), k=k)[0]) == expected[:k]


def test_vectors_come_back_at_unit_length(filled: OwnCollection) -> None:
    found = filled.vectors(["c03", "never", "c01"])
    assert list(found) == ["c03", "c01"]
    for id, vector in found.items():
        expected = VECTORS[int(id[1:])] / np.linalg.norm(VECTORS[int(id[1:])])
        assert vector.dtype == np.float32
        np.testing.assert_allclose(vector, expected, atol=1e-6)


# --- filters


@settings(max_examples=60)
@given(filters=filter_cases.filters.filter(is_of_texts_that_can_be_stored))
@example(Equals(field="document_id", value="d1"))
@example(In(field="document_id", values=("d2", "d3")))
@example(Prefix(field="document_id", prefix="d"))
@example(Exists(field="document_id"))
@example(Not(filter=Equals(field="document_id", value="d1")))
def test_filters_agree_with_the_reference(filled: OwnCollection, filters: Filter) -> None:
    expected = sorted(chunk.id for chunk in CHUNKS if matches(filters, searched_fields(chunk)))
    found = filled.search(QUERIES[:1], k=len(CHUNKS), filters=filters)[0]
    assert sorted(ids(found)) == expected


# --- collections


def test_a_collection_keeps_identity_and_mark(subject: Subject) -> None:
    identity = {"embedder": {"name": "é", "dimension": DIMENSION}, "corpus": "f00", "n": None}
    store = subject.database.create("Kept: né/1.0", dimension=DIMENSION, identity=identity)
    info = store.info()
    assert (info.name, info.dimension, info.complete) == ("Kept: né/1.0", DIMENSION, False)
    assert info.identity == identity
    store.upsert(CHUNKS[:3], VECTORS[:3])
    store.mark(complete=True)
    assert store.info() == replace(info, complete=True)
    store.mark(complete=False, identity={"corpus": "bar"})
    assert store.info() == replace(info, identity={"corpus": "bar"})
    store.close()
    with subject.open().open("Kept: né/1.0") as again:
        assert again.info() == replace(info, identity={"corpus": "bar"})
        assert again.get(["c00", "c01", "c02"]) == {chunk.id: chunk for chunk in CHUNKS[:3]}
        assert ids(again.search(VECTORS[2:3], k=1)[0]) == ["c02"]


@pytest.mark.parametrize("name", ["a", "x" * 200, "1 - ü?", "drop table", 'q"; --', "..", "Abc_1"])
def test_a_collection_may_have_any_name(subject: Subject, name: str) -> None:
    assert name not in subject.database.collections()
    store = subject.database.create(name, dimension=DIMENSION)
    store.upsert(CHUNKS[:1], VECTORS[:1])
    assert name in subject.database.collections()
    with pytest.raises(StoreError, match=r"there is a collection .* already"):
        subject.database.create(name, dimension=DIMENSION)
    assert subject.database.open(name).count() == 1
    store.close()
    subject.database.drop(name)
    subject.database.drop(name)
    assert name not in subject.database.collections()


def test_two_collections_do_not_mix(subject: Subject) -> None:
    one, two = subject.fresh(), subject.fresh()
    one.upsert(CHUNKS[:2], VECTORS[:2])
    two.upsert(CHUNKS[1:4], VECTORS[1:4])
    two.delete(["c01"])
    assert (sorted(one.digests()), sorted(two.digests())) == (["c00", "c01"], ["c02", "c03"])


# --- errors


def test_a_missing_collection_is_named(subject: Subject) -> None:
    with pytest.raises(StoreError, match=r"there is no collection 'no such'; "):
        subject.database.open("no such")


NESTED: Any = functools.reduce(lambda inner, _: {"x": inner}, range(2000), dict[str, Any]())
LENGTH = f"the {{}} has 3 dimensions, the collection {DIMENSION}"
NOT_FINITE = "{} 1 holds NaN or infinity"
BAD = [VECTORS[:2] * [[1.0], [bad]] for bad in (np.nan, np.inf, -np.inf)]
REFUSED: list[tuple[Callable[[Any], object], str]] = [
    (lambda store: store.upsert(CHUNKS[1:2], VECTORS[1:2, :3]), LENGTH.format("vector")),
    (lambda store: store.search(VECTORS[:1, :3], k=1), LENGTH.format("query vector")),
    (lambda store: store.upsert(CHUNKS[:2], VECTORS[:1]), "2 chunks came with 1 vector"),
    *((lambda store, b=b: store.upsert(CHUNKS[:2], b), NOT_FINITE.format("vector")) for b in BAD),
    *((lambda store, b=b: store.search(b, k=1), NOT_FINITE.format("query vector")) for b in BAD),
    *(
        (lambda store, k=k: store.search(QUERIES[:1], k=k), "k, the number of results, is a whole")
        for k in (0, -1, 1.5, True, None)
    ),
    *((lambda store, id=id: store.get(["c00", id]), "chunk's id") for id in (3, None, "")),
    *((lambda store, id=id: store.delete([id]), "chunk's id") for id in (3, None, "")),
    (lambda store: store.get("c00"), "expected a list of ids"),
    *(
        (
            lambda store, said=said: store.upsert(
                [CHUNKS[0], replace(Chunk(id="a", text=""), **said)], VECTORS[:2]
            ),
            message,
        )
        for said, message in (
            ({"id": 3}, "a chunk's id is a text, found int 3"),
            ({"id": ""}, "a chunk's id is empty"),
            ({"id": "ü" * 1025}, "chunk's id .*longer than 2048 bytes"),
            ({"id": "a\x00"}, "chunk's id .*NUL character"),
            ({"id": "a\ud800"}, "chunk's id .*half of a surrogate pair"),
            ({"text": "a\x00"}, "chunk 'a': .*NUL character"),
            ({"metadata": {"x": ["\ud800"]}}, "chunk 'a' holds a value .* JSON: .*surrogates"),
            ({"metadata": {"x": 2**64}}, "64-bit"),
            ({"text": None}, "chunk 'a': its text is none"),
            ({"metadata": {"at": date(2023, 5, 1)}}, "chunk 'a' holds a value .* JSON: .*date"),
            ({"metadata": {"x": [np.nan]}}, "chunk 'a' holds a value .* JSON: .*JSON compliant"),
            ({"metadata": {"x": {1: 2}}}, "chunk 'a' holds a value .* JSON: .*str"),
            ({"metadata": NESTED}, "Recursion limit"),
        )
    ),
]


def test_what_is_wrong_is_named_and_nothing_is_written(subject: Subject) -> None:
    store = subject.fresh()
    for call, message in REFUSED:
        with pytest.raises((StoreError, ConfigError), match=message):
            call(store)
    assert store.count() == 0


def test_what_no_collection_can_be_is_refused(subject: Subject) -> None:
    least = "vectors have a length of at least 1"
    wrong: list[tuple[dict[str, Any], str]] = [
        *(({"dimension": one}, least) for one in (0, -1, 2.5, True)),
        *(({"name": one}, "name") for one in ("", " ", "a\x00", "x" * 201, 3)),
        ({"identity": {"x": {1}}}, "the identity of a collection is JSON"),
    ]
    create: Any = subject.database.create
    for given_, message in wrong:
        with pytest.raises(StoreError, match=message):
            create(**{"name": "wrong", "dimension": 2, **given_})
    assert "wrong" not in subject.database.collections()


def test_closing_ends_and_may_be_repeated(subject: Subject) -> None:
    with subject.fresh() as store:
        store.upsert(CHUNKS[:1], VECTORS[:1])
    store.close()
    if subject.name != "memory":  # memory can be used further: there is nothing to lose
        with pytest.raises(StoreError, match="is closed"):
            store.count()
