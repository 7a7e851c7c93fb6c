"""A case that takes the process down is found, asked alone, and marked."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Status
from ragbench.errors import LLMUnreachableError, RunError
from ragbench.stages.calls import ask_in_child
from ragbench.stages.stage import InFlight

# --- the file of the cases that are being asked


def left_over(path: Path) -> Sequence[int]:
    """The cases that a run before had begun and not ended."""
    with InFlight.opened(path, 1) as calls:
        return calls.left_over


def test_cases_that_were_not_ended_are_left_over(tmp_path: Path) -> None:
    path = tmp_path / "in_flight"
    with InFlight.opened(path, 2) as calls:
        calls.begin([5, 6])

    assert left_over(path) == [5, 6]


def test_cases_that_are_left_over_stay_until_they_are_settled(tmp_path: Path) -> None:
    path = tmp_path / "in_flight"
    with InFlight.opened(path, 2) as calls:
        calls.begin([5, 6])

    with InFlight.opened(path, 1) as calls:
        calls.end([5])
        calls.begin([8])
        assert calls.left_over == [5, 6]  # 5 may be asked again, in a later stage

    assert left_over(path) == [6, 8]


# Whether a call begins or ends, and its number.
BEGIN_OR_END = st.tuples(st.booleans(), st.integers(0, 9))


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(BEGIN_OR_END, max_size=40))
def test_it_holds_what_a_set_would_hold(
    steps: list[tuple[bool, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "in_flight"
    expected: set[int] = set()

    with InFlight.opened(path, 10) as calls:
        for begins, number in steps:
            if begins:
                calls.begin([number])
                expected.add(number)
            else:
                calls.end([number])
                expected.discard(number)

    assert path.exists() is bool(expected)
    assert left_over(path) == sorted(expected)


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="in_flight cannot be written: "):
        left_over(tmp_path / "missing" / "in_flight")


# --- the child


def segfault() -> object:
    faulthandler.disable()  # pytest's, which would fill the screen
    return ctypes.string_at(0)


def poison(items: Sequence[str]) -> Sequence[object]:
    """Does to its process what the item says; answers any other item in capitals."""
    (item,) = items
    ways: dict[str, Callable[[], object]] = {
        "segfault": segfault,
        "exit": lambda: os._exit(9),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "raise": lambda: 1 / 0,
        "sys.exit": lambda: sys.exit(3),
        "lambda": lambda: lambda: None,
        "wait": lambda: threading.Event().wait(60),
        "pid": os.getpid,
    }
    if item in ways:
        return [ways[item]()]
    return [item.upper()]


@pytest.mark.parametrize(
    ("item", "failure"),
    [
        ("segfault", "ProcessDied: took the process down (signal 11, SIGSEGV)"),
        ("exit", "ProcessDied: took the process down (exit code 9)"),
        ("kill", "ProcessDied: took the process down (signal 9, SIGKILL: perhaps for lack of"),
        ("raise", "ZeroDivisionError"),
        ("sys.exit", "SystemExit"),
        ("lambda", "pickle"),
    ],
)
def test_a_case_fails_by_what_it_does_to_its_process(item: str, failure: str) -> None:
    outcome = ask_in_child(poison, item, stage="retrieve")

    assert outcome.status is Status.FAILED
    assert failure in str(outcome.failure)


def test_a_failure_in_the_child_has_its_traceback() -> None:
    outcome = ask_in_child(poison, "raise", stage="retrieve")

    assert outcome.failure is not None
    assert outcome.failure.traceback is not None
    assert "in poison" in outcome.failure.traceback


def test_any_other_case_is_answered() -> None:
    outcome = ask_in_child(poison, "yes", stage="retrieve")

    assert outcome.value == "YES"


def test_a_case_is_answered_in_another_process() -> None:
    outcome = ask_in_child(poison, "pid", stage="retrieve")

    assert outcome.value != os.getpid()


def test_no_model_that_answers_is_no_fault_of_the_case() -> None:
    def stopped(items: Sequence[str]) -> Sequence[str]:
        raise LLMUnreachableError("nobody there")

    with pytest.raises(LLMUnreachableError, match="nobody there"):
        ask_in_child(stopped, "x", stage="generate")


def test_a_case_that_never_answers_is_ended() -> None:
    started = time.perf_counter()

    outcome = ask_in_child(poison, "wait", stage="retrieve", timeout=0.2)

    assert str(outcome.failure) == "retrieve: StageTimeoutError: no answer within 0.2 s"
    assert time.perf_counter() - started < 4
