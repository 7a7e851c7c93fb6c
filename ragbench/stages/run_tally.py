"""What a run's cases come to: how stages ended, what became of each, how many are right.

Both tallies are fed by the loop of a run, a case at a time, and read once for the report: nothing
is read back from the journal.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.core.attribution import (
    ESTIMATES,
    JUDGING,
    Answer,
    AnswerCounts,
    Attribution,
    Basis,
    Cause,
    CauseCount,
    Decider,
)
from ragbench.core.biography import steps_of
from ragbench.core.case import Case
from ragbench.core.fusion import ScoreOrders
from ragbench.core.matched import GoldCause
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import FailureGroup, Latency, StageCount, Summary
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import STAGES, RunCase, Trace
from ragbench.io.values import as_object
from ragbench.metrics.summary import NO_FIGURE, most_frequent
from ragbench.safe_text import counted
from ragbench.text.citations import without_citations
from ragbench.text.declining import read_answer

if TYPE_CHECKING:
    from ragbench.stages.validate import ValidationTally

_MOST_MESSAGES = 1000
"""How many messages are counted apart: a message that quotes its query differs for every case."""
_OTHER_MESSAGES = "(other messages)"
_MOST_EXAMPLES = 5
"""How many ids of cases stand beside a kind of failure, or a cause."""

_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>|^\s*<(?:think|thinking|reasoning)>", re.I)
"""The marks of what a model thought, in an answer that still holds it."""
_CUT_OFF = ("length", "max_tokens")
"""The reasons to end that mean a limit of tokens."""
_REASON_FIELDS = ("finish_reason", "stop_reason", "done_reason")
"""What endpoints call the reason: OpenAI's and Gemini's form, Anthropic's, Ollama's."""


def failures_of(trace: Trace, cells: Sequence[Cell]) -> tuple[Failure, ...]:
    """The failures of a case in all of its stages and metrics, each text once.

    A stage that cannot run after a failure passes that failure on: it would be counted again.
    """
    failures = [outcome.failure for _, outcome in trace.stages if outcome.failure]
    retrieved = trace.retrieval.value
    # Operators before the search keep their failures in the retrieval's metadata.
    if retrieved is not None and retrieved.metadata is not None:
        from ragbench.core.search_query import pre_retrieved

        failures += pre_retrieved(retrieved).failures
    post_retrieval = trace.post_retrieval
    if post_retrieval is not None and post_retrieval.value is not None:
        # Operators that failed were passed over, and the chunks went on to the next.
        for step in steps_of(post_retrieval.value):
            failures += step.failures
    failures += [cell.failure for cell in cells if cell.failure]
    # Of failures with the same text the first is listed, where the last of them stands.
    by_text: dict[str, Failure] = {}
    for failure in reversed(failures):
        by_text[str(failure)] = failure
    return tuple(reversed(by_text.values()))


_ANSWER_NOTES = {
    "read": "[counts|count] as declined by how [it reads|they read]: where the RAG says "
    "`abstained` itself, that counts instead.",
    "declined in part": "[declines|decline] in one sentence and [goes|go] on in others: counted as "
    "answered.",
    "thoughts": "[holds|hold] what a model thought before (<think>): it is scored as a part of the "
    "answer. Have the RAG leave it out.",
    "cited": "[holds|hold] citation marks such as [1], the references none: {metrics} as words. "
    "Have the RAG leave them out of the response; they can stand in its metadata.",
    "cut off": "[was|were] cut off at a limit of tokens, as the RAG's metadata says "
    "(finish_reason), and scored as far as they go. Raise max_tokens.",
}
"""What a reader must know of some answers: in brackets as of one answer, and as of several."""


_WORD_METRICS = (
    "exact_match",
    "token_f1",
    "end_to_end_em",
    "end_to_end_f1",
    "edit_similarity",
    "rouge1",
    "rouge2",
    "rougeL",
    "bleu",
    "chrf",
)
"""Metrics that compare the words of answer and reference."""


@dataclass(slots=True)
class RunTally:
    """Counts how the stages of a run ended, what failed, and how long they took."""

    endings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    """By stage: cases by how it ended, and how many were reused or recorded."""
    examples: dict[tuple[str, str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list[str])
    )
    """The ids of the first cases with a failure of one stage, type and message."""
    questions: dict[tuple[str, str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list[str])
    )
    """What these cases ask, in the same order."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """How many cases have such a failure."""
    seconds: dict[str, array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )
    """By stage, how long each case took."""
    sharing: Counter[str] = field(default_factory=Counter[str])
    """The most cases that shared a call, by stage."""
    repeated_ids: int = 0
    """Retrievals that return an id more than once."""
    score_orders: ScoreOrders = field(default_factory=ScoreOrders)
    longest: int = 0
    """The most chunks that generation was given for a case."""
    gold: Counter[GoldCause] = field(default_factory=Counter[GoldCause])
    """Why retrieval missed the gold, where the run looked for it."""
    answer_notes: Counter[str] = field(default_factory=Counter[str])
    """Answers of which a reader must know something: ``read`` as declined by their words,
    ``declined in part``, ``thoughts`` of a model in them, ``cited`` with marks that no reference
    has, ``cut off`` at a limit of tokens."""
    validation: ValidationTally | None = None
    """None until a case has a verdict."""

    def add(self, row: RunCase, failures: Sequence[Failure]) -> None:
        """Counts a case that has been through all stages, for the notes and tables of the report.

        Args:
            failures: the case's failures, each once; see `failures_of`.
        """
        trace = row.trace
        if trace.validation is not None:
            # The validator's modules are loaded only by a run that has a verdict.
            if self.validation is None:
                from ragbench.stages.validate import ValidationTally

                self.validation = ValidationTally()
            self.validation.add(trace)
        if trace.location is not None and trace.location.value is not None:
            # Of several gold contexts of a case, the one that came nearest to generation.
            self.gold[trace.location.value.cause] += 1
        for stage, settled in row.settled.items():
            outcome = settled.outcome
            endings = self.endings[stage]
            endings[outcome.status] += 1
            # In the same counter: statuses and origins (`Known`) have different words.
            endings[outcome.known] += 1
            # A reused outcome has the time of the run that asked for it; one that was passed on has
            # none.
            if outcome.seconds is not None:
                self.seconds[stage].append(outcome.seconds)
                # One call shared by several cases is enough to leave out the stage's percentiles.
                self.sharing[stage] = max(self.sharing[stage], outcome.sharing)
        if failures:
            self._count_failures(trace.case, failures)
        context = trace.context.value
        if context is not None:
            # After post-retrieval, if the run has one: metrics look at these chunks.
            self.longest = max(self.longest, len(context.contexts))
        if trace.retrieval.value is not None:
            self._count_retrieval(trace.retrieval.value)
        if trace.generation.value is not None:
            self._count_answer(trace, trace.generation.value)

    def _count_retrieval(self, retrieved: RetrievalResult[Any]) -> None:
        """Counts what a reader must know of a retrieval: repeated ids, and the order of its scores.

        Repeated ids count once in metrics, and scores that rise may mean distances.
        """
        ids = retrieved.context_ids or ()
        if len({*ids}) < len(ids):
            self.repeated_ids += 1
        scores = retrieved.scores or ()
        if len(scores) > 1:
            self.score_orders.add(scores)

    def _count_failures(self, case: Case, failures: Sequence[Failure]) -> None:
        """Counts a case's failures by stage, type and message, with the first cases of each.

        Only so many messages are kept apart: those that quote their query would fill the memory of
        a long run.
        """
        for failure in failures:
            key = (failure.stage, failure.type, failure.message)
            # Messages that are known already go on being counted under their own text.
            if key not in self.counts and len(self.counts) >= _MOST_MESSAGES:
                key = (failure.stage, failure.type, _OTHER_MESSAGES)
            self.counts[key] += 1
            # Ids and questions grow together: their positions pair.
            if len(self.examples[key]) < _MOST_EXAMPLES:
                self.examples[key].append(case.id)
                self.questions[key].append(case.query)

    def _count_answer(self, trace: Trace, answer: GenerationResult[Any]) -> None:
        """Counts an answer by what a reader of its scores must know: it may have several.

        The names counted are the keys of the notes' texts: `read` and `declined in part` by the
        answer's words, `thoughts` of a model, `cited` with marks, `cut off` at a limit of tokens.
        """
        text = answer.response
        if answer.abstained is None:  # the system does not say itself whether it declines
            if trace.generation.status is Status.ABSTAINED:
                self.answer_notes["read"] += 1
            elif read_answer(text).in_part:
                self.answer_notes["declined in part"] += 1
        # The quick test first: hardly any answer has the sign.
        if "<" in text and _THOUGHTS.search(text):
            self.answer_notes["thoughts"] += 1
        references = trace.case.references
        is_cited = bool(references) and without_citations(text) != text
        # Where a reference has such marks too, they are a part of it, such as a list of numbers.
        if is_cited and all(without_citations(words) == words for words in references):
            self.answer_notes["cited"] += 1
        # Metadata are the user's: they, and each field, may be anything.
        metadata = as_object(answer.metadata)
        for name in _REASON_FIELDS:
            reason = metadata.get(name)
            # `type(...) is str`, as a field of the user's may be any object, with methods of its
            # own.
            if type(reason) is str and reason.lower() in _CUT_OFF:
                self.answer_notes["cut off"] += 1
                break

    def notes(self, summaries: Sequence[Summary]) -> list[str]:
        """The report's notes on its figures, a sentence or two each: repeated ids, odd scores.

        Args:
            summaries: the figures of the run's metrics.
        """
        notes: list[str] = []
        if self.repeated_ids:
            notes.append(
                f"{self.repeated_ids} retrievals returned an id more than once; only its first "
                "place counts."
            )
        if self.score_orders.rising:
            order_note = self.score_orders.note()
            if order_note is not None:
                notes.append(order_note)
        for summary in summaries:
            # A figure that an outer package computes over the run, where every single case was
            # measured.
            has_aggregate = summary.metric.definition.aggregate is not None
            if has_aggregate and summary.score is None and summary.measured:
                notes.append(_note_without_figure(summary))
        metrics = [summary.metric for summary in summaries if summary.measured]
        cutoff_note = self._cutoff_note(metrics)
        if cutoff_note:
            notes.append(cutoff_note)
        word_metrics: list[str] = []
        for metric in metrics:
            if metric.definition.name in _WORD_METRICS:
                word_metrics.append(metric.name)
        notes.extend(self._notes_on_answers(word_metrics))
        return notes

    def _cutoff_note(self, metrics: Sequence[Metric]) -> str:
        """The note that some metrics look at more chunks than any case has; empty where none does.

        `recall@20` over 5 chunks is `recall@5` under another name, which its reader must know.
        """
        # Without any context the run shows nothing of how many chunks there are.
        if not self.longest:
            return ""
        names: list[str] = []
        for metric in metrics:
            if metric.cutoff and metric.cutoff > self.longest:
                names.append(metric.name)
        if not names:
            return ""
        chunks = f"{self.longest:,} retrieved chunk"
        if self.longest > 1:
            chunks += "s"
        note = f"No case has more than {chunks}: {', '.join(names)} look no further"
        # With fewer chunks than the cutoff, precision cannot reach 1.
        # By the name as written, so that `precision@10` and variants of it are all named.
        precisions = [name for name in names if name.startswith("precision")]
        if precisions:
            note += f"; {', '.join(precisions)} still divides by its cutoff"
        return f"{note}."

    def _notes_on_answers(self, word_metrics: Sequence[str]) -> Iterator[str]:
        """The report's notes on answers, one for each kind: read as declined, cut off, and so on.

        Args:
            word_metrics: names of the run's metrics that compare words, which marks of citation
                lower.
        """
        verb = "counts" if len(word_metrics) == 1 else "count"
        metrics_text = f"{', '.join(word_metrics)} {verb} them"
        for kind, note in _ANSWER_NOTES.items():
            count = self.answer_notes[kind]
            # Marks of citation change no metrics but those of words.
            if not count or (kind == "cited" and not word_metrics):
                continue
            form = r"\1"
            if count > 1:
                form = r"\2"
            # "[one|several]": the first form for one answer, the second for more.
            words = re.sub(r"\[([^]|]+)\|([^]]+)\]", form, note)
            yield f"{counted(count, 'answer')} {words}".replace("{metrics}", metrics_text)

    def failures(self) -> tuple[FailureGroup, ...]:
        """The report's table of failures: one line for each stage, type and message.

        The most frequent comes first, with a few cases in which it can be looked at.
        """
        groups: list[FailureGroup] = []
        for key, count in most_frequent(self.counts):
            stage, type_, message = key
            group = FailureGroup(
                stage=stage,
                type=type_,
                message=message,
                count=count,
                examples=tuple(self.examples[key]),
                questions=tuple(self.questions[key]),
            )
            groups.append(group)
        return tuple(groups)

    def stages(self) -> tuple[tuple[StageCount, ...], tuple[Latency, ...]]:
        """The report's tables of stages: how often each ended in which way, and its times.

        In the order in which a case goes through the stages.
        """
        stage_counts: list[StageCount] = []
        # Stages that no case reached have no line.
        for stage in STAGES:
            if stage in self.endings:
                endings = self.endings[stage]
                stage_count = StageCount(
                    stage=stage,
                    measured=endings["measured"],
                    abstained=endings["abstained"],
                    skipped=endings["skipped"],
                    failed=endings["failed"],
                    reused=endings["reused"],
                    recorded=endings["recorded"],
                )
                stage_counts.append(stage_count)
        latencies = [self._latency(stage, seconds) for stage, seconds in self.seconds.items()]
        return tuple(stage_counts), tuple(latencies)

    def _latency(self, stage: str, seconds: Sequence[float]) -> Latency:
        """The line on how long a stage took; percentiles only if each case had a call of its own.

        Cases that share a call have a mean alone: how long a single one took is not known.
        """
        p50: float | None = None
        p95: float | None = None
        longest: float | None = None
        # Where cases shared calls, only their mean is known, and not how long a single one took.
        # The most cases that shared a call: 1 only where no call was shared.
        if self.sharing[stage] == 1:
            p50 = percentile(seconds, 0.50)
            p95 = percentile(seconds, 0.95)
            longest = max(seconds)
        return Latency(
            stage=stage,
            count=len(seconds),
            mean=math.fsum(seconds) / len(seconds),
            p50=p50,
            p95=p95,
            longest=longest,
            sharing=self.sharing[stage],
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of times or counts, for a table; 0 without any value.

    The result is one of the values, which was really measured, and not a number between two.

    Args:
        share: the share of values that are not larger, from 0 to 1, such as 0.95.
    """
    if not values:
        return 0.0
    # At least the first, where the share is 0.
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


