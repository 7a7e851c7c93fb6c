"""Labels of people: every form that they come in, and what they are known by."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError
from ragbench.io.people import ANY, LabelBook, key_of, read_people, value_of
from tests.unit.io.traces import lines, written

Q, A, C = "Can bees fly?", "Yes, they can.", ["Bees fly.", "Bees sting."]
LABELS = {"question": Q, "answer": A, "contexts": C, "metric": "support", "value": 1, "by": "ann"}
STUDIO = {
    "data": {"question": Q, "answer": A, "contexts": C},
    "annotations": [
        {
            "completed_by": {"email": "ann"},
            "result": [
                {"from_name": "support", "type": "choices", "value": {"choices": ["Correct"]}}
            ],
        },
        {
            "completed_by": 7,
            "was_cancelled": True,
            "result": [{"from_name": "support", "value": {"choices": ["Wrong"]}}],
        },
    ],
}
FIELDS = {"fields": {"question": Q, "response": A, "context": C}}
ANSWERED = {"user_id": "ann", "value": "yes"}
CELLS = [Q, A, json.dumps(C), "support", "right", "ann"]
HEAD = ["question", "answer", "contexts", "metric", "value", "by"]


def table(separator: str) -> str:
    quoted = ('"' + cell.replace('"', '""') + '"' for cell in CELLS)
    return f"{separator.join(HEAD)}\n{separator.join(quoted)}\n"


def saved(tmp_path: Path, name: str, content: Any) -> Path:
    write = lines if name.endswith(".jsonl") else written
    return write(tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.jsonl", [LABELS]),
        ("digest.jsonl", [{**LABELS, "contexts": None, "digest": key_of(Q, A, C)[2]}]),
        ("sheet.csv", table(",")),
        ("sheet.tsv", table("\t")),
        (
            "names.json",
            [
                {
                    "Query": Q,
                    "Response": A,
                    "Retrieved Contexts": C,
                    "criterion": "support",
                    "label": "supported",
                    "annotator": "ann",
                }
            ],
        ),
        ("studio.json", [STUDIO]),
        ("argilla2.json", [{**FIELDS, "responses": {"support": [ANSWERED]}}]),
        (
            "argilla1.json",
            [
                {
                    **FIELDS,
                    "responses": [
                        {
                            "user_id": "ann",
                            "status": "submitted",
                            "values": {"support": {"value": "yes"}},
                        },
                        {
                            "user_id": "bob",
                            "status": "draft",
                            "values": {"support": {"value": "no"}},
                        },
                    ],
                }
            ],
        ),
    ],
)
def test_every_form_gives_the_same_label(tmp_path: Path, name: str, content: Any) -> None:
    (found,) = read_people(saved(tmp_path, name, content))

    assert found.key == key_of(Q, A, C)
    assert (found.metric, found.value, found.by) == ("support", 1, "ann")
    assert not found.is_drawn  # whoever labelled chose the case


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (1, 1),
        (0.25, 0.25),
        ("0.5", 0.5),
        (True, 1),
        (False, 0),
        ("Thumbs up", 1),
        ("👎", 0),
        ("partly", 0.5),
        ("Skip", None),
        (None, None),
        (4, 4),
    ],
)
def test_what_a_label_may_say(tmp_path: Path, said: object, value: float | None) -> None:
    (found,) = read_people(saved(tmp_path, "l.jsonl", [{**LABELS, "value": said}]))

    assert found.value == value


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**LABELS, "value": "perhaps"}], "l.jsonl:1: field 'value': 'perhaps' is not a label"),
        ([{**LABELS, "value": float("inf")}], "l.jsonl:1"),
        ([{"answer": A, "value": 1}], "l.jsonl:1: field 'question' is missing"),
        ([{"question": Q, "value": 1}], "field 'answer' is missing"),
        ([{"data": {}, "annotations": ["x"]}], "l.jsonl:1: is not as its tool exports it"),
        ([{"fields": {}, "responses": {"a": 1}}], "is not as its tool exports it"),
        ([{"question": Q, "answer": A, "note": "x"}], "no field holds the label"),
        ([[1]], "l.jsonl:1"),
        ([], "empty"),
    ],
)
def test_what_is_no_label_is_refused(tmp_path: Path, rows: list[object], message: str) -> None:
    with pytest.raises(DataError) as error:
        read_people(saved(tmp_path, "l.jsonl", rows))

    assert message in str(error.value)


def test_a_label_dies_with_what_was_judged(tmp_path: Path) -> None:
    rows = [
        {**LABELS, "value": 0},
        {**LABELS, "drawn": {"seed": 0, "of": 9}},  # she changed her mind
        {**LABELS, "by": "bob", "value": 0.5},
        {**LABELS, "by": "cyd", "value": None},
    ]
    book = LabelBook.read([saved(tmp_path, "l.jsonl", rows)])
    found = book.of("support", key_of(Q, f" {A}\n", C))
    assert [(one.by, one.value, one.is_drawn) for one in found] == [
        ("ann", 1, True),
        ("bob", 0.5, False),
        ("cyd", None, False),
    ]
    assert value_of(found) == 0.75
    for key in (key_of(Q, "No.", C), key_of("Who?", A, C), key_of(Q, A, C[:1])):
        assert book.of("support", key) == []
    assert len(book.of("support", (*key_of(Q, A, C)[:2], ANY))) == 3
    assert book.of("other", key_of(Q, A, C)) == []
    assert book.by_metric() == {"support": 2}


def test_a_file_without_names_of_metrics_is_given_one(tmp_path: Path) -> None:
    thumbs = [{**LABELS, "metric": "thumbs"}]
    path = saved(tmp_path, "t.jsonl", thumbs)
    assert LabelBook.read([f"answer_correct={path}"]).by_metric() == {"answer_correct": 1}
    mixed = saved(tmp_path, "m.jsonl", [*thumbs, LABELS])
    with pytest.raises(ConfigError, match="holds labels of support, thumbs"):
        LabelBook.read([f"answer_correct={mixed}"])


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_keys_tell_texts_apart_but_for_white_space(one: list[str], other: list[str]) -> None:
    def plain(texts: list[str]) -> list[str]:
        return [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]

    assert (key_of("q", "a", one) == key_of("q", "a", other)) == (plain(one) == plain(other))
