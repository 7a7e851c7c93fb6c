"""``ragbench gate --settle``: both systems are asked again, each from its own commit."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from tests.cli.runs import Ragbench, in_python, lines, own_rag, row_where, schema

SCHEMA = schema("verdict")
# Another answer each time, and the same ones in every test.
NOISY = """import random
self.asked = getattr(self, "asked", 0) + 1
draw = random.Random(f"{right} {{query}} {{self.asked}}").random()
return "yes" if draw < {right} else "no"
"""
LIMIT = ("--max-drop", "exact_match=0.05")
GATE = ("gate", "head", "-b", "base", *LIMIT)


def check_of_limit(verdict: dict[str, Any]) -> dict[str, Any]:
    """The check on the drop that LIMIT names."""
    return cast("dict[str, Any]", row_where(verdict["checks"], subject="exact_match"))


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def evaluate(out: str) -> None:
    """In a process of its own: this one would keep the module of the commit before."""
    start = "import runpy; runpy.run_module('ragbench_cli', run_name='__main__')"
    command = ("eval", "cases.jsonl", "--rag", "own.py:Own", "-m", "exact_match", "-q")
    in_python(start, *command, "--out", out)


def write_questions(numbers: range, reworded_from: int = 99) -> None:
    """Writes cases; from a number on they ask in other words."""
    rows: list[dict[str, str]] = []
    for number in numbers:
        query = f"Question {number}?"
        if number >= reworded_from:
            query += " Now?"
        rows.append({"id": f"q{number}", "query": query, "reference": "yes"})
    lines("cases.jsonl", rows)


def count_of_worktrees() -> int:
    return len(git("worktree", "list").splitlines())


def times_of_writing(folder: Path, name: str) -> dict[Path, int]:
    """When each file of this name was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob(name)}


@pytest.fixture(scope="module")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A noisy system right in 9 of 10 answers, then in 6, and a run of each commit.

    Twelve cases are too few to tell them apart.
    """
    # Runs name their dataset after the folder: it has the name of its copies.
    folder = tmp_path_factory.mktemp("two-commits") / "repository"
    folder.mkdir()
    with contextlib.chdir(folder):
        write_questions(range(12))
        Path(".gitignore").write_text("base*\nhead*\n__pycache__\n", encoding="utf-8")
        git("init", "--quiet")
        for name, right in (("base", 0.9), ("head", 0.6)):
            own_rag(NOISY.format(right=right))
            git("add", "--all")
            git("commit", "--quiet", "--message", name)
            evaluate(name)
    return folder


@pytest.fixture
def repository(two_commits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: a copy of the two commits and their runs."""
    folder = tmp_path / "repository"
    shutil.copytree(two_commits, folder)
    monkeypatch.chdir(folder)
    return folder


# --- asked again until it is decided


def test_too_few_cases_cannot_show_a_drop(ragbench: Ragbench, repository: Path) -> None:
    verdict = ragbench(*GATE, "--json").json

    assert verdict["outcome"] == "passed"
    assert check_of_limit(verdict)["ground"] == "open"


def test_a_drop_that_too_few_cases_could_not_show_is_settled_once(
    ragbench: Ragbench, repository: Path
) -> None:
    """Settled in one test, as asking again takes a quarter of a minute."""
    settle = (*GATE, "--settle")

    done = ragbench(*settle, "--json").ends(1)

    verdict = done.json
    jsonschema.validate(verdict, SCHEMA)
    assert verdict["outcome"] == "failed"
    # Half of the level is the gate's own, half is for asking again.
    assert verdict["settings"]["alpha"] == 0.025
    check = check_of_limit(verdict)
    assert check["ground"] == "settled: worse"
    assert check["settled"]["drop"] == pytest.approx(0.3, abs=0.15)
    assert check["settled"]["level"] == 0.025
    assert check["settled"]["p_worse"] <= 0.025
    # What was asked in another commit leaves no worktree behind.
    (folder,) = repository.glob("head-settle-*")
    assert not (folder / "base").exists()
    assert count_of_worktrees() == 1

    # The same command finds all rounds there, and asks nobody.
    written = times_of_writing(folder, "report.json")
    assert written
    assert ragbench(*settle, "--json").out == done.out
    assert times_of_writing(folder, "report.json") == written
    page = ragbench(*settle, "--md", "gate.md").flat
    assert f"was asked again {check['settled']['asked']:,} times" in page
    # The summary of a job says what its exit code says.
    assert "### ragbench gate: failed" in Path("gate.md").read_text("utf-8")


