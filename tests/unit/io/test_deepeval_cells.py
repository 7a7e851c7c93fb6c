"""Lists of texts in DeepEval's tables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import open_source
from ragbench.core.trace import Entry
from ragbench.errors import DataError
from ragbench.io.deepeval_cells import split_texts
from ragbench.io.values import ValueProblem

TABLE = "| Plan | Price |\n| --- | --- |\n| Plus | 19 |"
TEXTS = [
    ["Ada wrote it.", "In 1843."],
    [TABLE, "Plain chunk."],
    ["Plain chunk.", TABLE],
    ["Before.", TABLE, "After."],
    [TABLE, TABLE],
    ["See:\n\n" + TABLE + "\n\nPrices per month.", "Other."],
    ["a|b\n---|---\n1|2", "Next."],
    ["| a | b\n| --- | ---\n| 1 | 2", "Next."],
    ["| a | b |\n|---|---|\n| | x |", "Next."],
    ["cat log | grep ERROR", "no pipe here"],
    ["run `cat log|grep ERROR`", "next"],
    ["```\ncat log |grep a||true\n```", "next"],
    ["ends with a line\n", "next"],
    ["| Plus | 19 |\n| Pro | 29 |"],
    ["one"],
]


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


@pytest.mark.parametrize("texts", TEXTS, ids=[texts[0][:12] for texts in TEXTS])
def test_texts_come_back_as_deepeval_joined_them(texts: list[str]) -> None:
    split, _ = split_texts("|".join(texts))

    assert split == texts


@pytest.mark.parametrize("cell", ["cat log |grep ERROR", "a||b", "A text. |Another.", "a|b| c"])
def test_a_bar_that_may_be_either_is_refused(cell: str) -> None:
    with pytest.raises(ValueProblem, match="unclear whether"):
        split_texts(cell)


plain = st.text(st.sampled_from("ab.\n"), min_size=1).filter(lambda text: text == text.strip())


@given(st.lists(plain, min_size=1, max_size=4))
def test_texts_without_bars_come_back(texts: list[str]) -> None:
    assert split_texts("|".join(texts)) == (texts, False)


def table(folder: Path, *cells: str) -> Path:
    path = folder / "goldens.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["input", "actual_output", "context", "retrieval_context"])
        writer.writerow(["q", "a", *cells])
    return path


def test_a_gold_text_with_a_table_is_recognised_among_the_retrieved(tmp_path: Path) -> None:
    with open_source(table(tmp_path, TABLE, f"Plain.|{TABLE}")) as source:
        (entry,) = source
        notes = "\n".join(source.info.notes)

    assert entry.case.reference_contexts == (TABLE,)
    assert recorded(entry, "retrieve").contexts == ["Plain.", TABLE]
    assert "is a part of a text" in notes


def test_a_row_that_is_unclear_is_a_problem_with_the_line_to_copy(tmp_path: Path) -> None:
    path = table(tmp_path, "cat log |grep ERROR", "x")

    message = "--format csv --field reference_contexts=context"
    with pytest.raises(DataError, match=message) as raised, open_source(path) as source:
        list(source)

    problem = raised.value.problems[0]
    assert problem.line == 2
    assert problem.field == "context"


def test_the_line_to_copy_reads_an_unclear_cell_as_one_text(tmp_path: Path) -> None:
    path = table(tmp_path, "cat log |grep ERROR", "x")
    fields = {"reference_contexts": "context", "retrieved_contexts": "retrieval_context"}

    with open_source(path, form="csv", fields=fields) as source:
        (entry,) = source

    assert entry.case.reference_contexts == ("cat log |grep ERROR",)
