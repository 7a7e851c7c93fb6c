"""``ragbench gate --settle``: both systems are asked again, each from its own commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from tests.cli.runs import Ragbench, in_python, lines, own_rag, schema

SCHEMA = schema("verdict")
# Another answer each time, and the same ones in every test.
NOISY = """import random
self.asked = getattr(self, "asked", 0) + 1
draw = random.Random(f"{right} {{query}} {{self.asked}}").random()
return "yes" if draw < {right} else "no"
"""
LIMITS = ("--max-drop", "exact_match=0.05", "--settle")


def named(verdict: dict[str, Any]) -> dict[str, Any]:
    """The drop that LIMITS names."""
    (found,) = [one for one in verdict["checks"] if one["subject"] == "exact_match"]
    return cast("dict[str, Any]", found)


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def evaluated(out: str) -> None:
    """In a process of its own: this one would keep the module of the commit before."""
    start = "import runpy; runpy.run_module('ragbench_cli', run_name='__main__')"
    command = ("eval", "cases.jsonl", "--rag", "own.py:Own", "-m", "exact_match", "-q")
    in_python(start, *command, "--out", out)


def questions(numbers: range, reworded: int = 99) -> None:
    """Writes cases; from a number on they ask in other words."""
    lines(
        "cases.jsonl",
        (
            {
                "id": f"q{n}",
                "query": f"Question {n}?{' Now?' * (n >= reworded)}",
                "reference": "yes",
            }
            for n in numbers
        ),
    )


@pytest.fixture
def repository(workplace: Path) -> Path:
    """Two commits of a noisy system, with a run of each: too few cases to tell them apart."""
    questions(range(12))
    (workplace / ".gitignore").write_text("base*\nhead*\n__pycache__\n", encoding="utf-8")
    git("init", "--quiet")
    for name, right in (("base", 0.9), ("head", 0.6)):
        own_rag(NOISY.format(right=right))
        git("add", "--all")
        git("commit", "--quiet", "--message", name)
        evaluated(name)
    return workplace


def test_a_drop_that_too_few_cases_could_not_show_is_settled(
    ragbench: Ragbench, repository: Path
) -> None:
    undecided = ragbench("gate", "head", "-b", "base", *LIMITS[:2], "--json").json
    assert (undecided["outcome"], undecided["checks"][0]["ground"]) == ("passed", "open")
    done = ragbench("gate", "head", "-b", "base", *LIMITS, "--json").ends(1)
    found = done.json
    jsonschema.validate(found, SCHEMA)
    check = named(found)
    assert (found["outcome"], check["ground"]) == ("failed", "settled: worse")
    assert check["settled"]["drop"] == pytest.approx(0.3, abs=0.15)
    assert check["settled"]["p_worse"] <= check["settled"]["level"] == 0.025
    assert found["settings"]["alpha"] == 0.025  # the other half is the gate's own
    (folder,) = repository.glob("head-settle-*")
    assert not (folder / "base").exists()
    assert git("worktree", "list").count("\n") == 1
    # The same command finds all rounds there, and gives the same bytes.
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("report.json")}
    assert ragbench("gate", "head", "-b", "base", *LIMITS, "--json").out == done.out
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("report.json")} == kept
    message = ragbench("gate", "head", "-b", "base", *LIMITS, "--md", "gate.md").flat
    assert f"was asked again {check['settled']['asked']:,} times" in message
    # The summary of a job says what its exit code says.
    assert "### ragbench gate: failed" in (repository / "gate.md").read_text("utf-8")


def test_another_system_than_the_run_s_is_not_asked(ragbench: Ragbench, repository: Path) -> None:
    own_rag(NOISY.format(right=0.1))
    said = " ".join(ragbench("gate", "head", "-b", "base", *LIMITS).refused().err.split())
    assert "differs from the one of head: own.py changed (" in said


def test_what_cannot_be_asked_again_is_said(ragbench: Ragbench, repository: Path) -> None:
    for arguments, message in (
        (("head", "-b", "base", *LIMITS[:2], "--max-asked", "5"), "needs --rerun-inconclusive"),
        (("head", "-b", "base", *LIMITS, "--ask", "--rag 'own"), "No closing quotation"),
        (("head/report.json", "-b", "base", *LIMITS), "needs the folder of a run"),
        (("head", "-b", "base", *LIMITS, "--ask", "--rag own.py:Gone"), "could not be asked again"),
    ):
        ragbench("gate", *arguments).refused(message)
    manifest = json.loads((repository / "base" / "manifest.json").read_text("utf-8"))
    manifest["git"]["dirty"] = True
    (repository / "base" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    ragbench("gate", "head", "-b", "base", *LIMITS).refused("had uncommitted changes")


def test_the_baseline_s_system_is_asked_what_is_new_in_the_same_change(
    ragbench: Ragbench, repository: Path
) -> None:
    """Four cases are as they were, eight were reworded and eight added; the system got worse."""
    questions(range(20), reworded=4)
    own_rag(NOISY.format(right=0.0))
    evaluated("head2")
    wanted = ("gate", "head2", "-b", "base", *LIMITS[:2], "--json")
    assert "cases in common" in ragbench(*wanted).out  # 4 of 12
    verdict = ragbench(*wanted, "--reask-baseline").ends(1).json
    jsonschema.validate(verdict, SCHEMA)
    check = named(verdict)
    assert (verdict["outcome"], check["cases"]) == ("failed", 20)
    assert check["drop"]["before"] > 0.6  # what the baseline's system said, 0.9 of the time
    assert "The baseline's system was asked the cases that are new or edited." in verdict["notes"]
    change = verdict["dataset"]
    assert (change["common"], len(change["edited"]), len(change["added"])) == (4, 8, 8)
    assert git("worktree", "list").count("\n") == 1
    (kept,) = repository.glob("head2-reask-*")
    asked = (kept / "baseline" / "journal.sqlite").stat().st_mtime_ns
    assert ragbench(*wanted, "--reask-baseline").json == verdict
    assert (kept / "baseline" / "journal.sqlite").stat().st_mtime_ns == asked


def test_a_baseline_file_of_several_runs_is_asked_what_is_new(
    ragbench: Ragbench, repository: Path
) -> None:
    git("checkout", "--quiet", "HEAD^")
    evaluated("base2")
    ragbench("baseline", "set", "base", "base2", "-o", "base.json").ok()
    ragbench("gate", "base", "-b", "base.json", *LIMITS[:2], "--reask-baseline").ok()
    assert not [*repository.glob("base-reask-*")]  # nothing is new, so nobody is asked
    questions(range(4, 16))
    evaluated("head2")
    done = ragbench("gate", "head2", "-b", "base.json", *LIMITS[:2], "--json", "--reask-baseline")
    check = named(done.json)
    assert (done.code, check["cases"]) == (0, 12)
    assert 0.8 < check["drop"]["before"] <= 1.0  # eight have the mean of two runs, four are new
    broken = ("gate", "base.json", "-b", "base", *LIMITS[:2], "--reask-baseline")
    ragbench(*broken).ok()
    ragbench("gate", "head", "-b", "base", "--ask", "--rag x").refused("--rerun-options that or")
