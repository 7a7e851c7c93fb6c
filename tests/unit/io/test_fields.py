"""Names of fields: those of other tools, those the user gives, and disagreement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragbench import Case, Document, Evidence, read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.fields import case_fields, document_fields, entry_fields
from ragbench.io.source import Problems
from tests.unit.io.traces import lines

Row = Mapping[str, object]


def read(folder: Path, row: Row, fields: Mapping[str, str] | None = None) -> Case:
    path = lines(folder / "cases.jsonl", [{"query": "q", **row}])
    (case,) = read_cases(path, fields=fields, format="jsonl")
    return case


def test_every_field_has_its_own_name_and_no_name_means_two_fields() -> None:
    assert case_fields().keys() - set(Case.__dataclass_fields__) == {"answers", "unanswerable"}
    assert set(Case.__dataclass_fields__) <= case_fields().keys()
    assert set(Document.__dataclass_fields__) == document_fields().keys()
    for recognised in (entry_fields(), document_fields()):
        assert all(target in names for target, names in recognised.items())
        names = [name for names in recognised.values() for name in names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        *(({name: "Ada"}, "references", ("Ada",)) for name in ("answer", "ideal", "ground_truth")),
        ({"expectedAnswer": "Ada"}, "reference", "Ada"),
        ({"answers": ["a", "b", "a"]}, "references", ("a", "b")),
        ({"ground_truths": ["a", "b"]}, "references", ("a", "b")),
        ({"answer": "a", "answers": ["b", "a"]}, "references", ("a", "b")),
        ({"answer": 42}, "references", ("42",)),
        ({"answers": []}, "references", ()),
        ({"answers": [{"text": "a", "answer_start": 3}, {"text": "b"}]}, "references", ("a", "b")),
        ({"reference": "a", "alternative_references": ["b"]}, "references", ("a", "b")),
        ({"alternative_references": "b"}, "references", ("b",)),
        ({"answer": [["July 21", "21 July"]]}, "references", ("July 21", "21 July")),
        ({"answer": [["Ada", "A. M."], ["1843"]]}, "references", ("Ada, 1843", "A. M., 1843")),
        ({"is_impossible": True}, "answerable", False),
        ({"unanswerable": 0}, "answerable", True),
        ({"answerable": "UNANSWERABLE"}, "answerable", False),
        ({"answerable": 1.0}, "answerable", True),
        ({}, "answerable", None),
        ({"relevant_ids": [1, 2.0, "c"]}, "reference_context_ids", ("1", "2", "c")),
        ({"relevant_ids": []}, "reference_context_ids", ()),  # known to be none
        *(({"reference": unknown}, "references", ()) for unknown in (None, " ", math.nan)),
        ({"gold_contexts": ["Ada did."]}, "reference_contexts", ("Ada did.",)),
        ({"evidence": [{"text": "Ada", "document_id": 1, "start": 0, "end": 3}]}, "evidence",
         (Evidence(text="Ada", document_id="1", start=0, end=3),)),
        ({"cluster": 4}, "cluster", "4"),
        ({"grades": {"1": 2, "9": 0}}, "grades", {"1": 2, "9": 0}),
        ({"id": 1, "qid": "1", "question": "q"}, "id", "1"),
        ({"a": 1, "b": 2, "metadata": {"b": 2, "c": 3}}, "metadata", {"a": 1, "b": 2, "c": 3}),
    ],
)  # fmt: skip
def test_what_a_field_means(tmp_path: Path, row: Row, field: str, value: object) -> None:
    assert getattr(read(tmp_path, row), field) == value


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        *(({"answers": wrong}, "field 'answers': expected") for wrong in (
            True, {"a": 1}, [[["a"]]], [["a"], 1], [{"txt": "a"}]
        )),
        *(({"grades": wrong}, "field 'grades'") for wrong in (
            {"a": 1.5}, {"a": True}, {"a": "high"}, ["a"]
        )),
        ({"evidence": [{"txt": "a"}]}, "found unknown key 'txt'"),
        ({"evidence": [{"start": 1}]}, "found no text"),
        ({"evidence": [{"text": "a", "start": 5, "end": 2}]}, "0 <= start <= end"),
        ({"evidence": [[1]]}, "expected text, found a list"),
        ({"answerable": True, "is_impossible": True}, "contradict"),
        ({"answer": "a", "ground_truth": "b"}, "both hold the reference"),
        ({"b": 2, "metadata": {"b": 5}}, "field 'b': stands in the record and in its 'metadata'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_problem(tmp_path: Path, row: Row, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read(tmp_path, row)


def test_given_names_win_and_an_empty_name_switches_a_field_off(tmp_path: Path) -> None:
    row = {"Frage": "Wer?", "evidence": [[1, 2]], "pid": 3, "answer": "a", "ground_truth": "b"}
    fields = {"query": "Frage", "evidence": "", "reference_context_ids": "pid"}
    case = read(tmp_path, row, fields | {"reference": "ground_truth"})
    assert (case.query, case.reference_context_ids, case.reference) == ("Wer?", ("3",), "b")
    assert case.metadata == {"query": "q", "evidence": [[1, 2]], "answer": "a"}
    with pytest.raises(DataError, match="no record has the field that the mapping reference=x"):
        read(tmp_path, {}, {"reference": "x"})
    # What a system said is not taken for gold.
    said = {"answer": "said", "contexts": ["c"], "ground_truth": "right"}
    case = read(tmp_path, said)
    assert (case.reference, case.reference_contexts, case.metadata) == ("right", None, {})


def test_documents(tmp_path: Path) -> None:
    rows = [
        {"pid": 1, "contents": "text", "title": "", "year": 2023},
        {"_id": "b", "text": "", "title": "Empty"},
        {"text": "no id"},
        {"id": "c"},
    ]
    noted = Problems()
    first, second, third = read_documents(lines(tmp_path / "corpus.jsonl", rows), problems=noted)
    assert first == Document(id="1", text="text", title=None, metadata={"year": 2023})
    assert second == Document(id="b", text="", title="Empty")
    assert third.id.startswith("d-")
    (problem,) = noted
    assert (problem.line, "no field for the text" in problem.message) == (4, True)
