"""``ragbench label`` and ``--labels``: drawn, labelled in a terminal, and what a gate decides."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_labels
from ragbench.io.people import read_people
from tests.cli.runs import ROOT, Ragbench, fenced, lines, read_lines, report, row_where

COMPOSERS = [
    "Bach",
    "Haydn",
    "Mozart",
    "Brahms",
    "Verdi",
    "Puccini",
    "Wagner",
    "Liszt",
    "Chopin",
    "Grieg",
]
NUMBERS = range(60)
"""The questions of each run of answers: who wrote piece 0, 1, 2 ..."""
EVERY_THIRD = range(0, 60, 3)


def run_of_answers(ragbench: Ragbench, name: str, wrong: Sequence[int] = ()) -> str:
    """A run of 60 recorded answers; the metrics see that these numbers are answered wrongly."""
    rows = []
    for number in NUMBERS:
        right = COMPOSERS[number % 10]
        answered = COMPOSERS[(number + 1) % 10] if number in wrong else right
        rows.append(
            {
                "id": f"q{number}",
                "question": f"Who wrote piece {number}?",
                "reference": right,
                "response": f"It was {answered}, says {name} of {number}.",
            }
        )
    file = lines(f"{name}.jsonl", rows)
    ragbench("eval", file, "--out", name, "-q", "-m", "answer_correct,token_f1").ok()
    return name


def labels_of(
    run: str, wrong: Sequence[int], numbers: Sequence[int] = NUMBERS, **fields: Any
) -> list[dict[str, Any]]:
    """What Ann says of a run's answers: that these are wrong, whatever the metrics say."""
    rows = read_lines(f"{run}.jsonl")
    labels = []
    for number in numbers:
        label = {
            "question": rows[number]["question"],
            "answer": rows[number]["response"],
            "by": "ann",
            "metric": "answer_correct",
            "value": number not in wrong,
            "drawn": {"seed": 0, "of": 60},
        }
        labels.append(label | fields)
    return labels


# --- labelling in a terminal

Press = Callable[[str], None]


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> Press:
    """Says which keys the next command reads; where they end, the person has left."""

    def prepare(keys: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(keys))

    return prepare


@pytest.fixture
def label(ragbench: Ragbench) -> tuple[str, ...]:
    """The command that draws from a run of sixty answers; `-n` and the rest are added to it."""
    return ("label", run_of_answers(ragbench, "one"), "-m", "answer_correct")


