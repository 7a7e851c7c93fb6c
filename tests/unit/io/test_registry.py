"""The list of formats, formats of other packages, ids, and arbitrary bytes as any of them."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import open_source, read_cases, read_documents
from ragbench.errors import InputError
from ragbench.io.detect import formats, readers
from ragbench.io.fields import HIT_FIELDS, document_fields, entry_fields
from ragbench.io.source import Kind, Problems, Row, Source, derived_id
from ragbench.io.trec import read_grades, read_run

DOCS = Path(__file__).parents[3] / "docs" / "formats.md"


def test_every_format_is_described_documented_and_can_be_loaded() -> None:
    known = formats().values()
    assert all(callable(readers().load(info.name)) for info in known)
    assert all(info.summary.endswith(".") and info.example and info.reads for info in known)
    suffixes = [suffix for info in known for suffix in info.suffixes]
    assert len(suffixes) == len(set(suffixes))
    text = DOCS.read_text(encoding="utf-8")
    assert [info.name for info in known if f"### `{info.name}`" not in text] == []
    tables = (*entry_fields().values(), *document_fields().values(), HIT_FIELDS)
    assert sorted(name for names in tables for name in names if f"`{name}`" not in text) == []


def shouting(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    yield Row(source.name, 1, {"query": source.name.upper()})


def test_a_format_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "shouting"
        value = f"{__name__}:shouting"

    def entry_points(group: str) -> list[type[Point]]:
        return [Point] if group == "ragbench.formats" else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert [case.query for case in read_cases("hello", format="shouting")] == ["HELLO"]


def test_an_id_depends_on_the_words_alone() -> None:
    assert derived_id("q", "Who is  Ada?") == derived_id("q", " who is\nada?")
    # Pinned: a changed id would orphan the results of stored runs.
    assert derived_id("q", "Who is Ada?") == "q-51bc88203a" != derived_id("q", "Who is Ada")


WORDS = rb"""
{ } [ ] " , : \ null NaN 1 -1 true 1e400 Infinity \u0000 \ud800 PAR1 user_input "query" "data"
"paragraphs" "context" "qas" "answers" "text" "id" "grades" "evidence" "metadata" "response"
"contexts" "chunks" "score" "vars" "results" "retrieval_status" "actual_output" "testCases"
"relevant_chunk_ids" "error" "generation"
"""
pieces = st.sampled_from(
    [
        *WORDS.split(),
        *(b"\n", b"\r", b"\t", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff", b"\x00"),
        *(b'{"query": "a"}\n', b'{"query": "a", "response": "b"}\n', b"q1 Q0 d1 1 2.5 t\n"),
        *(b"\x1f\x8b", b"query,answer\n", b"[['a' 'b']"),
    ]
)
contents = st.one_of(
    st.binary(max_size=200),
    st.lists(pieces, max_size=40).map(b"".join),
    st.lists(pieces, max_size=20).map(lambda parts: b'[{"query": ' + b"".join(parts) + b"}]"),
    st.lists(pieces, max_size=20).map(lambda parts: gzip.compress(b"".join(parts))[:-1]),
)


NAMES = ("x.jsonl", "x.json", "x.csv", "x.tsv", "x", "x.txt", "x.jsonl.gz")
FORMS = ("jsonl", "json", "csv", "tsv", "squad", "ragas", "parquet")


@pytest.mark.parametrize(
    ("name", "form"), [*((name, None) for name in NAMES), *(("x", form) for form in FORMS)]
)
@settings(max_examples=60)
@given(content=contents)
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, name: str, form: str | None, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    for read in (read_cases, read_documents):
        with contextlib.suppress(InputError):
            assert [*read(path, format=form)] or form  # nothing, and no error, is a silent loss
    if form is None:
        with contextlib.suppress(InputError), open_source(path) as source:
            assert [*source.info.lines()]
            assert [*source]


@settings(max_examples=60)
@given(content=contents)
def test_any_bytes_as_trec_files(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "trec"
    path.write_bytes(content)
    read_grades(Source.of(path), Problems())

    list(read_run(Source.of(path), Problems()))
