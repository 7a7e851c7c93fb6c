"""Cases in YAML, and promptfoo's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench import open_source, read_cases, read_documents
from ragbench.core.case import Case
from ragbench.errors import DataError


def written(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "- question: Who?\n  answer: Ada\n",
        "questions:\n  - question: Who?\n    answer: Ada\n",
        "version: 1\nanything:\n- {question: 'Who?', answer: Ada}\n",
        "data:\n  name: x\n  rows:\n  - {question: 'Who?', answer: Ada}\n",
        "question: Who?\nanswer: Ada\n",
    ],
    ids=["list", "questions", "any key", "deeper", "one record"],
)
@pytest.mark.parametrize("name", ["cases.yaml", "cases.yml"])
def test_a_list_of_cases_is_read(tmp_path: Path, text: str, name: str) -> None:
    (case,) = read_cases(written(tmp_path, text, name))

    assert (case.query, case.reference) == ("Who?", "Ada")


@pytest.mark.parametrize(
    ("scalar", "reference"),
    [
        ("yes", "yes"),
        ("9:30", "9:30"),
        ("2024-05-01", "2024-05-01"),
        ("1.10", "1.10"),
        ("007", "007"),
        ("42", "42"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
    ],
)
def test_texts_are_read_as_they_are_written(tmp_path: Path, scalar: str, reference: str) -> None:
    (case,) = read_cases(written(tmp_path, f"- question: Which?\n  answer: {scalar}\n"))

    assert case.reference == reference


def test_numbers_and_truth_values_keep_their_meaning(tmp_path: Path) -> None:
    text = "- {question: 'Why?', answerable: false, response: x, seconds: 1.50, grades: {d1: 2}}\n"

    with open_source(written(tmp_path, text)) as source:
        (entry,) = source

    assert entry.case.answerable is False
    assert entry.case.grades == {"d1": 2}
    assert entry.recorded["generate"].seconds == 1.5


def test_a_problem_has_the_line_of_its_record(tmp_path: Path) -> None:
    text = "cases:\n- question: Who?\n- question: [1]\n  answer: x\n- just a text\n"

    with pytest.raises(DataError) as raised:
        list(read_cases(written(tmp_path, text)))

    assert [(problem.line, problem.field) for problem in raised.value.problems] == [
        (3, "question"),
        (5, None),
    ]


def test_a_key_that_is_repeated_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cases\.yaml:2: the key 'question' is given twice"):
        list(read_cases(written(tmp_path, "- question: a\n  question: b\n")))


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for name, inner in zip("bcdefghi", "abcdefgh", strict=True):
        items = ", ".join([f"*{inner}"] * 10)
        lines.append(f"{name}: &{name} [{items}]")

    with pytest.raises(DataError, match="an alias leads into itself, or to too much"):
        list(read_cases(written(tmp_path, "\n".join(lines))))


def test_a_tag_that_runs_code_is_refused(tmp_path: Path) -> None:
    text = "- question: !!python/object/apply:os.getcwd []\n"

    with pytest.raises(DataError, match="is not YAML"):
        list(read_cases(written(tmp_path, text)))


def test_documents_are_read(tmp_path: Path) -> None:
    (document,) = read_documents(written(tmp_path, "- {id: a, text: Two years.}\n"))

    assert (document.id, document.text) == ("a", "Two years.")


# --- promptfoo


def config_cases(path: Path) -> list[Case]:
    with open_source(path) as source:
        assert source.info.form == "promptfoo-config"
        return [entry.case for entry in source if not entry.recorded]


def test_variables_and_assertions_of_a_configuration_are_a_case(tmp_path: Path) -> None:
    text = """
prompts: ["{{question}} {{context}}"]
providers: [echo]
tests:
  - description: warranty
    vars: {question: 'How long?', context: Two years.}
    assert:
      - {type: equals, value: two years}
      - {type: icontains, value: "{{context}}"}
      - {type: not-contains, value: sorry}
      - {type: regex, value: "[0-9]+"}
      - {type: contains-any, value: "two, 2"}
      - {type: llm-rubric, value: is polite}
"""

    (case,) = config_cases(written(tmp_path, text, "promptfooconfig.yaml"))

    assert (case.query, case.reference) == ("How long?", "two years")
    assert case.metadata["context"] == "Two years."
    assert case.reference_contexts is None


def test_assertions_that_are_not_read_are_counted(tmp_path: Path) -> None:
    text = """
prompts: [p]
tests:
  - vars: {question: a}
    assert: [{type: llm-rubric, value: x}, {type: javascript, value: y}]
  - vars: {question: b}
    assert: [{type: llm-rubric, value: x}]
"""

    with open_source(written(tmp_path, text)) as source:
        note = "Assertions of promptfoo that are not read: javascript 1, llm-rubric 2"
        assert note in source.info.notes


def test_a_list_among_the_variables_is_a_case_per_entry(tmp_path: Path) -> None:
    text = "prompts: [p]\ntests:\n  - vars: {query: ['one?', 'two?'], lang: en}\n"

    cases = config_cases(written(tmp_path, text))

    assert [case.query for case in cases] == ["one?", "two?"]


def test_the_only_text_among_the_variables_is_the_question(tmp_path: Path) -> None:
    text = "prompts: ['{{topic}}']\ntests:\n  - vars: {topic: bananas}\n"

    assert [case.query for case in config_cases(written(tmp_path, text))] == ["bananas"]


@pytest.mark.parametrize("name", ["file://tests/*.csv", "tests/more.csv"])
def test_tests_in_files_beside_the_configuration_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "tests").mkdir()
    table = "question,__expected,__description\nWho?,Ada,first\nWhen?,similar(0.8): in 1843,\n"
    written(tmp_path / "tests", table, "more.csv")

    cases = config_cases(written(tmp_path, f"prompts: [p]\ntests: {name}\n"))

    assert [(case.query, case.reference) for case in cases] == [
        ("Who?", "Ada"),
        ("When?", "in 1843"),
    ]


def test_a_table_of_tests_is_read_by_itself(tmp_path: Path) -> None:
    table = "question,__expected1,__expected2\nWho?,equals: Ada,llm-rubric: is polite\n"

    (case,) = config_cases(written(tmp_path, table, "tests.csv"))

    assert (case.query, case.reference) == ("Who?", "Ada")


def test_tests_of_a_program_are_refused_with_the_command_to_run(tmp_path: Path) -> None:
    path = written(tmp_path, "prompts: [p]\ntests: file://make_tests.py\n")

    with pytest.raises(DataError, match=r"promptfoo eval -o results\.json"):
        list(read_cases(path))


def test_variables_named_as_a_systems_output_are_metadata(tmp_path: Path) -> None:
    text = "prompts: [p]\ntests:\n  - vars: {question: a, contexts: 'A text.', response: b}\n"

    (case,) = config_cases(written(tmp_path, text))

    assert case.metadata == {"contexts": "A text.", "response": "b"}


def test_default_assertions_hold_for_every_test(tmp_path: Path) -> None:
    text = """
prompts: [p]
defaultTest: {vars: {language: en}, assert: [{type: equals, value: Ada}]}
tests: [{vars: {question: 'Who?'}}, {vars: {question: 'Who else?'}}]
"""

    cases = config_cases(written(tmp_path, text))

    assert [(case.reference, case.language) for case in cases] == [("Ada", "en"), ("Ada", "en")]
