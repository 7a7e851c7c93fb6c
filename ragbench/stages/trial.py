"""One variant of post-retrieval over the cases of a run: what it leaves, and what that takes."""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ragbench.core.ablation import VariantAnswers, VariantEffect, VariantReport
from ragbench.core.biography import steps_of
from ragbench.core.calling import LoopThread
from ragbench.core.chat import Price, Usage
from ragbench.core.outcome import Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, InputError
from ragbench.ledger.scores import ScoreStore
from ragbench.metrics.matching import Matching
from ragbench.metrics.operational import token_counts
from ragbench.metrics.plan import Plan
from ragbench.metrics.summary import most_frequent
from ragbench.post.build import Variant
from ragbench.post.stage import rerankers_of, with_stored_scores
from ragbench.rag.parts import AdaptedRAG
from ragbench.stages.biography import BiographyTally, biography_of
from ragbench.stages.call_stage import CallStage
from ragbench.stages.rag import (
    RAG,
    ChunksInput,
    contexts_for_generation,
    generate_stage,
    post_retrieve_stage,
)
from ragbench.stages.run_tally import percentile
from ragbench.stages.stage import InLoop
from ragbench.stats.mean import mean_of
from ragbench.text.token_counter import TokenCounter

NOT_GENERATED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="generation was not asked")
_NOTHING_LEFT: Outcome[Any] = Outcome(
    status=Status.SKIPPED, reason="there was nothing to generate from"
)


@dataclass(kw_only=True, slots=True)
class Trial:
    """One variant, and what it came to so far."""

    variant: Variant
    """Its stage is dated."""
    counter: TokenCounter
    """Counts what generation would be given."""
    matching: Matching
    scores: ScoreStore | None = None
    """Scores of slow rerankers that are known."""
    answering: Answering | None = None
    """Asked for an answer to what is left; nobody when None."""
    values: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """A mapping a metric: case id to value, None where there is none."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    chunks: int = 0
    passed_over: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    biographies: BiographyTally = field(default_factory=BiographyTally)
    answers: Counter[Status] = field(default_factory=Counter[Status])
    answer_seconds: array[float] = field(default_factory=lambda: array("d"))
    usages: list[Usage] = field(default_factory=list[Usage])
    """Of the answers whose tokens the RAG reports."""
    reused: int = 0
    """Scores that were known from before."""
    acted: int = 0
    """Cases in which it left anything else than the first variant."""
    left: dict[str, object] = field(default_factory=dict[str, object])
    """What it left of the cases of the present window."""
    stage: CallStage[ChunksInput, RetrievalResult[Any]] = field(init=False)
    """The variant's, with the store of scores."""

    def __post_init__(self) -> None:
        name, stage = self.variant.name, self.variant.stage
        stage = stage if self.scores is None else with_stored_scores(stage, self.scores)
        self.stage = replace(post_retrieve_stage(stage, b""), name=name)

    def take(
        self, window: Sequence[Trace], plan: Plan, first: Trial, pool: ThreadPoolExecutor
    ) -> None:
        """Takes a window of cases through the variant and scores them."""
        known = 0 if self.scores is None else self.scores.reused
        if not self.seconds:
            self._warm_up(window)
        traces = [*pool.map(self._through, window)]
        self.values = self.values or [{} for _ in plan.metrics]
        for trace, cells in zip(traces, plan.score(traces), strict=True):
            id = trace.case.id
            self._count(trace)
            self.biographies.add(id, biography_of(trace, self.matching))
            for values, cell in zip(self.values, cells, strict=True):
                values[id] = cell.value
            # All that generation would be given, and all that metrics read.
            left: object = trace.context.status
            if (result := trace.context.value) is not None:
                left = (*contexts_for_generation(result),), tuple(result.context_ids or ())
            if first is self:
                self.left[id] = left
            else:
                self.acted += left != first.left[id]
        self.reused += 0 if self.scores is None else self.scores.reused - known

    def _warm_up(self, window: Sequence[Trace]) -> None:
        """What is loaded at the first call is not part of a query's time."""
        if any(getattr(one, "asks_elsewhere", False) for one in rerankers_of(self.variant.stage)):
            return
        for trace in window:
            if trace.retrieval.value is not None:
                self._left(trace.case.query, trace.retrieval.value)
                return

    def _through(self, trace: Trace) -> Trace:
        """The case as the variant leaves it, with an answer where somebody is asked."""
        given, query, answer = trace.retrieval.value, trace.case.query, NOT_GENERATED
        if given is None:
            return replace(trace, post_retrieval=trace.retrieval, generation=answer)
        left = self._left(query, given)
        if self.answering is not None:
            answer = _NOTHING_LEFT
            if left.value is not None:
                answer = self.answering.answer(query, left.value, trace.case.messages)
        return replace(trace, post_retrieval=left, generation=answer)

    def _left(self, query: str, given: RetrievalResult[Any]) -> Outcome[RetrievalResult[Any]]:
        return self.stage.ask_once((query, given, ()), final=(InputError,))

    def _count(self, trace: Trace) -> None:
        left = trace.context
        if trace.retrieval.value is None:
            return
        self.seconds.append(left.seconds or 0.0)
        if self.answering is not None:
            self._count_answer(trace.generation)
        if left.value is None:
            self.failed += 1
            self.failures[str(left.failure)] += 1
            return
        texts = contexts_for_generation(left.value)
        self.tokens.append(sum(map(self.counter.count, texts)))
        self.chunks += len(left.value)
        failures = [str(f) for step in steps_of(left.value) for f in step.failures]
        self.failures.update(failures)
        self.passed_over += bool(failures)

    def _count_answer(self, answer: Outcome[GenerationResult[Any]]) -> None:
        self.answers[answer.status] += 1
        if answer.seconds is not None:
            self.answer_seconds.append(answer.seconds)
        if answer.failure is not None:
            self.failures[str(answer.failure)] += 1
        counted = {} if answer.value is None else token_counts(answer.value.metadata)
        if "prompt_tokens" in counted and "response_tokens" in counted:
            prompt, response = int(counted["prompt_tokens"]), int(counted["response_tokens"])
            self.usages.append(Usage(prompt_tokens=prompt, completion_tokens=response))

    def _answers(self, price: Price | None) -> VariantAnswers:
        answered, declined = self.answers[Status.MEASURED], self.answers[Status.ABSTAINED]
        usages = self.usages if len(self.usages) == answered + declined else []
        costs = [float(price.of(usage)) for usage in usages] if price is not None else []
        return VariantAnswers(
            answered=answered,
            declined=declined,
            failed=self.answers[Status.FAILED],
            seconds_p50=percentile(self.answer_seconds, 0.50),
            seconds_p95=percentile(self.answer_seconds, 0.95),
            prompt_tokens=mean_of([usage.prompt_tokens for usage in usages]),
            response_tokens=mean_of([usage.completion_tokens for usage in usages]),
            cost=mean_of(costs),
        )

    def report(
        self, effects: tuple[VariantEffect, ...], *, is_first: bool, price: Price | None = None
    ) -> VariantReport:
        return VariantReport(
            name=self.variant.name,
            settings=self.variant.stage.identity,
            changes=effects,
            chunks=self.chunks / len(self.tokens) if self.tokens else 0.0,
            tokens=mean_of(self.tokens) or 0.0,
            tokens_p95=percentile(self.tokens, 0.95),
            seconds_p50=percentile(self.seconds, 0.50),
            seconds_p95=percentile(self.seconds, 0.95),
            reused_scores=self.reused,
            passed_over=self.passed_over,
            failed=self.failed,
            failures=most_frequent(self.failures),
            acted=None if is_first else self.acted,
            operators=self.biographies.table(),
            answers=None if self.answering is None else self._answers(price),
        )


