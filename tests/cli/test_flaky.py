"""``ragbench flaky``: a system with noise, run several times, and the gate that knows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ragbench.views

Ragbench = Callable[..., Any]

SCHEMA = json.loads(
    (Path(ragbench.views.__file__).parent / "flakiness.schema.json").read_text("utf-8")
)
RAG = """
import pathlib
from ragbench import RAGInterface

class Moody(RAGInterface):
    def retrieve(self, query, top_k=None):
        return ["Everyone has 27 days of paid leave."]

    def generate(self, query, contexts):
        good = "leave" in query or pathlib.Path("good mood").exists()
        return "27 days" if "leave" in query else "from 8 to 17" if good else "no idea"
"""
EVAL = ("office", "--rag", "moody.py:Moody", "-m", "recall@5,token_f1,exact_match", "-q")


@pytest.fixture
def moods(ragbench: Ragbench, workplace: Path) -> list[str]:
    """Three runs of one system: good, bad and good mood."""
    (workplace / "moody.py").write_text(RAG, encoding="utf-8")
    for name in ("one", "two", "three"):
        if name != "two":
            (workplace / "good mood").touch()
        assert ragbench("eval", *EVAL, "--out", name).code == 0
        (workplace / "good mood").unlink(missing_ok=True)
    return ["one", "two", "three"]


def test_the_case_that_changes_by_itself_is_listed(ragbench: Ragbench, moods: list[str]) -> None:
    done = ragbench("flaky", *moods)
    assert done.code == 0
    assert "1 case is unstable" in done.out
    assert "c2; When is the help desk open?" in done.out
    assert "token_f1: passed 2 of 3 (9% .. 99%): 1.000, 0.000, 1.000" in done.out
    assert "2 different responses" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_same_as_data(ragbench: Ragbench, moods: list[str]) -> None:
    found = json.loads(ragbench("flaky", *moods, "--json").out)
    jsonschema.validate(found, SCHEMA)
    assert [case["id"] for case in found["unstable"]] == ["c2"]
    assert found["unstable"][0]["flips"] == pytest.approx(2 / 3)
    assert found["flip_rate"] == pytest.approx(2 / 9)


def test_a_comparison_says_that_it_is_noise(ragbench: Ragbench, moods: list[str]) -> None:
    out = " ".join(ragbench("compare", *moods).out.split())
    assert "what changed between a and b nothing that was imported, read or set" in out
    assert "what changed between a and c nothing that was imported, read or set" in out


def test_runs_that_read_another_prompt_are_not_of_one_system(
    ragbench: Ragbench, workplace: Path
) -> None:
    text = RAG.replace('pathlib.Path("good mood").exists()', 'pathlib.Path("p.txt").read_text()')
    (workplace / "moody.py").write_text(text, encoding="utf-8")
    for name, prompt in (("one", "be kind"), ("two", "")):
        (workplace / "p.txt").write_text(prompt, encoding="utf-8")
        assert ragbench("eval", *EVAL, "--out", name).code == 0
    said = "one, two are not runs of one unchanged system: p.txt changed"
    done = ragbench("flaky", "one", "two")
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())
    assert said in " ".join(ragbench("baseline", "set", "one", "two", "-o", "b.json").err.split())
    out = " ".join(ragbench("compare", "one", "two").out.split())
    assert "what changed between a and b p.txt changed (1 line) metric" in out
    assert "noise" not in out


def test_of_recorded_answers_nobody_says_that_one_system_gave_them(
    ragbench: Ragbench, workplace: Path
) -> None:
    for name, answer in (("one", "27 days"), ("two", "28 days")):
        row = {"user_input": "How many days?", "reference": "27 days", "response": answer}
        (workplace / "answers.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        assert ragbench("eval", "answers.jsonl", "-m", "token_f1", "-q", "--out", name).code == 0
    out = " ".join(ragbench("compare", "one", "two").out.split())
    assert "not known: the answers of one and two are recorded" in out
    assert "are recorded" in " ".join(ragbench("flaky", "one", "two").out.split())


def test_different_systems_are_refused(ragbench: Ragbench, moods: list[str]) -> None:
    assert ragbench("eval", *EVAL, "--top-k", "1", "--out", "other").code == 0
    done = ragbench("flaky", "one", "other")
    assert (done.code, done.out) == (2, "")
    assert "are not runs of one unchanged system" in done.err


def test_a_quarantine_is_refused_with_the_reason(ragbench: Ragbench, moods: list[str]) -> None:
    """It made an unchanged system fail: the stable cases of the baseline are its lucky ones."""
    Path("ragbench.yaml").write_text("gate: {quarantine: cases.json}\n", "utf-8")
    done = ragbench("gate", "two", "--min", "token_f1=0.9")
    assert (done.code, done.out) == (2, "")
    assert "there is no quarantine any more" in done.err
