"""The fuzzer sees what it looks for, and repeats what it has seen."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.fuzz_files import READERS, Damage, read
from tests.fuzz.mutations import BYTES, JSON, LINES, Mutation
from tests.fuzz.targets import ANSWERED, READ_CASES, Target, json_lines

CASES = json_lines(ANSWERED)


def damaged(content: bytes) -> Damage:
    target = Target("cases.jsonl", LINES, [READ_CASES])
    return Damage(target, content, "by hand", READ_CASES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ALL = dict.fromkeys([*BYTES, *JSON, *LINES])


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.__name__)
def test_the_same_seed_gives_the_same_damage(mutation: Mutation) -> None:
    valid = json.dumps(ANSWERED).encode() if mutation in JSON else CASES

    assert mutation(valid, Random("a")) == mutation(valid, Random("a"))


def test_records_that_are_read_or_reported_are_no_failure(folder: Path) -> None:
    content = CASES.replace(b'"id": "c2"', b'"id": c2')
    (folder / "cases.jsonl").write_bytes(content)

    assert read(damaged(content)) == ""


def test_a_record_that_is_neither_read_nor_reported_is_a_failure(folder: Path) -> None:
    (folder / "cases.jsonl").write_bytes(CASES)

    reason = read(damaged(CASES + b'{"query": "lost"}\n'))

    assert reason.startswith("5 records, 4 read, 0 reported")


def test_a_traceback_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise ZeroDivisionError(path)

    monkeypatch.setitem(READERS, "documents", broken)
    target = Target("corpus.jsonl", LINES, [("documents", "FILE")])

    reason = read(Damage(target, b"", "by hand", ("documents", "FILE")))

    assert "ZeroDivisionError: corpus.jsonl" in reason
