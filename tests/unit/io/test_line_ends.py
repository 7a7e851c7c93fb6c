"""How lines end in a text is no part of a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases, read_documents
from ragbench.core.case import Case
from ragbench.core.trace import Entry
from ragbench.errors import DataError

QUESTION = "When does it open?\nPlease be short."
CONTEXTS = ["Monday:\nat nine.", "Sunday:\nnever."]
FEEDS = {"crlf": "\r\n", "cr": "\r"}


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


def table(feed: str) -> bytes:
    row = {
        "query": QUESTION,
        "reference": "At nine.\nNot on Sunday.",
        "reference_contexts": json.dumps(CONTEXTS).replace("\\n", json.dumps(feed)[1:-1]),
        "notes": "a\nb",
    }
    cells = ['"' + cell.replace('"', '""').replace("\n", feed) + '"' for cell in row.values()]
    return "\n".join([",".join(row), ",".join(cells), ""]).encode()


def records(feed: str) -> bytes:
    value = {
        "query": QUESTION,
        "reference": "At nine.\nNot on Sunday.",
        "reference_contexts": CONTEXTS,
        "notes": "a\nb",
    }
    return json.dumps(value).replace("\\n", json.dumps(feed)[1:-1]).encode()


def cases(folder: Path, name: str, content: bytes) -> list[Case]:
    (folder / name).write_bytes(content)
    return [*read_cases(folder / name)]


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize(
    ("name", "content"), [("cases.csv", table), ("cases.jsonl", records)], ids=["csv", "jsonl"]
)
def test_line_ends_are_no_part_of_a_case(tmp_path: Path, name: str, content, feed: str) -> None:  # type: ignore[no-untyped-def]
    unix = cases(tmp_path, name, content("\n"))

    assert cases(tmp_path, name, content(feed)) == unix
    assert unix[0].query == QUESTION
    assert unix[0].reference_contexts == tuple(CONTEXTS)
    assert unix[0].metadata == {"notes": "a\nb"}


def test_a_whole_table_of_windows_gives_the_same_cases(tmp_path: Path) -> None:
    unix = cases(tmp_path, "cases.csv", table("\n"))

    assert cases(tmp_path, "cases.csv", table("\n").replace(b"\n", b"\r\n")) == unix


def test_line_ends_are_no_part_of_a_recorded_retrieval(tmp_path: Path) -> None:
    record = {
        "query": "q",
        "chunks": [{"text": "a\r\nb", "score": 1}],
        "response": "x\ry",
    }
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(record), encoding="utf-8")

    with open_source(path) as source:
        (entry,) = source

    assert recorded(entry, "retrieve").contexts == ["a\nb"]
    assert recorded(entry, "generate").response == "x\ny"


def test_a_carriage_return_outside_quotation_marks_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a lone carriage return"):
        cases(tmp_path, "cases.csv", b"query,reference\na\rb,c\n")


def test_documents_of_a_windows_checkout_are_the_same(tmp_path: Path) -> None:
    for name, feed in (("a", b"\n"), ("b", b"\r\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hours.md").write_bytes(b"# Hours" + feed + b"At nine." + feed)

    first, second = ([*read_documents(tmp_path / name)] for name in ("a", "b"))

    assert first == second