def _note_without_figure(summary: Summary) -> str:
    """The note that a metric of another package has no figure over the run, and why.

    Else its user would look for the missing figure in vain.
    """
    name = summary.metric.name
    aggregate = summary.metric.definition.aggregate
    problem = "the run was not finished"
    # The reason is stored as that of the figure, with `NO_FIGURE` in front.
    for reason, _ in summary.reasons:
        if reason.startswith(NO_FIGURE):
            problem = reason.removeprefix(NO_FIGURE)
            break
    return f"{name}: there is no figure over the run, which {aggregate} makes: {problem}."


# --- what became of the cases


@dataclass(slots=True)
class _CauseCounts:
    """Counts the cases with one cause; the fields are those of a `CauseCount`."""

    cases: int = 0
    estimated: int = 0
    """Those whose cause rests on words or a validator."""
    deciders: Counter[Decider] = field(default_factory=Counter[Decider])
    """Who decided about their answers."""
    stages: Counter[str] = field(default_factory=Counter[str])
    """Stages at fault, where one is."""
    examples: list[str] = field(default_factory=list[str])
    """Ids of the first of them."""


@dataclass(slots=True)
class CauseTally:
    """Counts what became of the cases of a run, and how their answers compare."""

    _causes: dict[Cause, _CauseCounts] = field(default_factory=dict[Cause, _CauseCounts])
    _answers: Counter[str] = field(default_factory=Counter[str])
    """Cases by the field of `AnswerCounts` that counts them."""
    _deciders: Counter[Decider] = field(default_factory=Counter[Decider])
    """Answers by what decided about them."""

    def add(self, case_id: str, attribution: Attribution) -> None:
        """Counts a case by its cause (the stage that lost its answer, or that it is right).

        The first cases of each cause are kept as examples.
        """
        # Not by `setdefault`, which would make and drop a new object for each case.
        counts = self._causes.get(attribution.cause)
        if counts is None:
            counts = _CauseCounts()
            self._causes[attribution.cause] = counts
        counts.cases += 1
        # Whether the cause rests on words or a validator, and not on labels.
        counts.estimated += attribution.basis in ESTIMATES
        counts.deciders[attribution.decided_by] += 1
        if attribution.stage is not None:
            counts.stages[attribution.stage] += 1
        if len(counts.examples) < _MOST_EXAMPLES:
            counts.examples.append(case_id)
        self._answers[_field_of_answer(attribution)] += 1
        self._deciders[attribution.decided_by] += 1

    def causes(self) -> tuple[CauseCount, ...]:
        """The report's table of causes, a line for each that occurred.

        In the order of `Cause`, which is that of a case's way through the stages.
        """
        causes: list[CauseCount] = []
        # Causes that no case has are left out.
        for cause in Cause:
            counts = self._causes.get(cause)
            if counts is not None:
                causes.append(_line_of_cause(cause, counts))
        return tuple(causes)

    def answers(self) -> AnswerCounts:
        """The counts of cases by how their answers compare with the right ones.

        Also by what decided: people's labels, a judge, or words.
        """
        return AnswerCounts(
            cases=self._answers.total(),
            by_label=self._deciders[Decider.LABEL],
            by_judge=self._deciders[Decider.JUDGE],
            by_words=self._deciders[Decider.WORDS],
            # The counter's keys are the names of the fields, as `_field_of_answer` gives them.
            **self._answers,
        )


