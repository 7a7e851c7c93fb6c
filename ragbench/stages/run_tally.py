"""What a run's cases come to: how stages ended, what became of each, how many are right."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.core.attribution import (
    ESTIMATES,
    Answer,
    Attribution,
    Cause,
    CauseCount,
    Reliability,
    RightShare,
)
from ragbench.core.biography import steps_of
from ragbench.core.case import Case
from ragbench.core.fusion import ScoreOrders
from ragbench.core.matched import GoldCause
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import FailureGroup, Latency, StageCount, Summary
from ragbench.core.result import GenerationResult
from ragbench.core.trace import STAGES, RunCase, Trace
from ragbench.metrics.summary import NO_FIGURE, most_frequent
from ragbench.safe_text import counted
from ragbench.stats.mean import mean_interval
from ragbench.text.citations import without_citations
from ragbench.text.declining import read_answer
from ragbench.text.tables import table

if TYPE_CHECKING:
    from ragbench.stages.validate import ValidationTally

_KINDS = 1000
"""How many messages are counted apart: a message that quotes its query differs for every case."""
_OTHERS = "(other messages)"
_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>|^\s*<(?:think|thinking|reasoning)>", re.I)


_CUT_OFF = ("length", "max_tokens")
_REASONS = ("finish_reason", "stop_reason", "done_reason")
"""What endpoints call it: OpenAI's and Gemini's form, Anthropic's, Ollama's."""


def failures_of(trace: Trace, cells: Sequence[Cell]) -> tuple[Failure, ...]:
    """What failed for a case; a failure that only passes on an earlier one is listed once."""
    found = [outcome.failure for _, outcome in trace.stages if outcome.failure]
    first, between = trace.retrieval.value, trace.post_retrieval
    if first is not None and first.metadata:
        from ragbench.core.search_query import pre_retrieved

        found += pre_retrieved(first).failures
    if between is not None and between.value is not None:  # operators that were passed over
        found += [failure for step in steps_of(between.value) for failure in step.failures]
    found += [cell.failure for cell in cells if cell.failure]
    return tuple({str(failure): failure for failure in reversed(found)}.values())[::-1]


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


_OF_WORDS = (
    *("exact_match", "token_f1", "end_to_end_em", "end_to_end_f1"),
    *("edit_similarity", "rouge", "bleu", "chrf"),
)
"""Metrics that compare the words of answer and reference."""


@dataclass(slots=True)
class RunTally:
    """Counts how the stages of a run ended, what failed, and how long they took."""

    counted: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    """By stage: cases by how it ended, and how many were reused or recorded."""
    examples: dict[tuple[str, str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list[str])
    )
    """Cases with a failure of one stage, type and message, and how many there are."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    seconds: dict[str, array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )
    sharing: Counter[str] = field(default_factory=Counter[str])
    """The most cases that shared a call, by stage."""
    repeated_ids: int = 0
    score_orders: ScoreOrders = field(default_factory=ScoreOrders)
    longest: int = 0
    """The most chunks that generation was given for a case."""
    gold: Counter[GoldCause] = field(default_factory=Counter[GoldCause])
    noted: Counter[str] = field(default_factory=Counter[str])
    """Answers of which a reader must know something: ``read`` as declined by their words,
    ``declined in part``, ``thoughts`` of a model in them, ``cited`` with marks that no reference
    has, ``cut off`` at a limit of tokens."""
    validation: ValidationTally | None = None

    def add(self, row: RunCase, failures: Sequence[Failure]) -> None:
        trace = row.trace
        if trace.validation is not None:
            if self.validation is None:
                from ragbench.stages.validate import ValidationTally

                self.validation = ValidationTally()
            self.validation.add(trace)
        if trace.location is not None and trace.location.value is not None:
            self.gold[trace.location.value.cause] += 1
        for stage, (outcome, *_) in row.settled.items():
            counts = self.counted[stage]
            counts[outcome.status] += 1
            counts[outcome.known] += 1
            if outcome.seconds is not None:
                self.seconds[stage].append(outcome.seconds)
                self.sharing[stage] = max(self.sharing[stage], outcome.sharing)
        if failures:
            self._count_failures(trace.case.id, failures)
        given, retrieved = trace.context.value, trace.retrieval.value
        self.longest = max(self.longest, 0 if given is None else len(given.contexts))
        if retrieved is not None:
            ids, scores = retrieved.context_ids or (), retrieved.scores or ()
            self.repeated_ids += len({*ids}) < len(ids)
            if len(scores) > 1:
                self.score_orders.add(scores)
        if trace.generation.value is not None:
            self._count_answer(trace, trace.generation.value)

    def _count_failures(self, case: str, failures: Sequence[Failure]) -> None:
        for failure in failures:
            key = (failure.stage, failure.type, failure.message)
            if key not in self.counts and len(self.counts) >= _KINDS:
                key = (failure.stage, failure.type, _OTHERS)
            self.counts[key] += 1
            if len(self.examples[key]) < 5:
                self.examples[key].append(case)

    def _count_answer(self, trace: Trace, answer: GenerationResult[Any]) -> None:
        text, references, noted = answer.response, trace.case.references, self.noted
        if answer.abstained is None:  # the system does not say itself whether it declines
            if trace.generation.status is Status.ABSTAINED:
                noted["read"] += 1
            elif read_answer(text).in_part:
                noted["declined in part"] += 1
        if "<" in text:
            noted["thoughts"] += _THOUGHTS.search(text) is not None
        if references and without_citations(text) != text:
            # A list of numbers is no citation.
            noted["cited"] += all(without_citations(one) == one for one in references)
        if answer.metadata:
            ends = (answer.metadata.get(name) for name in _REASONS)
            noted["cut off"] += any(type(end) is str and end.lower() in _CUT_OFF for end in ends)

    def notes(self, summaries: Sequence[Summary]) -> tuple[list[str], list[str]]:
        """What a reader must know of the figures; and of that, what only explains one.

        The latter are too large cutoffs, and how answers are known to decline.
        """
        found: list[str] = []
        if count := self.repeated_ids:
            only = "returned an id more than once; only its first place counts."
            found.append(f"{count} retrievals {only}")
        if self.score_orders.rising and (note := self.score_orders.note()) is not None:
            found.append(note)
        measured = [one.metric for one in summaries if one.measured]
        for one in summaries:
            if one.metric.definition.aggregate and one.score is None and one.measured:
                found.append(_without_figure(one))
        asides, longest = list[str](), self.longest
        if names := [one.name for one in measured if longest and (one.cutoff or 0) > longest]:
            divided = ", ".join(name for name in names if name.startswith("precision"))
            more = f"; {divided} still divides by its cutoff" if divided else ""
            chunks = f"{longest:,} retrieved chunk{'s' if longest > 1 else ''}"
            asides += [f"No case has more than {chunks}: {', '.join(names)} look no further{more}."]
            found += asides
        names = [one.name for one in measured if one.definition.name in _OF_WORDS]
        counts = f"{', '.join(names)} count{'s' if len(names) == 1 else ''} them"
        for kind in _ANSWER_NOTES:
            if self.noted[kind] and (names or kind != "cited"):
                note = self._answer_note(kind).replace("{metrics}", counts)
                found.append(note)
                asides += [note] if kind in ("read", "declined in part") else []
        return found, asides

    def _answer_note(self, kind: str) -> str:
        count = self.noted[kind]
        words = re.sub(
            r"\[([^]|]+)\|([^]]+)\]", r"\1" if count == 1 else r"\2", _ANSWER_NOTES[kind]
        )
        return f"{counted(count, 'answer')} {words}"

    def failures(self) -> tuple[FailureGroup, ...]:
        """Failures of one kind together, the most frequent kind first."""
        return tuple(
            FailureGroup(
                stage=stage,
                type=type_,
                message=message,
                count=count,
                examples=tuple(self.examples[stage, type_, message]),
            )
            for (stage, type_, message), count in most_frequent(self.counts)
        )

    def stages(self) -> tuple[tuple[StageCount, ...], tuple[Latency, ...]]:
        """How each stage ended, and how long it took."""
        ended = tuple(
            StageCount(stage=stage, **{name: self.counted[stage][name] for name in _COUNTED})
            for stage in STAGES
            if stage in self.counted
        )
        took = tuple(
            Latency(
                stage=stage,
                count=len(values),
                mean=math.fsum(values) / len(values),
                p50=percentile(values, 0.50) if self.sharing[stage] == 1 else None,
                p95=percentile(values, 0.95) if self.sharing[stage] == 1 else None,
                longest=max(values) if self.sharing[stage] == 1 else None,
                sharing=self.sharing[stage],
            )
            for stage, values in self.seconds.items()
        )
        return ended, took


