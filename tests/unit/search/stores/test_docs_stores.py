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

DOCS = ROOT / "docs"
PAGE, OWN = ((DOCS / f"{name}.md").read_text("utf-8") for name in ("stores", "collections"))


def assert_prints(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "docs", "exec"), {})
    said = re.findall(r"print\(.*\)  # (.*)$", code, re.M)
    assert capsys.readouterr().out.splitlines() == said


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert_prints(fenced(PAGE, "python")[0], capsys)


@pytest.mark.extra("qdrant")
def test_a_collection_of_one_s_own_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.txt").write_text("Where is the key?\n", "utf-8")
    fill, read = fenced(OWN, "python")
    [pipeline] = fenced(OWN, "yaml")
    (tmp_path / "rag.yaml").write_text(pipeline, "utf-8")
    exec(compile(fill, "docs", "exec"), {})
    asked, dumped, judged = "".join(fenced(OWN, "console")).splitlines()
    assert main(shlex.split(asked)[1:]) == 0
    shown = capsys.readouterr()
    assert "Rent is due" in shown.out.splitlines()[2]
    assert "(guessed: text; correct it with --field text=FIELD)" in shown.err
    assert main(shlex.split(dumped)[1:]) == 0
    assert main(shlex.split(judged)[1:]) == 0
    assert "The key is at the gate." in capsys.readouterr().out
    with load_pipeline("rag.yaml").open() as opened:
        assert opened.rag.retrieve("Are dogs welcome?")[0] == "Dogs are welcome."
    assert_prints(read, capsys)


def test_every_name_of_a_mapping_is_in_the_table() -> None:
    table = OWN.partition("| `--field` |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert named == [field.name for field in fields(FieldMapping)]


def test_every_filter_of_the_table_is_one() -> None:
    filters = re.findall(r"^\| `(\{[^`]*\})` \|", PAGE, re.M)
    assert len(filters) == 12
    for text in filters:
        parse_filters(json.loads(text))


def test_every_address_of_the_table_is_one() -> None:
    rows = [line for line in PAGE.splitlines() if "ragbench[" in line or "| NumPy |" in line]
    addresses = [found for row in rows for found in re.findall(r"`([a-z+]+:[^`]*)`", row)]
    assert len(addresses) == 5
    for address in addresses:
        assert open_database(address).address == address