class Answering(ExitStack):
    """A RAG's generation, for the length of a block.

    The same question with the same contexts is asked once, until `forget`: variants that leave the
    same are given the same answer, and its time. Any number of threads may ask.
    """

    def __init__(self, rag: RAG) -> None:
        super().__init__()
        if "generation" not in rag.families:
            raise ConfigError(
                "the RAG has no generation method (generate or generate_with_metadata), so no "
                "answer can be scored"
            )
        if isinstance(rag, AdaptedRAG) and rag.answers_in_one_call:
            raise ConfigError(
                "the RAG retrieves and answers in one call: it cannot be given other contexts"
            )
        self.asked = 0
        """Answers that were asked for."""
        self._stage = generate_stage(rag, b"")
        self._known: dict[tuple[str, ...], Outcome[GenerationResult[Any]]] = {}
        self._lock = threading.Lock()
        self._in_loop: InLoop = None
        if self._stage.call_async is not None:
            loop = LoopThread()
            self.callback(loop.stop)
            self._in_loop = loop.run

    def answer(
        self, query: str, left: RetrievalResult[Any], said: list[dict[str, str]]
    ) -> Outcome[GenerationResult[Any]]:
        texts = contexts_for_generation(left)
        key = (query, *texts, *(f"{one['role']}: {one['content']}" for one in said))
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        outcome = self._stage.ask_once((query, texts, said), self._in_loop)
        if outcome.value is not None:
            outcome = replace(outcome, status=self._stage.status(outcome.value))
        with self._lock:
            self._known[key] = outcome
            self.asked += 1
        return outcome

    def forget(self) -> None:
        """Forgets all answers: no case of before comes again."""
        self._known.clear()
