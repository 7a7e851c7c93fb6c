"""One variant of post-retrieval over the cases of a run: what it leaves, and what that takes.

`ragbench ablate` makes a `Trial` of each variant and compares their reports.
"""

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
    """One variant, and what it came to so far: fed window by window, then read by `report`."""

    variant: Variant
    """Its stage is dated."""
    counter: TokenCounter
    """Counts what generation would be given."""
    matching: Matching
    scores: ScoreStore | None = None
    """Scores of slow rerankers that an earlier run has stored."""
    answering: Answering | None = None
    """Asked for an answer to the chunks that are left; nobody when None."""
    values: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """A mapping a metric: case id to value, None where there is none."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    """How long the variant took, a case each."""
    tokens: array[float] = field(default_factory=lambda: array("d"))
    """What generation would be given, a case each."""
    chunks: int = 0
    """Chunks that it left, of all cases."""
    passed_over: int = 0
    """Cases in which an operator failed and was passed over."""
    failed: int = 0
    """Cases for which the variant as a whole failed."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """By message, of operators, of the variant and of answers."""
    biographies: BiographyTally = field(default_factory=BiographyTally)
    answers: Counter[Status] = field(default_factory=Counter[Status])
    answer_seconds: array[float] = field(default_factory=lambda: array("d"))
    """How long each answer took."""
    usages: list[Usage] = field(default_factory=list[Usage])
    """Of the answers whose tokens the RAG reports."""
    reused: int = 0
    """Scores that were stored before this run."""
    acted: int = 0
    """Cases in which it left anything else than the first variant."""
    left: dict[str, object] = field(default_factory=dict[str, object])
    """What it left of the cases of the present window, by id; of the first variant only."""
    stage: CallStage[ChunksInput, RetrievalResult[Any]] = field(init=False)
    """The variant's, with the store of scores."""

    def __post_init__(self) -> None:
        """Makes the stage that runs the variant's operators; slow rerankers have stored scores.

        Under the variant's name, so that failures name the variant.
        """
        stage = self.variant.stage
        if self.scores is not None:
            stage = with_stored_scores(stage, self.scores)
        # Without an identity: outcomes of a trial are not stored.
        self.stage = replace(post_retrieve_stage(stage, b""), name=self.variant.name)

    def take(
        self, window: Sequence[Trace], plan: Plan, first: Trial, pool: ThreadPoolExecutor
    ) -> None:
        """Takes a window of cases through the variant's operators, and scores what they leave.

        The first variant comes before the others with each window: they are compared with it.

        Args:
            first: the trial of the first variant, which takes each window before the others do.
        """
        # All variants share the store, so that each counts what is reused while it is at work.
        reused_before = 0
        if self.scores is not None:
            reused_before = self.scores.reused
        # The first window alone: from then on its models are loaded.
        if not self.seconds:
            self._warm_up(window)
        # In the order of the cases, however many are in flight.
        traces = list(pool.map(self._case_after_variant, window))
        # Made with the first window: the plan decides how many metrics there are.
        if not self.values:
            self.values = [{} for _ in plan.metrics]
        for trace, cells in zip(traces, plan.score(traces), strict=True):
            case_id = trace.case.id
            self._count_case(trace)
            self.biographies.add(case_id, biography_of(trace, self.matching))
            for values, cell in zip(self.values, cells, strict=True):
                values[case_id] = cell.value
            # All that generation would be given, and all that metrics read.
            result = trace.context.value
            # Without a result, the status tells a failure from a case without retrieval.
            chunks_left: object = trace.context.status
            if result is not None:
                texts = tuple(contexts_for_generation(result))
                chunks_left = texts, tuple(result.context_ids or ())
            if first is self:
                self.left[case_id] = chunks_left
            elif chunks_left != first.left[case_id]:
                self.acted += 1
        if self.scores is not None:
            self.reused += self.scores.reused - reused_before

    def _warm_up(self, window: Sequence[Trace]) -> None:
        """Runs the variant once, untimed: loading a model is not part of a query's time.

        A reranker behind an endpoint loads nothing here, and a call to it may cost money.
        """
        # A variant may have several rerankers; one behind an endpoint is enough to skip all.
        for reranker in rerankers_of(self.variant.stage):
            if getattr(reranker, "asks_elsewhere", False):
                return
        for trace in window:
            if trace.retrieval.value is not None:
                self._variant_outcome(trace.case.query, trace.retrieval.value)
                # One case loads all models.
                return

    def _case_after_variant(self, trace: Trace) -> Trace:
        """The case with the chunks that the variant leaves, and an answer if a RAG is asked.

        A case without a retrieval passes its reason on.
        """
        retrieval = trace.retrieval.value
        query = trace.case.query
        if retrieval is None:
            # The retrieval's outcome, with its reason, in the place of what the variant would have
            # left.
            return replace(trace, post_retrieval=trace.retrieval, generation=NOT_GENERATED)
        outcome = self._variant_outcome(query, retrieval)
        answer = NOT_GENERATED
        # A variant that failed leaves nothing to answer from.
        if self.answering is not None:
            answer = _NOTHING_LEFT
            if outcome.value is not None:
                answer = self.answering.answer(query, outcome.value, trace.case.messages)
        return replace(trace, post_retrieval=outcome, generation=answer)

    def _variant_outcome(
        self, query: str, retrieval: RetrievalResult[Any]
    ) -> Outcome[RetrievalResult[Any]]:
        """The chunks that the variant leaves of a retrieval, or its failure for this case.

        An input error is raised, since all cases would meet it.
        """
        return self.stage.ask_once((query, retrieval, ()), final=(InputError,))

    def _count_case(self, trace: Trace) -> None:
        """Counts what the variant left of a case: chunks, tokens, time, and failures of operators.

        A case without a retrieval is not counted: the variant had nothing to work on.
        """
        outcome = trace.context
        if trace.retrieval.value is None:
            return
        # Before the failure is looked at: a variant that fails takes its time as well.
        self.seconds.append(outcome.seconds or 0.0)
        if self.answering is not None:
            self._count_answer(trace.generation)
        result = outcome.value
        if result is None:
            self.failed += 1
            self.failures[str(outcome.failure)] += 1
            return
        self.tokens.append(sum(map(self.counter.count, contexts_for_generation(result))))
        self.chunks += len(result)
        failures: list[str] = []
        for step in steps_of(result):
            failures.extend(map(str, step.failures))
        self.failures.update(failures)
        # The case is counted once, however many of its operators failed.
        if failures:
            self.passed_over += 1

    def _count_answer(self, answer: Outcome[GenerationResult[Any]]) -> None:
        """Counts the answer to a case after the variant: status, time and, if reported, tokens.

        Answers are compared only where a RAG is asked; their cost is computed from the tokens.
        """
        self.answers[answer.status] += 1
        if answer.seconds is not None:
            self.answer_seconds.append(answer.seconds)
        if answer.failure is not None:
            self.failures[str(answer.failure)] += 1
        if answer.value is None:
            return
        counts = token_counts(answer.value.metadata)
        # Prompt and response must both be counted: one of them alone would give half a cost.
        if "prompt_tokens" in counts and "response_tokens" in counts:
            usage = Usage(
                prompt_tokens=int(counts["prompt_tokens"]),
                completion_tokens=int(counts["response_tokens"]),
            )
            self.usages.append(usage)

    def _answer_figures(self, price: Price | None) -> VariantAnswers:
        """The figures of the variant's answers: how many, and their time, tokens and cost.

        Args:
            price: the price of the tokens; None where it is not known: there is no cost then.
        """
        answered = self.answers[Status.MEASURED]
        declined = self.answers[Status.ABSTAINED]
        # A mean over some of the answers would not compare with another variant's.
        usages: list[Usage] = []
        # One usage for each answer or abstention.
        if len(self.usages) == answered + declined:
            usages = self.usages
        costs: list[float] = []
        if price is not None:
            costs = [float(price.of(usage)) for usage in usages]
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
        """The report on the variant over all windows: figures, differences, failures.

        Args:
            effects: how the variant's metrics differ from those of the first variant.
            price: the price of the answers' tokens; None where it is not known.
        """
        acted: int | None = None
        if not is_first:  # which is compared with nothing
            acted = self.acted
        answers: VariantAnswers | None = None
        if self.answering is not None:
            answers = self._answer_figures(price)
        mean_chunks = 0.0
        # As a variant may fail for all cases.
        if self.tokens:  # one entry for each case that the variant left chunks of
            mean_chunks = self.chunks / len(self.tokens)
        return VariantReport(
            name=self.variant.name,
            settings=self.variant.stage.identity,
            changes=effects,
            chunks=mean_chunks,
            tokens=mean_of(self.tokens) or 0.0,
            tokens_p95=percentile(self.tokens, 0.95),
            seconds_p50=percentile(self.seconds, 0.50),
            seconds_p95=percentile(self.seconds, 0.95),
            reused_scores=self.reused,
            passed_over=self.passed_over,
            failed=self.failed,
            failures=most_frequent(self.failures),
            acted=acted,
            operators=self.biographies.table(),
            answers=answers,
        )


