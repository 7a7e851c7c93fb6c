"""Names of fields: those of other tools, those the user gives, and disagreement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragbench import Case, Document, read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.fields import CASE_FIELDS, DOCUMENT_FIELDS, ENTRY_FIELDS
from ragbench.io.source import Problems


def read(
    folder: Path, *rows: Mapping[str, object], fields: Mapping[str, str] | None = None
) -> list[Case]:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return list(read_cases(path, fields=fields, format="jsonl"))


def test_every_field_of_a_record_has_its_own_name() -> None:
    case_fields = set(Case.__dataclass_fields__)
    assert case_fields <= CASE_FIELDS.keys()
    assert CASE_FIELDS.keys() - case_fields == {"answers", "unanswerable"}
    assert set(Document.__dataclass_fields__) == DOCUMENT_FIELDS.keys()
    for recognised in (CASE_FIELDS, DOCUMENT_FIELDS):
        assert all(target in names for target, names in recognised.items())


def test_no_name_means_two_fields() -> None:
    for recognised in (ENTRY_FIELDS, DOCUMENT_FIELDS):
        names = [name for names in recognised.values() for name in names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name", ["question", "user_input", "input", "Question", "User Input", "QUERY"]
)
def test_names_of_the_query(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, {name: "Who?"})[0].query == "Who?"


@pytest.mark.parametrize(
    "name", ["answer", "ground_truth", "expected_output", "ideal", "expectedAnswer"]
)
def test_names_of_the_reference(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, {"query": "q", name: "Ada"})[0].reference == "Ada"


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"answers": ["a", "b", "a"]}, ("a", "b")),
        ({"ground_truths": ["a", "b"]}, ("a", "b")),
        ({"answer": "a", "answers": ["b", "a"]}, ("a", "b")),
        ({"answer": 42}, ("42",)),
        ({"answers": []}, ()),
        ({"answers": [{"text": "a", "answer_start": 3}, {"text": "b"}]}, ("a", "b")),
        ({"reference": "a", "alternative_references": ["b", "b"]}, ("a", "b", "b")),
        ({"alternative_references": "b"}, ("b",)),
    ],
)
def test_right_answers(
    tmp_path: Path, row: Mapping[str, object], references: tuple[str, ...]
) -> None:
    assert read(tmp_path, {"query": "q", **row})[0].references == references


@pytest.mark.parametrize("value", [True, {"a": 1}, [[["a"]]], [["a"], 1], [{"txt": "a"}]])
def test_wrong_answers(tmp_path: Path, value: object) -> None:
    with pytest.raises(DataError, match="field 'answers': expected"):
        read(tmp_path, {"query": "q", "answers": value})


def test_what_a_system_said_is_not_taken_for_gold(tmp_path: Path) -> None:
    row = {"question": "q", "answer": "said", "contexts": ["c"], "ground_truth": "right"}
    (case,) = read(tmp_path, row)
    assert case.reference == "right"
    assert case.reference_contexts is None
    assert case.metadata == {}  # what a system said is not part of the case


def test_two_fields_that_disagree_are_a_problem_and_a_mapping_settles_it(tmp_path: Path) -> None:
    row = {"query": "q", "answer": "a", "ground_truth": "b"}
    with pytest.raises(DataError, match="'answer' and 'ground_truth' both hold the reference"):
        read(tmp_path, row)
    (case,) = read(tmp_path, row, fields={"reference": "ground_truth"})
    assert (case.reference, case.metadata) == ("b", {"answer": "a"})


def test_two_fields_that_agree_are_fine(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"id": 1, "qid": "1", "query": "q", "question": "q"})
    assert (case.id, case.query, case.metadata) == ("1", "q", {})


def test_given_names_win_and_an_empty_name_switches_a_field_off(tmp_path: Path) -> None:
    row = {"Frage": "Wer?", "question": "other", "evidence": [[1, 2]], "pid": 3}
    fields = {"query": "Frage", "evidence": "", "reference_context_ids": "pid"}
    (case,) = read(tmp_path, row, fields=fields)
    assert (case.query, case.reference_context_ids) == ("Wer?", ("3",))
    assert case.metadata == {"question": "other", "evidence": [[1, 2]]}


def test_a_mapping_that_no_record_has_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="no record has the field that the mapping reference=Antwrt"
    ):
        read(tmp_path, {"query": "q"}, fields={"reference": "Antwrt"})


@pytest.mark.parametrize(
    ("row", "answerable"),
    [
        ({"is_impossible": True}, False),
        ({"unanswerable": 0}, True),
        ({"answerable": "UNANSWERABLE"}, False),
        ({"answerable": 1.0}, True),
        ({}, None),
    ],
)
def test_answerable(tmp_path: Path, row: Mapping[str, object], answerable: bool | None) -> None:
    assert read(tmp_path, {"query": "q", **row})[0].answerable is answerable


def test_answerable_and_its_opposite_may_not_contradict(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contradict"):
        read(tmp_path, {"query": "q", "answerable": True, "is_impossible": True})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"txt": "a"}], "found unknown key 'txt'"),
        ([{"start": 1}], "found no text"),
        ([{"text": "a", "start": 5, "end": 2}], "0 <= start <= end"),
        ([[1]], "expected text, found a list"),
    ],
)
def test_wrong_evidence(tmp_path: Path, value: object, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        read(tmp_path, {"query": "q", "evidence": value})


@pytest.mark.parametrize("grades", [{"a": 1.5}, {"a": True}, {"a": "high"}, ["a"]])
def test_wrong_grades(tmp_path: Path, grades: object) -> None:
    with pytest.raises(DataError, match="field 'grades'"):
        read(tmp_path, {"query": "q", "grades": grades})


def test_metadata_inside_and_outside_are_merged_unless_they_disagree(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"query": "q", "a": 1, "b": 2, "metadata": {"b": 2, "c": 3}})
    assert case.metadata == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(DataError, match="field 'b': stands in the record and in its 'metadata'"):
        read(tmp_path, {"query": "q", "b": 2, "metadata": {"b": 5}})


def test_documents(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"pid": 1, "contents": "text", "title": "", "year": 2023},
        {"_id": "b", "text": "", "title": "Empty"},
        {"text": "no id"},
        {"id": "c"},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    noted = Problems()
    first, second, third = read_documents(path, problems=noted)
    assert first == Document(id="1", text="text", title=None, metadata={"year": 2023})
    assert second == Document(id="b", text="", title="Empty")
    assert third.id.startswith("d-")
    assert [(problem.line, "no field for the text" in problem.message) for problem in noted] == [
        (4, True)
    ]
