"""JSON files that hold one array."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragbench import read_cases, read_documents
from ragbench.io.source import Problems


@pytest.mark.parametrize(
    "value",
    [
        [{"query": "a"}, {"query": "b"}],
        {"data": [{"query": "a"}, {"query": "b"}]},
        {"version": 1, "cases": [{"query": "a"}, {"query": "b"}], "data": []},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["cases.json", "cases"])
def test_arrays(tmp_path: Path, value: object, indent: int | None, name: str) -> None:
    (tmp_path / name).write_text(json.dumps(value, indent=indent), encoding="utf-8")
    assert [case.query for case in read_cases(tmp_path / name)] == ["a", "b"]


def test_lines_in_a_file_called_json(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('{"query": "a"}\n{"query": "b"}\n', encoding="utf-8")
    assert [case.query for case in read_cases(tmp_path / "cases.json")] == ["a", "b"]


def test_one_record_alone(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text('{"query": "a", "answers": ["b"]}', encoding="utf-8")
    assert [case.reference for case in read_cases(tmp_path / "case.json")] == ["b"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[{"query": "a"}', "not valid JSON at column 16"),
        ('{\n"rows": []\n}', "expected a JSON array, or an object with one under 'cases', 'data'"),
        ("[]", "holds no cases"),
        ("null", "holds no cases"),
        ("[1]", ":1: expected a JSON object, found the number 1"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_wrong_files(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "cases.json").write_text(content, encoding="utf-8")
    noted = Problems()
    assert list(read_cases(tmp_path / "cases.json", problems=noted)) == []
    (problem,) = noted
    assert expected in str(problem)


def test_the_place_in_the_array_is_the_line(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('[{"query": "a"},\n{"query": NaN}]', encoding="utf-8")
    noted = Problems()
    assert len(list(read_cases(tmp_path / "cases.json", problems=noted))) == 1
    assert [problem.line for problem in noted] == [2]


def test_documents(tmp_path: Path) -> None:
    value = {"documents": [{"document_id": "a", "text": "one"}]}
    (tmp_path / "corpus.json").write_text(json.dumps(value), encoding="utf-8")
    assert [document.id for document in read_documents(tmp_path / "corpus.json")] == ["a"]
