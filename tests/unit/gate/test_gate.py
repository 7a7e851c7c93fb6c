"""Verdicts where runs do not compare, where the dataset changed, and of demands that cannot be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ragbench import GateConfig, MetricGate
from ragbench.core.case_table import ScoredCase
from ragbench.core.gate_result import CheckKind, DatasetChange, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import AUTO, LatencyBudget, SliceGate
from ragbench.gate.gate import gate
from tests.unit.gate.builders import Score, column, config, run, with_cases
from tests.unit.gate.verdicts import CANNOT_TELL, FAILED, PASSED, check_of

STARS = column("stars", high=5.0)
SECONDS = column("seconds", high=None, direction=Direction.LOWER)


# --- what does not compare


def judged_run(judge: str, models: str) -> RunScores:
    return run({"m": [1]}, fingerprints={"dataset": "d1", "judge": judge}, judge=models)


def run_of_another_question() -> RunScores:
    scores = run({"m": [1]})
    (question,) = scores.cases
    return with_cases(scores, [replace(question, fingerprint="another")])


@pytest.mark.parametrize(
    ("now", "before", "subject", "reason"),
    [
        pytest.param(
            run({"m": [1]}),
            None,
            "baseline",
            "there is no baseline, so drops of m cannot be judged",
            id="no baseline",
        ),
        pytest.param(
            run_of_another_question(),
            run({"m": [1]}, fingerprints={"dataset": "d0"}),
            "dataset",
            "no case of run is in run",
            id="no common case",
        ),
        pytest.param(
            run({"m": [1]}, column("m", version=2)),
            run({"m": [1]}),
            "metrics",
            "m (version 2, there version 1)",
            id="another formula",
        ),
        pytest.param(
            run({"m": [1]}),
            run({"n": [1]}),
            "metrics",
            "m (version 1, there not measured)",
            id="another metric",
        ),
        pytest.param(
            judged_run("a" * 32, "gpt-4o"),
            judged_run("b" * 32, "gpt-4o-mini"),
            "judge",
            "graded by gpt-4o (aaaaaaaa), the baseline by gpt-4o-mini (bbbbbbbb);",
            id="another judge",
        ),
        pytest.param(
            judged_run("a" * 32, ""),
            run({"m": [1]}),
            "judge",
            "by a judge (aaaaaaaa), the baseline by no judge;",
            id="no judge before",
        ),
        pytest.param(
            run({"m": [1]}),
            run({"m": [1]}, matching="text"),
            "matching",
            "",
            id="gold matched in another way",
        ),
    ],
)
def test_runs_that_do_not_compare_are_refused(
    now: RunScores, before: RunScores | None, subject: str, reason: str
) -> None:
    verdict = gate(now, before, config(m={"max_drop": 0.1}))

    assert verdict.outcome is CANNOT_TELL
    (refusal,) = verdict.refusals
    assert refusal.what == subject
    assert reason in refusal.reason
    assert CheckKind.DROP not in [check.kind for check in verdict.checks]


def test_a_baseline_that_is_looked_for_and_not_found_is_no_pass() -> None:
    verdict = gate(run({"m": [1]}), None, GateConfig(baseline=AUTO))

    assert (verdict.outcome, verdict.headline) == (CANNOT_TELL, "there is no baseline")


def test_a_metric_with_another_formula_leaves_the_others_judged() -> None:
    another_formula = column("m", version=2)
    all_right, all_wrong = [1] * 8, [0] * 8
    before = run({"m": all_right, "n": all_right})
    now = run({"m": all_wrong, "n": all_wrong}, another_formula)

    verdict = gate(now, before, config(m={"max_drop": 0.1}, n={"max_drop": 0.1}))

    assert check_of(verdict, "n").outcome is FAILED
    assert verdict.outcome is FAILED


# --- a dataset that changed


def run_of_questions(cases: str) -> RunScores:
    """Cases like ``a1``: an id, and a digit that is both the question and tenths of its score."""
    case_ids = [case[0] for case in cases.split()]
    questions = [case[1] for case in cases.split()]
    scores = run({"m": [int(question) / 10 for question in questions]})
    renamed: list[ScoredCase] = []
    for case, case_id, question in zip(scores.cases, case_ids, questions, strict=True):
        renamed.append(replace(case, id=case_id, fingerprint=question))
    return with_cases(scores, renamed)


@pytest.mark.parametrize(
    ("before", "now", "renamed", "edited", "added", "gone"),
    [
        pytest.param(
            "a1 b2 c3",
            "x1 y2 c3",
            ["a>x", "b>y"],
            [],
            [],
            [],
            id="two other ids",
        ),
        pytest.param(
            "a1 b2 c3",
            "a9 b1 c2 d3",
            ["a>b", "b>c", "c>d"],
            [],
            ["a"],
            [],
            id="an inserted row",
        ),
        # Its id is another case's now.
        pytest.param(
            "a1 b2 c3",
            "a2 b3",
            ["b>a", "c>b"],
            [],
            [],
            ["a (before)"],
            id="a removed first row",
        ),
        pytest.param(
            "a1 b2",
            "b1 a2",
            ["a>b", "b>a"],
            [],
            [],
            [],
            id="swapped ids",
        ),
        pytest.param(
            "a1 b1 c2",
            "x1 y1 c2",
            ["a>x", "b>y"],
            [],
            [],
            [],
            id="cases of the same question keep their order",
        ),
        pytest.param(
            "a1 b2 c3",
            "a1 b9 d4",
            [],
            ["b"],
            ["d"],
            ["c"],
            id="edited, added and removed",
        ),
    ],
)
def test_cases_are_recognised_under_other_ids(
    before: str, now: str, renamed: list[str], edited: list[str], added: list[str], gone: list[str]
) -> None:
    demands = config({"min_common": 0}, m={"max_drop": 0})

    verdict = gate(run_of_questions(now), run_of_questions(before), demands)

    change = verdict.dataset
    assert change is not None
    old_and_new_ids = [f"{old_id}>{new_id}" for old_id, new_id in change.renamed]
    assert old_and_new_ids == renamed
    assert list(change.edited) == edited
    assert list(change.added) == added
    assert list(change.gone) == gone
    # Each is compared with itself, whatever it is called.
    assert check_of(verdict, "m").ground is Ground.UNCHANGED
    assert check_of(verdict, "m").cases == change.common


def run_with_tags(tags: str, scores: list[float]) -> RunScores:
    """One case per letter, which is its tag; all are German."""
    untagged = run({"recall@5": scores}, languages=["de"] * len(scores))
    tagged: list[ScoredCase] = []
    for case, tag in zip(untagged.cases, tags, strict=True):
        tagged.append(replace(case, tags=(tag,)))
    return with_cases(untagged, tagged)


RECALL_HELD = config(**{"recall@5": {"max_drop": 0.1}})
TAGS_BEFORE = run_with_tags("aaabbbcc", [1.0] * 8)


def verdict_on_four_new_cases() -> tuple[GateResult, DatasetChange]:
    """Six cases stay, two with the tag c are replaced by four with the tag d."""
    now = run_with_tags("aaabbbdddd", [1.0] * 8 + [0.0, 1.0])
    cases = list(now.cases)
    for row in range(6, 10):
        case = cases[row]
        cases[row] = replace(case, fingerprint=f"new {case.id}")

    verdict = gate(with_cases(now, cases), TAGS_BEFORE, RECALL_HELD)

    assert verdict.dataset is not None
    return verdict, verdict.dataset


def test_the_dataset_s_changes_are_counted_by_tag_and_language() -> None:
    _, change = verdict_on_four_new_cases()

    counts = [(label.label, label.before, label.now) for label in change.labels]
    assert counts == [
        ("language:de", 8, 10),
        ("tag:c", 2, 0),
        ("tag:d", 0, 4),
    ]


def test_new_cases_are_scored_apart_from_the_common_ones() -> None:
    _, change = verdict_on_four_new_cases()

    (score,) = change.scores
    assert (score.new, score.new_cases) == (0.75, 4)
    assert (score.common, score.common_cases) == (1.0, 6)


def test_a_tag_that_no_case_has_any_more_is_reported() -> None:
    verdict, _ = verdict_on_four_new_cases()

    assert verdict.headline.endswith("8 cases are gone or edited; no case has tag:c any more")
    assert "Nothing is checked on tag:c: no case has it any more (2 before)." in verdict.notes


def test_a_dataset_that_did_not_change_is_not_reported() -> None:
    assert gate(TAGS_BEFORE, TAGS_BEFORE, RECALL_HELD).dataset is None


def run_with_one_of_329_cases() -> tuple[RunScores, RunScores]:
    before = run({"m": [1] * 329}, fingerprints={"dataset": "d0"})
    now = run({"m": [1] * 2})
    common, new = now.cases
    return with_cases(now, [common, replace(new, fingerprint="new")]), before


def test_too_few_cases_in_common_fail_the_gate() -> None:
    verdict = gate(*run_with_one_of_329_cases(), config(m={"max_drop": 0.1}))

    assert verdict.outcome is FAILED
    assert verdict.headline.startswith("cases in common 1 of 329 cases of the baseline are in this")


def test_few_cases_in_common_pass_where_that_is_configured() -> None:
    demands = config({"min_common": 0.0}, m={"max_drop": 0.1})

    assert gate(*run_with_one_of_329_cases(), demands).outcome is PASSED


# --- which cases lost


def lost_cases(
    now: dict[str, list[Score]], before: dict[str, list[Score]]
) -> list[tuple[str, str, str, float]]:
    """Id, metric, status and loss of each case that lost, in the order of the verdict."""
    limits = {name: {"max_drop": 0.5} for name in now}
    demands = config({"max_error_rate": 1.0}, **limits)
    run_now = run(now, STARS, SECONDS)
    run_before = run(before, STARS, SECONDS)

    verdict = gate(run_now, run_before, demands)

    return [(change.id, change.metric, change.status, change.loss) for change in verdict.lost_cases]


def test_newly_failed_cases_come_first_then_those_that_lost_most() -> None:
    """By its worst metric each: q3 lost .5 of m and .4 of n."""
    before: dict[str, list[Score]] = {
        "m": [0.2, 1, 1, 0, 1, "failed"],
        "n": [1, 1, 1, 1, 1, 1],
    }
    now: dict[str, list[Score]] = {
        "m": ["failed", "abstained", 0.5, "abstained", 1, "failed"],
        "n": [1, 1, 0.6, 1, 1, 1],
    }

    assert lost_cases(now, before) == [
        ("q1", "m", "failed", 0.0),
        ("q2", "m", "abstained", 1.0),
        ("q3", "m", "measured", 0.5),
    ]


def test_losses_are_ordered_by_the_share_of_their_scale() -> None:
    """2 of 5 stars are .4 of the scale, less than .5 of 1; 3 s of an endless scale are 3."""
    before: dict[str, list[Score]] = {
        "m": [1, 1, 1],
        "stars": [5, 5, 5],
        "seconds": [1, 1, 1],
    }
    now: dict[str, list[Score]] = {
        "m": [1, 0.5, 1],
        "stars": [3, 5, 5],
        "seconds": [1, 1, 4],
    }

    assert lost_cases(now, before) == [
        ("q3", "seconds", "measured", 3.0),
        ("q2", "m", "measured", 0.5),
        ("q1", "stars", "measured", 0.4),
    ]


@pytest.mark.parametrize(("score", "reason"), [("failed", "why failed"), (0.5, None)])
def test_a_case_that_lost_has_the_reason_why_it_has_no_value(
    score: Score, reason: str | None
) -> None:
    before = run({"m": [1.0]})
    now = run({"m": [score]})
    demands = config({"max_error_rate": 1.0}, m={"max_drop": 0.5})

    verdict = gate(now, before, demands)

    (change,) = verdict.lost_cases
    assert change.reason == reason


# --- what cannot be demanded

SLICES_BY_TAG = MetricGate(slices=(SliceGate(by="tag", value=None),))
BUDGET_OF_UNKNOWN_STAGE = (LatencyBudget(stage="rank", figure="p95", seconds=1),)


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        (GateConfig(), "no checks are configured"),
        (config(recal={"minimum": 0.5}), "does not measure 'recal'"),
        (config(M={"minimum": 1.5}), "min is 1.5, and its largest value is 1"),
        (config(m={"maximum": -1}), "max is -1, and its smallest value is 0"),
        (config(m={"max_drop": 1.0}), "nothing would ever fail"),
        (config(tokens={"max_drop": 1.0}), "neither of its sides is better"),
        (config(time={"max_drop": 1.0}), "no per-case values of it"),
        (config(time=SLICES_BY_TAG), "slices cannot be judged"),
        (config({"latency": BUDGET_OF_UNKNOWN_STAGE}), "the run has no stage 'rank'"),
    ],
)
def test_a_demand_that_can_never_be_judged_is_an_error(demands: GateConfig, message: str) -> None:
    now = run(
        {"m": [1], "tokens": [5], "time": ["skipped"]},
        column("tokens", high=None, direction=Direction.NEITHER),
        column("time", high=None, has_cells=False, direction=Direction.LOWER),
    )

    with pytest.raises(ConfigError, match=re.escape(message)):
        gate(now, None, demands)
