"""Recorded answers joined with a dataset: by id, else by the exact question; all of it counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from ragbench import join_answers, open_source
from ragbench.errors import DataError
from ragbench.io.source_info import SourceInfo

Rows = Iterable[Mapping[str, object]]


def lines(path: Path, rows: Rows) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def joined(tmp_path: Path, cases: Rows, answers: Rows) -> tuple[list[str | None], SourceInfo]:
    """What each case was answered, None where nothing is recorded, and what is said of it."""
    dataset = open_source(lines(tmp_path / "cases.jsonl", cases))
    said = open_source(lines(tmp_path / "said.jsonl", answers), is_join=True)
    with join_answers(dataset, said) as source:
        once, again = list(source), list(source)
        assert once == again
        found = [entry.recorded.get("generate") for entry in once]
        said_of = [None if o is None or o.value is None else o.value.response for o in found]
        return said_of, source.info


def notes(info: SourceInfo) -> list[str]:
    return [note.split("said.jsonl: ")[-1] for note in info.notes]


def test_by_id_in_whatever_order(tmp_path: Path) -> None:
    found, info = joined(
        tmp_path,
        [{"id": 1, "query": "a"}, {"id": 2, "query": "b"}],
        [{"id": "2", "response": "B"}, {"id": "1", "query": " A ", "response": "A"}],
    )
    assert found == ["A", "B"]
    assert notes(info) == ["2 by id joined with 2 cases"]
    assert (info.cases, info.recorded) == (2, {"generate": 2})
    assert info.answers is not None
    assert [*info.lines()][1].endswith("as jsonl: id, query, response")


def test_by_the_exact_question_where_there_is_no_id(tmp_path: Path) -> None:
    found, info = joined(
        tmp_path,
        [{"id": 1, "query": "Who?"}, {"id": 2, "query": "who?"}],
        [{"query": "Who?", "response": "A"}],
    )
    assert found == ["A", None]
    assert notes(info) == [
        "1 by question joined with 2 cases",
        "1 case without a recorded answer (such as 2)",
    ]


def test_an_id_counts_only_where_the_questions_agree(tmp_path: Path) -> None:
    # Two files that number their lines: nothing says that they are numbered alike.
    found, info = joined(
        tmp_path,
        [{"id": 1, "query": "a"}, {"id": 2, "query": "b"}],
        [{"id": 1, "query": "b", "response": "B"}, {"id": 2, "query": "c", "response": "C"}],
    )
    assert found == [None, "B"]
    assert (
        "2 answers with the id of a case that asks something else: joined by the question"
        in (notes(info)[-1])
    )


def test_what_is_given_twice_and_what_belongs_to_nobody(tmp_path: Path) -> None:
    found, info = joined(
        tmp_path,
        [{"id": 1, "query": "a"}, {"id": 2, "query": "b"}],
        [
            {"id": 1, "response": "first"},
            {"id": 1, "response": "second"},
            {"query": "b", "response": "B"},
            {"query": "b", "response": "B again"},
            {"query": "nobody asks", "response": "x"},
        ],
    )
    assert found == ["first", "B"]
    assert notes(info) == [
        "1 by id and 1 by question joined with 2 cases",
        "2 answers for a question that has one already: the first counts",
        "1 answer to questions that no case asks: skipped",
    ]


def test_cases_that_ask_the_same(tmp_path: Path) -> None:
    cases: Rows = [{"id": n, "query": "a"} for n in (1, 2, 3)]
    # In order where there are several; one answer to a question serves all who ask it ...
    assert joined(tmp_path, cases, [{"query": "a", "response": "A"}])[0] == ["A", "A", "A"]
    several: Rows = [{"query": "a", "response": str(n)} for n in range(3)]
    assert joined(tmp_path, cases, several)[0] == ["0", "1", "2"]
    # ... unless it has the id of one of them.
    assert joined(tmp_path, cases, [{"id": 2, "query": "a", "response": "A"}])[0] == [
        None, "A", None,
    ]  # fmt: skip


def test_what_the_dataset_has_recorded_itself_is_not_mixed_in(tmp_path: Path) -> None:
    found, info = joined(
        tmp_path,
        [{"id": 1, "query": "a", "response": "old"}, {"id": 2, "query": "b"}],
        [{"id": 2, "response": "B"}],
    )
    assert found == [None, "B"]
    assert notes(info)[-1] == "what the dataset itself has recorded (1 case) is not used"


def test_what_is_wrong_with_the_answers_is_told_before_anything_runs(tmp_path: Path) -> None:
    dataset = open_source(lines(tmp_path / "cases.jsonl", [{"query": "a"}]))
    said = open_source(lines(tmp_path / "said.jsonl", [{"response": "whose?"}]), is_join=True)
    with pytest.raises(DataError, match=r"said\.jsonl:1: no field for the query"):
        join_answers(dataset, said)
    dataset.close()


def test_many_answers(tmp_path: Path) -> None:
    cases = ({"id": n, "query": f"q{n}"} for n in range(3000))
    answers = ({"query": f"q{n}", "response": str(n)} for n in reversed(range(0, 3000, 2)))
    found, info = joined(tmp_path, cases, answers)
    assert found == [None if n % 2 else str(n) for n in range(3000)]
    assert info.recorded == {"generate": 1500}
