"""Dumps on S3: read whole and by ranges, against a server that speaks its protocol.

It runs where ``moto[server]`` and ``s3fs`` are installed: with what they bring, too much (270 MB)
for every development environment.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump, validate_dump
from ragbench.errors import DataError
from ragbench.io.addresses import open_address, read_range, size_of_address
from tests.unit.verbs.test_validate_dump import Plain, record, written

pytestmark = pytest.mark.extra("remote")
QUERIES = 90


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A bucket named ``dumps`` behind a server on this machine; how its files are put there."""
    servers: Any = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "nothing"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    files: Any = import_module("fsspec").filesystem("s3", skip_instance_cache=True)
    files.makedirs("dumps", exist_ok=True)
    # Another test's server had another port.
    import_module("s3fs").S3FileSystem.clear_instance_cache()
    import_module("ragbench.io.addresses")._files.cache_clear()
    yield files
    server.stop()


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """The same queries in a file."""
    return written(tmp_path / "dump.jsonl", [record(number) for number in range(QUERIES)])


def test_a_file_is_read_whole_and_by_ranges(bucket: Any, dump: Path) -> None:
    data = dump.read_bytes()
    bucket.pipe_file("dumps/a.jsonl", data)
    address = "s3://dumps/a.jsonl"
    assert size_of_address(address) == len(data)
    for start, end in ((0, 1), (7, 400), (len(data) - 3, len(data))):
        assert read_range(address, start, end) == data[start:end]
    with open_address(address) as stream:
        assert stream.read() == data


def test_verdicts_have_the_bytes_of_those_on_the_file(
    bucket: Any, dump: Path, tmp_path: Path
) -> None:
    bucket.pipe_file("dumps/a.jsonl", dump.read_bytes())
    bucket.pipe_file("dumps/a.jsonl.gz", gzip.compress(dump.read_bytes()))
    with open_dump(dump) as here:
        validate_dump(here, Plain, engine="local", out=tmp_path / "here.jsonl")
    for name, is_split in (("a.jsonl", True), ("a.jsonl.gz", False)):
        with open_dump(f"s3://dumps/{name}") as there:
            assert (there.split is not None) is is_split
            out = tmp_path / f"{name}.verdicts"
            validate_dump(there, Plain, engine="processes", workers=2, out=out)
        assert out.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("another", "it has changed since the command began"),
        ("shorter", "it has changed since the command began"),
        ("gone", "a worker cannot read it: there is no such file"),
    ],
)
def test_a_file_that_changes_under_the_command_is_one_error(
    bucket: Any, dump: Path, tmp_path: Path, change: str, told: str
) -> None:
    data = dump.read_bytes()
    bucket.pipe_file("dumps/a.jsonl", data)

    def emit(_: object) -> None:
        if change == "gone":
            if bucket.exists("dumps/a.jsonl"):
                bucket.rm_file("dumps/a.jsonl")
        else:
            new = data.replace(b"text", b"TEXT") if change == "another" else data[:100]
            bucket.pipe_file("dumps/a.jsonl", new)

    out = tmp_path / "v.jsonl"
    with open_dump("s3://dumps/a.jsonl") as there, pytest.raises(DataError, match=told):
        validate_dump(there, Plain, engine="processes", workers=2, out=out, emit=emit)
    assert not out.exists()


def test_a_bucket_that_is_not_there_is_one_problem(bucket: Any) -> None:
    with (
        pytest.raises(DataError, match=r"s3://nowhere/a\.jsonl"),
        open_dump("s3://nowhere/a.jsonl"),
    ):
        pass