def test_another_system_than_that_of_the_run_is_not_asked(
    ragbench: Ragbench, repository: Path
) -> None:
    own_rag(NOISY.format(right=0.1))

    error = ragbench(*GATE, "--settle").refused().err

    assert "differs from the one of head: own.py changed (" in " ".join(error.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("head", *LIMIT, "--max-asked", "5"), "needs --rerun-inconclusive"),
        (("head", *LIMIT, "--settle", "--ask", "--rag 'own"), "No closing quotation"),
        (("head/report.json", *LIMIT, "--settle"), "needs the folder of a run"),
        (
            ("head", *LIMIT, "--settle", "--ask", "--rag own.py:Gone"),
            "could not be asked again",
        ),
        (("head", "--ask", "--rag x"), "--rerun-options that or"),
    ],
    ids=["not to be settled", "a quote", "a report", "a system that is gone", "nothing to ask"],
)
def test_what_cannot_be_asked_again_is_refused(
    ragbench: Ragbench, repository: Path, arguments: tuple[str, ...], message: str
) -> None:
    ragbench("gate", *arguments, "-b", "base").refused(message)


def test_a_run_with_uncommitted_changes_cannot_be_asked_again(
    ragbench: Ragbench, repository: Path
) -> None:
    path = repository / "base" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["git"]["dirty"] = True
    path.write_text(json.dumps(manifest), encoding="utf-8")

    ragbench(*GATE, "--settle").refused("had uncommitted changes")


# --- --reask-baseline: the baseline's system is asked the cases that it does not know


def test_the_system_of_the_baseline_is_asked_what_is_new_in_the_same_change(
    ragbench: Ragbench, repository: Path
) -> None:
    """Four cases are as they were, eight were reworded and eight added; the system got worse."""
    write_questions(range(20), reworded_from=4)
    own_rag(NOISY.format(right=0.0))
    evaluate("head2")
    gate = ("gate", "head2", "-b", "base", *LIMIT, "--json")

    without_asking = ragbench(*gate)
    verdict = ragbench(*gate, "--reask-baseline").ends(1).json

    # Four of twelve.
    assert "cases in common" in without_asking.out
    jsonschema.validate(verdict, SCHEMA)
    assert verdict["outcome"] == "failed"
    check = check_of_limit(verdict)
    assert check["cases"] == 20
    # The system of the baseline is right in 9 of 10 answers.
    assert check["drop"]["before"] > 0.6
    assert "The baseline's system was asked the cases that are new or edited." in verdict["notes"]
    assert verdict["dataset"]["common"] == 4
    assert len(verdict["dataset"]["edited"]) == 8
    assert len(verdict["dataset"]["added"]) == 8
    assert count_of_worktrees() == 1

    # The same command asks nobody.
    (folder,) = repository.glob("head2-reask-*")
    written = times_of_writing(folder / "baseline", "journal.sqlite")
    assert len(written) == 1
    assert ragbench(*gate, "--reask-baseline").json == verdict
    assert times_of_writing(folder / "baseline", "journal.sqlite") == written


@pytest.fixture
def _base_json(ragbench: Ragbench, repository: Path) -> None:
    """A baseline file of two runs of the first commit, which stays checked out."""
    git("checkout", "--quiet", "HEAD^")
    evaluate("base2")
    ragbench("baseline", "set", "base", "base2", "-o", "base.json").ok()


@pytest.mark.usefixtures("_base_json")
def test_where_no_case_is_new_nobody_is_asked(ragbench: Ragbench, repository: Path) -> None:
    ragbench("gate", "base", "-b", "base.json", *LIMIT, "--reask-baseline").ok()

    assert list(repository.glob("base-reask-*")) == []


@pytest.mark.usefixtures("_base_json")
def test_a_baseline_file_of_several_runs_is_asked_what_is_new(ragbench: Ragbench) -> None:
    """Of twelve cases eight have the mean of two runs, four are new."""
    write_questions(range(4, 16))
    evaluate("head2")

    done = ragbench("gate", "head2", "-b", "base.json", *LIMIT, "--json", "--reask-baseline").ok()

    check = check_of_limit(done.json)
    assert check["cases"] == 12
    assert 0.8 < check["drop"]["before"] <= 1.0


@pytest.mark.usefixtures("_base_json")
def test_a_baseline_file_may_be_gated_like_a_run(ragbench: Ragbench) -> None:
    ragbench("gate", "base.json", "-b", "base", *LIMIT, "--reask-baseline").ok()
