"""Labels of people: every form that they come in, and what they are keyed by."""

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

QUESTION = "Can bees fly?"
ANSWER = "Yes, they can."
CONTEXTS = ["Bees fly.", "Bees sting."]
KEY = key_of(QUESTION, ANSWER, CONTEXTS)
LABEL: dict[str, Any] = {
    "question": QUESTION,
    "answer": ANSWER,
    "contexts": CONTEXTS,
    "metric": "support",
    "value": 1,
    "by": "ann",
}
STUDIO = {
    "data": {"question": QUESTION, "answer": ANSWER, "contexts": CONTEXTS},
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
FIELDS = {"fields": {"question": QUESTION, "response": ANSWER, "context": CONTEXTS}}
ANSWERED = {"user_id": "ann", "value": "yes"}


def table(separator: str) -> str:
    names = ["question", "answer", "contexts", "metric", "value", "by"]
    cells = [QUESTION, ANSWER, json.dumps(CONTEXTS), "support", "right", "ann"]
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    return f"{separator.join(names)}\n{separator.join(quoted)}\n"


def saved(folder: Path, name: str, content: Any) -> Path:
    """Rows as JSON lines, a text as it is, all else as JSON."""
    if name.endswith(".jsonl"):
        return lines(folder / name, content)
    return written(folder / name, content)


# --- every form


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("own.jsonl", [LABEL], id="our own"),
        pytest.param(
            "digest.jsonl", [{**LABEL, "contexts": None, "digest": KEY[2]}], id="our own by digest"
        ),
        pytest.param("sheet.csv", table(","), id="CSV"),
        pytest.param("sheet.tsv", table("\t"), id="TSV"),
        pytest.param(
            "names.json",
            [
                {
                    "Query": QUESTION,
                    "Response": ANSWER,
                    "Retrieved Contexts": CONTEXTS,
                    "criterion": "support",
                    "label": "supported",
                    "annotator": "ann",
                }
            ],
            id="other names",
        ),
        pytest.param("studio.json", [STUDIO], id="Label Studio"),
        pytest.param(
            "argilla2.json", [{**FIELDS, "responses": {"support": [ANSWERED]}}], id="Argilla 2"
        ),
        pytest.param(
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
            id="Argilla 1",
        ),
    ],
)
def test_every_form_gives_the_same_label(tmp_path: Path, name: str, content: Any) -> None:
    (label,) = read_people(saved(tmp_path, name, content))

    assert label.key == KEY
    assert label.metric == "support"
    assert label.value == 1
    assert label.by == "ann"
    assert not label.is_drawn  # whoever labelled chose the case


