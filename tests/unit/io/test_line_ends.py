"""How lines end in a text is no part of a case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases, read_documents
from ragbench.core.case import Case
from ragbench.core.trace import Entry
from ragbench.errors import DataError
from tests.unit.io.traces import lines, written

QUESTION = "When does it open?\nPlease be short."
CONTEXTS = ["Monday:\nat nine.", "Sunday:\nnever."]
# Of Windows, and of old Macs.
LINE_ENDS = pytest.mark.parametrize("line_end", ["\r\n", "\r"], ids=["crlf", "cr"])


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


def json_with(line_end: str, value: object) -> str:
    """JSON in whose texts lines end in this way."""
    escaped_line_end = json.dumps(line_end).strip('"')
    return json.dumps(value).replace("\\n", escaped_line_end)


def table(line_end: str) -> bytes:
    """A table in whose cells lines end in this way; its rows end as on Unix."""
    row = {
        "query": QUESTION,
        "reference": "At nine.\nNot on Sunday.",
        "reference_contexts": json_with(line_end, CONTEXTS),
        "notes": "a\nb",
    }
    cells: list[str] = []
    for text in row.values():
        escaped = text.replace('"', '""').replace("\n", line_end)
        cells.append(f'"{escaped}"')
    header = ",".join(row)
    return f"{header}\n{','.join(cells)}\n".encode()


def record(line_end: str) -> bytes:
    value = {
        "query": QUESTION,
        "reference": "At nine.\nNot on Sunday.",
        "reference_contexts": CONTEXTS,
        "notes": "a\nb",
    }
    return json_with(line_end, value).encode()


def cases(folder: Path, name: str, content: bytes) -> list[Case]:
    return list(read_cases(written(folder / name, content)))


@pytest.mark.parametrize(
    ("name", "content"), [("cases.csv", table), ("cases.jsonl", record)], ids=["csv", "jsonl"]
)
@LINE_ENDS
def test_line_ends_are_no_part_of_a_case(
    tmp_path: Path, name: str, content: Callable[[str], bytes], line_end: str
) -> None:
    (case,) = cases(tmp_path, name, content(line_end))

    assert case.query == QUESTION
    assert case.reference_contexts == tuple(CONTEXTS)
    assert case.metadata == {"notes": "a\nb"}
    assert cases(tmp_path, name, content("\n")) == [case]


def test_a_whole_table_of_windows_gives_the_same_cases(tmp_path: Path) -> None:
    unix = cases(tmp_path, "cases.csv", table("\n"))

    assert cases(tmp_path, "cases.csv", table("\n").replace(b"\n", b"\r\n")) == unix


def test_line_ends_are_no_part_of_a_recorded_retrieval(tmp_path: Path) -> None:
    row = {
        "query": "q",
        "chunks": [{"text": "a\r\nb", "score": 1}],
        "response": "x\ry",
    }
    path = lines(tmp_path / "answers.jsonl", [row])

    with open_source(path) as source:
        (entry,) = source

    assert recorded(entry, "retrieve").contexts == ["a\nb"]
    assert recorded(entry, "generate").response == "x\ny"


def test_a_carriage_return_outside_quotation_marks_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a lone carriage return"):
        cases(tmp_path, "cases.csv", b"query,reference\na\rb,c\n")


def test_documents_of_a_windows_checkout_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "unix").mkdir()
    (tmp_path / "windows").mkdir()
    written(tmp_path / "unix" / "hours.md", b"# Hours\nAt nine.\n")
    written(tmp_path / "windows" / "hours.md", b"# Hours\r\nAt nine.\r\n")

    unix = list(read_documents(tmp_path / "unix"))
    windows = list(read_documents(tmp_path / "windows"))

    assert windows == unix
