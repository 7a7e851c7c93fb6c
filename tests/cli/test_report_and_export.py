"""``ragbench report`` and ``ragbench export`` on a stored run."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, calls, cases_of


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    return ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run").out


def test_a_stored_run_is_reported_as_when_it_was_made(
    ragbench: Ragbench, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {path: path.read_bytes() for path in Path("run").glob("report.*")}
    for path in made:
        path.unlink()
    done = ragbench("report", "run")
    assert (done.code, done.err) == (0, "")
    assert {"retrieve  3 done", *run.splitlines()[:2]} <= {*done.out.splitlines()}
    assert {path: path.read_bytes() for path in Path("run").glob("report.*")} == made
    assert calls() == 3
    before = {path: path.stat().st_mtime_ns for path in Path("run").iterdir()}
    assert ragbench("report", "run").ok().out == done.out
    assert {path: path.stat().st_mtime_ns for path in Path("run").iterdir()} == before
    Path("run/report.md").write_text("edited")
    monkeypatch.setattr(os, "access", lambda *_: False)  # nor does it need to be written to
    assert ragbench("report", "run").ok().out == done.out
    assert Path("run/report.md").read_text() == "edited"


def test_a_page_shows_each_case_beside_that_of_another_run(ragbench: Ragbench, run: str) -> None:
    ragbench("eval", "office", "--rag", "rags.py:Failing", "-o", "other")
    done = ragbench("report", "other", "--against", "run", "--html", "page.html")
    assert (done.code, done.err) == (0, "page    page.html\n")
    page = Path("page.html").read_text("utf-8")
    kinds = re.findall(r'data-k="([^"]+)"', page)
    assert "newly failing" in kinds
    assert kinds == sorted(kinds, key=["newly failing", "mixed", "newly fixed"].index)
    # Those that went another way stand first.
    blocks = re.findall(r"<details class=case[^>]*>", page)
    assert len(blocks) == len(cases_of("other"))
    assert all("data-k" in block for block in blocks[: len(kinds)])
    responses = [case["response"] for case in cases_of("run") if case["response"]]
    assert responses
    for response in responses:
        assert html.escape(response) in re.sub(r"</?u>", "", page)


def test_an_export_names_what_it_wrote_and_where(ragbench: Ragbench, run: str) -> None:
    done = ragbench("export", "run", "--to", "jsonl", "-o", "all.jsonl")
    assert (done.code, done.out, done.err) == (0, "all.jsonl\n", "3 cases written\n")
    done = ragbench("export", "run", "--json")
    paths = [str(Path("run/samples.ragas.jsonl"))]
    expected = {"format": "ragas", "paths": paths, "written": 3, "left_out": {}, "unfinished": 0}
    assert (done.code, done.err, done.json) == (0, "", expected)


def test_an_export_says_what_it_left_out_and_what_an_interrupted_run_lacks(
    ragbench: Ragbench,
) -> None:
    ragbench("eval", "office", "--rag", "rags.py:Failing", "-o", "run")
    done = ragbench("export", "run", "--to", "ragas")
    assert done.err.startswith("2 cases written\n1 left out: ")
    assert sum(ragbench("export", "run", "--json").json["left_out"].values()) == 1
    done = ragbench("eval", "office", "--rag", "rags.py:Impatient", "-o", "part").ends(130)
    assert "Interrupted: finished cases are stored in part. The same" in done.err
    warning = "3 cases not asked or not scored yet. Continue it with the same eval command\n"
    for form in ("ragas", "jsonl", "csv"):
        assert ragbench("export", "part", "--to", form).ok().err.endswith(warning)
    assert ragbench("export", "part", "--json").json["unfinished"] == 3
