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
from ragbench.io.detect import FormatInfo, formats, readers
from ragbench.io.fields import HIT_FIELDS, document_fields, entry_fields
from ragbench.io.source import Kind, Problems, Row, Source, derived_id
from ragbench.io.trec import read_grades, read_run

DOCS = Path(__file__).parents[3] / "docs" / "formats.md"


FORMATS = list(formats().values())


@pytest.mark.parametrize("info", FORMATS, ids=lambda info: info.name)
def test_every_format_is_described_and_can_be_loaded(info: FormatInfo) -> None:
    assert callable(readers().load(info.name))
    assert info.summary.endswith(".")
    assert info.example
    assert info.reads


@pytest.mark.parametrize("info", FORMATS, ids=lambda info: info.name)
def test_every_format_is_documented(info: FormatInfo) -> None:
    assert f"### `{info.name}`" in DOCS.read_text(encoding="utf-8")


def test_no_suffix_means_two_formats() -> None:
    suffixes: list[str] = []
    for info in FORMATS:
        suffixes += info.suffixes

    assert len(set(suffixes)) == len(suffixes)


def test_every_name_of_a_field_is_documented() -> None:
    page = DOCS.read_text(encoding="utf-8")

    undocumented: list[str] = []
    for names in (*entry_fields().values(), *document_fields().values(), HIT_FIELDS):
        undocumented += [name for name in names if f"`{name}`" not in page]
    assert undocumented == []


# --- formats of other packages


def shouting(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """A format whose only record asks for the source's name in capitals."""
    yield Row(source.name, 1, {"query": source.name.upper()})


class ShoutingPoint:
    """The entry point of a package that brings the format above."""

    name = "shouting"
    value = f"{__name__}:shouting"


def test_a_format_of_another_package_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[type[ShoutingPoint]]:
        if group == "ragbench.formats":
            return [ShoutingPoint]
        return []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)

    (case,) = read_cases("hello", format="shouting")

    assert case.query == "HELLO"


# --- ids


def test_an_id_depends_on_the_words_alone() -> None:
    assert derived_id("q", "Who is  Ada?") == derived_id("q", " who is\nada?")
    assert derived_id("q", "Who is Ada?") != derived_id("q", "Who is Ada")


def test_an_id_stays_the_same_from_version_to_version() -> None:
    """A changed id would orphan the results of stored runs."""
    assert derived_id("q", "Who is Ada?") == "q-51bc88203a"


# --- arbitrary bytes


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


# Of a name alone the form is recognised; of the last ones it is named.
NAMES_AND_FORMS = [
    ("x.jsonl", None),
    ("x.json", None),
    ("x.csv", None),
    ("x.tsv", None),
    ("x", None),
    ("x.txt", None),
    ("x.jsonl.gz", None),
    ("x", "jsonl"),
    ("x", "json"),
    ("x", "csv"),
    ("x", "tsv"),
    ("x", "squad"),
    ("x", "ragas"),
    ("x", "parquet"),
]


@pytest.mark.parametrize(("name", "form"), NAMES_AND_FORMS)
@settings(max_examples=60)
@given(content=contents)
def test_any_bytes_are_records_or_problems(
    tmp_path_factory: pytest.TempPathFactory, name: str, form: str | None, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)

    for read in (read_cases, read_documents):
        with contextlib.suppress(InputError):
            records = list(read(path, format=form))
            # Of a form that is recognised: nothing, and no error, is a silent loss.
            assert records or form is not None
    if form is None:
        with contextlib.suppress(InputError), open_source(path) as source:
            assert list(source.info.lines())
            assert list(source)


@settings(max_examples=60)
@given(content=contents)
def test_any_bytes_as_trec_files_are_no_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "trec"
    path.write_bytes(content)

    read_grades(Source.of(path), Problems())
    list(read_run(Source.of(path), Problems()))
