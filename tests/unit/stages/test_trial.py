"""What the answers to a variant of post-retrieval came to: times and costs by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench import Case, Matching, Outcome, PostRetrieval, Trace, parse_metrics
from ragbench.core.ablation import VariantAnswers
from ragbench.core.chat import Price
from ragbench.metrics.plan import Plan
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.stages.trial import NOT_GENERATED, Trial
from ragbench.text.token_counter import counter_for_model
from tests.unit.metrics.builders import generated, retrieved


def answers_of(*prepared: Outcome[Any], price: Price | None = None) -> VariantAnswers:
    """What is reported of a variant whose cases are given these answers."""
    cases = [
        Case(id=str(at), query=str(at), reference_context_ids=("a",)) for at in range(len(prepared))
    ]
    found = retrieved("a", "b")
    window = [Trace(case=one, retrieval=found, generation=NOT_GENERATED) for one in cases]
    answering: Any = SimpleNamespace(answer=lambda query, left, said: prepared[int(query)])
    one = Variant(name="v", stage=PostRetrieval(operators=(TopK(k=1),)))
    counter = counter_for_model("")
    trial = Trial(variant=one, counter=counter, matching=Matching.ID, answering=answering)
    with ThreadPoolExecutor(2) as pool:
        plan = Plan(parse_metrics("hit_rate@1"), matching=Matching.ID)
        trial.take(window, plan, trial, pool)
    report = trial.report((), is_first=True, price=price)
    assert report.seconds_p50 < 1.0
    assert report.answers is not None
    return report.answers


def answered(seconds: float | None = None, tokens: tuple[int, int] | None = None) -> Outcome[Any]:
    usage = None if tokens is None else {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return generated("yes", metadata=usage, seconds=seconds)


def test_times_of_answers_are_percentiles_that_were_measured() -> None:
    """Of 100, 200 ... 500 the median is the third."""
    shown = answers_of(*(answered(seconds=100.0 * at) for at in range(1, 6)))
    assert (shown.seconds_p50, shown.seconds_p95) == (300.0, 500.0)


def test_what_answers_cost_is_known_where_all_report_their_tokens() -> None:
    """10 and 30 tokens of prompt at 1 a million, 2 and 4 of answers at 10: 30 and 70 millionths."""
    price = Price(input=Decimal(1), output=Decimal(10))
    shown = answers_of(answered(tokens=(10, 2)), answered(tokens=(30, 4)), price=price)
    assert (shown.answered, shown.prompt_tokens, shown.response_tokens) == (2, 20.0, 3.0)
    assert shown.cost == pytest.approx(50e-6)
    shown = answers_of(answered(tokens=(10, 2)), answered(), price=price)
    assert (shown.prompt_tokens, shown.response_tokens, shown.cost) == (None, None, None)
