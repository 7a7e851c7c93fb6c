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


def answers_of(*outcomes: Outcome[Any], price: Price | None = None) -> VariantAnswers:
    """What is reported of a variant whose cases are answered like this, in order."""
    retrieval = retrieved("a", "b")
    window: list[Trace] = []
    for number in range(len(outcomes)):
        case = Case(id=str(number), query=str(number), reference_context_ids=("a",))
        window.append(Trace(case=case, retrieval=retrieval, generation=NOT_GENERATED))
    answering: Any = SimpleNamespace(answer=lambda query, *_: outcomes[int(query)])
    trial = Trial(
        variant=Variant(name="v", stage=PostRetrieval(operators=(TopK(k=1),))),
        counter=counter_for_model(""),
        matching=Matching.ID,
        answering=answering,
    )
    plan = Plan(parse_metrics("hit_rate@1"), matching=Matching.ID)

    with ThreadPoolExecutor(2) as pool:
        trial.take(window, plan, trial, pool)
    report = trial.report((), is_first=True, price=price)

    # Of the variant alone: the times of answers, of minutes in these tests, are apart.
    assert report.seconds_p50 < 1.0
    assert report.answers is not None
    return report.answers


def answered(
    *,
    seconds: float | None = None,
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
) -> Outcome[Any]:
    usage = None
    if prompt_tokens is not None:
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return generated("yes", metadata=usage, seconds=seconds)


def test_times_of_answers_are_percentiles_that_were_measured() -> None:
    answers = answers_of(
        answered(seconds=100.0),
        answered(seconds=200.0),
        answered(seconds=300.0),
        answered(seconds=400.0),
        answered(seconds=500.0),
    )

    assert answers.seconds_p50 == 300.0
    assert answers.seconds_p95 == 500.0


# In units of a million tokens.
PRICE = Price(input=Decimal(1), output=Decimal(10))


def test_tokens_of_answers_are_a_mean_and_their_cost_a_mean() -> None:
    answers = answers_of(
        answered(prompt_tokens=10, completion_tokens=2),
        answered(prompt_tokens=30, completion_tokens=4),
        price=PRICE,
    )

    assert answers.answered == 2
    assert answers.prompt_tokens == 20.0
    assert answers.response_tokens == 3.0
    # 10 + 2 * 10 = 30 and 30 + 4 * 10 = 70 millionths.
    assert answers.cost == pytest.approx(50e-6)


def test_the_cost_is_not_known_where_an_answer_reports_no_tokens() -> None:
    answers = answers_of(answered(prompt_tokens=10, completion_tokens=2), answered(), price=PRICE)

    assert answers.prompt_tokens is None
    assert answers.response_tokens is None
    assert answers.cost is None
