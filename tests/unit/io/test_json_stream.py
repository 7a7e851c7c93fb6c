"""Elements of large JSON arrays, cut out of blocks of any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.io import json_files as json_stream
from ragbench.io.json_files import array_elements, array_key, object_keys, repeated_key
from ragbench.io.source import Problems, Source

KEYS = st.sampled_from(["k", '"', "\\", "]", '{"'])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, -17, 1.5]) | st.text(alphabet='a"\\[]{},: \n€', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


def elements(path: Path, key: str | None = None) -> tuple[list[tuple[int, bytes]], list[str]]:
    problems = Problems()
    found = [(line, raw) for line, raw in array_elements(Source.of(path), key, problems)]
    return found, [str(problem) for problem in problems]


# One file that every example writes anew: a folder an example costs more than the example.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(KEYS, JSON, max_size=2), max_size=3),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 40),
    nested=st.booleans(),
)
def test_elements_are_those_of_the_array(
    tmp_path: Path,
    rows: list[Any],
    indent: int | None,
    size: int,
    nested: bool,
) -> None:
    path = tmp_path / "file.json"
    value = {"other": [[1], {"rows": []}], "rows": rows, "time": 1} if nested else rows
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_BLOCK_BYTES", size)
        found, problems = elements(path, "rows" if nested else None)
    assert problems == []
    assert [json.loads(raw) for _, raw in found] == rows


def test_elements_know_their_line_and_bad_ones_hide_no_others(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('\ufeff[\n{"a": 1},\n5, {"b": oops},\n{"c": 3}\n]', encoding="utf-8")
    found, problems = elements(path)
    assert found == [(2, b'{"a": 1}'), (2, b"5"), (3, b'{"b": oops}'), (4, b'{"c": 3}')]
    assert problems == []


def test_a_file_that_is_cut_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('[{"a": 1},\n{"b": [1', encoding="utf-8")
    found, problems = elements(path)
    assert [raw for _, raw in found] == [b'{"a": 1}']
    assert problems == [f"{path}:2: the JSON is cut off: the array of records never ends"]


def test_the_array_of_an_object_is_found_by_its_key() -> None:
    head = b'{"status": "ok", "data": [1], "inner": {"result": [{}]}, "result": [ {"a": [{}]}'
    assert array_key(head, ("data", "result")) == "result"
    assert array_key(b'{"inner": {"result": [{}]}}', ("result",)) is None
    assert list(object_keys(head)) == ["status", "data", "inner", "result"]
    assert object_keys(b'[{"a": 1}]') == {}


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"a": 1, "b": 2}', None),
        (b'{"a": 1, "a": 2}', (9, "a")),
        (b'{"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]}', None),
        (b'{"b": [{"a": 2, "c": 0, "a": 3}]}', (24, "a")),
        (b'{"a": "x\\": \\"a\\": ", "b": ": "}', None),
        (b'{"\\u0061": 1, "a": 2}', (14, "a")),
        (b'{"a" :1,\n"a" :2}', (9, "a")),
        (b'["a", "a", {"a": "a"}]', None),
    ],
)
def test_a_key_that_stands_twice(raw: bytes, found: tuple[int, str] | None) -> None:
    assert repeated_key(raw, json.loads(raw)) == found


@given(
    st.recursive(
        st.none() | st.text('a":\\\\ {}[]', max_size=6),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('a":\\\\{', max_size=3), inner),
    )
)
def test_what_python_writes_repeats_no_key(value: object) -> None:
    assert repeated_key(json.dumps(value).encode(), value) is None
