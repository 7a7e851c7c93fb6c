"""What decides about an answer: people, then a judge, then words; and what is counted of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Case,
    Cell,
    GenerationResult,
    LabelBook,
    Outcome,
    Report,
    RetrievalResult,
    Status,
    Trace,
    corrected_report,
    evaluate,
)
from ragbench.core.attribution import Answer, AnswerCounts, Cause, Decider
from ragbench.core.report import Correction, Interval
from ragbench.stages.attribution import attribute
from ragbench.views.answers import answer_counts_text, answers_text, share_hint

LEAVE = Case(id="leave", query="How long is parental leave?", reference="27 days")
CHUNK = "Parental leave is 27 days."


def trace(response: str, *, case: Case = LEAVE, abstained: bool = False) -> Trace:
    """A case with its right chunk and this answer."""
    retrieval: RetrievalResult[Any] = RetrievalResult([CHUNK])
    generation = GenerationResult(response, abstained=abstained)
    status = Status.ABSTAINED if abstained else Status.MEASURED
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=retrieval),
        generation=Outcome(status=status, value=generation),
    )


RIGHT = "27 days"
WRONG = "12 weeks"
JUDGED_RIGHT = Cell.measured(1.0)


@pytest.mark.parametrize(
    ("response", "label", "correctness", "answer", "decider"),
    [
        (RIGHT, None, None, Answer.RIGHT, Decider.WORDS),
        (WRONG, None, None, Answer.WRONG, Decider.WORDS),
        (WRONG, None, JUDGED_RIGHT, Answer.RIGHT, Decider.JUDGE),
        (WRONG, 0.0, JUDGED_RIGHT, Answer.WRONG, Decider.LABEL),
        (WRONG, 1.0, None, Answer.RIGHT, Decider.LABEL),
        (RIGHT, 0.5, None, Answer.PARTLY, Decider.LABEL),
        # A judge that could not be reached decides nothing.
        (RIGHT, None, Cell.skipped("unreachable"), Answer.RIGHT, Decider.WORDS),
    ],
)
def test_people_take_precedence_over_a_judge_and_a_judge_over_words(
    response: str,
    label: float | None,
    correctness: Cell | None,
    answer: Answer,
    decider: Decider,
) -> None:
    result = attribute(trace(response), label=label, correctness=correctness)

    assert result.answer is answer
    assert result.decided_by is decider


def test_a_partly_right_answer_is_neither_right_nor_answered_wrongly() -> None:
    assert attribute(trace(RIGHT), label=0.5).cause is Cause.PARTLY_RIGHT


DECLINED = trace("I don't know.", abstained=True)


def test_that_an_answer_was_declined_is_decided_by_the_data() -> None:
    assert attribute(DECLINED).decided_by is Decider.DATA


def test_a_declined_answer_that_people_call_wrong_stays_declined() -> None:
    assert attribute(DECLINED, label=0.0).answer is Answer.DECLINED


def test_a_declined_answer_that_people_call_right_is_right() -> None:
    assert attribute(DECLINED, label=1.0).answer is Answer.RIGHT


def test_a_declined_answer_to_a_question_of_which_nothing_is_known_is_no_loss() -> None:
    nothing_known = replace(LEAVE, reference=None)

    result = attribute(trace("I don't know.", case=nothing_known, abstained=True))

    assert result.cause is Cause.UNCHECKED
    assert result.answer is Answer.DECLINED


UNANSWERABLE = trace("Maria.", case=Case(id="n", query="Who?", answerable=False))


def test_an_answer_to_an_unanswerable_case_is_wrong() -> None:
    assert attribute(UNANSWERABLE).cause is Cause.ANSWERED_WITHOUT_EVIDENCE


def test_an_answer_to_an_unanswerable_case_is_right_if_people_call_it_right() -> None:
    result = attribute(UNANSWERABLE, label=1.0)

    assert result.cause is Cause.RIGHT
    assert result.decided_by is Decider.LABEL


# --- a run and its labels

ROWS = [
    {"query": f"How long is leave {number}?", "reference": f"{number} days", "response": response}
    for number, response in enumerate(["20 days", "21 days", "9 weeks", "9 weeks"], start=20)
]


def label(row: dict[str, str], value: float) -> str:
    """A line of a file of labels."""
    return (
        f'{{"question": "{row["query"]}", "answer": "{row["response"]}", '
        f'"metric": "answer_correct", "value": {value}}}\n'
    )


@pytest.fixture
def run(tmp_path: Path) -> tuple[Report, Path]:
    folder = tmp_path / "run"
    return evaluate(ROWS, out=folder, metrics="answer_correct"), folder


def labelled(run: tuple[Report, Path], values: dict[int, float]) -> Report:
    """The report of a run after labels of these rows."""
    report, folder = run
    path = folder.parent / "labels.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row, value in values.items():
            file.write(label(ROWS[row], value))
    return corrected_report(report, folder, LabelBook.read([path]))


def test_words_count_answers_and_name_no_share(run: tuple[Report, Path]) -> None:
    report, _ = run

    assert report.answers == AnswerCounts(cases=4, right=2, wrong=2, by_words=4)
    assert answers_text(report) == "Of 4 cases: 2 agree with the reference, 2 contradict it."
    assert report.summaries[0].interval is None


def test_labels_move_cases_between_causes(run: tuple[Report, Path]) -> None:
    report = labelled(run, {2: 1.0, 0: 0.0})

    rows = {row.query: row.attribution for row in report.rows()}

    assert rows[ROWS[2]["query"]].answer is Answer.RIGHT
    assert rows[ROWS[0]["query"]].answer is Answer.WRONG
    assert answers_text(report) == (
        "Of 4 cases: 2 right, 2 wrong. Decided: 2 by label, 2 by words."
    )


def test_a_label_of_another_answer_decides_nothing(run: tuple[Report, Path]) -> None:
    report, folder = run
    path = folder.parent / "labels.jsonl"
    path.write_text(label({**ROWS[2], "response": "8 weeks"}, 1.0), "utf-8")

    corrected = corrected_report(report, folder, LabelBook.read([path]))

    assert corrected.answers == report.answers


def test_the_stored_run_keeps_what_words_say(run: tuple[Report, Path]) -> None:
    labelled(run, {2: 1.0})
    _, folder = run

    stored = evaluate(ROWS, out=folder, metrics="answer_correct")

    assert stored.answers == AnswerCounts(cases=4, right=2, wrong=2, by_words=4)


# --- sentences

SHARE = Correction(
    metric="answer_correct",
    judged=0.5,
    judged_interval=None,
    corrected=0.74,
    interval=Interval(low=0.66, high=0.81),
    cases=252,
    labels=62,
    chosen=0,
    people=1,
    correlation=0.6,
)


@pytest.mark.parametrize(
    ("counts", "judge", "share", "text"),
    [
        (AnswerCounts(cases=0), "", None, "No case."),
        (
            AnswerCounts(cases=329, right=65, wrong=71, declined=77, undecided=116, by_words=252),
            "",
            None,
            "Of 329 cases: 65 agree with the reference, 71 contradict it, "
            "116 cannot be told by words, 77 declined.",
        ),
        (
            AnswerCounts(cases=1, wrong=1, by_words=1),
            "",
            None,
            "Of 1 case: 1 contradicts the reference.",
        ),
        (
            AnswerCounts(cases=200, right=150, partly=10, wrong=40, by_judge=200),
            "small",
            None,
            "Of 200 cases: 150 right, 10 partly right, 40 wrong. "
            "Decided by the judge small (not checked by labels).",
        ),
        (
            AnswerCounts(cases=300, right=210, wrong=90, by_label=62, by_judge=200, by_words=38),
            "small",
            SHARE,
            "Right: 74% (66% to 81%) of 252 answers, corrected by 62 labels. "
            "Of 300 cases: 210 right, 90 wrong. "
            "Decided: 62 by label, 200 by judge, 38 by words.",
        ),
        (
            AnswerCounts(
                cases=7,
                declined_rightly=2,
                answered_without_evidence=1,
                unchecked=1,
                no_answer=2,
                failed=1,
            ),
            "",
            None,
            "Of 7 cases: 2 declined (2 rightly), 1 answered without evidence, "
            "1 has nothing to compare with, 2 not answered, 1 failed.",
        ),
    ],
)
def test_the_sentence_leaves_out_what_no_case_is(
    counts: AnswerCounts, judge: str, share: Correction | None, text: str
) -> None:
    assert answer_counts_text(counts, judge=judge, share=share) == text


def test_the_next_step_is_labels_or_a_judge(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "id": str(number)} for number in range(50)]

    report = evaluate(rows, out=tmp_path, metrics="answer_correct")

    assert share_hint(report) == (
        "Label 40 for the share of right ones (about ±10 points), with: "
        "ragbench label RUN -m answer_correct -n 40; or add --judge MODEL"
    )
    assert share_hint(report, with_command=False) == (
        "Label 40 for the share of right ones (about ±10 points), or add --judge MODEL"
    )
