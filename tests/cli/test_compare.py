"""``ragbench compare``: real runs of the baseline RAG, and what hostile texts do to the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from ragbench_cli.main import main
from tests.cli.runs import PELLORIN, Ragbench, report, schema

SCHEMA = schema("comparison")
SETTINGS: dict[str, dict[str, float]] = {
    "five": {"top_k": 5},
    "two": {"top_k": 2},
    "silent": {"top_k": 5, "threshold": 0.9},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("runs")
    for name, settings in SETTINGS.items():
        arguments = ["eval", str(PELLORIN), "--rag", "baseline", "--sample", "150"]
        arguments += ["--out", str(home / name), "-q"]
        assert main([*arguments, "--rag-args", json.dumps(settings)]) == 0
    yield {name: str(home / name) for name in SETTINGS}


def test_fewer_contexts_find_less(ragbench: Ragbench, runs: dict[str, str]) -> None:
    found = ragbench("compare", runs["five"], runs["two"], "--json").ok().json
    jsonschema.validate(found, SCHEMA)
    metrics = {metric["name"]: metric for metric in found["metrics"]}
    recall = metrics["recall@5"]
    (difference,) = recall["differences"]
    assert difference["difference"] < 0
    assert difference["higher"] == 0 < difference["lower"]
    (summary,) = [x for x in report(runs["five"])["summaries"] if x["metric"] == "recall@5"]
    same = ("score", "measured")
    assert [recall["figures"][0][name] for name in same] == [summary[name] for name in same]
    assert metrics["ECE"]["untested"] == "its figure is not a mean over cases"
    kinds = [case["kind"] for case in found["changed"]]
    assert kinds.count("newly failing") == found["pairs"][0]["newly_failing"] > 0
    assert kinds == sorted(kinds, key=["newly failing", "mixed", "newly fixed"].index)


@pytest.mark.parametrize("columns", [60, 100])
def test_ten_runs_keep_every_figure(
    ragbench: Ragbench, runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A line per run and a column per metric."""
    monkeypatch.setenv("COLUMNS", str(columns))
    ten = [*map(runs.__getitem__, ("five", "two", "silent") * 3), runs["two"]]
    ten += ["-m", "recall@5,token_f1,abstention_accuracy"]
    found = ragbench("compare", *ten, "--json").json
    lines = ragbench("compare", *ten).out.splitlines()
    assert max(map(len, lines)) <= columns
    start = next(at for at, line in enumerate(lines) if line.startswith("run "))
    letters = str.maketrans("ᵃᵇᶜᵈᵉᶠᵍʰⁱʲ", "abcdefghij")
    for place, line in enumerate(lines[start + 1 : start + 11]):
        mark, *cells = line.split()
        figures = [metric["figures"][place] for metric in found["metrics"]]
        assert mark == "abcdefghij"[place]
        assert [cell.translate(letters) for cell in cells] == [
            f"{figure['score']:.3f}{''.join(figure['better_than'])}" for figure in figures
        ]


@pytest.mark.parametrize("columns", [80, 140])
def test_the_result_comes_first_and_all_fits_a_screen(
    ragbench: Ragbench, runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.chdir(Path(runs["five"]).parent)
    lines = ragbench("compare", "five", "two").out.splitlines()
    assert lines[0].startswith("b against a: worse on recall@5 (-0.")
    assert lines[-1] == "next     ragbench compare five two --cases 5"
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns


def test_the_same_runs_give_the_same_bytes_in_each_form(
    ragbench: Ragbench, runs: dict[str, str]
) -> None:
    for option in (("--json",), ("--md", "-"), ()):
        first, second = (ragbench("compare", *runs.values(), *option).out for _ in range(2))
        assert first == second
    command = ("compare", runs["five"], runs["two"], "-m", "recall@5,nDCG@10")
    assert ragbench(*command, "--md", "changes.md").out.startswith("b against a: worse on recall@5")
    text = Path("changes.md").read_text("utf-8")
    assert text == ragbench(*command, "--md", "-").out
    parts = (
        "**Newly failing: ",
        " ^b | ",
        "**b against a: worse on recall@5",
        "#### How causes changed",
    )
    assert all(part in text for part in parts)


def test_other_cases_are_refused_and_the_common_ones_offered(
    ragbench: Ragbench, runs: dict[str, str]
) -> None:
    ragbench("eval", str(PELLORIN), "--rag", "baseline", "--limit", "200", "--out", "first", "-q")
    ragbench("compare", runs["five"], "first").refused("--only-common-cases")
    done = ragbench("compare", runs["five"], "first", "--only-common-cases").ok()
    assert "cases that are the same in all runs" in done.flat
