"""The loop over a run's cases: each window goes through every stage, then through scoring."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.errors import InterruptedRunError
from ragbench.evaluation.rag_stages import GenerateInput
from ragbench.evaluation.scores import Column, Scoring, Turn
from ragbench.evaluation.stage import Limits, Settle, Settled, Stage, Work, run_stage
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cells import Outcome, Status
from ragbench.records.metrics import Metric
from ragbench.runs.fingerprint import digest
from ragbench.runs.journal import Journal, StoredCase
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching, decide_matching

__all__ = ["NO_GENERATION", "NO_RETRIEVAL", "Run", "generate_key", "retrieve_key"]

NO_RETRIEVAL = "the RAG does not retrieve"
NO_GENERATION = "the RAG does not generate"


def retrieve_key(identity: bytes, query: str) -> bytes:
    """Digest of all that a retrieval depends on."""
    return digest((identity, query.encode()))


def generate_key(identity: bytes, query: str, contexts: bytes) -> bytes:
    """Digest of all that a generation depends on; ``contexts`` are digests of its contexts."""
    return digest((identity, query.encode(), contexts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything that the loop needs, decided before its first case."""

    journal: Journal
    retrieve: Stage[str, RetrievalResult[Any]] | None
    """None for a RAG that only generates."""
    generate: Stage[GenerateInput, GenerationResult[Any]] | None
    """None for a RAG that only retrieves."""
    metrics: tuple[Metric, ...]
    limits: Limits
    retry_failed: bool
    stopped: Callable[[], bool]
    in_loop: Callable[[Coroutine[Any, Any, None]], None]
    settle: Settle

    def all_cases(self, matching: Matching) -> Matching:
        """Takes every case through every stage and through scoring.

        Args:
            matching: how retrieved chunks are compared with relevant ones; AUTO is decided from
                the first window.

        Returns:
            The matching that was used.

        Raises:
            InterruptedRunError: ``stopped`` said so; what was finished is in the journal.
        """
        scoring: Scoring | None = None
        for window in self.journal.cases():
            turns = self._through_stages(window)
            if scoring is None:
                if matching is Matching.AUTO:
                    matching = decide_matching([turn.trace for turn in turns])
                scoring = Scoring(
                    columns=tuple(Column.of(metric) for metric in self.metrics),
                    matching=matching,
                    journal=self.journal,
                    retry_failed=self.retry_failed,
                )
            reused = scoring.score(turns)
            self.settle("score", len(turns), 0, reused)
        return matching

    def _through_stages(self, window: Sequence[StoredCase]) -> list[Turn]:
        retrieved = self._retrieve(window)
        self._check_stopped()
        generated = self._generate(window, retrieved)
        self._check_stopped()
        return [
            Turn(
                stored,
                Trace(
                    case=stored.case,
                    retrieval=retrieved[stored.number].outcome,
                    generation=generated[stored.number].outcome,
                ),
                retrieved[stored.number].digest,
                generated[stored.number].digest,
            )
            for stored in window
        ]

    def _check_stopped(self) -> None:
        if self.stopped():
            raise InterruptedRunError("stopped; the same command continues")

    def _retrieve(self, window: Sequence[StoredCase]) -> dict[int, Settled]:
        stage = self.retrieve
        if stage is None:
            return {stored.number: _skipped(NO_RETRIEVAL) for stored in window}
        work = [
            Work(stored.number, retrieve_key(stage.identity, stored.case.query), stored.case.query)
            for stored in window
        ]
        return self._settle(stage, work)

    def _generate(
        self, window: Sequence[StoredCase], retrieved: dict[int, Settled]
    ) -> dict[int, Settled]:
        stage = self.generate
        if stage is None:
            return {stored.number: _skipped(NO_GENERATION) for stored in window}
        settled: dict[int, Settled] = {}
        work: list[Work[GenerateInput]] = []
        for stored in window:
            before = retrieved[stored.number]
            contexts = _contexts(stored, before)
            if contexts is None:  # what retrieval could not give, generation was never asked for
                settled[stored.number] = before
            else:
                key = generate_key(stage.identity, stored.case.query, before.texts)
                work.append(Work(stored.number, key, (stored.case.query, contexts)))
        if settled:
            self.settle(stage.name, len(settled), len(settled), 0)
        return settled | self._settle(stage, work)

    def _settle(self, stage: Stage[Any, Any], work: Sequence[Work[Any]]) -> dict[int, Settled]:
        return run_stage(
            stage,
            work,
            self.journal,
            self.limits,
            retry_failed=self.retry_failed,
            stopped=self.stopped,
            in_loop=self.in_loop,
            settle=self.settle,
        )


def _contexts(stored: StoredCase, retrieved: Settled) -> list[str] | None:
    """What generation is given; None when retrieval failed."""
    outcome = retrieved.outcome
    if outcome.status == Status.FAILED:
        return None
    if outcome.value is None:  # a RAG that only generates is given the reference contexts
        return list(stored.case.reference_contexts or ())
    contexts: Sequence[str] = outcome.value.contexts
    return contexts if isinstance(contexts, list) else [*contexts]


def _skipped(reason: str) -> Settled:
    return Settled(Outcome(status=Status.SKIPPED, reason=reason), b"", b"")
