"""The list of formats, formats of other packages, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench import read_cases
from ragbench.io.formats import FORMATS, READERS
from ragbench.io.source import Kind, Problems, Row, Source

DOCS = Path(__file__).parents[3] / "docs" / "formats.md"


def test_every_format_is_described_and_can_be_loaded() -> None:
    assert [info.name for info in FORMATS] == list(READERS.builtin)
    assert all(callable(READERS.load(info.name)) for info in FORMATS)
    assert all(info.summary.endswith(".") and info.example and info.reads for info in FORMATS)


def test_no_suffix_means_two_formats() -> None:
    suffixes = [suffix for info in FORMATS for suffix in info.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_every_format_and_recognised_name_is_documented() -> None:
    from ragbench.io.fields import DOCUMENT_FIELDS, ENTRY_FIELDS, HIT_FIELDS

    text = DOCS.read_text(encoding="utf-8")
    assert [info.name for info in FORMATS if f"### `{info.name}`" not in text] == []
    names = {
        name
        for table in (ENTRY_FIELDS, DOCUMENT_FIELDS)
        for each in table.values()
        for name in each
    } | HIT_FIELDS.keys()
    assert sorted(name for name in names if f"`{name}`" not in text) == []


def shouting(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    yield Row(source.name, 1, {"query": source.name.upper()})


def test_a_format_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "shouting"
        value = f"{__name__}:shouting"

    def entry_points(group: str) -> list[type[Point]]:
        return [Point] if group == "ragbench.formats" else []

    monkeypatch.setattr("ragbench.plugins.entry_points", entry_points)
    assert [case.query for case in read_cases("hello", format="shouting")] == ["HELLO"]


def test_reading_imports_nothing_heavy() -> None:
    code = (
        "import sys, ragbench.io.read, ragbench.io.own_form, ragbench.io.trec;"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'datasets', 'ragas'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