@pytest.mark.parametrize(
    ("label", "value"),
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
def test_what_a_label_may_say(tmp_path: Path, label: object, value: float | None) -> None:
    (read_label,) = read_people(saved(tmp_path, "l.jsonl", [{**LABEL, "value": label}]))

    assert read_label.value == value


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param(
            [{**LABEL, "value": "perhaps"}],
            "l.jsonl:1: field 'value': 'perhaps' is not a label",
            id="a word that is none",
        ),
        pytest.param([{**LABEL, "value": float("inf")}], "l.jsonl:1", id="infinity"),
        pytest.param(
            [{"answer": ANSWER, "value": 1}],
            "l.jsonl:1: field 'question' is missing",
            id="no question",
        ),
        pytest.param(
            [{"question": QUESTION, "value": 1}], "field 'answer' is missing", id="no answer"
        ),
        pytest.param(
            [{"data": {}, "annotations": ["x"]}],
            "l.jsonl:1: is not as its tool exports it",
            id="no annotation of Label Studio",
        ),
        pytest.param(
            [{"fields": {}, "responses": {"a": 1}}],
            "is not as its tool exports it",
            id="no response of Argilla",
        ),
        pytest.param(
            [{"question": QUESTION, "answer": ANSWER, "note": "x"}],
            "no field holds the label",
            id="no label",
        ),
        pytest.param([[1]], "l.jsonl:1", id="a list"),
        pytest.param([], "empty", id="nothing"),
    ],
)
def test_a_row_that_is_no_label_is_refused(
    tmp_path: Path, rows: list[object], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_people(saved(tmp_path, "l.jsonl", rows))

    assert message in str(caught.value)


# --- the labels of a case


@pytest.fixture(name="book")
def labels_of_three_people(tmp_path: Path) -> LabelBook:
    rows = [
        {**LABEL, "value": 0},
        {**LABEL, "drawn": {"seed": 0, "of": 9}},  # she changed her mind
        {**LABEL, "by": "bob", "value": 0.5},
        {**LABEL, "by": "cyd", "value": None},
    ]
    return LabelBook.read([saved(tmp_path, "l.jsonl", rows)])


def test_of_each_person_the_last_label_counts(book: LabelBook) -> None:
    labels = book.of("support", KEY)

    assert [(label.by, label.value) for label in labels] == [
        ("ann", 1),
        ("bob", 0.5),
        ("cyd", None),
    ]


def test_an_answer_beside_another_one_is_refused_with_both_ways_to_read_it(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("query,answer,response,label\nHow many?,27 days,It is 30.,0\n", "utf-8")

    with pytest.raises(DataError) as raised:
        read_people(path)

    message = str(raised.value)
    assert "answer and response hold different answers" in message
    assert "--field response=answer or --field response=response" in message


def test_of_two_answers_that_which_the_user_names_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("query,answer,response,label\nHow many?,27 days,It is 30.,0\n", "utf-8")

    (label,) = read_people(path, columns={"response": "response"})

    assert label.answer == "It is 30."
    assert label.value == 0.0


def test_the_same_answer_under_two_names_is_one(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("query,answer,response,label\nHow many?,27 days,27 days,1\n", "utf-8")

    (label,) = read_people(path)

    assert label.answer == "27 days"


def test_a_label_of_a_case_that_was_drawn_is_known_as_that(book: LabelBook) -> None:
    labels = book.of("support", KEY)

    assert [label.is_drawn for label in labels] == [True, False, False]


def test_the_value_of_a_case_is_the_mean_of_those_who_said_one(book: LabelBook) -> None:
    # Of 1, .5 and a label that was skipped.
    assert value_of(book.of("support", KEY)) == 0.75


def test_white_space_around_an_answer_makes_it_no_other_one(book: LabelBook) -> None:
    key = key_of(QUESTION, f" {ANSWER}\n", CONTEXTS)

    assert len(book.of("support", key)) == 3


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key_of(QUESTION, "No.", CONTEXTS), id="another answer"),
        pytest.param(key_of("Who?", ANSWER, CONTEXTS), id="another question"),
        pytest.param(key_of(QUESTION, ANSWER, CONTEXTS[:1]), id="other contexts"),
    ],
)
def test_a_label_dies_with_what_was_judged(book: LabelBook, key: tuple[str, str, str]) -> None:
    assert book.of("support", key) == []


def test_a_metric_that_reads_no_contexts_takes_labels_of_any(book: LabelBook) -> None:
    question, answer, _ = KEY

    assert len(book.of("support", (question, answer, ANY))) == 3


def test_a_label_counts_for_its_metric_alone(book: LabelBook) -> None:
    assert book.of("other", KEY) == []
    assert book.by_metric() == {"support": 2}  # with a value


# --- files whose metric the user names


THUMBS = {**LABEL, "metric": "thumbs"}


def test_a_file_of_labels_can_be_named_after_a_metric(tmp_path: Path) -> None:
    path = saved(tmp_path, "t.jsonl", [THUMBS])

    book = LabelBook.read([f"answer_correct={path}"])

    assert book.by_metric() == {"answer_correct": 1}


def test_a_file_of_several_metrics_is_not_named_after_one(tmp_path: Path) -> None:
    path = saved(tmp_path, "m.jsonl", [THUMBS, LABEL])

    with pytest.raises(ConfigError, match="holds labels of support, thumbs"):
        LabelBook.read([f"answer_correct={path}"])


TEXTS = st.lists(st.text(), max_size=4)


def without_white_space(texts: list[str]) -> list[str]:
    return [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]


@given(TEXTS, TEXTS)
def test_keys_tell_texts_apart_but_for_white_space(texts: list[str], others: list[str]) -> None:
    are_equal = without_white_space(texts) == without_white_space(others)

    assert (key_of("q", "a", texts) == key_of("q", "a", others)) is are_equal


def test_a_label_without_a_question_is_refused_with_the_columns_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("Ticket text,answer,value\nCan bees fly?,Yes.,1\n", encoding="utf-8")

    with pytest.raises(DataError, match="field 'question' is missing") as raised:
        read_people(path)

    assert "The fields are: Ticket text, answer, value." in str(raised.value)
    assert "--field query=NAME" in str(raised.value)
    assert len(read_people(path, columns={"query": "Ticket text"})) == 1
