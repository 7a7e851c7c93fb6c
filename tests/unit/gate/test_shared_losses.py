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


def run_of_two(recall: list[Score], answer: list[Score]) -> RunScores:
    """A run with a metric of retrieval and one of answers."""
    scores = {"recall@5": recall, "answer_correct": answer}
    return run(scores, column("answer_correct", group="generator"))


def verdict_of(now: RunScores) -> GateResult:
    before = run_of_two([1.0] * SIZE, [1.0] * SIZE)
    limits = {"recall@5": {"max_drop": 0.02}, "answer_correct": {"max_drop": 0.02}}
    return gate(now, before, config(**limits))


def with_causes(scores: RunScores, causes: list[Cause]) -> RunScores:
    """The run with what became of each of its cases."""
    facts = {**scores.table.facts, "cause": causes}
    return replace(scores, cases=replace(scores.table, facts=facts))


LOST_TOGETHER: list[Score] = [*[0.0] * LOST, *[1.0] * (SIZE - LOST)]
LOST_ELSEWHERE: list[Score] = [*[1.0] * (SIZE - LOST), *[0.0] * LOST]


def test_metrics_that_lost_on_the_same_cases_share_a_loss() -> None:
    verdict = verdict_of(run_of_two(LOST_TOGETHER, LOST_TOGETHER))

    assert verdict.shared == SharedLoss(subjects=("recall@5", "answer_correct"), cases=LOST)


def test_metrics_that_lost_on_other_cases_share_none() -> None:
    verdict = verdict_of(run_of_two(LOST_TOGETHER, LOST_ELSEWHERE))

    assert len(verdict.against) >= 2
    assert verdict.shared is None


def test_declined_cases_are_lost_by_the_answers_and_by_how_much_is_measured() -> None:
    declined: list[Score] = [*["abstained"] * LOST, *[1.0] * (SIZE - LOST)]

    shared = verdict_of(run_of_two([1.0] * SIZE, declined)).shared

    assert shared is not None
    assert shared.subjects == ("answered", "measured: answer_correct")
    assert shared.cases == LOST


def test_the_sentence_says_what_became_of_most_of_the_cases() -> None:
    causes = [*[Cause.NOT_RETRIEVED] * 15, *[Cause.DECLINED] * 5, *[Cause.RIGHT] * 20]

    shared = verdict_of(with_causes(run_of_two(LOST_TOGETHER, LOST_TOGETHER), causes)).shared

    assert shared is not None
    assert shared.text == (
        "recall@5 and answer_correct lost on the same 20 cases, 15 of them now "
        f'"{Cause.NOT_RETRIEVED.label}": look for one cause.'
    )


def test_a_run_that_passes_shares_no_loss() -> None:
    verdict = verdict_of(run_of_two([1.0] * SIZE, [1.0] * SIZE))

    assert verdict.shared is None


def test_the_sentence_is_in_the_comment_the_json_and_each_failed_test_case() -> None:
    verdict = verdict_of(run_of_two(LOST_TOGETHER, LOST_TOGETHER))

    sentence = "lost on the same 20 cases: look for one cause."
    assert markdown(gate_document(verdict)).count(sentence) == 1
    shared = json.loads(json.dumps(verdict_object(verdict)))["shared"]
    assert shared["subjects"] == ["recall@5", "answer_correct"]
    failures = junit_report(verdict).decode().split("<failure")[1:]
    assert [sentence in failure.partition("</failure>")[0] for failure in failures] == [True, True]
