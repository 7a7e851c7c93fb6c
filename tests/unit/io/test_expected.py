"""Fields that say what an answer must contain, and whether there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench.core.case import Case, Expectation, ExpectationKind
from ragbench.errors import DataError
from ragbench.io.expected import promptfoo_expectations
from ragbench.io.export import write_cases
from ragbench.io.fields import field_names
from ragbench.io.read import read_cases
from ragbench.ledger.codec import case_facts, decode_case, encode_case, right_answer
from tests.unit.io.traces import lines, written


def read(folder: Path, **values: Any) -> Case:
    path = lines(folder / "cases.jsonl", [{"id": "a", "query": "Why?", **values}])
    (case,) = read_cases(path)
    return case


def texts_of(case: Case) -> list[tuple[str, ...]]:
    return [expectation.texts for expectation in case.expectations]


# --- fields of expectations


def names_of_expectations() -> list[tuple[str, str]]:
    """Each field of an expectation with every name that it may have in a file."""
    pairs: list[tuple[str, str]] = []
    for field, names in field_names("expectation").items():
        for name in names:
            pairs.append((field, name))
    return pairs


# Of fields that are yes or no; all others hold texts.
VALUES = {"json": True, "holds_json": True}


@pytest.mark.parametrize(("field", "name"), names_of_expectations())
def test_each_name_becomes_its_kind_of_expectation(tmp_path: Path, field: str, name: str) -> None:
    kind, *marks = field_names("expectation_kinds")[field]

    case = read(tmp_path, **{name: VALUES.get(kind, ["x", "y"])})

    assert case.expectations
    for expectation in case.expectations:
        assert expectation.kind == kind
        assert expectation.negated is ("not" in marks)
    assert case.metadata == {}


@pytest.mark.parametrize("name", ["Must Contain", "mustContain", "must-contain", "MUST_CONTAIN"])
def test_names_are_compared_without_case_and_marks(tmp_path: Path, name: str) -> None:
    case = read(tmp_path, **{name: "x"})

    assert case.expectations == (Expectation(kind=ExpectationKind.MENTIONS, texts=("x",)),)


def test_fields_of_one_meaning_are_joined(tmp_path: Path) -> None:
    case = read(tmp_path, must_contain="x", expected_keywords=["y", "x"])

    assert texts_of(case) == [("x",), ("y",)]


def read_table(folder: Path, table: str) -> Case:
    (case,) = read_cases(written(folder / "cases.csv", table))
    return case


def test_texts_in_a_cell_are_separated_by_semicolons(tmp_path: Path) -> None:
    case = read_table(tmp_path, 'query,must_contain\nWhy?,"1,000; red"\n')

    assert texts_of(case) == [("1,000",), ("red",)]


def test_a_pattern_in_a_cell_is_not_separated(tmp_path: Path) -> None:
    case = read_table(tmp_path, "query,must_match\nWhy?,a|b;\n")

    assert texts_of(case) == [("a|b;",)]


# --- expectations that are stored


@pytest.fixture(name="expecting")
def case_with_expectations(tmp_path: Path) -> Case:
    return read(tmp_path, must_contain_any=["x", "y"], must_not_match="z+", is_json=True)


def test_a_file_of_cases_gives_expectations_back(tmp_path: Path, expecting: Case) -> None:
    write_cases([expecting], tmp_path / "written.jsonl")

    assert list(read_cases(tmp_path / "written.jsonl")) == [expecting]


def test_the_journal_gives_expectations_back(expecting: Case) -> None:
    assert decode_case("a", encode_case(expecting)) == expecting


PLAIN = Case(id="a", query="Why?", reference="So.")
MENTIONING = Case(
    id="a",
    query="Why?",
    reference="So.",
    expectations=(Expectation(kind=ExpectationKind.MENTIONS, texts=("x",)),),
)


def test_a_case_without_expectations_is_stored_as_before_there_were_any() -> None:
    assert encode_case(PLAIN) == b'["Why?","So.",[],null,null,null,[],null,null,[],null,{}]'


def test_an_expectation_changes_the_facts_of_a_case() -> None:
    assert case_facts(encode_case(MENTIONING))[0] != case_facts(encode_case(PLAIN))[0]


def test_an_expectation_changes_the_right_answer_of_a_case() -> None:
    assert right_answer(encode_case(MENTIONING)) != right_answer(encode_case(PLAIN))


# --- values that cannot be


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"must_match": "(a"}, "not a regular expression"),
        ({"must_match": "((a{999}){999}){999}"}, "repeats parts too often"),
        ({"must_contain": ["x", " "]}, "an expected text is blank"),
        ({"expectations": ["x"]}, "go under must_contain"),
        ({"expectations": [{"kind": "nonsense"}]}, "no kind of expectation"),
        ({"no_answer": "The text does not say."}, "expected true or false"),
        ({"expected_behavior": "refuse", "answerable": True}, "says another thing"),
        ({"no_answer": True, "in_scope": True}, "contradict each other"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_a_problem(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **values)


# --- whether there is an answer


YES_OR_NO = [
    (True, True),
    ("yes", True),
    (1, True),
    ("true", True),
    (False, False),
    ("no", False),
    (0, False),
    ("false", False),
]


@pytest.mark.parametrize("name", field_names("case")["unanswerable"])
@pytest.mark.parametrize(("value", "meaning"), YES_OR_NO, ids=repr)
def test_names_of_unanswerable(tmp_path: Path, name: str, value: object, meaning: bool) -> None:
    assert read(tmp_path, **{name: value}).answerable is not meaning


@pytest.mark.parametrize("name", field_names("case")["answerable"])
@pytest.mark.parametrize(("value", "meaning"), YES_OR_NO, ids=repr)
def test_names_of_answerable(tmp_path: Path, name: str, value: object, meaning: bool) -> None:
    assert read(tmp_path, **{name: value}).answerable is meaning


@pytest.mark.parametrize(
    ("behavior", "answerable"),
    [("refuse", False), ("Answer", True), ("clarify", None), ("I don't know", None)],
)
def test_an_expected_behavior_stays_in_the_metadata(
    tmp_path: Path, behavior: str, answerable: bool | None
) -> None:
    case = read(tmp_path, expected_behavior=behavior)

    assert case.answerable is answerable
    assert case.metadata == {"expected_behavior": behavior}


# --- assertions of promptfoo


def of_promptfoo(assertion: dict[str, Any]) -> list[tuple[object, ...]]:
    """Kind, texts and negation of an assertion's expectations; the variable ``word`` is red."""
    expectations: list[tuple[object, ...]] = []
    for expectation in promptfoo_expectations([assertion], {"word": "red"}):
        expectations.append((expectation["kind"], expectation["texts"], expectation["negated"]))
    return expectations


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ({"type": "contains", "value": "x"}, ("substring", ["x"], False)),
        ({"type": "not-icontains", "value": 5}, ("substring_any_case", ["5"], True)),
        (
            {"type": "icontains-any", "value": ["x", "y"]},
            ("substring_any_case", ["x", "y"], False),
        ),
        ({"type": "contains", "value": "the {{word}}"}, ("substring", ["the red"], False)),
        ({"type": "regex", "value": "a+"}, ("pattern", ["a+"], False)),
        (
            {"type": "assert-set", "assert": [{"type": "starts-with", "value": "x"}]},
            ("starts_with", ["x"], False),
        ),
    ],
    ids=str,
)
def test_an_assertion_of_promptfoo_is_an_expectation(
    assertion: dict[str, Any], expected: tuple[object, ...]
) -> None:
    assert of_promptfoo(assertion) == [expected]


def test_each_text_that_promptfoo_asserts_together_is_an_expectation() -> None:
    assertion = {"type": "contains-all", "value": "x, y"}

    assert of_promptfoo(assertion) == [("substring", ["x"], False), ("substring", ["y"], False)]


@pytest.mark.parametrize(
    "assertion",
    [
        pytest.param({"type": "contains", "value": "{{unknown}}"}, id="an unknown variable"),
        pytest.param({"type": "is-json", "value": {"type": "object"}}, id="a schema"),
        pytest.param({"type": "not-contains-all", "value": ["x", "y"]}, id="not all of several"),
        pytest.param({"type": "llm-rubric", "value": "x"}, id="a rubric for a model"),
    ],
)
def test_an_assertion_that_no_expectation_expresses_is_left_out(
    assertion: dict[str, Any],
) -> None:
    assert of_promptfoo(assertion) == []
