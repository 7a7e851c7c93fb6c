"""The judge's own question of ragbench: is the answer supported, and by which words?"""

from __future__ import annotations

from ragbench.records.metrics import Cost, Direction, Group, MetricDefinition, Need

__all__ = ["DEFINITIONS"]

DEFINITIONS: tuple[MetricDefinition, ...] = (
    MetricDefinition(
        name="support",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM}),
        direction=Direction.HIGHER,
        summary="1 when the contexts support the whole answer, 0.5 a part of it, 0 none; the judge "
        "has to quote",
        citation="ragbench; after the labels of Kamoi et al. 2023, WiCE, arXiv:2303.01432",
        scorer="ragbench.scoring.support_judge:SupportJudge",
        extra="llm",
        cost=Cost.LLM,
        calls="1",
        abstains=True,
    ),
)
