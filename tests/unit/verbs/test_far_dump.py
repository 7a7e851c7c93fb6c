"""validate_dump() of a dump that its workers read: the bytes, the journal, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump, validate_dump
from ragbench.core.validation import DumpSummary
from ragbench.errors import DataError
from ragbench.verbs.validate import ValidatedQuery
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
    assert (here.failed, here.malformed) == (1, 2)
    # What is wrong with a query that has no verdict is read in its texts, which are far away.
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


def other_bytes(dump: Path) -> None:
    dump.write_bytes(dump.read_bytes().replace(b"text 1 of", b"TEXT 1 of"))


def grown(dump: Path) -> None:
    with dump.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(record(QUERIES)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_bytes, "it has changed since the command began to read it"),
        (grown, "it has changed since the command began to read it"),
        pytest.param(Path.unlink, "a worker cannot read it: there is no such file",
                     marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_a_dump_that_changes_under_the_command_is_one_error_and_the_next_command_goes_on(
    dump: Path, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    out, log = tmp_path / "v.jsonl", tmp_path / "log"

    def emit(judged: ValidatedQuery) -> None:
        if judged.query_id == "q0" and dump.exists():
            change(dump)

    with pytest.raises(DataError, match=said):
        far(dump, partial(Plain, log), out=out, emit=emit)
    assert not out.exists()
    if change is grown:
        log.unlink()
        assert far(dump, partial(Plain, log), out=out).queries == QUERIES
        assert sorted(asked(log)) == ["raise 40", "what is number 90"]
