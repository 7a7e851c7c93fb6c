"""The pytest plugin: a gate's checks as tests, a fixture, and nothing when neither is used."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from ragbench.gate.baseline_file import write_baseline
from ragbench.gate.main_runs import baseline_of
from ragbench_cli.main import main
from tests.cli.conftest import CASES, DOCUMENTS, RAGS
from tests.cli.runs import Ragbench, fenced, in_python, lines
from tests.unit.gate.builders import run as run_with_scores

pytest_plugins = ["pytester"]

Pytest = Callable[..., pytest.RunResult]


@pytest.fixture
def inner(pytester: pytest.Pytester, request: pytest.FixtureRequest, workplace: Path) -> Pytest:
    """Calls pytest in this process, with the plugin; its arguments are those of the command line.

    The folder `empty` holds no tests.
    """
    is_installed = request.config.pluginmanager.has_plugin("ragbench")
    os.chdir(workplace)

    def call(*arguments: str) -> pytest.RunResult:
        plugin = () if is_installed else ("-p", "ragbench_cli.pytest_plugin")
        without_others = ("-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:langsmith_plugin")
        place = ("--rootdir", str(workplace), "-c", str(workplace / "empty.ini"))
        return pytester.runpytest_inprocess(*plugin, *without_others, *place, *arguments)

    (workplace / "empty").mkdir()
    (workplace / "empty.ini").write_text("[pytest]\n", "utf-8")
    return call


@pytest.fixture(scope="module", autouse=True)
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that finds the leave and nothing else.

    Also for tests that need none: packages written in C are loaded once in a process, and pytester
    takes what an inner test loads out of it again.
    """
    home = tmp_path_factory.mktemp("run")
    (home / "rags.py").write_text(RAGS, encoding="utf-8")
    lines(home / "cases.jsonl", CASES)
    lines(home / "corpus.jsonl", DOCUMENTS)
    run = str(home / "run")
    evaluation = ["eval", str(home), "--rag", f"{home / 'rags.py'}:Plain", "-q"]
    evaluation += ["-m", "recall@5,token_f1", "--out", run]
    limits = ("--min", "recall@5=0.5", "--max-drop", "token_f1=0.02")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert main(evaluation) == 0
        baseline = str(shutil.copytree(run, home / "base"))
        assert main(["gate", run, "-b", baseline, *limits]) == 0
    return run


def demand(*, recall: dict[str, Any]) -> None:
    """Writes the limits of a gate for recall@5."""
    config = {"gate": {"metrics": {"recall@5": recall}}}
    Path("ragbench.yaml").write_text(json.dumps(config), "utf-8")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"min": 1.0}, "0.500 is below 1.000"),
        ({"max_drop": 0.1}, "inconclusive: there is no baseline"),
    ],
)
def test_a_check_that_does_not_pass_fails_with_its_reason_alone(
    inner: Pytest, run: str, limits: dict[str, Any], reason: str
) -> None:
    demand(recall=limits)

    result = inner("--ragbench", run, "empty")

    result.assert_outcomes(failed=2, passed=1)
    assert result.ret == 1
    text = result.stdout.str()
    assert reason in " ".join(text.split())
    assert "pytest_checks.py" not in text.partition("short test summary")[0]


def test_what_is_undecided_passes_and_fails_when_strict(inner: Pytest) -> None:
    for name, scores in (("good", [1] * 12), ("like", [0] + [1] * 11)):
        run = run_with_scores({"recall@5": scores})
        write_baseline(baseline_of([run]), Path(f"{name}.json"))
    options = ("--ragbench", "like.json", "--ragbench-baseline", "good.json", "empty")

    result = inner(*options)
    strict_result = inner(*options, "--ragbench-strict")

    result.assert_outcomes(passed=5)
    strict_result.assert_outcomes(passed=3, failed=2)


def test_a_baseline_and_a_config_can_be_named(inner: Pytest, run: str, ragbench: Ragbench) -> None:
    assert ragbench("baseline", "set", run).code == 0
    Path("other.yaml").write_text("gate: {metrics: {recall@5: {max_drop: 0.1}}}", "utf-8")
    options = ("--ragbench-baseline", "ragbench-baseline.json", "--ragbench-config", "other.yaml")

    result = inner("--ragbench", run, *options, "-v", "empty")

    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["ragbench::recall@5 (loss up to 0.100) PASSED*"])


def test_a_run_that_cannot_be_judged_is_a_usage_error(inner: Pytest, run: str) -> None:
    of_no_folder = inner("--ragbench", "nowhere", "empty")
    assert of_no_folder.ret == pytest.ExitCode.USAGE_ERROR
    assert "nowhere cannot be read" in of_no_folder.stderr.str()
    assert "Traceback" not in of_no_folder.stderr.str()
    assert "Traceback" not in of_no_folder.stdout.str()

    without_run = inner("--ragbench-strict", "empty")
    assert without_run.ret == pytest.ExitCode.USAGE_ERROR
    assert "the options of ragbench need a run" in without_run.stderr.str()


