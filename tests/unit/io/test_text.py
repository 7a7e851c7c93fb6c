"""Encodings: UTF-8 and UTF-16 as they come, anything else a problem with its place."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from ragbench import read_cases
from ragbench.io.source import Problems

TEXT = '{"query": "Größe?"}\r\n{"query": "大小？ 😀"}\n'
QUERIES = ["Größe?", "大小？ 😀"]


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF16_LE + TEXT.rstrip().encode("utf-16-le"),
    ],
)
@pytest.mark.parametrize("name", ["cases.jsonl", "cases"])
def test_encodings_that_are_read(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert [case.query for case in read_cases(tmp_path / name)] == QUERIES


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.csv", "cases.json"])
def test_another_encoding_is_a_problem_with_the_byte_offset(tmp_path: Path, name: str) -> None:
    start = {
        "cases.jsonl": '{"query": "ok"}\n{"query": "',
        "cases.csv": "query\nok\n",
        "cases.json": '[{"query": "',
    }
    end = {
        "cases.jsonl": '"}\n{"query": "also ok"}\n',
        "cases.csv": "\nalso ok\n",
        "cases.json": '"}]',
    }
    (tmp_path / name).write_bytes((start[name] + "Größe" + end[name]).encode("latin-1"))
    noted = Problems()
    cases = list(read_cases(tmp_path / name, problems=noted))
    offset = len(start[name]) + 2
    assert [problem.message.partition(":")[0] for problem in noted] == [
        f"byte 0xf6 at byte offset {offset} is not UTF-8"
    ]
    # Formats of lines go on with the next one.
    assert [case.query for case in cases] == ([] if name == "cases.json" else ["ok", "also ok"])


def test_broken_utf16_is_a_problem_with_the_byte_offset(tmp_path: Path) -> None:
    good = codecs.BOM_UTF16_LE + '{"query": "a"}\n'.encode("utf-16-le")
    (tmp_path / "cases.jsonl").write_bytes(good + b"\x00\xdc" + b"\x00\x00")
    noted = Problems()
    list(read_cases(tmp_path / "cases.jsonl", problems=noted))
    assert f"broken UTF-16 at byte offset {len(good)}" in str(noted.items[0])


def test_utf32_is_named(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_bytes(codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"))
    noted = Problems()
    assert list(read_cases(tmp_path / "cases.jsonl", problems=noted)) == []
    assert [problem.message.partition(":")[0] for problem in noted] == ["the file is UTF-32"]


def test_utf16_without_a_mark_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_bytes('{"query": "a"}\n'.encode("utf-16-le"))
    noted = Problems()
    assert list(read_cases(tmp_path / "cases.jsonl", problems=noted)) == []
    assert "NUL bytes" in str(noted.items[0])
