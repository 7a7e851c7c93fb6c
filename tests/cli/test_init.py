"""``ragbench init``: what it writes runs as it is, and nothing is ever overwritten unasked."""

from pathlib import Path

import pytest

from ragbench_cli.commands.init import FILES
from tests.cli.runs import Ragbench

EVAL = ("eval", "data", "--rag", "my_rag.py:MyRAG", "--out", "reports/ragbench", "-q")


def test_its_gate_fails_when_the_rag_is_broken(
    ragbench: Ragbench, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragbench("init")
    path = workplace / "my_rag.py"
    path.write_text(path.read_text("utf-8").replace("(-scores[id_], id_)", "scores[id_]"), "utf-8")
    assert ragbench(*EVAL, "--top-k", "1").code == 0
    ragbench("gate", "reports/ragbench").ends(1, "recall@5")


def test_the_baseline_that_it_explains_works(ragbench: Ragbench, workplace: Path) -> None:
    ragbench("init")
    assert ragbench(*EVAL).code == 0
    assert ragbench("baseline", "set", "reports/ragbench").code == 0
    path = workplace / "ragbench.yaml"
    text = path.read_text("utf-8")
    assert "recall@5: {min: 0.25, max_drop: 0.05}" in text
    text = text.replace("recall@5: {min: 0.25}\n", "recall@5: {min: 0.25, max_drop: 0.05}\n")
    path.write_text(text.replace("# baseline:", "baseline:"), "utf-8")
    checks = ragbench("gate", "reports/ragbench", "--json").ok().json["checks"]
    held = [one for one in checks if one["kind"] == "drop" and one["outcome"] != "not judged"]
    assert [(one["subject"], one["limit"]) for one in held] == [
        ("recall@5", 0.05),
        ("right", 0.02),
        ("answered", 0.02),
    ]


def test_its_floors_lie_below_the_interval_that_the_example_measures(
    ragbench: Ragbench, workplace: Path
) -> None:
    ragbench("init")
    assert ragbench(*EVAL).code == 0
    checks = ragbench("gate", "reports/ragbench", "--json").ok().json["checks"]
    floors = [one for one in checks if one["kind"] == "floor"]
    assert [one["subject"] for one in floors] == ["recall@5", "answer_correct"]
    recall, correct = floors
    assert 0.0 < recall["limit"] < recall["interval"]["low"]
    assert 0.0 < correct["limit"] < correct["observed"]


def test_what_is_there_is_left_as_it_is_and_listed(ragbench: Ragbench, workplace: Path) -> None:
    (workplace / "ragbench.yaml").write_text("mine", "utf-8")
    done = ragbench("init").ok()
    assert (workplace / "ragbench.yaml").read_text("utf-8") == "mine"
    assert "exists, left as it is: ragbench.yaml" in done.err
    assert "ragbench.yaml" not in done.out.splitlines()
    assert ragbench("init", "--json").json == {"folder": ".", "written": [], "left": list(FILES)}
    assert ragbench("init", "--force").out.splitlines() == list(FILES)
    assert (workplace / "ragbench.yaml").read_text("utf-8") != "mine"
