"""docs/stores.md and collections.md: code runs, filters parse, addresses are addresses."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from ragbench import load_pipeline
from ragbench.core.filter_form import parse_filters
from ragbench.search.stores.database import open_database
from ragbench.search.stores.mapping import FieldMapping
from ragbench_cli.main import main
from tests.cli.runs import ROOT, fenced

STORES = (ROOT / "docs" / "stores.md").read_text("utf-8")
COLLECTIONS = (ROOT / "docs" / "collections.md").read_text("utf-8")


def run_code(code: str) -> None:
    exec(compile(code, "docs", "exec"), {})


def assert_prints(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The code prints the comments beside its calls of ``print``."""
    run_code(code)
    comments = re.findall(r"print\(.*\)  # (.*)$", code, re.M)
    assert capsys.readouterr().out.splitlines() == comments


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "ragbench"
    assert main(arguments) == 0


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = fenced(STORES, "python")[0]
    assert_prints(code, capsys)


@pytest.mark.extra("qdrant")
def test_a_collection_of_one_s_own_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.txt").write_text("Where is the key?\n", "utf-8")
    fill, read = fenced(COLLECTIONS, "python")
    [pipeline] = fenced(COLLECTIONS, "yaml")
    (tmp_path / "rag.yaml").write_text(pipeline, "utf-8")
    search, dump, judge = "".join(fenced(COLLECTIONS, "console")).splitlines()
    run_code(fill)

    run_command(search)
    printed = capsys.readouterr()
    assert "Rent is due" in printed.out.splitlines()[2]
    assert "(guessed: text; correct it with --field text=FIELD)" in printed.err

    run_command(dump)
    run_command(judge)
    assert "The key is at the gate." in capsys.readouterr().out

    with load_pipeline("rag.yaml").open() as opened:
        assert opened.rag.retrieve("Are dogs welcome?")[0] == "Dogs are welcome."

    assert_prints(read, capsys)


def test_every_name_of_a_mapping_is_in_the_table() -> None:
    _, _, after_heading = COLLECTIONS.partition("| `--field` |")
    table, _, _ = after_heading.partition("\n\n")

    names = re.findall(r"^\| `(\w+)` \|", table, re.M)

    assert names == [field.name for field in fields(FieldMapping)]


def test_every_filter_of_the_table_is_one() -> None:
    filters = re.findall(r"^\| `(\{[^`]*\})` \|", STORES, re.M)
    assert len(filters) == 12
    for text in filters:
        parse_filters(json.loads(text))


def test_every_address_of_the_table_is_one() -> None:
    addresses: list[str] = []
    for line in STORES.splitlines():
        if "ragbench[" in line or "| NumPy |" in line:
            addresses.extend(re.findall(r"`([a-z+]+:[^`]*)`", line))

    assert len(addresses) == 5
    for address in addresses:
        assert open_database(address).address == address
