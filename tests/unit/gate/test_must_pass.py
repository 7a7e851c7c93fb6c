"""Cases that must pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.gate import gate
from tests.unit.gate.builders import Score, column, run

RECALL = column("recall@5")
ANSWER = column("answer_correct", group="generator")


def golden(recall: Sequence[Score], answers: Sequence[Score]) -> RunScores:
    """A run whose first three cases have the tag golden."""
    found = run({"recall@5": recall, "answer_correct": answers}, RECALL, ANSWER)
    tagged = [replace(case, tags=("golden",)) for case in found.cases[:3]]
    return replace(found, cases=(*tagged, *found.cases[3:]))


def must(now: RunScores, before: RunScores | None, *selectors: str) -> GateCheck:
    verdict = gate(now, before, GateConfig(max_error_rate=1.0, must_pass=selectors))
    (check,) = [check for check in verdict.checks if check.kind is CheckKind.MUST_PASS]
    return check


RIGHT = golden([1.0] * 40, [1.0] * 40)


def test_one_lost_case_fails_the_gate_where_no_test_shows_a_drop() -> None:
    now = golden([1.0] * 40, [1.0, 0.4, *[1.0] * 38])
    assert gate(now, RIGHT, GateConfig()).outcome is GateOutcome.PASSED
    verdict = gate(now, RIGHT, GateConfig(must_pass=("tag:golden",)))
    assert verdict.outcome is GateOutcome.FAILED
    assert verdict.headline == ("must pass 1 of 3 cases lost: q2 (answer_correct 1.000, now 0.400)")
    assert must(now, RIGHT, "q1", "q3").outcome is GateOutcome.PASSED


@pytest.mark.parametrize(("recall", "answer", "before", "lost"), [
    (1.0, 0.5, None, False),  # half of the scale passes
    (0.4, 1.0, None, True),  # each of the main metrics must
    (1.0, "abstained", None, True), (1.0, "failed", None, True),
    ("skipped", 1.0, None, False),  # does not apply
    (1.0, 0.0, (1.0, 0.0), False),  # failed before as well
    (0.0, 0.0, (1.0, 0.0), True),  # one more way
    (0.0, 1.0, ("skipped", 1.0), True),  # nobody knew before
])  # fmt: skip
def test_a_case_is_lost_when_it_fails_and_did_not_before(
    recall: Score, answer: Score, before: tuple[Score, Score] | None, lost: bool
) -> None:
    now = golden([recall, 1.0, 1.0], [answer, 1.0, 1.0])
    old = None if before is None else golden([before[0], 1.0, 1.0], [before[1], 1.0, 1.0])
    check = must(now, old, "tag:golden")
    assert [change.id for change in check.lost] == (["q1"] if lost else [])
    assert check.failed_before == int(not lost and answer == 0.0)
    assert ("; 1 fail as before" in check.reason) is bool(check.failed_before)
    # A question that was edited since is a new one, which must pass.
    if old is not None:
        edited = replace(old, cases=(replace(old.cases[0], fingerprint="e"), *old.cases[1:]))
        assert [one.id for one in must(now, edited, "tag:golden").lost] == ["q1"]


@pytest.mark.parametrize(("right", "lost"), [(1, True), (2, False), (3, False)])
def test_of_a_case_that_was_asked_repeatedly_most_times_decide(right: int, lost: bool) -> None:
    """Of four times; the mean of one that is right half of the time lies at the threshold."""
    cells = Repeats(cells=tuple(Cell.measured(float(n < right)) for n in range(4)))
    once = golden([1.0] * 3, [right / 4, 1.0, 1.0])
    first = replace(once.cases[0], repeats={"answer_correct": cells})
    now = replace(once, cases=(first, *once.cases[1:]))
    assert bool(must(now, RIGHT, "q1").lost) is lost


def test_a_case_that_is_gone_is_lost_and_so_is_one_that_lost_its_tag() -> None:
    bare = replace(RIGHT, cases=tuple(replace(case, tags=()) for case in RIGHT.cases))
    assert must(bare, RIGHT, "tag:golden").cases == 3
    gone = replace(bare, cases=bare.cases[1:])
    check = must(gone, RIGHT, "tag:golden")
    assert check.summary == "1 of 3 cases lost: q1 (not in this run)"
    assert must(gone, RIGHT, "q1").outcome is GateOutcome.FAILED


@pytest.mark.parametrize(("selector", "message"), [
    ("tag:gold", "'tag:gold' names no case of this run"),
    ("q111", "Did you mean q11?"), ("language:de", "names no case"),
    ("q4", "q4: none of answer_correct, recall@5 says whether it passes"),
])  # fmt: skip
def test_what_can_never_be_judged_is_an_error(selector: str, message: str) -> None:
    now = golden([1.0] * 3 + ["skipped"] + [1.0] * 36, [1.0] * 3 + ["skipped"] + [1.0] * 36)
    with pytest.raises(ConfigError, match=re.escape(message)):
        must(now, RIGHT, selector)
