"""``ragbench report`` and ``ragbench export`` on a stored run."""

from __future__ import annotations

import html
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, calls, cases_of


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """What was printed for the run in the folder "run", of three cases."""
    return ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run").ok().out


def report_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("run").glob("report.*")}


def times_of_change() -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in Path("run").iterdir()}


# --- report


def test_a_stored_run_is_reported_without_asking_the_rag(ragbench: Ragbench, run: str) -> None:
    done = ragbench("report", "run").ok()

    assert done.err == ""
    assert done.out.splitlines()[:3] == [
        "Plain on office: 3 cases",
        "retrieve  3 done",
        "generate  3 answered",
    ]
    assert calls() == 3


def test_files_of_a_report_that_are_gone_are_written_as_they_were(
    ragbench: Ragbench, run: str
) -> None:
    files = report_files()
    for name in files:
        Path("run", name).unlink()

    ragbench("report", "run").ok()

    assert report_files() == files


def test_files_of_a_report_that_are_there_are_not_written_again(
    ragbench: Ragbench, run: str
) -> None:
    times = times_of_change()

    ragbench("report", "run").ok()

    assert times_of_change() == times


def test_a_run_that_may_only_be_read_is_reported(
    ragbench: Ragbench, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = ragbench("report", "run").ok().out
    Path("run/report.md").write_text("edited")
    monkeypatch.setattr(os, "access", lambda *_: False)

    done = ragbench("report", "run").ok()

    assert done.out == printed
    assert Path("run/report.md").read_text() == "edited"


@pytest.fixture(name="page")
def page_of_a_failing_run_beside_another(ragbench: Ragbench, run: str) -> str:
    ragbench("eval", "office", "--rag", "rags.py:Failing", "-o", "other")
    done = ragbench("report", "other", "--against", "run", "--html", "page.html").ok()
    assert done.err == "page    page.html\n"
    return Path("page.html").read_text("utf-8")


def test_cases_that_changed_come_first_on_a_page_and_the_worst_of_them_first(page: str) -> None:
    kinds = re.findall(r'data-k="([^"]+)"', page)
    assert "newly failing" in kinds
    assert kinds == sorted(kinds, key=["newly failing", "mixed", "newly fixed"].index)

    blocks = re.findall(r"<details class=case[^>]*>", page)
    changed_blocks = [block for block in blocks if "data-k" in block]
    assert len(blocks) == len(cases_of("other"))
    assert blocks[: len(kinds)] == changed_blocks


def test_a_page_shows_the_answers_of_the_other_run(page: str) -> None:
    without_marks = re.sub(r"</?u>", "", page)

    responses = [case["response"] for case in cases_of("run")]
    assert responses == ["27 days", "27 days", "27 days"]
    assert html.escape("27 days") in without_marks


# --- export


def test_an_export_names_the_file_that_it_wrote(ragbench: Ragbench, run: str) -> None:
    done = ragbench("export", "run", "--to", "jsonl", "-o", "all.jsonl").ok()

    assert done.out == "all.jsonl\n"
    assert done.err == "3 cases written\n"
    assert len(Path("all.jsonl").read_text("utf-8").splitlines()) == 3


def test_an_export_is_of_ragas_samples_in_the_run_by_default(ragbench: Ragbench, run: str) -> None:
    done = ragbench("export", "run", "--json").ok()

    assert done.err == ""
    assert done.json == {
        "format": "ragas",
        "paths": [str(Path("run/samples.ragas.jsonl"))],
        "written": 3,
        "left_out": {},
        "unfinished": 0,
    }


@pytest.fixture(name="failing")
def run_with_a_failed_case(ragbench: Ragbench) -> None:
    ragbench("eval", "office", "--rag", "rags.py:Failing", "-o", "run")


@pytest.mark.usefixtures("failing")
def test_an_export_says_how_many_cases_it_left_out(ragbench: Ragbench) -> None:
    done = ragbench("export", "run", "--to", "ragas").ok()

    assert done.err.startswith("2 cases written\n1 left out: ")


@pytest.mark.usefixtures("failing")
def test_an_export_as_json_counts_what_it_left_out_by_reason(ragbench: Ragbench) -> None:
    export = ragbench("export", "run", "--json").ok().json

    assert export["written"] == 2
    assert export["left_out"] == {"generation failed": 1}


@pytest.fixture(name="interrupted")
def run_that_was_interrupted(ragbench: Ragbench) -> None:
    """Ctrl-C before any of the three cases was scored."""
    done = ragbench("eval", "office", "--rag", "rags.py:Impatient", "-o", "part").ends(130)
    assert "Interrupted: finished cases are stored in part. The same" in done.err


@pytest.mark.usefixtures("interrupted")
def test_an_export_of_an_interrupted_run_says_what_it_lacks(ragbench: Ragbench) -> None:
    for form in ("ragas", "jsonl", "csv"):
        done = ragbench("export", "part", "--to", form).ok()

        assert done.err.endswith(
            "3 cases not asked or not scored yet. Continue it with the same eval command\n"
        )


@pytest.mark.usefixtures("interrupted")
def test_an_export_of_an_interrupted_run_as_json_counts_what_it_lacks(ragbench: Ragbench) -> None:
    assert ragbench("export", "part", "--json").ok().json["unfinished"] == 3


# --- a run that is damaged


def test_a_damaged_run_is_named_left_alone_and_begun_anew_with_fresh(ragbench: Ragbench) -> None:
    command = ("eval", "office", "--rag", "baseline", "-m", "token_f1", "--out", "run")
    ragbench(*command).ok()
    journal = Path("run/journal.sqlite")
    damaged = bytearray(journal.read_bytes())
    damaged[4096:] = bytes(len(damaged) - 4096)
    journal.write_bytes(damaged)

    refused = ragbench(*command)

    refused.refused("run/journal.sqlite is damaged", "Nothing that it holds was overwritten")
    assert journal.read_bytes() == damaged
    ragbench(*command, "--fresh").ok("3 cases")


@pytest.mark.parametrize(
    ("damage", "command"),
    [
        ("UPDATE causes SET cause = 'r'", "explain run"),
        ("UPDATE report SET body = -7", "report run"),
        ("UPDATE texts SET text = x'ff'", "report run --html page.html"),
        ("UPDATE outcomes SET seconds = 'r'", "report run --html page.html"),
        ("UPDATE outcomes SET sharing = x'ff'", "report run --html page.html"),
        ("UPDATE cells SET m0 = 'r'", "cases run"),
        ("UPDATE cells SET m0 = -7", "gate run --min token_f1=0.1"),
        ("UPDATE meta SET value = 1e300 WHERE key = 'epoch'", "report run --html page.html"),
    ],
)
def test_a_value_of_another_type_in_the_journal_is_its_damage(
    ragbench: Ragbench, damage: str, command: str
) -> None:
    ragbench("eval", "office", "--rag", "baseline", "-m", "token_f1", "--out", "run").ok()
    with closing(sqlite3.connect("run/journal.sqlite", isolation_level=None)) as journal:
        journal.execute("PRAGMA ignore_check_constraints = 1")
        journal.execute(damage)

    refused = ragbench(*command.split())

    refused.refused("run/journal.sqlite is damaged", "Nothing that it holds was overwritten")


def test_a_run_that_lost_a_case_is_refused(ragbench: Ragbench) -> None:
    ragbench("eval", "office", "--rag", "baseline", "-m", "token_f1", "--out", "run").ok()
    with closing(sqlite3.connect("run/journal.sqlite", isolation_level=None)) as journal:
        journal.execute("DELETE FROM cases WHERE id = 'c2'")

    exported = ragbench("export", "run", "--to", "jsonl", "-o", "out.jsonl")

    exported.refused("its manifest is of 3 cases, and its journal holds 2")
    assert not Path("out.jsonl").exists()


# --- trackers


def test_a_name_that_is_no_format_and_no_tracker_is_refused(ragbench: Ragbench, run: str) -> None:
    done = ragbench("export", "run", "--to", "mlfow")

    done.refused("there is no format or tracker 'mlfow'", "Did you mean 'mlflow'?")


def test_a_tracker_takes_no_file(ragbench: Ragbench, run: str) -> None:
    done = ragbench("export", "run", "--to", "phoenix", "-o", "out.json")

    done.refused("--out names a file, and phoenix is a tracker")


def test_a_tracker_that_cannot_be_reached_leaves_the_run_as_it_was(
    ragbench: Ragbench, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-1")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-1")
    monkeypatch.setenv("LANGFUSE_BASE_URL", "ftp://nowhere")
    files = report_files()

    done = ragbench("export", "run", "--to", "langfuse")

    done.refused("'ftp://nowhere' is not an http:// or https:// URL")
    assert report_files() == files
    ragbench("report", "run").ok()


@pytest.mark.extra("mlflow")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's, of its database
def test_a_run_is_sent_to_mlflow_and_its_address_printed(
    ragbench: Ragbench, run: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "office")

    done = ragbench("export", "run", "--to", "mlflow").ok()

    assert done.out == f"sqlite:///{tmp_path}/mlflow.db\n"
    done.told("3 cases sent as a new run")
