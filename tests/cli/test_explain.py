"""``ragbench explain`` and ``ragbench cases``: from a number to its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A run of a RAG that finds one document and always says 27 days."""
    assert ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run", "-q").code == 0
    return "run"


def test_the_waterfall_and_the_worst_cases(ragbench: Ragbench, run: str) -> None:
    done = ragbench("explain", run)
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "not retrieved 1 33%" in lines
    assert "c2: When is the help desk open?" in lines
    found = json.loads(ragbench("explain", run, "--json").out)
    assert found["worst"] == {"not_retrieved": ["c2"], "answered_without": ["c3"]}


def test_one_case_hop_by_hop(ragbench: Ragbench, run: str) -> None:
    done = ragbench("explain", run, "c2").ok()
    for part in ("When is the help desk open?", "not retrieved", "desk", "27 days of paid leave"):
        assert part in done.out
    story = json.loads(ragbench("explain", run, "c1", "--json").out)["story"]
    (chunk,) = story["chunks"]
    assert (chunk["retrieved"], chunk["shown"], chunk["is_gold"]) == (1, 1, True)
    assert story["references"] == ["27 days"]


def test_a_cause_is_taken_as_tables_print_it(ragbench: Ragbench, run: str) -> None:
    in_words = ragbench("cases", run, "--cause", "answered though nothing was there").ok()
    assert in_words.out == ragbench("cases", run, "--cause", "answered_without").out


def test_cases_by_cause_tag_and_metric(ragbench: Ragbench, run: str) -> None:
    done = ragbench("cases", run, "--cause", "not_retrieved")
    assert (done.code, done.out.splitlines()[0].split()[0]) == (0, "c2")
    assert done.err == "1 case\n"
    found = json.loads(ragbench("cases", run, "--worst", "token_f1", "--json").out)
    assert [case["id"] for case in found["cases"]] == ["c2", "c1", "c3"]  # unmeasured last
    assert json.loads(ragbench("cases", run, "--tag", "date", "--json").out)["found"] == 0


def test_failures_become_a_dataset_that_measures_what_the_run_measured(
    ragbench: Ragbench, run: str
) -> None:
    done = ragbench("cases", run, "--cause", "not_retrieved", "-o", "regress").ok()
    assert "1 case written to regress" in done.out + done.err
    done = ragbench("eval", "regress", "--rag", "rags.py:Plain", "-o", "again", "-q")
    assert done.code == 0
    scores = []
    for folder in (run, "again"):
        rows = json.loads(ragbench("cases", folder, "--json").out)["cases"]
        scores.append({row["id"]: row["scores"] for row in rows})
    assert scores[1] == {"c2": scores[0]["c2"]}
    again = ragbench("cases", run, "--cause", "not_retrieved", "-o", "regress")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert ragbench("cases", run, "--tag", "none", "-o", "empty").code == 2


def test_listed_cases_keep_their_gold_when_they_are_read(ragbench: Ragbench, run: str) -> None:
    listed = ragbench("cases", run, "--json").out
    Path("listed.json").write_text(listed, encoding="utf-8")
    assert "reference_context_ids=reference_ids" in ragbench("eval", "listed.json").err