def test_each_case_is_a_test_that_fails_with_its_cause(inner: Pytest, run: str) -> None:
    result = inner("--ragbench-cases", run, "empty")

    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert "ragbench: case[c2]" in text
    assert "not retrieved: " in text
    assert "question: When is the help desk open?" in text
    assert "answer: 27 days" in text
    assert "reference: from 8 to 17" in text
    assert "answered without evidence: " in text
    assert "pytest_checks.py" not in text.partition("short test summary")[0]


def test_a_case_whose_answer_was_compared_with_nothing_is_skipped(
    inner: Pytest, ragbench: Ragbench
) -> None:
    case = {"id": "o1", "query": "Is there leave?", "response": "Yes."}
    lines("open.jsonl", [case])
    assert ragbench("eval", "open.jsonl", "--out", "open", "-q", "-m", "answer_rate").code == 0

    result = inner("--ragbench-cases", "open", "-rs", "empty")

    result.assert_outcomes(skipped=1)
    assert "unchecked: " in result.stdout.str()


def test_cases_come_before_the_checks_of_a_gate(inner: Pytest, run: str) -> None:
    demand(recall={"min": 0.1})

    result = inner("--ragbench", run, "--ragbench-cases", run, "-v", "empty")

    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(
        [
            "ragbench::case?c1? PASSED*",
            "ragbench::case?c2? FAILED*",
            "ragbench::verdict PASSED*",
        ]
    )


def test_a_run_of_cases_that_is_not_there_is_a_usage_error(inner: Pytest) -> None:
    result = inner("--ragbench-cases", "nowhere", "empty")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "nowhere" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    assert "Traceback" not in result.stdout.str()


def test_the_cases_of_a_junit_file_have_their_causes(inner: Pytest, run: str) -> None:
    inner("--ragbench-cases", run, "--junit-xml", "junit.xml", "empty")

    file = Tree.parse("junit.xml")
    cases = {case.get("name"): case for case in file.iter("testcase")}
    assert cases["case[c1]"].find("failure") is None
    failure = cases["case[c2]"].find("failure")
    assert failure is not None
    assert "not retrieved: " in str(failure.text)


def test_the_fixture_evaluates_in_a_folder_of_the_test(inner: Pytest) -> None:
    program = """
from ragbench import RAGInterface
from ragbench.core.case import Case

class Mine(RAGInterface):
    def retrieve(self, query, top_k=None):
        return ["Everyone has 27 days of paid leave."]

    def generate(self, query, contexts):
        return "27 days"

def test_recall(ragbench_eval, tmp_path):
    report = ragbench_eval(Mine(), "office", metrics="recall@5")
    figures = {summary.metric.name: summary.score for summary in report.summaries}
    assert figures == {"recall@5": 0.5}
    first = ragbench_eval.folder
    assert (first / "report.json").is_file()
    assert first.parent == tmp_path
    case = Case(id="one", query="How many days of leave?", reference="27 days")
    report = ragbench_eval("rags.py:Plain", [case], metrics=["token_f1"], top_k=1)
    assert report.summaries[0].score == 1.0
    assert ragbench_eval.folder != first
"""
    Path("test_rag.py").write_text(program, "utf-8")
    inner("test_rag.py").assert_outcomes(passed=1)
    assert not Path("reports").exists()


def test_unused_it_imports_nothing_but_pytest() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import ragbench_cli.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )

    done = in_python(program)

    assert done.stdout.strip() == "['ragbench_cli', 'ragbench_cli.pytest_plugin']"


def test_the_guide_says_what_happens(
    inner: Pytest, ragbench: Ragbench, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text("utf-8")
    (commands,) = fenced(page, "sh")
    (shown,) = fenced(page, "text")
    (program,) = fenced(page, "python")
    evaluation, judging = commands.splitlines()
    assert ragbench("init").code == 0
    assert ragbench(*shlex.split(evaluation)[1:], "-q").code == 0
    (workplace / "test_mine.py").write_text(program, "utf-8")
    monkeypatch.syspath_prepend(str(workplace))
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)  # of another test

    result = inner(*shlex.split(judging)[1:], "-v", "test_mine.py")

    lines = [re.sub(r" +\[ *\d+%\]$", "", line) for line in result.stdout.lines]
    own_test, *checks = [line for line in lines if line.endswith("PASSED")]
    assert own_test == "test_mine.py::test_the_rag_finds_what_it_needs PASSED"
    assert checks == shown.splitlines()
    for option in re.findall(r"\| `(--ragbench[\w-]*)", page):
        assert f"  {option}" in inner("--help").stdout.str()
