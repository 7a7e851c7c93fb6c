"""SQuAD 1.1 and 2.0, and the flat form that copies of it have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_cases, read_documents
from ragbench.io.source import Problems

CONTEXT = "Ada Lovelace wrote the first program in 1843."


def write(folder: Path, *questions: object, context: object = CONTEXT) -> Path:
    paragraph: dict[str, object] = {"context": context, "qas": list(questions)}
    repeated: dict[str, object] = {"context": CONTEXT, "qas": []}
    article = {"title": "Ada", "paragraphs": [paragraph, repeated]}
    path = folder / "dev.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [article]}), encoding="utf-8")
    return path


def question(**values: Any) -> dict[str, Any]:
    answers = [
        {"text": "1843", "answer_start": 40},
        {"text": "in 1843", "answer_start": 37},
        {"text": "1843", "answer_start": 40},
    ]
    return {"id": "q1", "question": "When?", "answers": answers, **values}


def test_an_answerable_question(tmp_path: Path) -> None:
    path = write(tmp_path, question(is_impossible=False))
    (case,) = read_cases(path)
    (document,) = read_documents(path)
    assert case.references == ("1843", "in 1843")
    assert case.reference_contexts == (CONTEXT,)
    assert case.reference_context_ids == (document.id,)
    assert (document.text, document.title) == (CONTEXT, "Ada")
    assert [(CONTEXT[s.start : s.end], s.document_id) for s in case.evidence] == [
        ("1843", document.id),
        ("in 1843", document.id),
    ]
    assert (case.id, case.answerable, case.cluster) == ("q1", True, "Ada")


def test_an_unanswerable_question_has_no_gold(tmp_path: Path) -> None:
    plausible = [{"text": "Ada", "answer_start": 0}]
    path = write(tmp_path, question(is_impossible=True, answers=[], plausible_answers=plausible))
    (case,) = read_cases(path)
    assert (case.answerable, case.reference, case.evidence) == (False, None, ())
    assert (case.reference_context_ids, case.reference_contexts) == ((), ())
    assert case.metadata["plausible_answers"] == plausible
    assert case.metadata["paragraph_id"] == next(iter(read_documents(path))).id


@pytest.mark.parametrize("start", [3, -1, None, "40", 10**9])
def test_an_offset_that_does_not_hold_is_left_out(tmp_path: Path, start: object) -> None:
    answers = [{"text": "1843", "answer_start": start}]
    (case,) = read_cases(write(tmp_path, question(answers=answers)))
    assert [(s.text, s.start, s.end) for s in case.evidence] == [("1843", None, None)]


def test_wrong_questions_are_reported_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path, question(), 7, question(id="q2", answers=[{"start": 1}]), question())
    noted = Problems()
    assert len(list(read_cases(path, problems=noted))) == 1
    assert [(problem.line, problem.field) for problem in noted] == [
        (2, "data[0].paragraphs[0].qas[1]"),
        (3, "data[0].paragraphs[0].qas[2].answers"),
        (4, "id"),
    ]


def test_a_wrong_paragraph_is_reported(tmp_path: Path) -> None:
    noted = Problems()
    assert list(read_cases(write(tmp_path, question(), context=5), problems=noted)) == []
    assert [problem.field for problem in noted] == ["data[0].paragraphs[0]"]


def test_the_flat_form_means_the_same(tmp_path: Path) -> None:
    nested = next(iter(read_cases(write(tmp_path, question()))))
    answers = {"text": ["1843", "in 1843"], "answer_start": [40, 37]}
    flat = {"id": "q1", "title": "Ada", "context": CONTEXT, "question": "When?", "answers": answers}
    (tmp_path / "flat.jsonl").write_text(json.dumps(flat), encoding="utf-8")
    assert list(read_cases(tmp_path / "flat.jsonl")) == [nested]


def test_the_flat_form_of_an_unanswerable_question(tmp_path: Path) -> None:
    answers: dict[str, list[object]] = {"text": [], "answer_start": []}
    flat = {"id": "q1", "context": CONTEXT, "question": "When?", "answers": answers}
    (tmp_path / "flat.jsonl").write_text(json.dumps(flat), encoding="utf-8")
    (case,) = read_cases(tmp_path / "flat.jsonl")
    assert (case.answerable, case.reference, case.reference_context_ids) == (False, None, ())
    assert case.metadata == {"context": CONTEXT}