_COUNTED = tuple(name for name in StageCount.__struct_fields__ if name != "stage")


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured; 0 without any."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _without_figure(summary: Summary) -> str:
    """That a metric of another package has no figure over the run, and why."""
    name, aggregate = summary.metric.name, summary.metric.definition.aggregate
    reasons = (reason for reason, _ in summary.reasons if reason.startswith(NO_FIGURE))
    problem = next(reasons, "the run was not finished").removeprefix(NO_FIGURE)
    return f"{name}: there is no figure over the run, which {aggregate} makes: {problem}."


# --- what became of the cases

_EXAMPLES = 5


@dataclass(slots=True)
class _Counts:
    cases: int = 0
    estimated: int = 0
    by_words: int = 0
    stages: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class CauseTally:
    _found: dict[Cause, _Counts] = field(default_factory=dict[Cause, _Counts])
    _right: array[float] = field(default_factory=lambda: array("d"))
    """How likely each case ended well of which that is known."""
    _places: array[int] = field(default_factory=lambda: array("q"))
    """Of each of them, the place among all cases."""
    _kinds: bytearray = field(default_factory=bytearray)
    """Of each of them, what judged its answer; a place in `_BIASES`."""
    _total: int = 0
    _untold: int = 0

    def add(self, case: Case, found: Attribution) -> None:
        count = self._found.get(found.cause)
        if count is None:
            count = self._found[found.cause] = _Counts()
        count.cases += 1
        count.estimated += found.basis in ESTIMATES
        count.by_words += found.by_words
        if found.stage is not None:
            count.stages[found.stage] += 1
        if len(count.examples) < _EXAMPLES:
            count.examples.append(case.id)
        self._total += 1
        if found.right is None:
            self._untold += 1
            return
        self._untold += found.by_words and found.answer is Answer.UNCHECKED
        self._right.append(found.right)
        self._places.append(self._total - 1)
        self._kinds.append(found.by_words + found.is_long)

    def result(
        self, clusters: Sequence[str | None] = ()
    ) -> tuple[tuple[CauseCount, ...], RightShare | None]:
        """Every cause that occurred, in the order of a case's way through the stages.

        Beside it the share of cases that ended well; None where nothing is known of any case, or
        every case failed.
        Each case is right or not, of which only the probability is known. By so much as
        probabilities were seen to lie beside people's shares, the interval is wider.

        Args:
            clusters: what each case shares with others; empty where none does.
        """
        known = table("ragbench.stages", "reliability")["causes"]
        causes = tuple(
            CauseCount(
                cause=cause,
                cases=found.cases,
                estimated=found.estimated,
                by_words=found.by_words,
                reliability=Reliability(**known[cause.value])
                if cause.value in known and (found.by_words or found.estimated)
                else None,
                stages=most_frequent(found.stages) if found.stages else (),
                examples=tuple(found.examples),
            )
            for cause in Cause
            if (found := self._found.get(cause)) is not None
        )
        known = len(self._right)
        failed = self._found.get(Cause.FAILED)
        if failed is not None and failed.cases == self._total:
            return causes, None  # nothing was measured: a share of 0 would say that all are wrong
        if not known:
            return causes, None
        mean, low, high = self._interval(clusters) if known > 1 else (self._right[0], None, None)
        return causes, RightShare(
            share=mean,
            low=low,
            high=high,
            known=known,
            untold=self._untold,
            by_words=known - self._kinds.count(0),
            total=self._total,
        )

    def _interval(self, clusters: Sequence[str | None]) -> tuple[float, float | None, float | None]:
        labels = [clusters[place] for place in self._places] if clusters else None
        found = mean_interval(self._right, labels, bounds=(0.0, 1.0), probability=True)
        mean, known = found.mean or 0.0, len(self._right)
        if found.low is None or found.high is None:
            return mean, None, None
        bias = table("ragbench.stages", "reliability")["bias"]
        biases = tuple(bias.get(kind, 0.0) for kind in _BIASES)
        wide = math.fsum(map(biases.__getitem__, self._kinds)) / known
        low = max(mean - math.hypot(mean - found.low, wide), 0.0)
        return mean, low, min(mean + math.hypot(found.high - mean, wide), 1.0)


_BIASES = ("known", "short", "long")
"""What judged an answer: nothing but its label or a judge, or words, by the reference's length."""
