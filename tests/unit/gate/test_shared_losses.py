"""Several checks that lost on the same cases: one sentence, in every form of the result."""

from __future__ import annotations

import json
from dataclasses import replace

from ragbench.core.attribution import Cause
from ragbench.core.gate_result import GateResult, SharedLoss
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate
from ragbench.views.document import markdown
from ragbench.views.gate import gate_document, junit_report, verdict_object
from tests.unit.gate.builders import Score, column, config, run

SIZE = 40
LOST = 20
ALL_RIGHT: list[Score] = [1.0] * SIZE
FIRST_HALF_LOST: list[Score] = [*[0.0] * LOST, *[1.0] * LOST]
SECOND_HALF_LOST: list[Score] = [*[1.0] * LOST, *[0.0] * LOST]


def run_of_two(recall: list[Score], answer: list[Score]) -> RunScores:
    """A run with a metric of retrieval and one of answers."""
    scores = {"recall@5": recall, "answer_correct": answer}
    return run(scores, column("answer_correct", group="generator"))


def verdict_of(now: RunScores) -> GateResult:
    """The gate of a run whose baseline was right in all cases."""
    before = run_of_two(ALL_RIGHT, ALL_RIGHT)
    limits = {"recall@5": {"max_drop": 0.02}, "answer_correct": {"max_drop": 0.02}}
    return gate(now, before, config(**limits))


def with_causes(scores: RunScores, causes: list[Cause]) -> RunScores:
    """The run with what became of each of its cases."""
    facts = {**scores.table.facts, "cause": causes}
    return replace(scores, cases=replace(scores.table, facts=facts))


def test_metrics_that_lost_on_the_same_cases_share_a_loss() -> None:
    now = run_of_two(FIRST_HALF_LOST, FIRST_HALF_LOST)

    verdict = verdict_of(now)

    assert verdict.shared == SharedLoss(subjects=("recall@5", "answer_correct"), cases=LOST)


def test_metrics_that_lost_on_other_cases_share_none() -> None:
    now = run_of_two(FIRST_HALF_LOST, SECOND_HALF_LOST)

    verdict = verdict_of(now)

    assert len(verdict.against) >= 2
    assert verdict.shared is None


def test_declined_cases_are_lost_by_the_answers_and_by_how_much_is_measured() -> None:
    half_declined: list[Score] = [*["abstained"] * LOST, *[1.0] * LOST]
    now = run_of_two(ALL_RIGHT, half_declined)

    shared = verdict_of(now).shared

    assert shared is not None
    assert shared.subjects == ("answered", "measured: answer_correct")
    assert shared.cases == LOST


def test_the_sentence_says_what_became_of_most_of_the_cases() -> None:
    lost_causes = [Cause.NOT_RETRIEVED] * 15 + [Cause.DECLINED] * 5
    causes = lost_causes + [Cause.RIGHT] * 20
    now = with_causes(run_of_two(FIRST_HALF_LOST, FIRST_HALF_LOST), causes)

    shared = verdict_of(now).shared

    assert shared is not None
    assert shared.text == (
        "recall@5 and answer_correct lost on the same 20 cases, 15 of them now "
        f'"{Cause.NOT_RETRIEVED.label}": look for one cause.'
    )


def test_a_run_that_passes_shares_no_loss() -> None:
    verdict = verdict_of(run_of_two(ALL_RIGHT, ALL_RIGHT))

    assert verdict.shared is None


def test_the_sentence_is_in_the_comment_the_json_and_each_failed_test_case() -> None:
    verdict = verdict_of(run_of_two(FIRST_HALF_LOST, FIRST_HALF_LOST))

    sentence = "lost on the same 20 cases: look for one cause."
    comment = markdown(gate_document(verdict))
    assert comment.count(sentence) == 1
    result = json.loads(json.dumps(verdict_object(verdict)))
    assert result["shared"]["subjects"] == ["recall@5", "answer_correct"]
    _, recall, answer_correct = junit_report(verdict).decode().split("<failure")
    assert sentence in recall.partition("</failure>")[0]
    assert sentence in answer_correct.partition("</failure>")[0]
