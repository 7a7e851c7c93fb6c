"""A stage that has only failed is given up; one that has answered once is not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.stages.stage import GivingUp

DEAD: Outcome[str] = Outcome(
    status=Status.FAILED, failure=Failure(type="KeyError", message="no key.", stage="retrieve")
)
FINE: Outcome[str] = Outcome(status=Status.MEASURED, value="x")


def counted(after: int, *batches: Iterable[Outcome[str]]) -> GivingUp:
    found = GivingUp(after=after)
    for batch in batches:
        found.count("retrieve", batch)
    return found


@pytest.mark.parametrize(
    ("batches", "gives_up"),
    [
        ([[DEAD, DEAD]], False),
        ([[DEAD, DEAD], [DEAD]], True),
        ([[DEAD] * 8], True),
        ([[DEAD, FINE, DEAD], [DEAD] * 9], False),
        ([[FINE], [DEAD] * 99], False),
        ([[DEAD, DEAD], [Outcome(status=Status.ABSTAINED, value="")], [DEAD] * 9], False),
    ],
)
def test_it_takes_as_many_failures_as_were_given_and_no_answer(
    batches: list[list[Outcome[str]]], gives_up: bool
) -> None:
    assert bool(counted(3, *batches).because) is gives_up


def test_without_a_limit_it_never_does() -> None:
    assert not counted(0, [DEAD] * 1000).because


def test_stages_are_counted_apart() -> None:
    found = GivingUp(after=3)
    for stage in ("retrieve", "generate") * 2:
        found.count(stage, [DEAD])
    assert not found.because


def test_it_says_what_went_wrong_and_what_to_do() -> None:
    said = counted(3, [DEAD] * 3).because
    assert said.startswith("retrieve failed for all of the first 3 cases, so no more are asked.")
    assert "The last one: KeyError: no key. Once that is mended" in said
    assert "--retry-failed" in said
    assert "--give-up-after 0" in said