def _field_of_answer(attribution: Attribution) -> str:
    """The field of `AnswerCounts` in which a case is counted, by its cause and its answer.

    Each case is in exactly one, so that the fields add up to all cases: the order of the tests
    counts.
    """
    answer = attribution.answer
    if attribution.cause is Cause.FAILED:
        return "failed"
    if answer is Answer.NONE:
        return "no_answer"
    if attribution.basis is Basis.LABEL:  # the case has no answer
        if attribution.cause is Cause.ANSWERED_WITHOUT_EVIDENCE:
            return "answered_without_evidence"
        if answer is Answer.DECLINED:
            return "declined_rightly"
        return "right"
    # Unchecked: there was nothing to compare with; undecided: words were compared, and were not
    # sure.
    if answer is Answer.UNCHECKED:
        if attribution.decided_by is Decider.NONE:
            return "unchecked"
        return "undecided"
    # The values of the remaining answers are names of fields: right, wrong, partly, declined.
    return answer.value


def _line_of_cause(cause: Cause, counts: _CauseCounts) -> CauseCount:
    """The line of one cause in the report's table: how many cases, which of them, who decided.

    Only deciders that judge an answer are listed (`JUDGING`).
    """
    deciders: list[tuple[Decider, int]] = []
    for decider in JUDGING:
        if counts.deciders[decider]:
            deciders.append((decider, counts.deciders[decider]))
    stages: tuple[tuple[str, int], ...] = ()
    if counts.stages:
        stages = most_frequent(counts.stages)
    return CauseCount(
        cause=cause,
        cases=counts.cases,
        estimated=counts.estimated,
        deciders=tuple(deciders),
        stages=stages,
        examples=tuple(counts.examples),
    )
