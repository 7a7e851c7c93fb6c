"""Declining to answer."""

from __future__ import annotations

from typing import Any

from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.result import GenerationResult
from ragbench.metrics.metric import metric
from ragbench.text.declining import read_answer


def abstained(result: GenerationResult[Any]) -> bool:
    """Whether a system declined to answer.

    What the system itself says counts. Where it says nothing (``abstained`` is None), it counts
    how the response reads, see `ragbench.text.declining`.
    """
    if result.abstained is not None:
        return result.abstained
    return read_answer(result.response).declines


def declined(outcome: Outcome[GenerationResult[Any]]) -> bool:
    """Whether generation ended in a declined answer."""
    if outcome.status is Status.ABSTAINED:
        return True
    return outcome.value is not None and abstained(outcome.value)


_RAJPURKAR = "Rajpurkar, Jia and Liang 2018, Know What You Don't Know, arXiv:1806.03822"


@metric(group="overall", cite=_RAJPURKAR)
def abstention_accuracy(declined: bool, answerable: bool) -> float:
    """1 when the system declines exactly where there is no answer, else 0."""
    return float(declined != answerable)


@metric(group="overall", aliases=("answered_when_answerable",), cite=_RAJPURKAR)
def answer_rate(declined: bool, answerable: bool) -> float | Skip:
    """1 when an answerable case is answered, 0 when it is declined; others are skipped."""
    return float(not declined) if answerable else _IS_UNANSWERABLE


@metric(group="overall", aliases=("abstained_when_unanswerable",), cite=_RAJPURKAR)
def abstention_recall(declined: bool, answerable: bool) -> float | Skip:
    """1 when an unanswerable case is declined, 0 when it is answered; others skipped."""
    return _IS_ANSWERABLE if answerable else float(declined)


@metric(group="overall", cite=_RAJPURKAR)
def abstention_precision(declined: bool, answerable: bool) -> float | Skip:
    """1 when a declined case is unanswerable, 0 when it is not; answered ones skipped."""
    return float(not answerable) if declined else _WAS_ANSWERED


_IS_UNANSWERABLE = Skip("the case is unanswerable")
_IS_ANSWERABLE = Skip("the case is answerable")
_WAS_ANSWERED = Skip("the system did not decline")
