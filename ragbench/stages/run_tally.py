"""How the stages of a run ended, over all its cases: statuses, failures, times."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.core.matched import GoldCause
from ragbench.core.outcome import Cell, Failure, Known, Status
from ragbench.core.report import FailureGroup, Latency, StageCount, Summary
from ragbench.core.score_order import ScoreOrders
from ragbench.core.trace import STAGES, Trace
from ragbench.metrics.summary import NO_FIGURE
from ragbench.pipeline.pre_retrieval import pre_retrieved
from ragbench.post.stage import steps_of
from ragbench.safe_text import counted
from ragbench.text.declining import read_answer

if TYPE_CHECKING:
    from ragbench.stages.validate import ValidationTally

_KINDS = 1000
"""How many messages are counted apart: a message that quotes its query differs for every case."""
_OTHERS = "(other messages)"
_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>|^\s*<(?:think|thinking|reasoning)>", re.I)
_CITATIONS = re.compile(
    r"\[\^?\d{1,3}(?:\s*[,;\u2013-]\s*\^?\d{1,3})*\]|\u3010[^\u3011]{1,40}\u3011"
)
"""Such as [1], [2, 3], [^4], and the full-width brackets of some assistants."""


def _recovered(trace: Trace) -> list[Failure]:
    """Failures before retrieval and of operators that were passed over."""
    first, between = trace.retrieval.value, trace.post_retrieval
    found = [*pre_retrieved(first).failures] if first is not None and first.metadata else []
    if between is None or between.value is None:
        return found
    return [*found, *(failure for step in steps_of(between.value) for failure in step.failures)]


def failures_of(trace: Trace, cells: Sequence[Cell]) -> Sequence[Failure]:
    """What failed for a case; a failure that only passes on an earlier one is listed once."""
    passed_over = _recovered(trace)
    found = [outcome.failure for _, outcome in trace.stages if outcome.failure]
    found += [*passed_over, *[cell.failure for cell in cells if cell.failure]]
    if not found:
        return ()  # most cases
    unique: dict[str, Failure] = {}
    for failure in found:
        unique.setdefault(str(failure), failure)
    return tuple(unique.values())


def _is_marked(answer: str, references: Sequence[str]) -> bool:
    """Whether only an answer holds marks such as [1]; a list of numbers is no citation."""
    if not references or not _CITATIONS.search(answer):
        return False
    return not any(map(_CITATIONS.search, references))


_REASONS = ("finish_reason", "stop_reason", "done_reason")
"""What endpoints call it: OpenAI's and Gemini's form, Anthropic's, Ollama's."""


def _is_cut_off(metadata: Mapping[str, Any]) -> bool:
    """Whether an answer's metadata says that it ended where no more tokens were allowed."""
    reasons = (metadata.get(name) for name in _REASONS)
    return any(isinstance(one, str) and one.lower() in ("length", "max_tokens") for one in reasons)


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

    statuses: Counter[tuple[str, Status]] = field(default_factory=Counter[tuple[str, Status]])
    known: Counter[tuple[str, Known]] = field(default_factory=Counter[tuple[str, Known]])
    groups: dict[tuple[str, str, str], list[str]] = field(
        default_factory=dict[tuple[str, str, str], list[str]]
    )
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    seconds: dict[str, array[float]] = field(default_factory=lambda: defaultdict(_doubles))
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

    def add(self, trace: Trace, cells: Sequence[Cell]) -> None:
        if trace.validation is not None:
            if self.validation is None:
                from ragbench.stages.validate import ValidationTally

                self.validation = ValidationTally()
            self.validation.add(trace)
        if trace.location is not None and trace.location.value is not None:
            self.gold[trace.location.value.cause] += 1
        for stage, outcome in trace.stages:
            self.statuses[stage, outcome.status] += 1
            if outcome.known is not Known.ASKED:
                self.known[stage, outcome.known] += 1
            if outcome.seconds is not None:
                self.seconds[stage].append(outcome.seconds)
                self.sharing[stage] = max(self.sharing[stage], outcome.sharing)
        for failure in failures_of(trace, cells):
            key = (failure.stage, failure.type, failure.message)
            if key not in self.counts and len(self.counts) >= _KINDS:
                key = (failure.stage, failure.type, _OTHERS)
            self.counts[key] += 1
            examples = self.groups.setdefault(key, [])
            if len(examples) < 5:
                examples.append(trace.case.id)
        given = trace.context.value
        self.longest = max(self.longest, 0 if given is None else len(given.contexts))
        self._count_retrieval(trace)
        self._count_answer(trace)

    def _count_answer(self, trace: Trace) -> None:
        answer = trace.generation.value
        if answer is None:
            return
        if answer.abstained is None:  # the system does not say itself whether it declines
            if trace.generation.status is Status.ABSTAINED:
                self.noted["read"] += 1
            elif read_answer(answer.response).in_part:
                self.noted["declined in part"] += 1
        self.noted["thoughts"] += _THOUGHTS.search(answer.response) is not None
        self.noted["cited"] += _is_marked(answer.response, trace.case.references)
        self.noted["cut off"] += _is_cut_off(answer.metadata or {})

    def _count_retrieval(self, trace: Trace) -> None:
        result = trace.retrieval.value
        if result is None:
            return
        if result.context_ids is not None:
            self.repeated_ids += len(set(result.context_ids)) < len(result.context_ids)
        if result.scores is not None:
            self.score_orders.add(result.scores)

    def retrieval_notes(self) -> Iterator[str]:
        if self.repeated_ids:
            yield (
                f"{self.repeated_ids} retrievals returned an id more than once; only its first "
                "place counts."
            )
        if (note := self.score_orders.note()) is not None:
            yield note

    def asides(self, summaries: Sequence[Summary]) -> tuple[str, ...]:
        """What only explains a figure: too large cutoffs, how answers are known to decline."""
        longest = self.longest
        names = [
            one.metric.name
            for one in summaries
            if one.measured and longest and (one.metric.cutoff or 0) > longest
        ]
        kinds = (*self._answer_note("read"), *self._answer_note("declined in part"))
        if not names:
            return kinds
        divided = [name for name in names if name.startswith("precision")]
        more = f"; {', '.join(divided)} still divides by its cutoff" if divided else ""
        chunks = counted(longest, "retrieved chunk")
        look = f"No case has more than {chunks}: {', '.join(names)} look no further{more}."
        return (look, *kinds)

    def answer_notes(self, summaries: Sequence[Summary]) -> Iterator[str]:
        yield from self._answer_note("thoughts")
        compared = (one for one in summaries if one.measured)
        names = [c.metric.name for c in compared if c.metric.definition.name in _OF_WORDS]
        if names:
            counts = f"{', '.join(names)} count{'s' if len(names) == 1 else ''} them"
            yield from self._answer_note("cited", counts)
        yield from self._answer_note("cut off")

    def _answer_note(self, kind: str, metrics: str = "") -> Iterator[str]:
        if count := self.noted[kind]:
            form = r"\1" if count == 1 else r"\2"
            words = re.sub(r"\[([^]|]+)\|([^]]+)\]", form, _ANSWER_NOTES[kind])
            yield f"{counted(count, 'answer')} {words.replace('{metrics}', metrics)}"

    def stages(self) -> tuple[StageCount, ...]:
        return tuple(
            StageCount(
                stage=stage,
                measured=self.statuses[stage, Status.MEASURED],
                abstained=self.statuses[stage, Status.ABSTAINED],
                skipped=self.statuses[stage, Status.SKIPPED],
                failed=self.statuses[stage, Status.FAILED],
                reused=self.known[stage, Known.REUSED],
                recorded=self.known[stage, Known.RECORDED],
            )
            for stage in STAGES
            if any(self.statuses[stage, status] for status in Status)
        )

    def failures(self) -> tuple[FailureGroup, ...]:
        """Failures of one kind together, the most frequent kind first."""
        return tuple(
            FailureGroup(
                stage=key[0],
                type=key[1],
                message=key[2],
                count=count,
                examples=tuple(self.groups[key]),
            )
            for key, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        )

    def latencies(self) -> tuple[Latency, ...]:
        """Wall times per stage."""
        return tuple(
            _latency(stage, values, self.sharing[stage]) for stage, values in self.seconds.items()
        )


def _doubles() -> array[float]:
    return array("d")


def _latency(stage: str, values: array[float], sharing: int) -> Latency:
    alone = sharing == 1
    return Latency(
        stage=stage,
        count=len(values),
        mean=math.fsum(values) / len(values),
        p50=_percentile(values, 0.50) if alone else None,
        p95=_percentile(values, 0.95) if alone else None,
        longest=max(values) if alone else None,
        sharing=sharing,
    )


def _percentile(values: array[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def figure_notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """Which metrics of other packages have no figure over the run, and why."""
    for summary in summaries:
        metric = summary.metric
        if metric.definition.aggregate and summary.measured and summary.score is None:
            problem = _why_no_figure(summary) or "the run was not finished"
            yield (
                f"{metric.name}: there is no figure over the run, which "
                f"{metric.definition.aggregate} makes: {problem}."
            )


def _why_no_figure(summary: Summary) -> str | None:
    found = (reason for reason, _ in summary.reasons if reason.startswith(NO_FIGURE))
    return next((reason.removeprefix(NO_FIGURE) for reason in found), None)
