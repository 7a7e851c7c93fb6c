"""The cases of a stored run, read back: what its journal holds in the present epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ragbench.core.case import Case, Turn
from ragbench.core.metric import Metric
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult
from ragbench.core.trace import STAGES, Entry, RunCase, StageOutcome
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import digest, fixed_digest
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest
from ragbench.ledger.journal import Journal, StoredOutcome
from ragbench.stages.stage import (
    NO_CONTEXTS,
    NO_GENERATION,
    NO_RETRIEVAL,
    OWN,
    TURNS,
    cell_keys,
    passed_on,
    restored,
    skipped,
)

_INTERRUPTED = "not asked yet: the run was interrupted"


def judge_key(info: Mapping[str, Any] | None, metric: Metric) -> bytes:
    """What a metric's cells depend on beside the case, empty for one that nobody judges."""
    if not metric.is_judged:
        return b""
    key = None if info is None else info["keys"].get(metric.name)
    if key is None:
        raise ConfigError(f"the run does not record its judge {metric.name}")
    return bytes.fromhex(key)


@dataclass(frozen=True, kw_only=True)
class StoredTraces:
    """Reads a run's cases with their outcomes and cells, in order, a window at a time."""

    journal: Journal
    manifest: Manifest
    metrics: tuple[Metric, ...]
    with_texts: bool
    """Whether context texts are read too; without, each context is an empty string."""

    ids: Sequence[str] | None = None
    """Only these cases, in this order; all when not given."""

    def __iter__(self) -> Iterator[RunCase]:
        judge, scores = self.manifest.judge, self.journal.scores
        wanted = [(metric.identity, judge_key(judge, metric)) for metric in self.metrics]
        metrics = scores.find(wanted)
        for window in self.journal.cases(self.ids):
            numbers = [stored.number for stored in window]
            cells, matched = scores.cells(numbers), scores.matched(numbers)
            causes = scores.causes(numbers)
            judged = {} if judge is None else scores.judgements(numbers)
            for row in self.rows(window):
                line = cells.get(row.number)
                row.cells = (None,) * len(metrics)
                keys = cell_keys(row, self.manifest.settings["matching"])
                if line is not None and (line.question, line.answer) == keys:
                    row.cells = tuple(None if at is None else line.cells[at] for at in metrics)
                    row.matches = matched.get(row.number, {})
                    row.attribution = causes.get(row.number)
                row.judgements = tuple(
                    () if at is None or cell is None else judged.get((row.number, at), ())
                    for at, cell in zip(metrics, row.cells, strict=True)
                )
                yield row

    def rows(self, window: Sequence[RunCase]) -> list[RunCase]:
        """Cases of the run with what each stage gave."""
        # A run always has retrieval and generation.
        there = {"retrieve", "generate", *self.manifest.rag.stages, *self.manifest.absent}
        stages = [stage for stage in STAGES if stage in there]
        numbers = [stored.number for stored in window]
        known = {stage: self.journal.valid_outcomes(stage, numbers) for stage in stages}
        if self.with_texts:
            self.journal.load_texts(one for found in known.values() for one in found.values())
        is_own = self.manifest.settings.get(TURNS) == OWN
        rows = [*(map(self._own.row, window) if is_own else window)]
        for row in rows:
            for stage in stages:
                row.settled[stage] = self._settled(stage, row, known[stage].get(row.number))
        return rows

    @cached_property
    def _own(self) -> OwnTurns:
        """The answers that each question was asked with, where they are the system's own."""
        return OwnTurns.stored(self.journal)

    def _settled(self, stage: str, row: RunCase, stored: StoredOutcome | None) -> StageOutcome:
        if stored is not None:
            return restored(stage, stored, self.journal, with_texts=self.with_texts)
        if stage in self.manifest.absent:
            return skipped(self.manifest.absent[stage])
        if stage not in self.manifest.rag.stages:
            return skipped(NO_GENERATION if stage == "generate" else NO_RETRIEVAL)
        if stage != "retrieve":
            is_after = stage in ("validate", "generate")
            before = row.settled["retrieve"]
            before = row.settled.get("post_retrieve", before) if is_after else before
            is_told = before.outcome.reason in (_INTERRUPTED, NO_RETRIEVAL, NO_CONTEXTS)
            if before.outcome.value is None and not is_told:
                return passed_on(before)
        return skipped(_INTERRUPTED)


# --- as the source of another evaluation


def entries(path: Path) -> Iterator[Entry]:
    """The cases of a run in order, with every outcome that it has, as recorded ones.

    What was not asked yet, because the run was interrupted, and what a source had not recorded, is
    not recorded here either.
    """
    folder = RunFolder(path=path)
    manifest = read_manifest(folder.manifest)
    with Journal(folder.journal) as journal:
        run = StoredTraces(journal=journal, manifest=manifest, metrics=(), with_texts=True)
        for row in (row for window in journal.cases() for row in run.rows(window)):
            outcomes = {stage: settled.outcome for stage, settled in row.settled.items()}
            recorded = {
                stage: replace(outcome, known=Known.RECORDED)
                for stage, outcome in outcomes.items()
                # What has no row of its own has no value, but an earlier stage's failure.
                if outcome.status is not Status.SKIPPED
                or outcome.reason == NO_CONTEXTS
                or outcome.known is Known.RECORDED
            }
            yield Entry(case=row.case, recorded=recorded)


# --- conversations in which a system hears its own earlier answers


def _key(cluster: str | None, users: Sequence[str]) -> bytes:
    return digest(part.encode() for part in (cluster or "", *users))


def _asked(case: Case) -> bytes:
    return _key(case.cluster, [*(t.text for t in case.history if t.role == "user"), case.query])


@dataclass(kw_only=True, slots=True)
class OwnTurns:
    """What a system has answered so far, by question, which it hears in place of recorded answers.

    The questions are asked turn after turn: first the first ones of all conversations, then the
    second ones, and so on. A question is known by its conversation (the case's cluster) and all
    that the user said up to it. Where an earlier question is no case of the run, its recorded
    answer stands.
    """

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

    def windows(self) -> Generator[list[RunCase]]:
        """The run's cases, those of each turn behind those of the turn before."""
        turns: dict[int, list[str]] = {}
        for window in self.journal.cases():
            for one in window:
                number = sum(turn.role == "user" for turn in one.case.history)
                turns.setdefault(number, []).append(one.case.id)
        for number in sorted(turns):
            for window in self.journal.cases(turns[number]):
                rows = [self.row(one) for one in window]
                yield rows
                for row, stored in zip(rows, window, strict=True):
                    self._add(stored.case, row.settled["generate"].outcome)

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
