"""How a command ends that asks a system with bad manners; in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.runs import cases_of, environment, lines

IMPORTS = """
import asyncio, ctypes, faulthandler, multiprocessing, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

class Own(BaseException):
    pass

def wait(*_):
    threading.Event().wait(600)
"""


def system(act: str, *, is_async: bool = False) -> None:
    """Writes a system that answers every question, and does something at the second one."""
    answer = "{'contexts': ['a text'], 'response': 'a'}"
    definition = "async def" if is_async else "def"
    program = (
        f"{IMPORTS}\n"
        f"{definition} ask(query):\n"
        "    if query == 'q2':\n"
        f"        {act}\n"
        f"    return {answer}\n"
    )
    Path("system.py").write_text(program, encoding="utf-8")
    cases = [{"query": query, "reference": "a"} for query in ("q1", "q2", "q3")]
    lines("cases.jsonl", cases)


def evaluate(*options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, whose pipes are read to their ends."""
    command = [sys.executable, "-m", "ragbench_cli", "eval", "cases.jsonl"]
    return subprocess.run(
        [*command, "--rag", "system.py:ask", "--out", "run", *options],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def failures() -> dict[str, str]:
    """The failure of each question of the run that has one."""
    type_by_query: dict[str, str] = {}
    for case in cases_of("run"):
        for failure in case["failures"]:
            type_by_query[case["query"]] = failure["type"]
    return type_by_query


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("act", "failure", "options"),
    [
        ("raise Own", "Own", ""),
        ("sys.exit(0)", "SystemExit", ""),
        ("os._exit(0)", "SystemExit", ""),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "--timeout 20"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "--concurrency 2"),
    ],
)
def test_an_end_that_a_system_asks_for_is_its_cases_failure(
    act: str, failure: str, options: str
) -> None:
    system(act)

    done = evaluate(*options.split())

    assert done.returncode == 0, done.stderr
    assert failures() == {"q2": failure}


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("act", "failure"),
    [
        ("raise Own", "Own"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("sys.exit(0)", "SystemExit"),
        ("asyncio.current_task().cancel(); await asyncio.sleep(9)", "CancelledError"),
    ],
)
def test_an_end_that_a_coroutine_asks_for_is_its_cases_failure(act: str, failure: str) -> None:
    system(act, is_async=True)

    done = evaluate()

    assert done.returncode == 0, done.stderr
    assert failures() == {"q2": failure}


@pytest.mark.usefixtures("workplace")
def test_a_system_that_cancels_calls_of_others_is_told_so() -> None:
    system("[task.cancel() for task in asyncio.all_tasks()]; await asyncio.sleep(9)", is_async=True)

    done = evaluate()

    assert done.returncode == 2
    assert "Error: the system has cancelled calls of other cases" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param("threading.Thread(target=wait).start()", id="thread"),
        pytest.param("ThreadPoolExecutor(1).submit(wait)", id="executor"),
        pytest.param(
            "multiprocessing.get_context('fork').Process(target=wait).start()", id="process"
        ),
    ],
)
def test_a_command_ends_although_its_system_goes_on(act: str) -> None:
    system(act)
    began = time.monotonic()

    done = evaluate()

    assert done.returncode == 0, done.stderr
    assert "threads or processes of the system went on after the end" in done.stderr
    assert failures() == {}
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("workplace")
def test_a_fork_that_returns_is_no_second_run() -> None:
    system("os.fork()")

    done = evaluate()

    assert done.returncode == 0, done.stderr
    assert failures() == {}
    assert done.stdout.count("what became of the cases") == 1
    assert "went on after the end" not in done.stderr


@pytest.mark.usefixtures("workplace")
def test_a_case_that_ends_the_process_is_named_by_the_next_command() -> None:
    system("faulthandler.disable(); ctypes.string_at(0)")

    crashed = evaluate()
    continued = evaluate()

    assert crashed.returncode < 0
    assert continued.returncode == 0, continued.stderr
    assert "was being asked when an earlier process ended" in continued.stderr
    assert failures() == {"q2": "ProcessDied"}


@pytest.mark.usefixtures("workplace")
def test_a_file_that_ends_the_process_is_an_error() -> None:
    system("pass")
    Path("system.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")

    done = evaluate()

    assert done.returncode == 2
    assert "importing 'system.py' failed: SystemExit: os._exit(0)" in done.stderr


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param("os.closerange(1, 3)", id="files of the streams"),
        pytest.param("sys.stdout.close(); sys.stderr.close()", id="streams"),
    ],
)
def test_a_system_that_closes_the_streams_hides_no_result(act: str) -> None:
    system(act)

    done = evaluate()

    assert done.returncode == 0
    assert "answer_correct" in done.stdout
    assert "run/report.html" in done.stderr


@pytest.mark.usefixtures("workplace")
def test_without_any_stream_a_command_says_by_its_exit_code_that_it_could_not_run() -> None:
    system("sys.__stdout__.close(); sys.__stderr__.close()")

    done = evaluate()

    assert done.returncode == 2  # 1 would be a failed check


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param("atexit.register(lambda: os._exit(0))", id="at the end of the process"),
        pytest.param("sys.exit = lambda code: None", id="no exit"),
    ],
)
def test_a_system_does_not_change_the_exit_code(act: str) -> None:
    system("pass")
    text = f"import atexit, os, sys\n{act}\nraise ValueError\n"
    Path("system.py").write_text(text, encoding="utf-8")

    done = evaluate()

    assert done.returncode == 2
    assert "importing 'system.py' failed: ValueError" in done.stderr


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("arguments", ["explain run", "report run", "cases run", "report no_run"])
def test_a_reader_that_goes_away_ends_a_command_quietly(arguments: str) -> None:
    system("pass")
    evaluate()
    command = [sys.executable, "-m", "ragbench_cli", *arguments.split()]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    process.stdout.close()  # before the command has written anything

    assert process.wait(30) == 141
