"""What a variant of post-retrieval came to: times, tokens, costs and failures by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from ragbench import (
    Case,
    Failure,
    GenerationResult,
    Matching,
    Outcome,
    PostRetrieval,
    RetrievalResult,
    Status,
    Trace,
    parse_metrics,
)
from ragbench.llm.endpoint import Price
from ragbench.metrics.plan import Plan
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.post.operator import OperatorInput, OperatorOutput
from ragbench.stages.trial import NOT_GENERATED, Trial

METRICS = parse_metrics("hit_rate@1")


class Words:
    """Counts words, exactly."""

    name = "words"
    approximate = False

    def count(self, text: str) -> int:
        return len(text.split())


@dataclass
class Prepared:
    """Stands for generation: gives the answers that were prepared, a question each."""

    answers: dict[str, Outcome[Any]]
    asked: list[str] = field(default_factory=list[str])

    def answer(self, query: str, left: RetrievalResult[Any]) -> Outcome[Any]:
        self.asked.append(query)
        return self.answers[query]


class Broken:
    """An operator that cannot work."""

    name = "custom.broken"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        raise RuntimeError("no model")


def traces(number: int, *, words: int = 3) -> list[Trace]:
    found = [
        RetrievalResult([" ".join(["word"] * (words + at)), "x"], context_ids=["a", "b"])
        for at in range(number)
    ]
    return [
        Trace(
            case=Case(id=str(at), query=f"q{at}", reference_context_ids=("a",)),
            retrieval=Outcome(status=Status.MEASURED, value=one),
            generation=NOT_GENERATED,
        )
        for at, one in enumerate(found)
    ]


SHORT = PostRetrieval(operators=(TopK(k=1),))


def tried(window: list[Trace], answers: Any = None, stage: PostRetrieval = SHORT) -> Trial:
    trial = Trial(
        variant=Variant(name="v", stage=stage),
        counter=Words(),
        matching=Matching.ID,
        answering=answers,
    )
    with ThreadPoolExecutor(2) as pool:
        trial.take(window, Plan(METRICS, matching=Matching.ID), trial, pool)
    return trial


def answered(seconds: float | None = None, tokens: tuple[int, int] | None = None) -> Outcome[Any]:
    usage = None if tokens is None else {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    value = GenerationResult("yes", metadata=usage)
    return Outcome(status=Status.MEASURED, value=value, seconds=seconds)


def test_times_of_answers_are_percentiles_that_were_measured() -> None:
    """Of 100, 200 ... 500 the median is the third."""
    window = traces(5)
    answers = {f"q{at}": answered(seconds=100.0 * (at + 1)) for at in range(5)}
    trial = tried(window, Prepared(answers))
    shown = trial.report((), is_first=True).answers
    assert shown is not None
    assert (shown.seconds_p50, shown.seconds_p95) == (300.0, 500.0)
    assert trial.report((), is_first=True).seconds_p50 < 1.0


def test_tokens_of_what_is_left_by_hand() -> None:
    """Three, four and five words: a mean of 4, the longest 5."""
    report = tried(traces(3)).report((), is_first=True)
    assert (report.chunks, report.tokens, report.tokens_p95) == (1.0, 4.0, 5.0)


def test_what_answers_cost_is_known_where_all_report_their_tokens() -> None:
    """10 and 30 tokens of prompt at 1 a million, 2 and 4 of answers at 10: 30 and 70 millionths."""
    price = Price(input=Decimal(1), output=Decimal(10))
    every = {"q0": answered(tokens=(10, 2)), "q1": answered(tokens=(30, 4))}
    shown = tried(traces(2), Prepared(every)).report((), is_first=True, price=price).answers
    assert shown is not None
    assert (shown.answered, shown.prompt_tokens, shown.response_tokens) == (2, 20.0, 3.0)
    assert shown.cost == pytest.approx(50e-6)
    some = {"q0": answered(tokens=(10, 2)), "q1": answered()}
    shown = tried(traces(2), Prepared(some)).report((), is_first=True, price=price).answers
    assert shown is not None
    assert (shown.prompt_tokens, shown.response_tokens, shown.cost) == (None, None, None)


def test_failures_are_counted_by_what_they_say() -> None:
    failure = Failure.of(RuntimeError("no model"), stage="generate")
    failed: Outcome[Any] = Outcome(status=Status.FAILED, failure=failure)
    answers = {"q0": failed, "q1": answered(), "q2": failed}
    report = tried(traces(3), Prepared(answers)).report((), is_first=True)
    assert report.answers is not None
    assert (report.answers.failed, report.answers.answered, report.failed) == (2, 1, 0)
    assert [count for _, count in report.failures] == [2]


def test_where_post_retrieval_fails_nothing_is_generated() -> None:
    answers = Prepared({})
    stage = PostRetrieval(operators=(Broken(),), on_error="raise")
    report = tried(traces(2), answers, stage).report((), is_first=True)
    assert answers.asked == []
    assert report.answers is not None
    assert (report.answers.failed, report.answers.answered, report.failed) == (0, 0, 2)
    assert (report.chunks, report.tokens, report.tokens_p95) == (0.0, 0.0, 0.0)
    assert [count for _, count in report.failures] == [2]
