"""Metrics of declining to answer, by whether the corpus holds an answer."""

from __future__ import annotations

from dataclasses import replace

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need

__all__ = ["DEFINITIONS"]

_ABSTENTION = MetricDefinition(
    name="abstention_accuracy",
    group=Group.OVERALL,
    needs=frozenset({Need.RESPONSE, Need.ANSWERABLE}),
    direction=Direction.HIGHER,
    summary="1 when the system declines exactly where there is no answer, else 0",
    citation="Rajpurkar, Jia and Liang 2018, Know What You Don't Know, arXiv:1806.03822",
    scorer="ragbench.scoring.abstention:AbstentionScorer",
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    _ABSTENTION,
    replace(
        _ABSTENTION,
        name="answer_rate",
        aliases=("answered_when_answerable",),
        summary="1 when an answerable case is answered, 0 when it is declined; others are skipped",
    ),
    replace(
        _ABSTENTION,
        name="abstention_recall",
        aliases=("abstained_when_unanswerable",),
        summary="1 when an unanswerable case is declined, 0 when it is answered; others skipped",
    ),
    replace(
        _ABSTENTION,
        name="abstention_precision",
        summary="1 when a declined case is unanswerable, 0 when it is not; answered ones skipped",
    ),
)
