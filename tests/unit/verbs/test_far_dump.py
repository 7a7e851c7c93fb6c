"""validate_dump() of a dump that its workers read: the bytes, the journal, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragbench.core.validation import DumpSummary
from ragbench.errors import DataError, InterruptedRunError
from ragbench.io.dumps.read import open_dump
from ragbench.verbs.validate import ValidatedQuery, validate_dump
from tests.unit.verbs.test_validate_dump import Plain, asked, record, written

QUERIES = 90


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """With a query that the validator fails on, a label, sources, and lines that are no queries."""
    rows = [record(number, f"raise {number}" * (number == 40)) for number in range(QUERIES)]
    for row in rows:
        row["chunks"][0]["metadata"] = {"source": "a.pdf", "more": [row["query_id"]]}
        row["chunks"][1]["text"] = ""
    path = written(tmp_path / "dump.jsonl", rows)
    lines = path.read_text("utf-8").splitlines()
    lines[50:50] = ["", "{", '{"chunks": ["of nobody"]}']
    path.write_text("\n".join(lines), "utf-8")
    return path


def far(path: Path, make: Callable[[], Any], *, piece: int = 700, **options: Any) -> DumpSummary:
    """Judged by two workers that read it in pieces."""
    with open_dump(path.as_uri()) as dump:
        assert dump.split is not None
        dump.split = replace(dump.split, piece=piece)
        return validate_dump(dump, make, engine="processes", workers=2, **options)


def near(path: Path, make: Callable[[], Any], **options: Any) -> DumpSummary:
    """Judged by this process, which reads it."""
    with open_dump(path.as_uri()) as dump:
        return validate_dump(dump, make, engine="local", **options)


def test_bytes_summary_and_order_are_those_of_one_process(dump: Path, tmp_path: Path) -> None:
    seen: list[ValidatedQuery] = []
    here = near(dump, Plain, out=tmp_path / "near.jsonl")
    for piece in (60, 1 << 20):
        out = tmp_path / f"far-{piece}.jsonl"
        assert far(dump, Plain, piece=piece, out=out, emit=seen.append) == here
        assert out.read_bytes() == (tmp_path / "near.jsonl").read_bytes()
    assert [one.query_id for one in seen[:QUERIES]] == [f"q{number}" for number in range(QUERIES)]
    assert here.failed == 1
    assert here.malformed == 2
    # What is wrong with a query that has no verdict is told of its texts, which are far away.
    failed = json.loads((tmp_path / "near.jsonl").read_text("utf-8").splitlines()[40])
    assert any("empty_text" in text for text in failed["warnings"])


def test_what_is_stored_is_not_judged_again(dump: Path, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "v.jsonl"
    near(dump, partial(Plain, log), out=out)
    before = out.read_bytes()
    log.unlink()
    summary = far(dump, partial(Plain, log), out=out)
    assert out.read_bytes() == before
    assert summary.reused == QUERIES - 1
    assert asked(log) == ["raise 40"]  # what failed is tried again


def test_a_stopped_command_continues(dump: Path, tmp_path: Path) -> None:
    out, stop = tmp_path / "v.jsonl", False

    def emit(_: ValidatedQuery) -> None:
        nonlocal stop
        stop = True

    with pytest.raises(InterruptedRunError, match="The same command continues"):
        far(dump, Plain, piece=60, out=out, emit=emit, stopped=lambda: stop)
    assert not out.exists()
    far(dump, Plain, out=out)
    near(dump, Plain, out=tmp_path / "near.jsonl")
    assert out.read_bytes() == (tmp_path / "near.jsonl").read_bytes()


def test_so_many_queries_and_no_more(dump: Path, tmp_path: Path) -> None:
    summary = far(dump, Plain, limit=33, out=tmp_path / "v.jsonl")
    assert (summary.queries, summary.malformed) == (33, 0)
    assert summary == near(dump, Plain, limit=33, out=tmp_path / "near.jsonl")


def test_a_dump_that_changes_under_the_command_is_one_error(dump: Path, tmp_path: Path) -> None:
    data = dump.read_bytes()

    def emit(judged: ValidatedQuery) -> None:
        if judged.query_id == "q0":
            dump.write_bytes(data.replace(b"text 1 of", b"TEXT 1 of"))

    with pytest.raises(DataError, match="it has changed since the command began to read it"):
        far(dump, Plain, piece=1 << 20, out=tmp_path / "v.jsonl", emit=emit)


def test_a_dump_that_is_gone_is_one_error(dump: Path) -> None:
    with pytest.raises(DataError, match="a worker cannot read it: there is no such file"):
        far(dump, Plain, emit=lambda _: dump.unlink(missing_ok=True))


class Deadly(Plain):
    """Takes its worker down."""

    def validate(self, query: str, chunks: Any) -> Any:
        import os

        if query.endswith("number 7"):
            os._exit(7)
        return super().validate(query, chunks)


def test_a_query_that_takes_workers_down_fails_alone(dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.jsonl"
    summary = far(dump, Deadly, out=out)
    assert summary.failed == 2
    [died] = [failure for failure in summary.failures if failure.startswith("q7: ")]
    assert "ProcessDied" in died
    assert len(out.read_bytes().splitlines()) == QUERIES