def test_a_file_that_cannot_be_written_is_refused(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("y")

    done = ragbench(*label, "-n", "6", "-o", "missing/labels.jsonl")

    done.refused("cannot be written")


def test_the_question_is_shown_without_the_value_of_the_judge(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("q")

    done = ragbench(*label, "-n", "6")

    done.ok("1 of 6", "Who wrote piece", "Right answer", "y yes")
    assert "judge says" not in done.out


def test_a_key_gives_a_label_or_takes_the_last_one_back(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("y n u p s q")  # yes; no, undone, partly instead; skipped; the person leaves

    done = ragbench(*label, "-n", "6", "--by", "ann").ok()

    labels = read_lines("labels.jsonl")
    assert [row["value"] for row in labels] == [1, 0.5, None]
    assert [row["by"] for row in labels] == ["ann", "ann", "ann"]
    assert [row["metric"] for row in labels] == ["answer_correct"] * 3
    assert labels[0]["drawn"] == {"seed": 0, "of": 60, "differing": False}
    assert "3 are left" in done.err


def test_the_same_command_asks_for_the_answers_without_a_label_alone(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("y n s q")
    ragbench(*label, "-n", "6", "--by", "ann").ok()
    press("yyyyyyyy")

    done = ragbench(*label, "-n", "6", "--by", "ann").ok("4 of 6")

    assert "3 of 6" not in done.out
    assert len(read_lines("labels.jsonl")) == 6


def test_labels_of_two_people_are_compared_and_averaged(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("ypsyyy")
    ragbench(*label, "-n", "6", "--by", "ann").ok()
    press("yynyyy")

    done = ragbench(*label, "-n", "6", "--by", "bob", "--json").ok()

    screens, brace, figures = done.out.partition('{\n  "corrections"')
    result = json.loads(brace + figures)
    assert "6 of 6" in screens
    (agreement,) = result["raters"]
    assert agreement["people"] == 2
    assert agreement["items"] == 5  # Ann skipped the third
    assert result["corrections"][0]["labels"] == 6


def test_a_larger_draw_holds_the_smaller_one(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("yyyyyy")
    ragbench(*label, "-n", "6", "--by", "ann").ok()
    press("")

    done = ragbench(*label, "-n", "9", "--by", "ann")

    done.ok("7 of 9")


def test_a_label_gets_a_line_of_its_own_where_an_editor_took_the_end_of_the_last(
    ragbench: Ragbench, label: tuple[str, ...], press: Press
) -> None:
    press("yyyyyy")
    ragbench(*label, "-n", "6", "--by", "ann").ok()
    file = Path("labels.jsonl")
    file.write_text(file.read_text("utf-8").rstrip(), "utf-8")
    press("yu y")

    ragbench(*label, "-n", "9", "--by", "ann").ok()

    assert len(read_lines("labels.jsonl")) == 7


# --- the judge card of labels


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

    as_json = ragbench(*card, "--probes", "none", "--json").ok().json
    as_text = ragbench(*card, "--probes", "none").ok().out

    assert as_json["judgements"] == 2
    assert "2 judgements would be made" in as_text
    assert [claim.level for claim in read_labels(Path(file), "support")] == [1, 0]


# --- `report --labels` and `eval --labels`


def test_a_figure_is_shown_beside_what_people_say(ragbench: Ragbench) -> None:
    wrong = range(0, 60, 4)  # people and the judge agree that a quarter is wrong
    run = run_of_answers(ragbench, "one", wrong)
    file = lines("l.jsonl", labels_of("one", wrong, range(40)))

    done = ragbench("report", run, "--labels", file)

    done.ok("corrected by labels of people", "40 of 60")
    assert "40 of 40 labelled answers are of this run." in done.out
    (correction,) = report(run)["corrections"]
    assert correction["interval"]["low"] <= 0.75 <= correction["interval"]["high"]
    for page in ("report.md", "report.html"):
        assert "Corrected by labels" in Path(run, page).read_text("utf-8")


def test_a_report_without_labels_takes_the_correction_back(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    file = lines("l.jsonl", labels_of("one", [], range(40)))
    ragbench("report", run, "--labels", file).ok()

    ragbench("report", run).ok()

    assert report(run)["corrections"] == []


def test_a_label_dies_with_its_answer(ragbench: Ragbench) -> None:
    run_of_answers(ragbench, "old")
    run = run_of_answers(ragbench, "new")
    file = lines("l.jsonl", labels_of("old", [], range(40)))

    done = ragbench("report", run, "--labels", file)

    done.ok("0 of 40 labelled answers")
    assert "corrected by" not in done.out


def test_labels_of_no_metric_are_said_to_be_of_none(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    thumbs = labels_of("one", [], range(20), metric="thumbs", drawn=None)
    file = lines("t.jsonl", thumbs)

    done = ragbench("report", run, "--labels", file)

    done.ok("Labels of thumbs (20) are of no metric")


def test_a_file_of_labels_is_given_its_metric_by_name(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    thumbs = labels_of("one", [], range(20), metric="thumbs", drawn=None)
    lines("t.jsonl", thumbs)

    done = ragbench("report", run, "--labels", "answer_correct=t.jsonl")

    done.ok("20 of 60")
    assert "20 labels of cases that nobody drew" in done.flat


def test_an_evaluation_shows_the_corrected_figure_at_once(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    file = lines("l.jsonl", labels_of("one", [], range(20)))

    done = ragbench("eval", "one.jsonl", "-o", run, "-m", "answer_correct", "--labels", file)

    done.ok("corrected by labels of people", "20 of 60")


def test_an_evaluation_says_at_once_that_no_label_is_of_its_answers(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    other_answer = {"question": "Q?", "answer": "A.", "metric": "answer_correct", "label": 1}
    file = lines("l.jsonl", [other_answer])

    done = ragbench("eval", "one.jsonl", "-o", run, "-m", "answer_correct", "--labels", file)

    done.ok()
    assert "labels: 0 of 1 labelled answers are of this run" in done.err


def test_labels_that_are_missing_stop_an_evaluation_before_anything_is_asked(
    ragbench: Ragbench,
) -> None:
    lines("cases.jsonl", [{"id": "q", "question": "Yes?", "reference": "yes", "response": "yes"}])

    done = ragbench("eval", "cases.jsonl", "-o", "new", "--labels", "none.jsonl")

    done.refused("none.jsonl")
    assert not Path("new").exists()


def test_labels_of_answers_that_differ_correct_no_figure_of_all(ragbench: Ragbench) -> None:
    run = run_of_answers(ragbench, "one")
    labels = labels_of("one", EVERY_THIRD, drawn={"differing": True})
    file = lines("l.jsonl", labels)

    done = ragbench("report", run, "--labels", file)

    done.ok("60 labels of")
    assert "corrected by" not in done.out


# --- `gate --labels` and `compare --labels`: two runs that the judge finds nearly alike, while
# people call every third answer of the second one wrong (40 of 60 are right: 0.667)


@pytest.fixture
def two_runs(ragbench: Ragbench) -> tuple[str, str]:
    return run_of_answers(ragbench, "base"), run_of_answers(ragbench, "run", [1, 2])


@pytest.fixture
def all_labels(two_runs: tuple[str, str]) -> str:
    base, run = two_runs
    of_base = labels_of(base, [])
    of_run = labels_of(run, EVERY_THIRD)
    return lines("all.jsonl", of_base + of_run)


GATE = ("gate", "run", "--baseline", "base", "--max-drop", "answer_correct=0.1")


@pytest.mark.usefixtures("two_runs")
def test_a_gate_on_few_labels_says_how_many_more_would_settle_it(ragbench: Ragbench) -> None:
    of_base = labels_of("base", [], range(8))
    of_run = labels_of("run", EVERY_THIRD, range(8))
    file = lines("few.jsonl", of_base + of_run)

    done = ragbench(*GATE, "--strict", "--labels", file, "--json").ends(3)

    check = row_where(done.json["checks"], subject="answer_correct")
    plan = check["plan"]
    pairs = plan["chances"][-1][0]
    assert check["corrected"]["labels"] == 8
    assert plan["pairs"] == 60
    assert f"label run --against base -m answer_correct -n {pairs}" in plan["command"]
    assert plan["command"] in done.json["headline"]


def test_people_fail_a_gate_that_the_judge_passes(ragbench: Ragbench, all_labels: str) -> None:
    by_judge = ragbench(*GATE, "--strict")
    by_people = ragbench(*GATE, "--strict", "--labels", all_labels)

    assert by_judge.code == 0
    by_people.ends(1, "corrected by labels of people", "60 of 60")
    assert "answer_correct (people) down 0.333 from 1.000 to 0.667" in by_people.flat


def test_the_page_of_a_gate_says_that_people_decided(ragbench: Ragbench, all_labels: str) -> None:
    done = ragbench(*GATE, "--labels", all_labels, "--md", "-")

    done.ends(1, "Corrected by labels", "By people, from 60 labelled pairs; uncorrected")


def test_a_gain_that_only_people_see_passes(ragbench: Ragbench, all_labels: str) -> None:
    limit = ("--max-drop", "answer_correct=0.02", "--strict")

    done = ragbench("gate", "base", "--baseline", "run", *limit, "--labels", all_labels)

    done.ok()


def test_a_least_score_is_held_against_what_people_say(ragbench: Ragbench, all_labels: str) -> None:
    done = ragbench(*GATE, "--min", "answer_correct=0.9", "--labels", all_labels)

    done.ends(1)


def test_labels_and_settling_by_repeats_exclude_each_other(
    ragbench: Ragbench, all_labels: str
) -> None:
    done = ragbench(*GATE, "--settle", "--labels", all_labels)

    done.refused("choose one")


def test_a_comparison_is_corrected_by_labels(ragbench: Ragbench, all_labels: str) -> None:
    done = ragbench("compare", "base", "run", "--labels", all_labels, "--md", "c.md").ok()

    assert "answer_correct (b - a) by people: -0.333" in done.flat
    assert "shown to differ, from 60 labelled pairs" in done.flat


# --- the baseline file holds no answers, so it keeps what labels made of each run of main


def test_a_history_without_labels_names_none(ragbench: Ragbench, two_runs: tuple[str, str]) -> None:
    ragbench("baseline", "add", two_runs[1], "-o", "main.json").ok()

    assert "by labels" not in ragbench("history", "main.json").ok().out


def test_a_history_keeps_what_labels_made_of_a_run(ragbench: Ragbench, all_labels: str) -> None:
    ragbench("baseline", "add", "run", "-o", "main.json", "--labels", all_labels).ok()

    as_text = ragbench("history", "main.json").ok("corrected by labels of people").flat
    (stored,) = ragbench("history", "main.json", "--json").ok().json["runs"]

    assert "0.667 (" in as_text
    assert "from 60 labels; uncorrected 0.9" in as_text
    assert stored["people"]["answer_correct"][3] == 60


def test_the_judge_decides_a_gate_against_a_baseline_file(
    ragbench: Ragbench, all_labels: str
) -> None:
    ragbench("baseline", "add", "run", "-o", "main.json", "--labels", all_labels).ok()

    done = ragbench("gate", "run", "-b", "main.json", "--labels", all_labels, "--json")

    corrected = [check for check in done.json["checks"] if check["corrected"]]
    assert corrected == []


# --- the guide

GUIDE = (ROOT / "docs" / "labels.md").read_text("utf-8")


def test_the_labels_of_the_guide_can_be_read() -> None:
    (rows,) = fenced(GUIDE, "json")
    Path("shown.jsonl").write_text(rows, "utf-8")

    labels = read_people("shown.jsonl")

    assert [label.value for label in labels] == [1, 0.5]


def test_the_program_of_the_guide_compares_two_runs(
    ragbench: Ragbench, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = fenced(GUIDE, "python")
    Path("guide.py").write_text(program, "utf-8")
    run_of_answers(ragbench, "main")
    run_of_answers(ragbench, "branch", [1])
    of_main = labels_of("main", [])
    of_branch = labels_of("branch", [1, 2])
    lines("labels.jsonl", of_main + of_branch)

    runpy.run_path("guide.py")

    assert "runs=('a', 'b')" in capsys.readouterr().out
