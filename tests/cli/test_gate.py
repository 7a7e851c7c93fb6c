"""``ragbench gate`` and ``ragbench baseline``: verdicts, exit codes and what is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest

from ragbench.gate.baseline_file import write_baseline
from ragbench.gate.main_runs import baseline_of
from tests.cli.runs import Ragbench, lines, own_rag, row_where
from tests.unit.gate.builders import run as run_with_scores

DEFAULT_FILE = "ragbench-baseline.json"
"""The baseline file that a command writes and reads where none is named."""


def evaluate(
    ragbench: Ragbench, folder: str, *options: str, rag: str = "Plain", metrics: str = "hit_rate@5"
) -> str:
    """A run of a RAG of rags.py on the three cases of `office`, in this folder."""
    system = ("--rag", f"rags.py:{rag}")
    ragbench("eval", "office", "-q", *system, "-m", metrics, "-o", folder, *options)
    return folder


# --- files of hand-made runs: 12 cases, scored 0 or 1 by a metric m


@pytest.fixture
def files() -> None:
    """good.json has 12 of 12 cases right, like.json 8, bad.json 4."""
    for name, losses in (("good", 0), ("like", 4), ("bad", 8)):
        scores = [0] * losses + [1] * (12 - losses)
        run = run_with_scores({"m": scores})
        write_baseline(baseline_of([run]), Path(f"{name}.json"))


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
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.usefixtures("files")
def test_one_verdict_decides_about_the_words_and_the_exit_code(
    ragbench: Ragbench, arguments: tuple[str, ...], code: int, word: str
) -> None:
    as_text = ragbench("gate", *arguments)
    as_json = ragbench("gate", *arguments, "--json")

    assert as_text.code == code
    assert as_text.out.startswith(f"{word}: ")
    assert as_text.err == ""
    assert as_json.code == code
    assert as_json.json["exit_code"] == code


@pytest.mark.usefixtures("files")
def test_the_page_says_what_was_compared_and_which_cases_lost(ragbench: Ragbench) -> None:
    page = ragbench("gate", "bad.json", "-b", "good.json").out.splitlines()

    assert page[0] == "failed: m down 0.667 from 1.000 to 0.333"
    assert page[2] == "run       bad.json  (rag on quiz, 12 cases)"
    assert page[3].startswith("baseline  good.json")
    (row,) = [line for line in page if line.startswith("m ")]
    assert row.split()[:5] == ["m", "failed", "1.000", "0.333", "-0.667"]
    assert "cases with a lower score: 8, the first 3" in page
    assert "  m 1.000, now 0.000: q1" in page
    assert page[-1] == "next      ragbench compare good.json bad.json --cases 5"


@pytest.mark.usefixtures("files")
def test_the_page_fits_a_terminal(ragbench: Ragbench) -> None:
    page = ragbench("gate", "bad.json", "-b", "good.json").out.splitlines()

    assert [line for line in page if len(line) > 80] == []
    assert len(page) <= 24


@pytest.mark.usefixtures("files")
def test_an_open_verdict_says_what_is_not_ruled_out_and_how_many_cases_would_settle_it(
    ragbench: Ragbench,
) -> None:
    page = ragbench("gate", "like.json", "-b", "good.json").flat

    drop = "m down 0.333 from 1.000 to 0.667 (95% interval -0.646 to -0.020)"
    assert f"not shown, and not ruled out: {drop}, more than the tolerated 0.020" in page
    assert "cases would settle it in 4 of 5 runs if nothing has changed" in page


# --- where the limits come from


@pytest.mark.usefixtures("files")
def test_the_configuration_beside_it_sets_the_limits(ragbench: Ragbench) -> None:
    config = "gate: {baseline: good.json, metrics: {m: {max_drop: 0.02}}}"
    Path("ragbench.yaml").write_text(config, "utf-8")

    assert ragbench("gate", "bad.json").code == 1


@pytest.mark.usefixtures("files")
def test_an_option_goes_before_the_configuration(ragbench: Ragbench) -> None:
    config = "gate: {baseline: good.json, metrics: {m: {max_drop: 0.02}}}"
    Path("ragbench.yaml").write_text(config, "utf-8")

    # A drop of 0.667 is within 0.9, and 12 cases do not rule out a larger one: not failed.
    assert ragbench("gate", "bad.json", "--max-drop", "m=0.9").code != 1


@pytest.mark.usefixtures("files")
def test_a_configuration_that_is_named_replaces_the_one_beside_it(ragbench: Ragbench) -> None:
    config = "gate: {baseline: good.json, metrics: {m: {max_drop: 0.02}}}"
    Path("ragbench.yaml").write_text(config, "utf-8")
    Path("other.yaml").write_text("gate: {metrics: {m: {min: 0.3}}}", "utf-8")

    assert ragbench("gate", "bad.json", "-c", "other.yaml").code == 0


@pytest.mark.usefixtures("files")
def test_a_configuration_without_a_gate_leaves_it_to_the_options(ragbench: Ragbench) -> None:
    Path("ragbench.yaml").write_text("eval: {}", "utf-8")

    assert ragbench("gate", "good.json", "--min", "m=1").code == 0


# --- the files that a gate writes

FAILED_GATE = ("gate", "bad.json", "-b", "good.json")
FORMS = ("--md", "gate.md", "--junit", "gate.xml", "--annotations", "github")


@pytest.mark.usefixtures("files")
def test_every_form_holds_the_same_verdict(ragbench: Ragbench) -> None:
    done = ragbench(*FAILED_GATE, *FORMS).ends(1)

    assert done.err.startswith("::error title=ragbench failed::m down 0.667")
    page = Path("gate.md").read_text("utf-8")
    assert page.startswith("<!-- ragbench-gate quiz/rag -->\n\n### ragbench gate: failed")
    counts = Tree.parse("gate.xml").getroot().attrib
    assert counts["tests"] == "4"
    assert counts["failures"] == "1"


@pytest.mark.usefixtures("files")
def test_the_page_for_a_pull_request_is_printed_too(ragbench: Ragbench) -> None:
    ragbench(*FAILED_GATE, "--md", "gate.md").ends(1)

    printed = ragbench(*FAILED_GATE, "--md", "-").ends(1).out

    assert printed == Path("gate.md").read_text("utf-8")


@pytest.mark.usefixtures("files")
def test_a_gate_that_cannot_run_overwrites_what_an_earlier_one_wrote(ragbench: Ragbench) -> None:
    """The files of an earlier run would otherwise say that it passed."""
    ragbench("gate", "good.json", "-b", "bad.json", *FORMS).ok()
    Path("wrong.yaml").write_text("gate: {one: 1, two: 2}", "utf-8")

    done = ragbench(*FAILED_GATE, *FORMS, "-c", "wrong.yaml").refused("unknown key")

    assert done.err.startswith("::error title=ragbench gate could not run::wrong.yaml:1: field")
    page = Path("gate.md").read_text("utf-8")
    assert page.startswith("<!-- ragbench-gate -->\n\n### ragbench gate: could not run\n")
    assert "gate.one" in page
    assert "gate.two" in page
    counts = Tree.parse("gate.xml").getroot().attrib
    assert counts["tests"] == "1"
    assert counts["errors"] == "1"


# --- real runs


@pytest.mark.parametrize("baseline", [DEFAULT_FILE, "runs/main", "runs/main/report.json", "auto"])
def test_a_baseline_is_a_file_a_run_its_report_or_found(ragbench: Ragbench, baseline: str) -> None:
    evaluate(ragbench, "runs/main", metrics="hit_rate@5,token_f1")
    evaluate(ragbench, "runs/branch", "--top-k", "1", metrics="hit_rate@5,token_f1")
    ragbench("baseline", "set", "runs/main").ok()

    assert ragbench("gate", "runs/branch", "-b", baseline).code == 0


def test_a_baseline_file_is_shown(ragbench: Ragbench) -> None:
    evaluate(ragbench, "main", metrics="hit_rate@5,token_f1")
    written = ragbench("baseline", "set", "main").ok()

    as_text = ragbench("baseline", "show").ok()
    as_json = ragbench("baseline", "show", "--json").ok().json

    assert written.out == f"{DEFAULT_FILE}\n"
    assert as_text.out.startswith("Plain on office: 3 cases")
    assert as_json["dataset"] == "office"
    assert as_json["cases"] == 3
    assert len(as_json["metrics"]) == 2


def test_a_call_that_failed_is_a_rate_of_errors_and_a_lost_case(ragbench: Ragbench) -> None:
    evaluate(ragbench, "main", metrics="hit_rate@5,token_f1")
    evaluate(ragbench, "branch", rag="Failing", metrics="hit_rate@5,token_f1")

    verdict = ragbench("gate", "branch", "-b", "main", "--json").ends(0).json

    rate = row_where(verdict["checks"], subject="error rate")
    assert rate["observed"] == pytest.approx(1 / 3)
    # One of three is no share that three cases could show.
    assert rate["outcome"] == "inconclusive"
    assert verdict["colour"] == "yellow"
    lost_case = verdict["lost_cases"][0]
    assert lost_case["id"] == "c2"
    assert lost_case["status"] == "failed"


def test_a_baseline_of_a_run_with_failed_calls_is_written_with_a_warning(
    ragbench: Ragbench,
) -> None:
    evaluate(ragbench, "run", rag="Failing")

    done = ragbench("baseline", "set", "run", "-o", "main.json", "--json").ok()

    assert done.json["path"] == "main.json"
    assert "Warning: this run has 1 failed call:" in done.err


def test_runs_of_two_systems_are_no_baseline(ragbench: Ragbench) -> None:
    evaluate(ragbench, "main")
    evaluate(ragbench, "branch", "--top-k", "1")

    done = ragbench("baseline", "set", "main", "branch", "-o", "both.json")

    done.refused("not runs of one unchanged system")
    assert not Path("both.json").exists()


@pytest.mark.parametrize("baseline", ["old", "auto"])
def test_metrics_that_the_baseline_lacks_are_computed_on_its_answers(
    ragbench: Ragbench, baseline: str
) -> None:
    evaluate(ragbench, "old", metrics="hit_rate@5")
    evaluate(ragbench, "new", metrics="hit_rate@5,token_f1")
    calls = Path("calls.log").read_bytes()
    journal = Path("old/journal.sqlite").read_bytes()

    verdict = ragbench("gate", "new", "-b", baseline, "--json").ok().json

    subjects = [check["subject"] for check in verdict["checks"]]
    assert "hit_rate@5" in subjects
    assert "token_f1" in subjects
    assert verdict["refusals"] == []
    assert "Computed on the baseline's stored answers: token_f1." in verdict["notes"]
    assert Path("calls.log").read_bytes() == calls  # the system is not asked again
    assert Path("old/journal.sqlite").read_bytes() == journal


def test_a_baseline_beside_a_system_is_not_what_its_answers_came_from(
    ragbench: Ragbench, workplace: Path
) -> None:
    """Files beside a system are part of it; the baseline that is written there is not."""
    lines(workplace / "cases.jsonl", [{"id": "q", "query": "Yes?", "reference": "yes"}])
    command = ("eval", "cases.jsonl", "--rag", own_rag("return 'yes'"), "--out", "run")
    ragbench(*command).ok()
    ragbench("baseline", "set", "run").ok()

    done = ragbench(*command).ok()

    assert "changed since run" not in done.err


# --- runs of main, added one after another


def run_of_day(ragbench: Ragbench, day: int) -> str:
    """A run that started on this day of February, in a folder of this name."""
    folder = evaluate(ragbench, f"day{day}")
    with closing(sqlite3.connect(f"{folder}/journal.sqlite")) as db, db:
        db.execute("UPDATE runs SET started = ?", (f"2026-02-0{day}T09:00:00+00:00",))
    return folder


@pytest.fixture
def two_days(ragbench: Ragbench) -> None:
    """Runs of the first and the second of February, added to the baseline file."""
    for day in (1, 2):
        ragbench("baseline", "add", run_of_day(ragbench, day)).ok()


def test_the_first_run_of_main_makes_the_file(ragbench: Ragbench) -> None:
    done = ragbench("baseline", "add", run_of_day(ragbench, 1)).ok()

    assert done.out == f"{DEFAULT_FILE}\n"
    assert Path(DEFAULT_FILE).exists()


def test_a_run_of_main_is_added_to_those_of_earlier_days(ragbench: Ragbench) -> None:
    ragbench("baseline", "add", run_of_day(ragbench, 1)).ok()

    shown = ragbench("baseline", "add", run_of_day(ragbench, 2), "--json").ok().json

    days = [run["date"][:10] for run in shown["runs"]]
    assert days == ["2026-02-01", "2026-02-02"]
    assert shown["known"] is False
    assert shown["changes"] == []
    assert shown["metrics"][0]["noise_share"] == 0.0  # both runs gave the same answers


@pytest.mark.usefixtures("two_days")
def test_a_run_that_is_in_the_file_is_not_added_again(ragbench: Ragbench) -> None:
    before = Path(DEFAULT_FILE).read_bytes()

    done = ragbench("baseline", "add", "day2")

    assert done.err.startswith("This run is in it already")
    assert Path(DEFAULT_FILE).read_bytes() == before


@pytest.mark.usefixtures("two_days")
def test_the_baseline_of_runs_of_main_is_their_mean(ragbench: Ragbench) -> None:
    shown = ragbench("baseline", "show").ok()

    assert "the mean of 2 runs, 2026-02-01 to 2026-02-02" in shown.out


@pytest.mark.usefixtures("two_days")
def test_a_gate_says_how_old_the_newest_run_of_main_is(ragbench: Ragbench) -> None:
    page = ragbench("gate", run_of_day(ragbench, 3), "-b", DEFAULT_FILE).ok().flat

    assert "mean of 2 runs)" in page
    assert "the newest is 1 day older than this run" in page


@pytest.mark.usefixtures("two_days")
def test_the_newest_runs_are_kept_as_many_as_keep_says(ragbench: Ragbench) -> None:
    ragbench("baseline", "add", run_of_day(ragbench, 3), "--keep", "1").ok()

    runs = ragbench("baseline", "show", "--json").json["runs"]
    assert [run["date"][:10] for run in runs] == ["2026-02-03"]


@pytest.mark.usefixtures("two_days")
def test_more_runs_than_a_file_holds_are_refused(ragbench: Ragbench) -> None:
    done = ragbench("baseline", "add", run_of_day(ragbench, 3), "--keep", "99")

    done.refused("keep is 99: give 1 to 20")


def test_more_runs_than_a_file_holds_are_refused_before_the_file_is_made(
    ragbench: Ragbench,
) -> None:
    done = ragbench("baseline", "add", run_of_day(ragbench, 3), "--keep", "99", "-o", "new.json")

    done.refused("keep is 99: give 1 to 20")
    assert not Path("new.json").exists()


def test_limits_in_a_folder_that_is_not_there_write_no_baseline(ragbench: Ragbench) -> None:
    runs = [run_of_day(ragbench, day) for day in (1, 2)]

    done = ragbench("baseline", "set", *runs, "-o", "new.json", "--limits", "nowhere/limits.yaml")

    done.refused("there is no folder nowhere")
    assert not Path("new.json").exists()


def test_a_run_is_not_added_to_what_is_no_baseline_file(ragbench: Ragbench) -> None:
    run = run_of_day(ragbench, 1)
    report = Path(run, "report.json")
    before = report.read_bytes()

    done = ragbench("baseline", "add", run, "-o", str(report))

    done.refused("is not a baseline file")
    assert report.read_bytes() == before


# --- a lower level of main waits for somebody who accepts it

ADD_LOW = ("baseline", "add", "low", "-o", "main.json")
GATE_LOW = ("gate", "low", "-b", "main.json")


@pytest.fixture
def lower_level(ragbench: Ragbench) -> None:
    """main.json holds a run of ten right answers; the run `low` has none of ten."""
    for name, response in (("high", "yes"), ("low", "no")):
        rows = []
        for number in range(10):
            row = {
                "id": f"q{number}",
                "query": f"Q{number}?",
                "reference": "yes",
                "response": response,
            }
            rows.append(row)
        lines("cases.jsonl", rows)
        ragbench("eval", "cases.jsonl", "-q", "-m", "exact_match", "-o", name).ok()
    ragbench("baseline", "add", "high", "-o", "main.json").ok()


@pytest.mark.usefixtures("lower_level")
def test_a_lower_level_does_not_lower_the_baseline(ragbench: Ragbench) -> None:
    added = ragbench(*ADD_LOW).ok()
    shown = ragbench("baseline", "show", "main.json", "--json").ok().json

    assert "Accept the lower level with --accept." in added.err
    assert shown["metrics"][0]["score"] == 1.0
    assert ragbench(*GATE_LOW).code == 1


@pytest.mark.usefixtures("lower_level")
def test_a_lower_level_that_waits_is_remembered(ragbench: Ragbench) -> None:
    ragbench(*ADD_LOW).ok()

    added_again = ragbench(*ADD_LOW, "--json").ok().json

    assert added_again["known"] is True
    assert added_again["remembered"] == 2
    assert added_again["metrics"][0]["score"] == 1.0


@pytest.mark.usefixtures("lower_level")
def test_a_lower_level_that_is_accepted_is_the_baseline(ragbench: Ragbench) -> None:
    ragbench(*ADD_LOW).ok()

    accepted = ragbench(*ADD_LOW, "--accept", "--json").ok().json

    assert accepted["held"] is False
    assert accepted["remembered"] == 2
    assert accepted["metrics"][0]["score"] == 0.0
    assert ragbench(*GATE_LOW).code == 0


@pytest.mark.usefixtures("lower_level")
def test_the_history_shows_the_level_before_and_after(ragbench: Ragbench) -> None:
    ragbench(*ADD_LOW, "--accept").ok()

    shown = ragbench("history", "main.json", "--json").ok().json

    assert shown["metrics"][0]["scores"] == [1.0, 0.0]


# --- limits that fit are measured from runs of one system


@pytest.fixture
def repeats(ragbench: Ragbench) -> None:
    """Two runs of one system, `one` and `two`."""
    for name in ("one", "two"):
        evaluate(ragbench, name)


SET_LIMITS = ("baseline", "set", "one", "two", "--limits", "conf/ragbench.yaml")


@pytest.mark.usefixtures("repeats")
def test_limits_of_a_single_run_are_refused(ragbench: Ragbench) -> None:
    done = ragbench("baseline", "set", "one", "--limits", "ragbench.yaml")

    done.refused("--limits needs two or more runs")


@pytest.mark.usefixtures("repeats")
def test_limits_in_a_folder_that_is_missing_are_refused(ragbench: Ragbench) -> None:
    assert ragbench(*SET_LIMITS).code == 2
    assert not Path("conf").exists()


@pytest.mark.usefixtures("repeats")
def test_limits_are_written_beside_the_baseline_and_the_gate_reads_them(
    ragbench: Ragbench,
) -> None:
    Path("conf").mkdir()

    done = ragbench(*SET_LIMITS, "-o", "b.json").ok()

    assert done.out == "b.json\nconf/ragbench.yaml\n"
    assert "hit_rate@5: 2 cases, all alike in all runs" in done.err  # c3 names no gold
    config = Path("conf/ragbench.yaml").read_text("utf-8")
    assert "# Written by: ragbench baseline set one two -o b.json --limits conf" in config
    assert 'baseline: "../b.json"' in config
    assert ragbench("gate", "two", "--config", "conf/ragbench.yaml").code == 0


@pytest.mark.usefixtures("repeats")
def test_limits_name_a_schema_that_lies_beside_them(ragbench: Ragbench) -> None:
    Path("conf").mkdir()

    ragbench(*SET_LIMITS, "-o", "b.json").ok()

    first_line = Path("conf/ragbench.yaml").read_text("utf-8").splitlines()[0]
    assert first_line == "# yaml-language-server: $schema=schemas/ragbench.schema.json"
    assert Path("conf/schemas/ragbench.schema.json").is_file()


@pytest.mark.usefixtures("repeats")
def test_limits_that_exist_are_not_overwritten(ragbench: Ragbench) -> None:
    Path("conf").mkdir()
    Path("conf/ragbench.yaml").write_text("gate: {}", "utf-8")

    done = ragbench(*SET_LIMITS)

    assert "conf/ragbench.yaml exists" in done.err
    assert Path("conf/ragbench.yaml").read_text("utf-8") == "gate: {}"


@pytest.mark.usefixtures("repeats")
def test_a_new_project_starts_with_measured_limits(ragbench: Ragbench) -> None:
    done = ragbench("init", "new", "--measured", "one", "--measured", "two")

    done.ok("new/ragbench-baseline.json")
    config = Path("new/ragbench.yaml").read_text("utf-8")
    assert "# Written by: ragbench init --measured one --measured two" in config
    assert ragbench("gate", "two", "--config", "new/ragbench.yaml").code == 0
