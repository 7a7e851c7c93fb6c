"""``ragbench explain`` and ``ragbench cases``: from a number to its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, cases_of, lines, own_rag, report


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A run of a RAG that finds one document and always says 27 days."""
    assert ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run", "-q").code == 0
    return "run"


def test_every_case_of_a_run_has_one_cause(ragbench: Ragbench, run: str) -> None:
    made = report(run)
    causes = {case["id"]: case["attribution"]["cause"] for case in cases_of(run)}
    assert causes == {"c1": "right", "c2": "not_retrieved", "c3": "answered_without"}
    assert [(count["cause"], count["cases"]) for count in made["causes"]] == [
        ("not_retrieved", 1),
        ("answered_without", 1),
        ("right", 1),
    ]
    assert "## Where the answers were lost" in (Path(run) / "report.md").read_text("utf-8")


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


def test_what_an_operator_dropped_is_named(ragbench: Ragbench) -> None:
    Path("post.yaml").write_text(
        "operators:\n  - action: filter\n    type: top_k\n    k: 1\n", "utf-8"
    )
    desk = "The help desk is open from 8 to 17."
    case = {"id": "q", "query": "When is the help desk open?", "reference_contexts": [desk]}
    lines("cases.jsonl", [case | {"reference": "from 8 to 17"}])
    rag = own_rag("return 'a badge'", f"return ['A lost badge.', {desk!r}]")
    command = ("eval", "cases.jsonl", "--rag", rag, "--post-retrieval", "post.yaml")
    assert ragbench(*command, "-o", "cut", "-q").code == 0
    (made,) = cases_of("cut")
    found = made["attribution"]
    assert (found["cause"], found["basis"], found["rank"]) == ("dropped", "texts", 2)
    assert "top_k" in found["stage"]
    assert "top_k" in ragbench("explain", "cut", "q").out


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
