"""The cases of a stored run, read back: what its journal holds in the present epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ragbench.core.case import Case, Turn
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Judgement, Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult
from ragbench.core.trace import STAGES, Entry, RunCase, StageOutcome
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import digest, fixed_digest
from ragbench.ledger.folder import Manifest, RunFolder, check_count, read_manifest
from ragbench.ledger.journal import Journal, StoredOutcome
from ragbench.stages.stage import (
    NO_CONTEXTS,
    NO_GENERATION,
    NO_RETRIEVAL,
    OWN,
    TURNS,
    cell_keys,
    outcome_passed_on,
    restored_outcome,
    skipped_outcome,
)

_INTERRUPTED = "not asked yet: the run was interrupted"
"""Of a case that a stage has not reached."""


def judge_key(info: Mapping[str, Any] | None, metric: Metric) -> bytes:
    """The key of the judge behind a metric's cells (its values); empty for a metric without one.

    Stored cells are looked up by this key: those of another judge or prompt have another one.

    Args:
        info: the manifest's record of who judged; see `Judging.info`.
    """
    if not metric.is_judged:
        return b""
    key = None
    if info is not None:
        key = info["keys"].get(metric.name)
    # An info without the metric's key is of a run that was judged without it.
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
        """The run's cases in order, each with its outcomes, and with cells and cause that hold.

        Cells (values of metrics) of another answer, retrieval or matching are not this run's, and
        are left out. After all cases, their number is compared with the manifest's, as a journal
        may be cut.
        """
        judge = self.manifest.judge
        matching = self.manifest.settings["matching"]
        scores = self.journal.scores
        # The journal's column of each metric; None where it has never scored it.
        columns = scores.find(
            [(metric.identity, judge_key(judge, metric)) for metric in self.metrics]
        )
        count = 0
        for window in self.journal.cases(self.ids):
            count += len(window)
            numbers = [stored.number for stored in window]
            cells_by_case = scores.cells(numbers)
            matches = scores.matched(numbers)
            causes = scores.causes(numbers)
            judgements_by_cell: Mapping[tuple[int, int], tuple[Judgement, ...]] = {}
            if judge is not None:
                judgements_by_cell = scores.judgements(numbers)
            for row in self.rows(window):
                scored = cells_by_case.get(row.number)
                # Cells of another answer, retrieval or matching are not this run's.
                keys = cell_keys(row, matching)
                has_scores = scored is not None and (scored.question, scored.answer) == keys
                cells: list[Cell | None] = []
                judgements: list[tuple[Judgement, ...]] = []
                for column in columns:
                    cell = None
                    if scored is not None and has_scores and column is not None:
                        cell = scored.cells[column]
                    cells.append(cell)
                    if column is None or cell is None:
                        judgements.append(())
                    else:
                        judgements.append(judgements_by_cell.get((row.number, column), ()))
                row.cells = tuple(cells)
                row.judgements = tuple(judgements)
                if has_scores:
                    row.matches = matches.get(row.number, {})
                    row.attribution = causes.get(row.number)
                yield row
        # Only when all cases were read is their number that of the run.
        if self.ids is None and self.journal.path is not None:
            check_count(self.journal.path.parent, self.manifest, count)

    def rows(self, window: Sequence[RunCase]) -> list[RunCase]:
        """Cases of the run with the outcome of each stage, as the journal holds it.

        In a conversation that was held with the system, the history is of its own answers. The
        stages are gone through in order: one that was not asked may pass on an earlier outcome.
        """
        # A run always has retrieval and generation.
        # Also where neither was asked or is absent: rows read the outcomes of both.
        run_stages = {"retrieve", "generate", *self.manifest.rag.stages, *self.manifest.absent}
        stages = [stage for stage in STAGES if stage in run_stages]
        numbers = [stored.number for stored in window]
        stored_outcomes = {stage: self.journal.valid_outcomes(stage, numbers) for stage in stages}
        if self.with_texts:
            # All texts of the window in one query.
            self.journal.load_texts(
                chain.from_iterable(outcomes.values() for outcomes in stored_outcomes.values())
            )
        # Histories of recorded answers, as in the dataset, need no second look.
        if self.manifest.settings.get(TURNS) == OWN:
            rows = [self._own_turns.row(stored) for stored in window]
        else:
            rows = list(window)
        for row in rows:
            # In the order of the stages: one that was not asked may pass on an earlier outcome.
            for stage in stages:
                stored_outcome = stored_outcomes[stage].get(row.number)
                row.settled[stage] = self._stage_outcome(stage, row, stored_outcome)
        return rows

    @cached_property
    def _own_turns(self) -> OwnTurns:
        """The system's own earlier answers of each conversation.

        A run that asked with them, in place of the dataset's, is read back with them, too: cases
        would else show a history that the system never heard.
        """
        return OwnTurns.stored(self.journal)

    def _stage_outcome(
        self, stage: str, row: RunCase, stored: StoredOutcome | None
    ) -> StageOutcome:
        """The outcome of a stage for a case; where nothing is stored, one with the reason for that.

        The journal has no row for what was never called: a stage that the run does not have, or one
        behind a stage that gave nothing.
        """
        if stored is not None:
            return restored_outcome(stage, stored, self.journal, with_texts=self.with_texts)
        if stage in self.manifest.absent:
            return skipped_outcome(self.manifest.absent[stage])
        # A stage that the manifest neither names nor calls absent: the system lacks it.
        if stage not in self.manifest.rag.stages:
            if stage == "generate":
                return skipped_outcome(NO_GENERATION)
            return skipped_outcome(NO_RETRIEVAL)
        if stage != "retrieve":
            before = row.settled["retrieve"]
            # Validation and generation work on the chunks that post-retrieval left.
            if stage in ("validate", "generate"):
                before = row.settled.get("post_retrieve", before)
            # With one of these reasons, the stage before does not keep this one from being called;
            # any other reason for no value is this stage's reason as well.
            is_open = before.outcome.reason in (_INTERRUPTED, NO_RETRIEVAL, NO_CONTEXTS)
            if before.outcome.value is None and not is_open:
                return outcome_passed_on(before)
        return skipped_outcome(_INTERRUPTED)


# --- as the source of another evaluation


def entries(path: Path) -> Iterator[Entry]:
    """The cases of a run in order, with every outcome that it has, as recorded ones.

    By this a run can be the dataset of another evaluation, which does not ask for the outcomes
    again. An outcome that the run lacks, since it was interrupted or since its own dataset had not
    recorded it, is missing here as well.
    """
    folder = RunFolder(path=path)
    manifest = read_manifest(folder.manifest)
    with Journal(folder.journal) as journal:
        run = StoredTraces(journal=journal, manifest=manifest, metrics=(), with_texts=True)
        count = 0
        for window in journal.cases():
            count += len(window)
            for row in run.rows(window):
                recorded: dict[str, Outcome[Any]] = {}
                for stage, settled in row.settled.items():
                    if _is_recorded(settled.outcome):
                        # As recorded, whatever they were in the stored run: the next run must not
                        # ask for them.
                        recorded[stage] = replace(settled.outcome, known=Known.RECORDED)
                yield Entry(case=row.case, recorded=recorded)
        check_count(path, manifest, count)


def _is_recorded(outcome: Outcome[Any]) -> bool:
    """Whether a stage's outcome shows something of the system, and not how far the run went.

    Only such outcomes are passed on as recorded when another run reads this one as its source.
    """
    if outcome.status is not Status.SKIPPED:
        return True
    # Of skipped ones two kinds do: retrieval gave no chunk, and the source of this run said so.
    return outcome.reason == NO_CONTEXTS or outcome.known is Known.RECORDED


# --- conversations in which a system hears its own earlier answers


def _question_key(cluster: str | None, user_turns: Sequence[str]) -> bytes:
    """The key of a question in a conversation: the conversation, and all user's turns up to it.

    By the key a later turn gets the system's own answer to the earlier question. The case's id
    would not do, as the history names no ids.
    """
    return digest(part.encode() for part in (cluster or "", *user_turns))


def _user_turns(case: Case) -> list[str]:
    """The texts of the user's turns before the case's question, without the assistant's.

    A question in a conversation is known by these: the assistant's answers may be the system's own.
    """
    return [turn.text for turn in case.history if turn.role == "user"]


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
    """By question; None where it gave no answer."""

    @classmethod
    def stored(cls, journal: Journal) -> OwnTurns:
        """The answers of a stored run to its questions, by which its cases are read back.

        The histories of the cases then hold the system's own answers to earlier questions, as they
        were given to the system in the run.
        """
        own_turns = cls(journal=journal)
        for window in journal.cases():
            numbers = [stored.number for stored in window]
            stored_outcomes = journal.valid_outcomes("generate", numbers)
            # A question without an outcome has no entry: its recorded answer is kept in histories.
            for stored in window:
                stored_outcome = stored_outcomes.get(stored.number)
                if stored_outcome is not None:
                    generation = restored_outcome("generate", stored_outcome, journal)
                    own_turns._keep_answer(stored.case, generation.outcome)
        return own_turns

    def windows(self) -> Generator[list[RunCase]]:
        """The run's cases in windows, those of each turn of a conversation behind the turn before.

        The caller must settle a window before it takes the next: the answers of the window are in
        the histories from then on.
        """
        # By the number of turns before it, so that an answer is there before the turn that hears
        # it.
        ids_by_turn: dict[int, list[str]] = {}
        for window in self.journal.cases():
            for stored in window:
                turn_number = len(_user_turns(stored.case))
                ids_by_turn.setdefault(turn_number, []).append(stored.case.id)
        for turn_number in sorted(ids_by_turn):
            for window in self.journal.cases(ids_by_turn[turn_number]):
                rows = [self.row(stored) for stored in window]
                yield rows
                # Resumed only when the caller asks for the next window: the rows are settled then.
                for row, stored in zip(rows, window, strict=True):
                    self._keep_answer(stored.case, row.settled["generate"].outcome)

    def row(self, stored: RunCase) -> RunCase:
        """A case as it is asked in a conversation: with the system's own answers in its history.

        Args:
            stored: the case as the dataset has it.
        """
        history = tuple(self._own_history(stored.case))
        # The same object and digest, so that outcomes of runs with recorded turns are found.
        if history == stored.case.history:
            return stored
        history_parts: list[bytes] = []
        for turn in history:
            history_parts += (turn.role.encode(), turn.text.encode())
        # Another history is another input: the case's outcomes are kept under another digest.
        return RunCase(
            stored.number,
            replace(stored.case, history=history),
            fixed_digest(stored.digest, digest(history_parts)),
        )

    def _own_history(self, case: Case) -> Iterator[Turn]:
        """The turns of a case's history, with the system's own answers in place of recorded ones.

        A question that is no case of the run was not asked: its recorded answer is kept.
        """
        user_turns: list[str] = []
        is_own = False
        for turn in case.history:
            if turn.role == "user":
                user_turns.append(turn.text)
                yield turn
                key = _question_key(case.cluster, user_turns)
                # Looked for by key, not by value: a question that got no answer has None, and no
                # recorded one.
                is_own = key in self.answers
                answer = self.answers.get(key)
                if answer is not None:
                    yield Turn(role="assistant", text=answer)
            elif not is_own:  # else it is the recorded answer to a question that was asked here
                yield turn

    def _keep_answer(self, case: Case, outcome: Outcome[GenerationResult]) -> None:
        """Keeps the answer to a case's question, for the histories of the turns after it.

        Args:
            case: the case as the dataset has it: recorded answers are not in the question's key.
        """
        key = _question_key(case.cluster, [*_user_turns(case), case.query])
        answer: str | None = None
        if outcome.value is not None:
            answer = outcome.value.response
        self.answers[key] = answer


def unasked_turns(journal: Journal) -> int:
    """How many earlier questions of conversations are no cases of the run, and so are not asked.

    In the histories the recorded answers to these questions take the place of the system's own,
    which the report notes.
    """
    case_questions: set[bytes] = set()
    earlier_questions: set[bytes] = set()
    for window in journal.cases():
        for stored in window:
            case = stored.case
            user_turns = _user_turns(case)
            case_questions.add(_question_key(case.cluster, [*user_turns, case.query]))
            # Each earlier question of the history, with the turns before it.
            for position in range(len(user_turns)):
                earlier_questions.add(_question_key(case.cluster, user_turns[: position + 1]))
    return len(earlier_questions - case_questions)
