"""Dumps by address: whole and by ranges; pieces of any size hold every line once."""

from __future__ import annotations

import gzip
import pickle
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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


def lines_of_dump(count: int) -> bytes:
    """The queries q0, q1 ... with a chunk each."""
    dump_lines: list[bytes] = []
    for number in range(count):
        dump_lines.append(b'{"query": "q%d", "chunks": ["text %d"]}\n' % (number, number))
    return b"".join(dump_lines)


LINES = lines_of_dump(50)
FILES = {"/d.jsonl": LINES, "/d.jsonl.gz": gzip.compress(LINES), "/empty.jsonl": b""}


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server of files; ``/whole/...`` ignores the range that is asked for."""
    requested_ranges: list[str | None] = []
    headers: dict[str, str] = {}

    def note_range(request_headers: Mapping[str, str]) -> None:
        requested_ranges.append(request_headers.get("range"))

    def answer(method: str, path_and_query: str, _: object) -> tuple[int, bytes]:
        path = path_and_query.partition("?")[0]
        requested_range = requested_ranges.pop()
        headers.clear()
        content = FILES.get(path.removeprefix("/whole"))
        if content is None:
            return 404, b""
        if path.startswith("/whole"):
            return 200, content
        headers["accept-ranges"] = "bytes"
        if requested_range is None:
            return 200, content
        start, last = requested_range.removeprefix("bytes=").split("-")
        end = int(last) + 1 if last else len(content)
        part = content[int(start) : end]
        last_sent = int(start) + len(part) - 1
        headers["content-range"] = f"bytes {start}-{last_sent}/{len(content)}"
        return 206, part

    with serving_json(answer, headers, note_range) as address:
        yield address


# --- files by address


@pytest.fixture(
    name="address",
    params=[
        pytest.param("server", marks=pytest.mark.extra("remote")),
        pytest.param("fsspec", marks=pytest.mark.extra("remote")),
        "shared path",
    ],
)
def address_of_the_dump(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """An address of the dump, in each of the ways in which one may be opened."""
    if request.param == "shared path":
        monkeypatch.setitem(sys.modules, "fsspec", None)  # a path needs no package
        return written(tmp_path / "with space %41.jsonl", LINES).as_uri()
    if request.param == "fsspec":
        fsspec: Any = import_module("fsspec")
        with fsspec.open("memory://here/d.jsonl", "wb") as file:
            file.write(LINES)
        return "memory://here/d.jsonl"
    return f"{request.getfixturevalue('server')}/d.jsonl"


def test_the_size_of_a_file_is_asked_for(address: str) -> None:
    assert size_of_address(address) == len(LINES)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (7, 400), (len(LINES) - 3, len(LINES)), (0, len(LINES))]
)
def test_a_range_of_a_file_is_read(address: str, start: int, end: int) -> None:
    assert read_range(address, start, end) == LINES[start:end]


def test_a_file_is_read_whole(address: str) -> None:
    with open_address(address) as stream:
        assert stream.read() == LINES


def test_a_dump_can_be_split_into_ranges(address: str) -> None:
    with open_dump(address) as dump:
        assert dump.split is not None
        assert not dump.whole


def test_a_dump_is_read_in_order(address: str) -> None:
    with open_dump(address) as dump:
        queries = [retrieval.query for retrieval in dump]

    assert queries == [f"q{number}" for number in range(50)]


@pytest.mark.extra("remote")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("whole/d.jsonl", "its server gives no ranges"),
        ("d.jsonl.gz", "it is compressed"),
    ],
)
def test_a_dump_that_cannot_be_split_says_why_and_is_read_whole(
    server: str, path: str, reason: str
) -> None:
    with open_dump(f"{server}/{path}") as dump:
        assert dump.split is None
        assert dump.whole == reason
        assert len(list(dump)) == 50


@pytest.mark.extra("remote")
@pytest.mark.parametrize("path", ["missing.jsonl", "empty.jsonl"])
def test_a_file_that_is_not_there_is_one_problem(server: str, path: str) -> None:
    address = f"{server}/{path}"

    with pytest.raises(DataError) as caught, open_dump(address):
        pass

    (problem,) = caught.value.problems
    assert problem.path == address


@pytest.mark.extra("remote")
def test_a_server_that_is_not_there_is_one_problem() -> None:
    address = "http://127.0.0.1:9/d.jsonl"

    with pytest.raises(DataError) as caught, open_dump(address):
        pass

    (problem,) = caught.value.problems
    assert problem.path == address


@pytest.mark.extra("remote")
def test_a_signature_and_a_password_in_an_address_are_not_shown(server: str) -> None:
    address = server.replace("http://", "http://bob:s3cret-word@")

    with open_dump(f"{address}/d.jsonl?X-Signature=0123456789abcdef") as dump:
        name = dump.name

    assert "s3cret" not in name
    assert "0123456789" not in name
    assert name.endswith("/d.jsonl")


@pytest.mark.extra("remote")
@pytest.mark.parametrize("scheme", ["nonsense", "dropbox"])
def test_a_scheme_that_nothing_opens_is_one_clear_error(scheme: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{scheme}://' cannot be opened.*pip install"):
        open_address(f"{scheme}://a/b.jsonl")


def test_without_the_extra_the_error_holds_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)

    with pytest.raises(MissingExtraError, match=r"ragbench\[remote\]"):
        open_address("s3://another/b.jsonl")


# --- pieces


def line_of(text: str, query_id: int) -> bytes:
    return b'{"query_id": "%d", "query": "q", "chunks": [{"text": "%s"}]}' % (
        query_id,
        text.encode(),
    )


TEXTS = st.builds(line_of, st.text("abc é", max_size=30), st.integers(0, 5))
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


class Content(NamedTuple):
    """What a dump holds: however it is read, it is the same."""

    retrievals: list[RetrievalDump]
    problems: list[Problem]
    malformed: int
    repeated: int


def read_whole(path: Path) -> Content:
    with open_dump(path.as_uri()) as dump:
        return Content(list(dump), list(dump.problems), dump.malformed, dump.repeated)


def read_in_pieces(path: Path, piece_size: int) -> Content:
    with open_dump(path.as_uri()) as dump:
        split = split_of(dump, piece_size)
        dump.read_elsewhere(split.read(piece) for piece in split.pieces())
        return Content(list(dump), list(dump.problems), dump.malformed, dump.repeated)


def split_of(dump: OpenDump, piece_size: int) -> SplitDump:
    """A dump cut into pieces of so many bytes, as a worker gets it from another process."""
    assert dump.split is not None
    split: SplitDump = pickle.loads(pickle.dumps(replace(dump.split, piece=piece_size)))
    return split


def places_of(split: SplitDump) -> list[Any]:
    """Where the retrievals of a dump begin."""
    places: list[Any] = []
    for piece in split.pieces():
        for item in split.read(piece):
            if isinstance(item, PlacedRetrieval) and item.retrieval is not None:
                places.append(item.place)
    return places


@settings(max_examples=100)
@given(
    rows=st.lists(LINE, max_size=12),
    piece_size=st.integers(1, 300),
    has_byte_order_mark=st.booleans(),
    ends_with_line_feed=st.booleans(),
)
@example([b"", b"", b""], 1, False, True)
@example([FIRST, FIRST], len(FIRST) + 1, False, True)
@example([FIRST, FIRST], len(FIRST), False, False)
def test_pieces_make_the_whole(
    rows: list[bytes], piece_size: int, has_byte_order_mark: bool, ends_with_line_feed: bool
) -> None:
    content = b"\n".join([FIRST, *rows])
    if has_byte_order_mark:
        content = b"\xef\xbb\xbf" + content
    if ends_with_line_feed:
        content += b"\n"
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "d.jsonl", content)
        whole = read_whole(path)

        assert read_in_pieces(path, piece_size) == whole

        # Each retrieval is read again at its place, in any order.
        with open_dump(path.as_uri()) as dump:
            split = split_of(dump, piece_size)
            places = places_of(split)
            retrievals = list(split.at(places))
            backwards = list(split.at(places[::-1]))
        assert backwards[::-1] == retrievals
        texts = [(row.query, row.chunks) for row in retrievals if row is not None]
        assert texts == [(row.query, row.chunks) for row in whole.retrievals]


@pytest.mark.parametrize("piece_size", [10, 700, 1 << 20])
def test_a_line_that_is_too_long_ends_the_dump_as_it_does_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_size: int
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1KB")
    long_line = b'{"query": "' + b"x" * 5000 + b'"}'
    path = written(tmp_path / "d.jsonl", b"\n".join([FIRST, long_line, FIRST]))

    whole = read_whole(path)
    pieces = read_in_pieces(path, piece_size)

    assert "longer than 1 KB" in str(whole.problems[0])
    assert pieces.retrievals == whole.retrievals
    assert pieces.problems == whole.problems


@pytest.fixture(name="broken")
def dump_of_many_bad_lines(tmp_path: Path) -> Path:
    """A good line, 20,500 bad ones and three good ones."""
    content = FIRST + b"\n" + b"{\n" * 20_500 + (FIRST + b"\n") * 3
    return written(tmp_path / "d.jsonl", content)


def test_many_bad_lines_are_counted_and_a_hundred_are_listed(broken: Path) -> None:
    content = read_whole(broken)

    assert len(content.retrievals) == 4
    assert content.malformed == 20_500
    assert len(content.problems) == 100
    assert content.problems[-1].line == 101


def test_many_bad_lines_are_the_same_in_pieces(broken: Path) -> None:
    assert read_in_pieces(broken, 1 << 20) == read_whole(broken)


def test_a_piece_of_many_bad_lines_holds_few_items(broken: Path) -> None:
    with open_dump(broken.as_uri()) as dump:
        split = split_of(dump, 1 << 20)

        items = list(split.read(Piece(0, split.size)))

    # A hundred problems and four retrievals, and a few for what is only counted.
    assert len(items) < 110


UNSPLIT = pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        pytest.param("d.json", b"[" + FIRST + b"]", {}, "it is not JSON Lines", id="an array"),
        pytest.param(
            "d.jsonl", FIRST.decode().encode("utf-16"), {}, "it is not UTF-8", id="UTF-16"
        ),
        pytest.param(
            "d.jsonl",
            b'{"query": "q", "text": "t"}\n' * 2,
            {},
            "several lines make one query",
            id="rows",
        ),
        pytest.param(
            "d.jsonl",
            b'{"chunks": [{"id": "a", "text": "t"}]}',
            {"query": "q"},
            "its queries come from elsewhere",
            id="a query that is named",
        ),
    ],
)


@UNSPLIT
def test_a_dump_at_an_address_says_why_it_cannot_be_split(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path / name, content)

    with open_dump(path.as_uri(), **options) as dump:
        assert dump.split is None
        assert dump.whole == reason
        assert list(dump)


@UNSPLIT
def test_a_path_of_this_machine_is_not_split_and_says_nothing(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path / name, content)

    with open_dump(path, **options) as dump:
        assert dump.split is None
        assert dump.whole == ""


@pytest.mark.extra("remote")
def test_cases_are_read_by_address_as_often_as_needed(tmp_path: Path) -> None:
    path = written(tmp_path / "cases.jsonl", '{"query": "When?", "response": "At seven."}\n')

    with open_source(path.as_uri()) as source:
        first_time = [entry.case.query for entry in source]
        second_time = [entry.case.query for entry in source]

    assert first_time == ["When?"]
    assert second_time == ["When?"]
