"""``ragbench compare``: real runs of the baseline RAG, as tables, pages and data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragbench_cli.main import main
from tests.cli.runs import PELLORIN, Ragbench, report, row_where, schema

SCHEMA = schema("comparison")
SETTINGS: dict[str, dict[str, float]] = {
    "five": {"top_k": 5},
    "two": {"top_k": 2},
    "silent": {"top_k": 5, "threshold": 0.9},
}
KINDS_IN_ORDER = ["newly failing", "mixed", "newly fixed"]
"""Losses stand first."""
LETTERS = "abcdefghij"
RAISED = str.maketrans("ᵃᵇᶜᵈᵉᶠᵍʰⁱʲ", LETTERS)
"""The letters behind a figure in the table name the runs that it is shown to be better than."""

Runs = dict[str, str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The folders of three runs on the same 150 cases, by the names of their settings."""
    home = tmp_path_factory.mktemp("runs")
    folders = {}
    for name, settings in SETTINGS.items():
        folder = str(home / name)
        command = ["eval", str(PELLORIN), "--rag", "baseline", "--sample", "150", "-q"]
        command += ["--out", folder, "--rag-args", json.dumps(settings)]
        assert main(command) == 0
        folders[name] = folder
    return folders


@pytest.fixture
def comparison(ragbench: Ragbench, runs: Runs) -> Any:
    """What five contexts against two give as data."""
    return ragbench("compare", runs["five"], runs["two"], "--json").ok().json


# --- what is compared


def test_a_comparison_as_data_follows_its_schema(comparison: Any) -> None:
    jsonschema.validate(comparison, SCHEMA)


def test_fewer_contexts_find_less(comparison: Any) -> None:
    recall = row_where(comparison["metrics"], name="recall@5")

    (difference,) = recall["differences"]
    assert difference["difference"] < 0
    assert difference["higher"] == 0  # no case gains by a shorter list
    assert difference["lower"] > 0


def test_the_figures_are_those_of_the_reports(comparison: Any, runs: Runs) -> None:
    recall = row_where(comparison["metrics"], name="recall@5")
    summary = row_where(report(runs["five"])["summaries"], metric="recall@5")

    figure = recall["figures"][0]
    assert figure["score"] == summary["score"]
    assert figure["measured"] == summary["measured"]


def test_a_figure_that_is_no_mean_over_cases_is_not_tested(comparison: Any) -> None:
    calibration = row_where(comparison["metrics"], name="ECE")

    assert calibration["untested"] == "its figure is not a mean over cases"


def test_cases_that_changed_are_listed_losses_first(comparison: Any) -> None:
    kinds = [case["kind"] for case in comparison["changed"]]

    assert kinds.count("newly failing") > 0
    assert kinds.count("newly failing") == comparison["pairs"][0]["newly_failing"]
    assert kinds == sorted(kinds, key=KINDS_IN_ORDER.index)


# --- how it is shown


@pytest.mark.parametrize("columns", [60, 100])
def test_ten_runs_keep_every_figure(
    ragbench: Ragbench, runs: Runs, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A line per run and a column per metric."""
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ["five", "two", "silent"] * 3 + ["two"]
    command = ["compare", *[runs[name] for name in names]]
    command += ["-m", "recall@5,token_f1,abstention_accuracy"]

    metrics = ragbench(*command, "--json").json["metrics"]
    lines = ragbench(*command).out.splitlines()

    assert [line for line in lines if len(line) > columns] == []
    (heading,) = [number for number, line in enumerate(lines) if line.startswith("run ")]
    for run in range(10):
        figures = []
        for metric in metrics:
            figure = metric["figures"][run]
            worse_runs = "".join(figure["better_than"])
            figures.append(f"{figure['score']:.3f}{worse_runs}")
        letter, *cells = lines[heading + 1 + run].split()
        assert letter == LETTERS[run]
        assert [cell.translate(RAISED) for cell in cells] == figures


@pytest.mark.parametrize("columns", [80, 140])
def test_the_result_comes_first_and_all_fits_a_screen(
    ragbench: Ragbench, runs: Runs, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.chdir(Path(runs["five"]).parent)

    lines = ragbench("compare", "five", "two").ok().out.splitlines()

    assert lines[0].startswith("b against a: worse on recall@5 (-0.")
    assert lines[-1] == "next     ragbench compare five two --cases 5"
    assert len(lines) <= 24
    assert [line for line in lines if len(line) > columns] == []


@pytest.mark.parametrize(
    "form", [("--json",), ("--md", "-"), ()], ids=["JSON", "Markdown", "a table"]
)
def test_the_same_runs_give_the_same_bytes(
    ragbench: Ragbench, runs: Runs, form: tuple[str, ...]
) -> None:
    command = ("compare", *runs.values(), *form)

    done = ragbench(*command).ok()
    repeated = ragbench(*command).ok()

    assert repeated.out == done.out


def test_a_page_is_written_beside_the_table(ragbench: Ragbench, runs: Runs) -> None:
    command = ("compare", runs["five"], runs["two"], "-m", "recall@5,nDCG@10")

    done = ragbench(*command, "--md", "changes.md").ok()
    printed = ragbench(*command, "--md", "-").ok().out

    assert done.out.startswith("b against a: worse on recall@5")
    page = Path("changes.md").read_text("utf-8")
    assert page == printed
    assert "**b against a: worse on recall@5" in page
    assert "**Newly failing: " in page
    assert " ^b | " in page  # a figure that is shown to be better than that of b
    assert "#### How causes changed" in page


# --- cases that only one of them has


@pytest.fixture
def other_cases(ragbench: Ragbench) -> str:
    """A run on the first 200 cases; the others are on a sample."""
    ragbench("eval", str(PELLORIN), "--rag", "baseline", "--limit", "200", "--out", "first", "-q")
    return "first"


def test_other_cases_are_refused_and_the_common_ones_offered(
    ragbench: Ragbench, runs: Runs, other_cases: str
) -> None:
    ragbench("compare", runs["five"], other_cases).refused("--only-common-cases")

    done = ragbench("compare", runs["five"], other_cases, "--only-common-cases").ok()

    assert "the same in all runs" in done.flat
