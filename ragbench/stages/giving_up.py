"""When it is no use asking any further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragbench.core.outcome import Outcome, Status
from ragbench.safe_text import shown_line

_LONGEST = 300


@dataclass(slots=True)
class GivingUp:
    """Counts what a run asks, and says when a stage has only failed so far.

    A dead key or a service that is down fails every case, each after its time limit. A stage that
    has answered once is never given up: some of its cases may fail for good reasons, and cases of
    one kind often stand together.
    """

    after: int = 0
    """Cases that must have failed, with none that was answered; 0: it never gives up."""
    because: str = ""
    """Why no more is asked; empty while there is hope."""
    _failed: Counter[str] = field(default_factory=Counter[str])
    _answered: set[str] = field(default_factory=set[str])

    def count(self, stage: str, outcomes: Iterable[Outcome[Any]]) -> None:
        if not self.after or self.because or stage in self._answered:
            return
        last: Outcome[Any] | None = None
        for outcome in outcomes:
            if outcome.status is not Status.FAILED:
                self._answered.add(stage)
                return
            self._failed[stage] += 1
            last = outcome
        if self._failed[stage] >= self.after and last is not None:
            failure = last.failure
            told = "" if failure is None else f"{failure.type}: {failure.message}".rstrip(".")
            self.because = (
                f"{stage} failed for all of the first {self._failed[stage]:,} cases, so no more "
                f"are asked. The last one: {shown_line(told, longest=_LONGEST)}. Once that is "
                "mended, the same command goes on; with --retry-failed it asks those again. "
                "--give-up-after 0 asks all the same"
            )
