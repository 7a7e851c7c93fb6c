"""``ragbench label`` and ``--labels``: drawn, labelled in a terminal, and what a gate decides."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_labels
from ragbench.io.people import read_people
from tests.cli.runs import Ragbench, fenced, lines

NAMES = "Bach Haydn Mozart Brahms Verdi Puccini Wagner Liszt Chopin Grieg".split()  # noqa: SIM905
ROWS = range(60)


def answers(ragbench: Ragbench, name: str, wrong: Sequence[int] = ()) -> str:
    """A run of recorded answers of which people call some wrong."""
    rows = [
        {
            "id": f"q{row}",
            "question": f"Who wrote piece {row}?",
            "reference": NAMES[row % 10],
            "response": f"It was {NAMES[(row + (row in wrong)) % 10]}, says {name} of {row}.",
        }
        for row in ROWS
    ]
    file = lines(f"{name}.jsonl", rows)
    ragbench("eval", file, "--out", name, "-q", "-m", "answer_correct,token_f1").ok()
    return name


def said(name: str, wrong: Sequence[int], rows: Sequence[int] = ROWS, **more: Any) -> list[Any]:
    """What people said of a run's answers."""
    known = [json.loads(line) for line in Path(f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [
        {
            "question": known[row]["question"],
            "answer": known[row]["response"],
            "by": "ann",
            "metric": "answer_correct",
            "value": row not in wrong,
            "drawn": {"seed": 0, "of": 60},
            **more,
        }
        for row in rows
    ]


def test_labels_are_given_taken_back_and_continued(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(pressed: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(pressed))

    label = ("label", answers(ragbench, "one"), "-m", "answer_correct", "-n", "6")
    keys("y")
    ragbench(*label, "-o", "missing/labels.jsonl").refused("cannot be written")
    keys("y n u p s q")
    done = ragbench(*label, "--by", "ann").ok("1 of 6", "Who wrote piece", "Right answer", "y yes")
    assert "3 are left" in done.err and "judge says" not in done.out
    found = [json.loads(line) for line in Path("labels.jsonl").read_text("utf-8").splitlines()]
    assert [one["value"] for one in found] == [1, 0.5, None]
    assert {(one["by"], one["metric"]) for one in found} == {("ann", "answer_correct")}
    assert found[0]["drawn"] == {"seed": 0, "of": 60, "differing": False}
    keys("yyyyyyyy")  # asked for the other three alone
    ragbench(*label, "--by", "ann").ok("4 of 6"[1:])
    assert len(Path("labels.jsonl").read_text("utf-8").splitlines()) == 6
    keys("yynyyy")
    done = ragbench(*label, "--by", "bob", "--json").ok()
    result = json.loads(done.out[done.out.index('{\n  "corrections"') :])
    (raters,) = result["raters"]
    assert (raters["people"], raters["items"]) == (2, 5)
    assert result["corrections"][0]["labels"] == 6  # the mean of both
    keys("")
    ragbench(*label[:-1], "9", "--by", "ann").ok("7 of 9")  # a larger draw holds the smaller one
    edited = Path("labels.jsonl").read_text("utf-8").rstrip()
    Path("labels.jsonl").write_text(edited, "utf-8")
    keys("yu y")
    ragbench(*label[:-1], "9", "--by", "ann").ok()
    assert len(Path("labels.jsonl").read_text("utf-8").splitlines()) == 13


def test_a_judge_card_reads_them_and_says_first_what_it_takes(ragbench: Ragbench) -> None:
    row = {"question": "Do bees fly?", "answer": "They do.", "contexts": ["Bees fly."], "by": "ann"}
    file = lines(
        "l.jsonl",
        [
            {**row, "metric": "support", "value": 1},
            {**row, "metric": "support", "value": 0, "by": "bob"},  # their mean is one claim
            {**row, "metric": "support", "value": 0, "answer": "They swim."},
            {**row, "metric": "support", "value": None, "answer": "They run."},
            {**row, "metric": "answer_correct", "value": 0, "answer": "They dig."},
        ],
    )
    card = ("judge-card", file, "--llm-model", "gpt-4o-mini", "--repeats", "3", "--dry-run")
    assert ragbench(*card, "--probes", "none", "--json").ok().json["judgements"] == 2
    assert "2 judgements would be made" in ragbench(*card, "--probes", "none").out
    assert [claim.level for claim in read_labels(Path(file), "support")] == [1, 0]


def test_a_figure_is_shown_beside_what_people_say(ragbench: Ragbench) -> None:
    wrong = [*range(0, 60, 4)]
    run = answers(ragbench, "one", wrong)
    file = lines("l.jsonl", said("one", wrong, range(40)))
    done = ragbench("report", run, "--labels", file).ok("corrected by labels of people", "40 of 60")
    report = json.loads(Path(run, "report.json").read_text("utf-8"))
    (found,) = report["corrections"]
    assert found["interval"]["low"] <= 0.75 <= found["interval"]["high"]
    for page in ("report.md", "report.html"):
        assert "Corrected by labels" in Path(run, page).read_text("utf-8")
    assert "40 of 40 labelled answers are of this run." in done.out
    ragbench("report", run).ok()
    assert json.loads(Path(run, "report.json").read_text("utf-8"))["corrections"] == []
    # A label dies with its answer, and one without a metric is given it.
    other = answers(ragbench, "two")
    done = ragbench("report", other, "--labels", file).ok("0 of 40 labelled answers")
    assert "corrected by" not in done.out
    thumbs = lines("t.jsonl", said("two", [], range(20), metric="thumbs", drawn=None))
    ragbench("report", other, "--labels", thumbs).ok("Labels of thumbs (20) are of no metric")
    done = ragbench("report", other, "--labels", f"answer_correct={thumbs}").ok("20 of 60")
    assert "20 labels are of cases that nobody drew" in done.flat
    again = ragbench(
        "eval",
        "two.jsonl",
        "--out",
        other,
        "-m",
        "answer_correct,token_f1",
        "--labels",
        f"answer_correct={thumbs}",
    )
    again.ok("corrected by labels of people", "20 of 60")


def test_people_decide_a_comparison_and_a_gate(ragbench: Ragbench) -> None:
    lost = [*range(0, 60, 3)]
    base, run = answers(ragbench, "base"), answers(ragbench, "run", [1, 2])
    gate = ("gate", run, "--baseline", base, "--max-drop", "answer_correct=0.1", "--strict")
    few = lines("few.jsonl", [*said("base", [], range(8)), *said("run", lost, range(8))])
    verdict = ragbench(*gate, "--labels", few, "--json").ends(3).json
    (check,) = [one for one in verdict["checks"] if one["subject"] == "answer_correct"]
    assert check["corrected"]["labels"] == 8 and check["plan"]["pairs"] == 60
    assert check["plan"]["command"] in verdict["headline"]
    label = f"label run --against base -m answer_correct -n {check['plan']['chances'][-1][0]}"
    assert label in check["plan"]["command"]
    many = lines("many.jsonl", [*said("base", []), *said("run", lost)])
    done = ragbench(*gate, "--labels", many).ends(1, "corrected by labels of people", "60 of 60")
    assert "answer_correct (people) down 0.333 from 1.000 to 0.667" in done.flat
    shown = ("Corrected by labels", "By people, from 60 labelled pairs; uncorrected")
    ragbench(*gate, "--labels", many, "--md", "-").ends(1, *shown)
    compared = ragbench("compare", base, run, "--labels", many, "--md", "c.md").ok()
    assert "answer_correct (b - a) by people: -0.333" in compared.flat
    assert "shown to differ, from 60 labelled pairs" in compared.flat
    # Labels of answers that differ say nothing of those that do not.
    part = [one | {"drawn": {"differing": True}} for one in said("run", lost)]
    done = ragbench("report", run, "--labels", lines("part.jsonl", part)).ok("60 labels are of")
    assert "corrected by" not in done.out
    # The other way round people see a gain that the judge does not see.
    turned = ("gate", base, "--baseline", run, "--max-drop", "answer_correct=0.02", "--strict")
    assert ragbench(*turned, "--labels", many).code == 0
    assert ragbench(*gate[:-1], "--min", "answer_correct=0.9", "--labels", many).code == 1
    ragbench(*gate, "--settle", "--labels", many).refused("choose one")
    ragbench("eval", "run.jsonl", "-o", "new", "--labels", "none.jsonl").refused("none.jsonl")
    assert not Path("new").exists()  # before anything is asked
    # The baseline file holds no answers, so it keeps what labels made of each run of main.
    ragbench("baseline", "add", run, "-o", "main.json").ok()
    assert "by labels" not in ragbench("history", "main.json").ok().out
    ragbench("baseline", "add", run, "-o", "main.json", "--labels", many).ok()
    history = ragbench("history", "main.json").ok("corrected by labels of people").flat
    assert "0.667 (" in history and "from 60 labels; uncorrected 0.9" in history
    (kept,) = ragbench("history", "main.json", "--json").json["runs"]
    assert kept["people"]["answer_correct"][3] == 60
    # A gate against the file is the judge's again, and asks for the pairs of no folder.
    filed = ragbench("gate", run, "-b", "main.json", "--labels", many, "--json")
    assert not any(check["corrected"] for check in filed.json["checks"])


def test_the_guide_is_true(ragbench: Ragbench, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "labels.md").read_text("utf-8")
    (rows,) = fenced(guide, "json")
    Path("shown.jsonl").write_text(rows, "utf-8")
    assert [label.value for label in read_people("shown.jsonl")] == [1, 0.5]
    answers(ragbench, "main")
    answers(ragbench, "branch", [1])
    lines("labels.jsonl", [*said("main", []), *said("branch", [1, 2])])
    (program,) = fenced(guide, "python")
    Path("guide.py").write_text(program, "utf-8")
    runpy.run_path("guide.py")
    assert "runs=('a', 'b')" in capsys.readouterr().out
