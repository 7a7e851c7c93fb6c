"""Files by address: whole and by ranges, and what is said where that cannot be."""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump
from ragbench.errors import ConfigError, DataError, MissingExtraError
from ragbench.io.addresses import open_address, read_range, size_of_address

LINES = b"".join(b'{"query": "q%d", "chunks": ["text %d"]}\n' % (n, n) for n in range(50))


class Served(BaseHTTPRequestHandler):
    """Serves some files; ``/whole/...`` ignores the range that is asked for."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        is_whole = path.startswith("/whole")
        data = self.files.get(path.removeprefix("/whole"))
        if data is None:
            self.send_error(404)
            return
        asked = None if is_whole else self.headers.get("range")
        first, last = 0, len(data) - 1
        self.send_response(206 if asked else 200)
        if asked:
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end), last) if end else last
            self.send_header("content-range", f"bytes {first}-{last}/{len(data)}")
        if not is_whole:
            self.send_header("accept-ranges", "bytes")
        self.send_header("content-length", str(last - first + 1))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[first : last + 1])

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server on this machine."""
    files = {"/d.jsonl": LINES, "/d.jsonl.gz": gzip.compress(LINES), "/empty.jsonl": b""}
    handler = type("Handler", (Served,), {"files": files})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serve = partial(running.serve_forever, poll_interval=0.02)
    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()


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
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://here/d.jsonl", "wb") as file:
        file.write(LINES)
    check_ranges("memory://here/d.jsonl")


def test_a_shared_path_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    path = tmp_path / "with space %41.jsonl"
    path.write_bytes(LINES)
    check_ranges(path.as_uri())


@pytest.mark.extra("remote")
@pytest.mark.parametrize(
    ("path", "why"),
    [("whole/d.jsonl", "its server gives no ranges"), ("d.jsonl.gz", "it is compressed")],
)
def test_what_can_only_be_read_whole_is_read_and_said(server: str, path: str, why: str) -> None:
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
@pytest.mark.parametrize("scheme", ["nonsense", "dropbox"])
def test_a_scheme_that_nothing_opens_is_one_clear_error(scheme: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{scheme}://' cannot be opened.*pip install"):
        open_address(f"{scheme}://a/b.jsonl")


def test_without_the_extra_the_error_holds_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"ragbench\[remote\]"):
        open_address("s3://another/b.jsonl")
