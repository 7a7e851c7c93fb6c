"""The loop over a run's cases: each window goes through every stage, then through scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ragbench.errors import InterruptedRunError
from ragbench.evaluation.judging import JudgeRun
from ragbench.evaluation.post_retrieve import (
    PostRetrieveInput,
    handed_over,
    post_retrieve_key,
)
from ragbench.evaluation.rag_stages import GenerateInput
from ragbench.evaluation.scored_turn import Column, Turn
from ragbench.evaluation.scores import Scoring
from ragbench.evaluation.stage import (
    InLoop,
    Limits,
    Settle,
    Settled,
    Stage,
    Work,
    run_stage,
)
from ragbench.evaluation.validate_stage import ValidateInput, validate_key
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case
from ragbench.records.cells import Outcome, Status
from ragbench.records.metrics import Metric
from ragbench.records.validation import Validation
from ragbench.runs.fingerprint import NOTHING, fixed_digest, text_digests
from ragbench.runs.journal import Journal, StoredCase
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching, decide_matching

__all__ = [
    "NO_GENERATION",
    "NO_RETRIEVAL",
    "Run",
    "context_digest",
    "generate_key",
    "given_contexts",
    "retrieve_key",
]

NO_RETRIEVAL = "the RAG does not retrieve"
NO_GENERATION = "the RAG does not generate"
_STOPPED = "stopped; the same command continues"


def retrieve_key(identity: bytes, query: str) -> bytes:
    """Digest of all that a retrieval depends on."""
    return fixed_digest(identity, query.encode())


def generate_key(identity: bytes, query: str, contexts: bytes) -> bytes:
    """Digest of all that a generation depends on; ``contexts`` are digests of its contexts."""
    return fixed_digest(identity, b"%d " % len(contexts), contexts, query.encode())


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything that the loop needs, decided before its first case."""

    journal: Journal
    retrieve: Stage[str, RetrievalResult[Any]] | None
    """None for a RAG that only generates."""
    post_retrieve: Stage[PostRetrieveInput, RetrievalResult[Any]] | None
    """None for a run without such a stage."""
    validate: Stage[ValidateInput, Validation] | None
    """None for a run without such a stage."""
    generate: Stage[GenerateInput, GenerationResult[Any]] | None
    """None for a RAG that only retrieves."""
    metrics: tuple[Metric, ...]
    judge: JudgeRun | None
    """Settles the metrics that ask models; None where there are none."""
    limits: Limits
    retry_failed: bool
    stopped: Callable[[], bool]
    in_loop: InLoop
    settle: Settle
    restore: Callable[[str, RetrievalResult[Any]], None] | None
    """Gives a RAG that answers in one call its answer back out of a stored retrieval."""
    decided: Callable[[Matching], None]
    """Told, before anything is scored, how retrieved chunks will be compared with relevant ones."""

    def all_cases(self, matching: Matching) -> None:
        """Takes every case through every stage and through scoring.

        Args:
            matching: how retrieved chunks are compared with relevant ones; AUTO is decided from
                the first window.

        Raises:
            InterruptedRunError: ``stopped`` said so; what was finished is in the journal.
            LLMStoppedError: no model answers any more; what was answered is in the journal.
        """
        scoring: Scoring | None = None
        for window in self.journal.cases():
            turns = self._through_stages(window)
            if scoring is None:
                if matching is Matching.AUTO:
                    matching = decide_matching([turn.trace for turn in turns])
                self.decided(matching)
                scoring = Scoring(
                    columns=tuple(
                        Column.of(metric) for metric in self.metrics if not metric.is_judged
                    ),
                    judge=self.judge,
                    matching=matching,
                    journal=self.journal,
                    retry_failed=self.retry_failed,
                )
            reused = scoring.score(turns)
            self.settle("score", len(turns), 0, reused)

    def _through_stages(self, window: Sequence[StoredCase]) -> list[Turn]:
        retrieved = self._retrieve(window)
        self._check_stopped()
        processed = self._post_retrieve(window, retrieved)
        self._check_stopped()
        validated = self._validate(window, processed or retrieved)
        self._check_stopped()
        generated = self._generate(window, retrieved, processed)
        self._check_stopped()
        return [
            Turn(
                stored,
                Trace(
                    case=stored.case,
                    retrieval=retrieved[stored.number].outcome,
                    generation=generated[stored.number].outcome,
                    post_retrieval=processed[stored.number].outcome if processed else None,
                    validation=validated[stored.number].outcome if validated else None,
                ),
                context_digest(
                    retrieved[stored.number].digest,
                    processed[stored.number].digest if processed else None,
                ),
                generated[stored.number].digest,
            )
            for stored in window
        ]

    def _check_stopped(self) -> None:
        if self.stopped():
            raise InterruptedRunError(_STOPPED)

    def _retrieve(self, window: Sequence[StoredCase]) -> dict[int, Settled]:
        stage = self.retrieve
        if stage is None:
            return {stored.number: _skipped(NO_RETRIEVAL) for stored in window}
        work = [
            Work(stored.number, retrieve_key(stage.identity, stored.case.query), stored.case.query)
            for stored in window
        ]
        return self._settle(stage, work)

    def _post_retrieve(
        self, window: Sequence[StoredCase], retrieved: dict[int, Settled]
    ) -> dict[int, Settled] | None:
        stage = self.post_retrieve
        if stage is None:
            return None
        settled: dict[int, Settled] = {}
        work: list[Work[PostRetrieveInput]] = []
        for stored in window:
            before, query = retrieved[stored.number], stored.case.query
            if before.outcome.status is Status.FAILED:
                settled[stored.number] = _passed_on(before)
                continue
            key = post_retrieve_key(stage.identity, before.digest, query)
            given: RetrievalResult[Any] = cast("RetrievalResult[Any]", before.outcome.value)
            work.append(Work(stored.number, key, (query, given)))
        if settled:
            self.settle(stage.name, len(settled), len(settled), 0)
        return settled | self._settle(stage, work)

    def _validate(
        self, window: Sequence[StoredCase], given: dict[int, Settled]
    ) -> dict[int, Settled] | None:
        stage = self.validate
        if stage is None:
            return None
        settled: dict[int, Settled] = {}
        work: list[Work[ValidateInput]] = []
        for stored in window:
            before, query = given[stored.number], stored.case.query
            if before.outcome.status is Status.FAILED:
                settled[stored.number] = _passed_on(before)
                continue
            key = validate_key(stage.identity, before.digest, query)
            result: RetrievalResult[Any] = cast("RetrievalResult[Any]", before.outcome.value)
            work.append(Work(stored.number, key, (query, result)))
        if settled:
            self.settle(stage.name, len(settled), len(settled), 0)
        return settled | self._settle(stage, work)

    def _generate(
        self,
        window: Sequence[StoredCase],
        retrieved: dict[int, Settled],
        processed: dict[int, Settled] | None,
    ) -> dict[int, Settled]:
        stage = self.generate
        if stage is None:
            return {stored.number: _skipped(NO_GENERATION) for stored in window}
        settled: dict[int, Settled] = {}
        work: list[Work[GenerateInput]] = []
        for stored in window:
            before = (processed or retrieved)[stored.number]
            if before.outcome.status is Status.FAILED:
                settled[stored.number] = _passed_on(before)
                continue
            query, contexts, texts = stored.case.query, before.outcome.value, before.texts
            if contexts is None:  # a RAG that only generates is given the reference contexts
                contexts, texts = given_contexts(stored.case)
            else:
                if self.restore is not None:
                    self.restore(query, cast("Any", retrieved[stored.number].outcome.value))
                if processed is None:
                    contexts = contexts.contexts
                else:
                    contexts, texts = handed_over(contexts, texts)
            work.append(
                Work(stored.number, generate_key(stage.identity, query, texts), (query, contexts))
            )
        if settled:
            self.settle(stage.name, len(settled), len(settled), 0)
        return settled | self._settle(stage, work)

    def _settle(self, stage: Stage[Any, Any], work: Sequence[Work[Any]]) -> dict[int, Settled]:
        settled = run_stage(
            stage,
            work,
            self.journal,
            self.limits,
            retry_failed=self.retry_failed,
            stopped=self.stopped,
            in_loop=self.in_loop,
            settle=self.settle,
        )
        if len(settled) < len(work):
            raise InterruptedRunError(_STOPPED)
        return settled


def context_digest(retrieved: bytes, processed: bytes | None) -> bytes:
    """Digest of what generation and the metrics see, from retrieval's and post-retrieval's."""
    return retrieved if processed is None else fixed_digest(retrieved, processed)


def _passed_on(before: Settled) -> Settled:
    """The failure of a stage as that of the next, which was never asked and took no time."""
    return before._replace(outcome=replace(before.outcome, seconds=None))


def given_contexts(case: Case) -> tuple[Sequence[str], bytes]:
    """The contexts that a RAG without retrieval is given, and their digests."""
    contexts = case.reference_contexts or ()
    return contexts, b"".join(text_digests(contexts))


def _skipped(reason: str) -> Settled:
    return Settled(Outcome(status=Status.SKIPPED, reason=reason), b"", NOTHING)
