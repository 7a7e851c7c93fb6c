"""Conversations in which a system hears its own earlier answers, in place of the recorded ones.

The questions are asked turn after turn: first the first ones of all conversations, then the second
ones, and so on. A question is known by its conversation (the case's cluster) and all that the user
said up to it. Where an earlier question is no case of the run, its recorded answer stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ragbench.core.case import Case, Turn
from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult
from ragbench.core.trace import RunCase
from ragbench.ledger.fingerprint import digest, fixed_digest
from ragbench.ledger.journal import Journal
from ragbench.stages.stage import restored

TURNS = "turns"
"""The manifest's setting, which only a run of own answers has."""
OWN = "own"


def _key(cluster: str | None, users: Sequence[str]) -> bytes:
    return digest(part.encode() for part in (cluster or "", *users))


def _asked(case: Case) -> bytes:
    return _key(case.cluster, [*(t.text for t in case.history if t.role == "user"), case.query])


@dataclass(kw_only=True, slots=True)
class OwnTurns:
    """What a system has answered so far, by question."""

    journal: Journal
    answers: dict[bytes, str | None] = field(default_factory=dict[bytes, str | None])
    """None where it gave no answer."""

    @classmethod
    def stored(cls, journal: Journal) -> OwnTurns:
        """All that a run has answered."""
        own = cls(journal=journal)
        for window in journal.cases():
            known = journal.valid_outcomes("generate", [one.number for one in window])
            for one in window:
                outcome = known.get(one.number)
                if outcome is not None:
                    own._add(one.case, restored("generate", outcome, journal).outcome)
        return own

    def windows(self) -> Iterator[list[RunCase]]:
        """The run's cases, those of each turn behind those of the turn before."""
        turns: dict[int, list[str]] = {}
        for window in self.journal.cases():
            for one in window:
                number = sum(turn.role == "user" for turn in one.case.history)
                turns.setdefault(number, []).append(one.case.id)
        for number in sorted(turns):
            for window in self.journal.cases(turns[number]):
                rows = [self.row(one) for one in window]
                recorded = [one.case for one in window]
                yield rows
                for row, case in zip(rows, recorded, strict=True):
                    self._add(case, row.settled["generate"].outcome)

    def row(self, stored: RunCase) -> RunCase:
        """A case as it is asked: with the system's own answers in its history."""
        history = tuple(self._heard(stored.case))
        if history == stored.case.history:
            return stored
        said = digest(part.encode() for turn in history for part in (turn.role, turn.text))
        case = replace(stored.case, history=history)
        return RunCase(stored.number, case, fixed_digest(stored.digest, said))

    def _heard(self, case: Case) -> Iterator[Turn]:
        users: list[str] = []
        is_own = False
        for turn in case.history:
            if turn.role == "user":
                users.append(turn.text)
                yield turn
                key = _key(case.cluster, users)
                is_own = key in self.answers
                if (answer := self.answers.get(key)) is not None:
                    yield Turn(role="assistant", text=answer)
            elif not is_own:
                yield turn

    def _add(self, case: Case, outcome: Outcome[GenerationResult]) -> None:
        value = outcome.value
        self.answers[_asked(case)] = None if value is None else value.response


def unasked_turns(journal: Journal) -> int:
    """How many earlier questions of conversations are no cases, so that recorded answers stand."""
    asked: set[bytes] = set()
    earlier: set[bytes] = set()
    for window in journal.cases():
        for case in (one.case for one in window):
            asked.add(_asked(case))
            users = [turn.text for turn in case.history if turn.role == "user"]
            earlier.update(_key(case.cluster, users[: at + 1]) for at in range(len(users)))
    return len(earlier - asked)
