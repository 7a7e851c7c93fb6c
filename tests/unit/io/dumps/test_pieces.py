"""Pieces of a dump: of any size, they hold every line once, with its number and its problems."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench import open_dump
from ragbench.core.validation import RetrievalDump
from ragbench.errors import Problem
from ragbench.io.dumps.pieces import Piece, PlacedRetrieval, SplitDump
from ragbench.io.dumps.read import OpenDump

TEXTS = st.builds(
    lambda text, id: b'{"query_id": "%d", "query": "q", "chunks": [{"text": "%s"}]}'
    % (id, text.encode()), st.text("abc é", max_size=30), st.integers(0, 5),
)  # fmt: skip
LINE = TEXTS | st.sampled_from([
    b"", b"  ", b"{", b"null", b"7", b'{"query": "only"}', b'{"chunks": ["no query"]}', b"\xff\xfe",
    b'{"query": "NaN", "chunks": [{"text": "t", "score": NaN}]}', b"\x00",
    b'{"query": "same", "chunks": ["x"]}', b'{"query": 7, "chunks": ["x"]}',
    b'{"query": "cr", "chunks": ["x"]}\r', b'{"query": ["one", "two"], "chunks": [["a"], ["b"]]}',
    b'{"query": "bad label", "answer_present": "perhaps", "chunks": ["x"]}',
])  # fmt: skip
FIRST = b'{"query": "first", "answer_present": true, "chunks": [{"id": "a", "text": "t"}]}'


def read(path: Path, piece: int = 0) -> tuple[list[RetrievalDump], list[Problem], int, list[str]]:
    """What is found, with what is wrong: in pieces of so many bytes, or in one."""
    with open_dump(path.as_uri()) as dump:
        if piece:
            split = cut(dump, piece)
            dump.read_elsewhere(split.read(one) for one in split.pieces())
        return [*dump], [*dump.problems], dump.malformed, dump.repeated_ids


@settings(max_examples=100)
@given(
    rows=st.lists(LINE, max_size=12),
    piece=st.integers(1, 300),
    mark=st.booleans(),
    ended=st.booleans(),
)
@example(rows=[b"", b"", b""], piece=1, mark=False, ended=True)
@example(rows=[FIRST, FIRST], piece=len(FIRST) + 1, mark=False, ended=True)
@example(rows=[FIRST, FIRST], piece=len(FIRST), mark=False, ended=False)
def test_pieces_make_the_whole(rows: list[bytes], piece: int, mark: bool, ended: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.jsonl"
        whole = b"\n".join([FIRST, *rows]) + b"\n" * ended
        path.write_bytes(b"\xef\xbb\xbf" * mark + whole)
        expected = read(path)
        assert read(path, piece) == expected
        with open_dump(path.as_uri()) as dump:
            found = again(cut(dump, piece))
        assert found == [(one.query, one.chunks) for one in expected[0]]


def cut(dump: OpenDump, piece: int) -> SplitDump:
    assert dump.split is not None
    # As a worker gets it.
    return pickle.loads(pickle.dumps(replace(dump.split, piece=piece)))  # type: ignore[no-any-return]


def again(split: SplitDump) -> list[tuple[str, Any]]:
    """What is found at the places of all retrievals, the last first, and some far apart."""
    items = [item for one in split.pieces() for item in split.read(one)]
    places = [one.place for one in items if isinstance(one, PlacedRetrieval) and one.retrieval]
    found: Iterator[RetrievalDump | None] = split.at(places)
    backwards = [*split.at(places[::-1])][::-1]
    listed = [*found]
    assert listed == backwards
    return [(one.query, one.chunks) for one in listed if one is not None]


def test_a_line_that_is_too_long_ends_the_dump_as_it_does_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1KB")
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join([FIRST, b'{"query": "' + b"x" * 5000 + b'"}', FIRST]))
    whole, problems, *_ = read(path)
    assert "longer than 1 KB" in str(problems[0])
    for piece in (10, 700, 1 << 20):
        assert read(path, piece)[:2] == (whole, problems)


def test_a_million_bad_lines_are_counted_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(FIRST + b"\n" + b"{\n" * 20_500 + (FIRST + b"\n") * 3)
    found, problems, malformed, _ = expected = read(path)
    assert (len(found), malformed, len(problems), problems[-1].line) == (4, 20_500, 100, 101)
    assert read(path, 1 << 20) == expected
    with open_dump(path.as_uri()) as dump:
        split = cut(dump, 1 << 20)
        assert sum(1 for _ in split.read(Piece(0, split.size))) < 110


@pytest.mark.parametrize(
    ("name", "data", "options", "why"),
    [
        ("d.json", b"[" + FIRST + b"]", {}, "it is not JSON Lines"),
        ("d.jsonl", FIRST.decode().encode("utf-16"), {}, "it is not UTF-8"),
        ("d.jsonl", b'{"query": "q", "text": "t"}\n' * 2, {}, "several lines make one query"),
        ("d.jsonl", b'{"chunks": [{"id": "a", "text": "t"}]}', {"query": "q"},
         "its queries come from elsewhere"),
    ],
)  # fmt: skip
def test_why_it_is_whole(
    tmp_path: Path, name: str, data: bytes, options: dict[str, Any], why: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with open_dump(path.as_uri(), **options) as dump:
        assert (dump.split, dump.whole) == (None, why)
        assert [*dump]
    with open_dump(path, **options) as dump:
        assert (dump.split, dump.whole) == (None, "")  # a path is this machine's own
