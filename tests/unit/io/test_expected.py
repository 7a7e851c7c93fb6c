"""Fields that say what an answer must contain, and whether there is one."""

from __future__ import annotations

import json
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

K = ExpectationKind


def read(folder: Path, **values: Any) -> Case:
    path = folder / "cases.jsonl"
    path.write_text(json.dumps({"id": "a", "query": "Why?", **values}), encoding="utf-8")
    return next(iter([*read_cases(path)]))


VALUES = {"json": True, "holds_json": True}


@pytest.mark.parametrize(
    ("field", "name"),
    [(field, name) for field, names in field_names("expectation").items() for name in names],
)
def test_each_name_becomes_its_kind_of_expectation(tmp_path: Path, field: str, name: str) -> None:
    kind, *rest = field_names("expectation_kinds")[field]
    case = read(tmp_path, **{name: VALUES.get(kind, ["x", "y"])})
    kinds = {(one.kind.value, one.negated) for one in case.expectations}
    assert kinds == {(kind, "not" in rest)}
    assert not case.metadata


@pytest.mark.parametrize("name", ["Must Contain", "mustContain", "must-contain", "MUST_CONTAIN"])
def test_names_are_compared_without_case_and_marks(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, **{name: "x"}).expectations == (
        Expectation(kind=K.MENTIONS, texts=("x",)),
    )


def test_fields_of_one_meaning_are_joined(tmp_path: Path) -> None:
    case = read(tmp_path, must_contain="x", expected_keywords=["y", "x"])
    assert [one.texts for one in case.expectations] == [("x",), ("y",)]


def test_cells_of_a_table_are_separated_by_semicolons_and_patterns_are_not(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text('query,must_contain,must_match\nWhy?,"1,000; red",a|b;\n', encoding="utf-8")
    (case,) = read_cases(path)
    assert [one.texts for one in case.expectations] == [("1,000",), ("red",), ("a|b;",)]


def test_written_cases_and_the_journal_give_them_back(tmp_path: Path) -> None:
    case = read(tmp_path, must_contain_any=["x", "y"], must_not_match="z+", is_json=True)
    write_cases([case], tmp_path / "again.jsonl")
    assert [*read_cases(tmp_path / "again.jsonl")] == [case]
    assert decode_case("a", encode_case(case)) == case


def test_a_case_without_expectations_is_stored_as_before() -> None:
    plain = Case(id="a", query="Why?", reference="So.")
    assert encode_case(plain) == (b'["Why?","So.",[],null,null,null,[],null,null,[],null,{}]')
    more = Case(
        id="a",
        query="Why?",
        reference="So.",
        expectations=(Expectation(kind=K.MENTIONS, texts=("x",)),),
    )
    bodies = (encode_case(plain), encode_case(more))
    assert len({case_facts(body)[0] for body in bodies}) == 2
    assert len({right_answer(body) for body in bodies}) == 2


@pytest.mark.parametrize(
    ("values", "shown"),
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
def test_what_cannot_be_is_a_problem_with_its_line(
    tmp_path: Path, values: dict[str, Any], shown: str
) -> None:
    with pytest.raises(DataError, match=shown):
        read(tmp_path, **values)


TRUTHS = [(True, True), ("yes", True), (1, True), ("true", True)]
FALSEHOODS = [(False, False), ("no", False), (0, False), ("false", False)]


@pytest.mark.parametrize("name", field_names("case")["unanswerable"])
@pytest.mark.parametrize(("value", "meant"), [*TRUTHS, *FALSEHOODS], ids=repr)
def test_names_of_unanswerable(tmp_path: Path, name: str, value: object, meant: bool) -> None:
    assert read(tmp_path, **{name: value}).answerable is not meant


@pytest.mark.parametrize("name", field_names("case")["answerable"])
@pytest.mark.parametrize(("value", "meant"), [*TRUTHS, *FALSEHOODS], ids=repr)
def test_names_of_answerable(tmp_path: Path, name: str, value: object, meant: bool) -> None:
    assert read(tmp_path, **{name: value}).answerable is meant


@pytest.mark.parametrize(
    ("word", "answerable"),
    [("refuse", False), ("Answer", True), ("clarify", None), ("I don't know", None)],
)
def test_an_expected_behavior_stays_in_the_metadata(
    tmp_path: Path, word: str, answerable: bool | None
) -> None:
    case = read(tmp_path, expected_behavior=word)
    assert case.answerable is answerable
    assert case.metadata == {"expected_behavior": word}


@pytest.mark.parametrize(
    ("assertion", "found"),
    [
        ({"type": "contains", "value": "x"}, [("substring", ["x"], False)]),
        ({"type": "not-icontains", "value": 5}, [("substring_any_case", ["5"], True)]),
        (
            {"type": "contains-all", "value": "x, y"},
            [("substring", ["x"], False), ("substring", ["y"], False)],
        ),
        (
            {"type": "icontains-any", "value": ["x", "y"]},
            [("substring_any_case", ["x", "y"], False)],
        ),
        ({"type": "contains", "value": "the {{word}}"}, [("substring", ["the red"], False)]),
        ({"type": "contains", "value": "{{unknown}}"}, []),
        ({"type": "regex", "value": "a+"}, [("pattern", ["a+"], False)]),
        ({"type": "is-json", "value": {"type": "object"}}, []),
        ({"type": "not-contains-all", "value": ["x", "y"]}, []),
        ({"type": "llm-rubric", "value": "x"}, []),
        (
            {"type": "assert-set", "assert": [{"type": "starts-with", "value": "x"}]},
            [("starts_with", ["x"], False)],
        ),
    ],
    ids=str,
)
def test_assertions_of_promptfoo(assertion: dict[str, Any], found: list[tuple[Any, ...]]) -> None:
    given = promptfoo_expectations([assertion], {"word": "red"})
    assert [(one["kind"], one["texts"], one["negated"]) for one in given] == found