class Answering(ExitStack):
    """A RAG's generation, for the length of a block.

    The same question with the same contexts is asked once, until `forget`: variants that leave the
    same are given the same answer, and its time. Any number of threads may ask.
    """

    def __init__(self, rag: RAG) -> None:
        """Prepares a RAG's generation; refuses a RAG that cannot answer from other contexts.

        Variants are compared by answers to the chunks that they leave, so those must be what it
        answers from.
        """
        super().__init__()
        if "generation" not in rag.families:
            raise ConfigError(
                "the RAG has no generation method (generate or generate_with_metadata), so no "
                "answer can be scored"
            )
        # With other contexts it would retrieve again, and ignore what the variant left.
        if isinstance(rag, AdaptedRAG) and rag.answers_its_own_contexts_alone:
            raise ConfigError(
                "the RAG retrieves and answers in one call: it cannot be given other contexts. Let "
                "the function take them, def ask(question, contexts=None), and retrieve only if "
                "there are none"
            )
        self.asked = 0
        """Answers that were asked for."""
        # Without an identity: no answer to a variant is stored.
        self._stage = generate_stage(rag, b"")
        self._outcomes: dict[tuple[str, ...], Outcome[GenerationResult[Any]]] = {}
        """The answers so far, by the question, its contexts and the messages before it."""
        self._lock = threading.Lock()
        """Around the outcomes: several cases are answered at once."""
        self._in_loop: InLoop = None
        """Runs coroutines; None where the RAG's methods are plain."""
        # An event loop in a thread of its own, which `callback` ends with the ``with`` block.
        if self._stage.call_async is not None:
            loop = LoopThread()
            self.callback(loop.stop)
            self._in_loop = loop.run

    def answer(
        self, query: str, left: RetrievalResult[Any], said: list[dict[str, str]]
    ) -> Outcome[GenerationResult[Any]]:
        """The RAG's answer to a question with the chunks that a variant left; asked once for each.

        Args:
            left: the chunks.
            said: the messages before the question.
        """
        texts = contexts_for_generation(left)
        messages = (f"{message['role']}: {message['content']}" for message in said)
        key = (query, *texts, *messages)
        # Not held during the call: two threads may ask the same at once, and the later answer is
        # kept.
        with self._lock:
            outcome = self._outcomes.get(key)
        if outcome is not None:
            return outcome
        outcome = self._stage.ask_once((query, texts, said), self._in_loop)
        # `ask_once` calls every value measured: an abstention must be counted as one.
        if outcome.value is not None:
            outcome = replace(outcome, status=self._stage.status(outcome.value))
        with self._lock:
            self._outcomes[key] = outcome
            self.asked += 1
        return outcome

    def forget(self) -> None:
        """Drops all answers kept so far, to free memory: their cases are through.

        The same question is asked of the RAG again after that.
        """
        self._outcomes.clear()
