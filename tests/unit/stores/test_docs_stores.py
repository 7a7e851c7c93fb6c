"""docs/stores.md: its code runs, its filters parse, its addresses are addresses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragbench.records.filter_form import filters_to_json, parse_filters
from ragbench.stores.registry import open_database

PAGE = (Path(__file__).parents[3] / "docs" / "stores.md").read_text("utf-8")


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(code) == 1
    exec(compile(code[0], "docs/stores.md", "exec"), {})
    said = re.findall(r"print\(.*\)  # (.*)$", code[0], re.M)
    assert capsys.readouterr().out.splitlines() == said


def test_every_filter_of_the_table_is_one() -> None:
    filters = re.findall(r"^\| `(\{.*\})` \|", PAGE, re.M)
    assert len(filters) == 8
    for text in filters:
        parsed = parse_filters(json.loads(text))
        assert parse_filters(filters_to_json(parsed)) == parsed


def test_every_address_of_the_table_is_one() -> None:
    rows = [line for line in PAGE.splitlines() if "ragbench[" in line or "| NumPy |" in line]
    addresses = [found for row in rows for found in re.findall(r"`([a-z+]+:[^`]*)`", row)]
    assert len(addresses) == 9
    for address in addresses:
        assert open_database(address).address == address
