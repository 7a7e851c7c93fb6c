"""``ragbench gate`` and ``ragbench baseline``: verdicts, exit codes and what is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest

from ragbench.gate.baseline_file import write_baseline
from ragbench.gate.main_runs import baseline_of
from tests.cli.runs import Ragbench, lines, own_rag
from tests.unit.gate.builders import run as made


@pytest.fixture
def runs() -> None:
    for name, losses in (("good", 0), ("bad", 8), ("like", 4)):
        scores = [0] * losses + [1] * (12 - losses)
        write_baseline(baseline_of([made({"m": scores})]), Path(f"{name}.json"))


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("good.json", "-b", "bad.json"), 0, "passed"),
        (("bad.json", "-b", "good.json"), 1, "failed"),
        (("like.json", "-b", "good.json"), 0, "passed with a warning"),
        (("like.json", "-b", "good.json", "--strict"), 3, "inconclusive"),
        (("good.json", "--min", "m=1"), 0, "passed"),
        (("bad.json", "--min", "m=0.5"), 0, "passed with a warning"),
        (("bad.json", "--min", "m=0.8"), 1, "failed"),
        (("bad.json", "--max", "m=0.5"), 0, "passed"),
        (("good.json", "--max-drop", "m=0.1"), 3, "inconclusive"),
        (("good.json", "-b", "auto"), 3, "inconclusive"),
        (("like.json", "--must-pass", "q6", "--must-pass", "q12"), 0, "passed"),
        (("like.json", "-b", "good.json", "--must-pass", "q1"), 0, "passed with a warning"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_one_verdict_decides_about_the_words_and_the_exit_code(
    ragbench: Ragbench, arguments: tuple[str, ...], code: int, word: str
) -> None:
    done = ragbench("gate", *arguments)
    assert (done.code, done.err) == (code, "")
    assert done.out.startswith(f"{word}: ")
    as_json = ragbench("gate", *arguments, "--json")
    assert as_json.code == as_json.json["exit_code"] == code


@pytest.mark.usefixtures("runs")
def test_the_page_says_what_was_compared_and_how_sure_it_is(ragbench: Ragbench) -> None:
    page = ragbench("gate", "bad.json", "-b", "good.json").out.splitlines()
    assert page[0] == "failed: m down 0.667 from 1.000 to 0.333"
    assert page[2] == "run       bad.json  (rag on quiz, 12 cases)"
    assert page[3].startswith("baseline  good.json")
    row = next(line for line in page if line.startswith("m "))
    assert row.split()[:4] == ["m", "failed", "0.333", "-0.667"]
    assert "cases that lost: 8, the first 3" in page
    assert "  q1: m 1.000, now 0.000" in page
    assert all(len(line) <= 80 for line in page)
    assert len(page) <= 24
    assert page[-1] == "next      ragbench compare good.json bad.json --cases 5"
    open_page = " ".join(ragbench("gate", "like.json", "-b", "good.json").out.split())
    figures = "m down 0.333 from 1.000 to 0.667 (95% interval -0.646 to -0.020)"
    assert f"not shown, and not ruled out: {figures}, more than the tolerated 0.020" in open_page
    assert "cases would settle it in 4 of 5 runs if nothing has changed" in open_page


@pytest.mark.usefixtures("runs")
def test_the_configuration_is_found_and_options_go_before_it(ragbench: Ragbench) -> None:
    config = "gate: {baseline: good.json, metrics: {m: {max_drop: 0.02}}}"
    Path("ragbench.yaml").write_text(config, "utf-8")
    assert ragbench("gate", "bad.json").code == 1
    assert ragbench("gate", "bad.json", "--max-drop", "m=0.9").code != 1
    Path("other.yaml").write_text("gate: {metrics: {m: {min: 0.3}}}", "utf-8")
    assert ragbench("gate", "bad.json", "-c", "other.yaml").code == 0
    Path("ragbench.yaml").write_text("eval: {}", "utf-8")
    assert ragbench("gate", "good.json", "--min", "m=1").code == 0


@pytest.mark.usefixtures("runs")
def test_every_form_holds_the_same_verdict(ragbench: Ragbench) -> None:
    arguments = ("gate", "bad.json", "-b", "good.json")
    written = ("--md", "gate.md", "--junit", "gate.xml", "--annotations", "github")
    done = ragbench(*arguments, *written).ends(1)
    assert done.err.startswith("::error title=ragbench failed::m down 0.667")
    page = Path("gate.md").read_text("utf-8")
    assert page.startswith("<!-- ragbench-gate quiz/rag -->\n\n### ragbench gate: failed")
    assert ragbench(*arguments, "--md", "-").out == page
    suite = Tree.parse("gate.xml").getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("4", "1")
    # What could not run is written, too: what is left of an earlier run would say that it passed.
    Path("wrong.yaml").write_text("gate: {one: 1, two: 2}", "utf-8")
    failed = ragbench(*arguments, *written, "-c", "wrong.yaml").refused("unknown key")
    assert failed.err.startswith("::error title=ragbench gate could not run::wrong.yaml:1: field")
    page = Path("gate.md").read_text("utf-8")
    assert page.startswith("<!-- ragbench-gate -->\n\n### ragbench gate: could not run\n")
    assert "gate.one" in page and "gate.two" in page
    suite = Tree.parse("gate.xml").getroot()
    assert (suite.attrib["tests"], suite.attrib["errors"]) == ("1", "1")


def test_a_stored_run_is_gated_kept_and_found_again(ragbench: Ragbench) -> None:
    """Real runs: the same RAG twice, then one that is never asked what it is asked for."""
    evaluate = ("eval", "office", "-q", "-m", "hit_rate@5,token_f1")
    ragbench(*evaluate, "--rag", "rags.py:Plain", "-o", "runs/one")
    ragbench(*evaluate, "--rag", "rags.py:Plain", "-o", "runs/two", "--top-k", "1")
    ragbench(*evaluate, "--rag", "rags.py:Failing", "-o", "runs/three")
    assert ragbench("baseline", "set", "runs/one").out == "ragbench-baseline.json\n"
    shown = ragbench("baseline", "show", "--json").json
    assert (shown["dataset"], shown["cases"], len(shown["metrics"])) == ("office", 3, 2)
    assert ragbench("baseline", "show").out.startswith("Plain on office: 3 cases")
    for baseline in ("ragbench-baseline.json", "runs/one", "runs/one/report.json", "auto"):
        assert ragbench("gate", "runs/two", "-b", baseline).code == 0
    verdict = ragbench("gate", "runs/three", "-b", "runs/one", "--json").ends(0).json
    (rate,) = [check for check in verdict["checks"] if check["subject"] == "error rate"]
    assert (rate["outcome"], rate["observed"]) == ("inconclusive", pytest.approx(1 / 3))
    assert verdict["colour"] == "yellow"  # one of three is no share that three cases could show
    assert verdict["lost_cases"][0]["id"] == "c2"
    assert verdict["lost_cases"][0]["status"] == "failed"
    both = ("runs/one", "runs/two", "-o", "both.json")
    ragbench("baseline", "set", *both).refused("not runs of one unchanged system")
    kept = ragbench("baseline", "set", "runs/three", "-o", "three.json", "--json")
    assert kept.json["path"] == "three.json"
    assert "Warning: 1 calls of this run failed" in kept.err


def test_runs_of_main_are_added_averaged_and_dated(ragbench: Ragbench) -> None:
    for day, name in enumerate(("one", "two", "three"), 1):
        ragbench("eval", "office", "-q", "-m", "hit_rate@5", "--rag", "rags.py:Plain", "-o", name)
        with closing(sqlite3.connect(f"{name}/journal.sqlite")) as db, db:
            db.execute("UPDATE runs SET started = ?", (f"2026-02-0{day}T09:00:00+00:00",))
    first = ragbench("baseline", "add", "one")
    assert (first.code, first.out) == (0, "ragbench-baseline.json\n")
    shown = ragbench("baseline", "add", "two", "--json").json
    assert [run["date"][:10] for run in shown["runs"]] == ["2026-02-01", "2026-02-02"]
    assert (shown["known"], shown["changes"]) == (False, [])
    assert shown["metrics"][0]["noise_share"] == 0.0
    before = Path("ragbench-baseline.json").read_bytes()
    assert ragbench("baseline", "add", "two").err.startswith("This run is in it already")
    assert Path("ragbench-baseline.json").read_bytes() == before
    assert "the mean of 2 runs, 2026-02-01 to 2026-02-02" in ragbench("baseline", "show").out
    gated = ragbench("gate", "three", "-b", "ragbench-baseline.json").ok()
    assert "mean of 2 runs)" in gated.flat
    assert "the newest is 1 day older than this run" in gated.flat
    assert ragbench("baseline", "add", "three", "--keep", "1").code == 0
    assert len(ragbench("baseline", "show", "--json").json["runs"]) == 1
    ragbench("baseline", "add", "three", "--keep", "99").refused("keep is 99: give 1 to 20")
    other = ("-o", "three/report.json")
    ragbench("baseline", "add", "three", *other).refused("is not a baseline file")


def test_a_lower_level_of_main_waits_for_somebody_who_accepts_it(ragbench: Ragbench) -> None:
    """Ten right answers of ten, then none; the gate fails until the lower level is accepted."""
    rows = [{"id": f"q{n}", "query": f"Q{n}?", "reference": "yes"} for n in range(10)]
    for name, said in (("high", "yes"), ("low", "no")):
        lines("cases.jsonl", ({**row, "response": said} for row in rows))
        ragbench("eval", "cases.jsonl", "-q", "-m", "exact_match", "-o", name).ok()
    add = ("baseline", "add", "low", "-o", "main.json")
    ragbench("baseline", "add", "high", "-o", "main.json").ok()
    assert "Accept the lower level with --accept." in ragbench(*add).ok().err
    assert ragbench("gate", "low", "-b", "main.json").code == 1
    known = ragbench(*add, "--json").ok().json
    assert (known["known"], known["remembered"], known["metrics"][0]["score"]) == (True, 2, 1.0)
    taken = ragbench(*add, "--accept", "--json").ok().json
    assert (taken["held"], taken["remembered"], taken["metrics"][0]["score"]) == (False, 2, 0.0)
    assert ragbench("gate", "low", "-b", "main.json").code == 0
    shown = ragbench("history", "main.json", "--json").ok().json
    assert shown["metrics"][0]["scores"] == [1.0, 0.0]


def test_limits_that_fit_are_measured_from_runs_of_one_system(ragbench: Ragbench) -> None:
    for name in ("one", "two"):
        ragbench("eval", "office", "-q", "-m", "hit_rate@5", "--rag", "rags.py:Plain", "-o", name)
    one = ("baseline", "set", "one", "--limits", "ragbench.yaml")
    ragbench(*one).refused("--limits needs two or more runs")
    limits = ("baseline", "set", "one", "two", "--limits", "conf/ragbench.yaml")
    assert ragbench(*limits, "-o", "b.json").code == 2  # no such folder: nothing is half written
    Path("conf").mkdir()
    done = ragbench(*limits, "-o", "b.json")
    assert (done.code, done.out) == (0, "b.json\nconf/ragbench.yaml\n")
    assert "hit_rate@5: 2 cases, all alike in all runs" in done.err  # one names no gold
    text = Path("conf/ragbench.yaml").read_text("utf-8")
    assert "# Written by: ragbench baseline set one two -o b.json --limits conf" in text
    assert 'baseline: "../b.json"' in text
    assert ragbench("gate", "two", "--config", "conf/ragbench.yaml").code == 0
    assert "conf/ragbench.yaml exists" in ragbench(*limits).err
    assert Path("conf/ragbench.yaml").read_text("utf-8") == text
    init = ("init", "new", "--measured", "one", "--measured", "two")
    ragbench(*init).ok("new/ragbench-baseline.json")
    text = Path("new/ragbench.yaml").read_text("utf-8")
    assert "# Written by: ragbench init --measured one --measured two" in text
    assert ragbench("gate", "two", "--config", "new/ragbench.yaml").code == 0


@pytest.mark.parametrize("baseline", ["old", "auto"])
def test_metrics_that_the_baseline_lacks_are_computed_on_its_answers(
    ragbench: Ragbench, baseline: str
) -> None:
    evaluate = ("eval", "office", "-q", "--rag", "rags.py:Plain")
    ragbench(*evaluate, "-m", "hit_rate@5", "-o", "old")
    ragbench(*evaluate, "-m", "hit_rate@5,token_f1", "-o", "new")
    calls, journal = (Path(name).read_bytes() for name in ("calls.log", "old/journal.sqlite"))
    verdict = ragbench("gate", "new", "-b", baseline, "--json").ok().json
    assert verdict["refusals"] == []
    assert {"hit_rate@5", "token_f1"} <= {check["subject"] for check in verdict["checks"]}
    assert "Computed on the baseline's stored answers: token_f1." in verdict["notes"]
    assert Path("calls.log").read_bytes() == calls
    assert Path("old/journal.sqlite").read_bytes() == journal


def test_a_baseline_beside_a_system_is_not_what_its_answers_came_from(
    ragbench: Ragbench, workplace: Path
) -> None:
    lines(workplace / "cases.jsonl", [{"id": "q", "query": "Yes?", "reference": "yes"}])
    command = ("eval", "cases.jsonl", "--rag", own_rag("return 'yes'"), "--out", "run")
    ragbench(*command).ok()
    ragbench("baseline", "set", "run").ok()
    assert "changed since run" not in ragbench(*command).ok().err
