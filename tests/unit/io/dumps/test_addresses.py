"""Dumps by address: whole and by ranges; pieces of any size hold every line once."""

from __future__ import annotations

import gzip
import pickle
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench import open_dump, open_source
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.io.addresses import open_address, read_range, size_of_address
from ragbench.io.dumps.pieces import Piece, PlacedRetrieval, SplitDump
from ragbench.io.dumps.read import OpenDump
from tests.json_server import serving_json
from tests.unit.io.traces import written

LINES = b"".join(b'{"query": "q%d", "chunks": ["text %d"]}\n' % (n, n) for n in range(50))


FILES = {"/d.jsonl": LINES, "/d.jsonl.gz": gzip.compress(LINES), "/empty.jsonl": b""}


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server of files; ``/whole/...`` ignores the range that is asked for."""
    asked: list[str | None] = []
    headers: dict[str, str] = {}

    def answer(method: str, path: str, _: object) -> tuple[int, bytes]:
        path, given = path.partition("?")[0], asked.pop()
        data = FILES.get(path.removeprefix("/whole"))
        headers.clear()
        if data is None or path.startswith("/whole"):
            return (404, b"") if data is None else (200, data)
        headers["accept-ranges"] = "bytes"
        if given is None:
            return 200, data
        first, _, end = given.removeprefix("bytes=").partition("-")
        part = data[int(first) : int(end) + 1 if end else None]
        last = int(first) + len(part) - 1
        headers["content-range"] = f"bytes {first}-{last}/{len(data)}"
        return 206, part

    with serving_json(answer, headers, lambda sent: asked.append(sent.get("range"))) as address:
        yield address


def check_ranges(address: str) -> None:
    assert size_of_address(address) == len(LINES)
    for start, end in ((0, 1), (7, 400), (len(LINES) - 3, len(LINES)), (0, len(LINES))):
        assert read_range(address, start, end) == LINES[start:end]
    with open_address(address) as stream:
        assert stream.read() == LINES
    with open_dump(address) as dump:
        assert dump.split is not None and not dump.whole
        assert [one.query for one in dump] == [f"q{number}" for number in range(50)]


@pytest.mark.extra("remote")
def test_files_are_read_by_ranges_from_a_server_and_through_fsspec(server: str) -> None:
    check_ranges(f"{server}/d.jsonl")
    with pytest.importorskip("fsspec").open("memory://here/d.jsonl", "wb") as file:
        file.write(LINES)
    check_ranges("memory://here/d.jsonl")


def test_a_shared_path_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    check_ranges(written(tmp_path / "with space %41.jsonl", LINES).as_uri())


@pytest.mark.extra("remote")
def test_what_can_only_be_read_whole_is_read_and_said(server: str) -> None:
    reasons = {"whole/d.jsonl": "its server gives no ranges", "d.jsonl.gz": "it is compressed"}
    for path, why in reasons.items():
        with open_dump(f"{server}/{path}") as dump:
            assert (dump.split, dump.whole) == (None, why)
            assert sum(1 for _ in dump) == 50


@pytest.mark.extra("remote")
def test_a_file_or_server_that_is_not_there_is_one_problem(server: str) -> None:
    for place in (f"{server}/missing.jsonl", f"{server}/empty.jsonl", "http://127.0.0.1:9/d.jsonl"):
        with pytest.raises(DataError) as caught, open_dump(place):
            pass
        assert [problem.path for problem in caught.value.problems] == [place]


@pytest.mark.extra("remote")
def test_a_signature_and_a_password_in_an_address_are_not_shown(server: str) -> None:
    address = server.replace("http://", "http://bob:s3cret-word@")
    with open_dump(f"{address}/d.jsonl?X-Signature=0123456789abcdef") as dump:
        assert "s3cret" not in dump.name and "0123456789" not in dump.name
        assert dump.name.endswith("/d.jsonl")


@pytest.mark.extra("remote")
def test_a_scheme_that_nothing_opens_is_one_clear_error() -> None:
    for scheme in ("nonsense", "dropbox"):
        with pytest.raises(ConfigError, match=rf"'{scheme}://' cannot be opened.*pip install"):
            open_address(f"{scheme}://a/b.jsonl")


def test_without_the_extra_the_error_holds_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"ragbench\[remote\]"):
        open_address("s3://another/b.jsonl")


# --- pieces

TEXTS = st.builds(
    lambda text, id: (
        b'{"query_id": "%d", "query": "q", "chunks": [{"text": "%s"}]}' % (id, text.encode())
    ),
    st.text("abc é", max_size=30),
    st.integers(0, 5),
)
LINE = TEXTS | st.sampled_from(
    [
        b"",
        b"  ",
        b"{",
        b"null",
        b"7",
        b'{"query": "only"}',
        b'{"chunks": ["no query"]}',
        b"\xff\xfe",
        b'{"query": "NaN", "chunks": [{"text": "t", "score": NaN}]}',
        b"\x00",
        b'{"query": "same", "chunks": ["x"]}',
        b'{"query": 7, "chunks": ["x"]}',
        b'{"query": "cr", "chunks": ["x"]}\r',
        b'{"query": ["one", "two"], "chunks": [["a"], ["b"]]}',
        b'{"query": "bad label", "answer_present": "perhaps", "chunks": ["x"]}',
    ]
)
FIRST = b'{"query": "first", "answer_present": true, "chunks": [{"id": "a", "text": "t"}]}'


def read(path: Path, piece: int = 0) -> tuple[list[RetrievalDump], list[Problem], int, int]:
    """What is found, with what is wrong: in pieces of so many bytes, or in one."""
    with open_dump(path.as_uri()) as dump:
        if piece:
            split = cut(dump, piece)
            dump.read_elsewhere(split.read(one) for one in split.pieces())
        return [*dump], [*dump.problems], dump.malformed, dump.repeated


@settings(max_examples=100)
@given(st.lists(LINE, max_size=12), st.integers(1, 300), st.booleans(), st.booleans())
@example([b"", b"", b""], 1, False, True)
@example([FIRST, FIRST], len(FIRST) + 1, False, True)
@example([FIRST, FIRST], len(FIRST), False, False)
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
    listed = [*split.at(places)]
    assert listed == [*split.at(places[::-1])][::-1]
    return [(one.query, one.chunks) for one in listed if one is not None]


def test_a_line_that_is_too_long_ends_the_dump_as_it_does_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1KB")
    long = b'{"query": "' + b"x" * 5000 + b'"}'
    path = written(tmp_path / "d.jsonl", b"\n".join([FIRST, long, FIRST]))
    whole, problems, *_ = read(path)
    assert "longer than 1 KB" in str(problems[0])
    for piece in (10, 700, 1 << 20):
        assert read(path, piece)[:2] == (whole, problems)


def test_a_million_bad_lines_are_counted_and_not_held(tmp_path: Path) -> None:
    bad = FIRST + b"\n" + b"{\n" * 20_500 + (FIRST + b"\n") * 3
    path = written(tmp_path / "d.jsonl", bad)
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
        (
            "d.jsonl",
            b'{"chunks": [{"id": "a", "text": "t"}]}',
            {"query": "q"},
            "its queries come from elsewhere",
        ),
    ],
)
def test_why_it_is_whole(
    tmp_path: Path, name: str, data: bytes, options: dict[str, Any], why: str
) -> None:
    path = written(tmp_path / name, data)
    with open_dump(path.as_uri(), **options) as dump:
        assert (dump.split, dump.whole) == (None, why)
        assert [*dump]
    with open_dump(path, **options) as dump:
        assert (dump.split, dump.whole) == (None, "")  # a path is this machine's own


@pytest.mark.extra("remote")
def test_cases_are_read_by_address_as_often_as_needed(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"query": "When?", "response": "At seven."}\n', "utf-8")
    with open_source(path.as_uri()) as source:
        assert [entry.case.query for entry in source] == ["When?"]
        assert [entry.case.query for entry in source] == ["When?"]
