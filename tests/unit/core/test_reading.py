"""What a library raises over a damaged file becomes the reader's own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.core.in_words import UnreadableError
from ragbench.core.reading import Reading, words_of
from ragbench.errors import ConfigError, DataError, InterfaceError, RunMismatchError
from ragbench.io.read import read_cases
from ragbench.io.source import Problems, noting_read_errors

LIBRARY_ERRORS = [
    (AssertionError("offset"), "its parts do not fit together (AssertionError: offset)"),
    (IndexError("tuple index"), "its parts do not fit together (IndexError: tuple index)"),
    (KeyError("name"), "it lacks 'name'"),
    (MemoryError(), "there is not enough memory for it"),
    (OSError(5, "Input/output error"), "Input/output error"),
    (RecursionError("maximum depth"), "it is nested too deep"),
    (ValueError("bad\nheader"), "bad header"),
    (ValueError(), "ValueError"),
]


def refusal(error: Exception) -> RunMismatchError:
    return RunMismatchError(f"the file is damaged: {words_of(error)}")


@pytest.mark.parametrize(("raised", "words"), LIBRARY_ERRORS, ids=lambda case: type(case).__name__)
def test_whatever_is_raised_is_in_the_readers_words(raised: Exception, words: str) -> None:
    with pytest.raises(RunMismatchError) as refused, Reading(refusal):
        raise raised

    assert str(refused.value) == f"the file is damaged: {words}"
    assert refused.value.__cause__ is raised


@pytest.mark.parametrize("raised", [ConfigError("x"), UnreadableError("too large")])
def test_an_error_in_words_passes(raised: Exception) -> None:
    with pytest.raises(type(raised)) as passed, Reading(refusal):
        raise raised

    assert passed.value is raised


def test_a_stored_result_that_breaks_the_interface_is_damage() -> None:
    with pytest.raises(RunMismatchError), Reading(refusal):
        raise InterfaceError("contexts is a bare string")


def test_an_interruption_passes() -> None:
    with pytest.raises(KeyboardInterrupt), Reading(refusal):
        raise KeyboardInterrupt


def test_a_noted_error_names_file_and_line() -> None:
    problems = Problems()

    with noting_read_errors("cases.csv", problems, 7):
        raise AssertionError("offset")

    [problem] = problems
    expected = "cases.csv:7: cannot be read: its parts do not fit together (AssertionError: offset)"
    assert str(problem) == expected


def test_a_number_of_too_many_digits_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    number = "1" * 4301
    path.write_text(f'{{"query": "a"}}\n{{"query": "b", "n": {number}}}\n', encoding="utf-8")

    with pytest.raises(DataError) as refused:
        list(read_cases(path))

    [problem] = refused.value.problems
    assert problem.line == 2
    assert "number is infinity" in problem.message
