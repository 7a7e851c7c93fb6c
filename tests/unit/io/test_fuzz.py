"""Arbitrary bytes never raise anything but the errors for bad input."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import open_source, read_cases, read_documents
from ragbench.core.trace import Entry
from ragbench.errors import InputError
from ragbench.io.source import Problems, Source
from ragbench.io.trec import read_grades, read_run

pieces = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\r", b"\t", b"\\", b"null", b"NaN"),
        *(b'{"query": "a"}\n', b'"query"', b'"data"', b'"paragraphs"', b'"context"', b'"qas"'),
        *(b'"answers"', b'"text"', b'"id"', b'"grades"', b'"evidence"', b'"metadata"', b"1", b"-1"),
        *(b'"response"', b'"contexts"', b'"chunks"', b'"score"', b'"vars"', b'"results"'),
        *(b'"retrieval_status"', b'"actual_output"', b'"testCases"', b'"relevant_chunk_ids"'),
        *(b'{"query": "a", "response": "b"}\n', b'"error"', b'"generation"', b"q1 Q0 d1 1 2.5 t\n"),
        *(b"1e400", b"Infinity", b"\\u0000", b"\\ud800", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"),
        *(
            b"\xff",
            b"\x00",
            b"\x1f\x8b",
            b"PAR1",
            b"query,answer\n",
            b"user_input",
            b"true",
            b"[['a' 'b']",
        ),
    ]
)
contents = st.one_of(
    st.binary(max_size=200),
    st.lists(pieces, max_size=40).map(b"".join),
    st.lists(pieces, max_size=20).map(lambda parts: b'[{"query": ' + b"".join(parts) + b"}]"),
    st.lists(pieces, max_size=20).map(lambda parts: gzip.compress(b"".join(parts))[:-1]),
)


def entries(path: Path) -> Iterator[Entry]:
    with open_source(path) as source:
        assert [*source.info.lines()]
        yield from source


@pytest.mark.parametrize(
    "name", ["x.jsonl", "x.json", "x.csv", "x.tsv", "x", "x.txt", "x.jsonl.gz"]
)
@settings(max_examples=60, deadline=None)
@given(content=contents)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    for read in (read_cases, read_documents, entries):
        with contextlib.suppress(InputError):
            assert list(read(path))  # nothing read and no error would be a silent loss


@pytest.mark.parametrize(
    "format_name", ["jsonl", "json", "csv", "tsv", "squad", "ragas", "parquet"]
)
@settings(max_examples=60, deadline=None)
@given(content=contents)
def test_any_bytes_in_a_named_format(
    tmp_path_factory: pytest.TempPathFactory, format_name: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "named"
    path.write_bytes(content)
    for read in (read_cases, read_documents):
        with contextlib.suppress(InputError):
            assert list(read(path, format=format_name))


@settings(max_examples=60, deadline=None)
@given(content=contents)
def test_any_bytes_as_judgements_and_runs(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "trec"
    path.write_bytes(content)
    read_grades(Source.of(path), Problems())
    list(read_run(Source.of(path), Problems()))
