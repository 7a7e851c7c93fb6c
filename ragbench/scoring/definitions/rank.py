"""Metrics of a ranking, computed by trec_eval through ir_measures."""

from __future__ import annotations

from dataclasses import replace

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need, Parameter

__all__ = ["DEFINITIONS"]

_REL = Parameter(
    name="rel", default=1, low=1, summary="smallest grade that counts as relevant (inclusive)"
)
_JUDGED_ONLY = Parameter(
    name="judged_only", default=False, summary="leave out chunks that nobody has judged"
)

_RANK = MetricDefinition(
    name="recall",
    group=Group.RETRIEVER,
    needs=frozenset({Need.RETRIEVED_CONTEXTS, Need.JUDGEMENTS}),
    direction=Direction.HIGHER,
    summary="Share of the relevant contexts that are among the first k retrieved",
    citation="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, ch. 8",
    scorer="ragbench.scoring.rank:RankScorer",
    aliases=("R",),
    parameters=(_REL, _JUDGED_ONLY),
    cutoff="required",
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    _RANK,
    replace(
        _RANK,
        name="precision",
        aliases=("P",),
        summary="Share of the first k places that hold a relevant chunk; missing places count",
    ),
    replace(
        _RANK,
        name="hit_rate",
        aliases=("Success", "hit"),
        summary="1 when a relevant chunk is among the first k, else 0",
    ),
    replace(
        _RANK,
        name="MRR",
        aliases=("RR",),
        summary="1 / rank of the first relevant chunk, 0 when there is none",
        citation="Kantor and Voorhees 2000, The TREC-5 Confusion Track",
        cutoff="optional",
    ),
    replace(
        _RANK,
        name="MAP",
        aliases=("AP",),
        summary="Mean of the precision at each relevant context's rank, 0 for those not retrieved",
        citation="Harman 1992, Evaluation Issues in Information Retrieval",
        cutoff="optional",
    ),
    replace(
        _RANK,
        name="nDCG",
        summary="Gain by grade, discounted by the logarithm of the rank, against the best order",
        citation="Järvelin and Kekäläinen 2002, Cumulated Gain-based Evaluation of IR Techniques",
        parameters=(
            Parameter(
                name="dcg",
                default="log2",
                choices=("log2", "exp-log2"),
                summary="gain of a grade g: g itself, or 2^g - 1",
            ),
            _JUDGED_ONLY,
        ),
        cutoff="optional",
        aliases=(),
    ),
    replace(
        _RANK,
        name="Judged",
        direction=Direction.NEITHER,
        summary="Share of the first k chunks that somebody has judged: how far to trust the rest",
        citation="MacAvaney et al. 2022, Streamlining Evaluation with ir-measures",
        parameters=(),
        cutoff="optional",
        aliases=(),
    ),
    replace(
        _RANK,
        name="set_precision",
        aliases=("SetP",),
        summary="Share of all retrieved chunks that are relevant",
        cutoff="none",
    ),
    replace(
        _RANK,
        name="set_recall",
        aliases=("SetR",),
        summary="Share of the relevant contexts that were retrieved at any rank",
        parameters=(_REL,),
        cutoff="none",
    ),
    replace(
        _RANK,
        name="set_f1",
        aliases=("SetF",),
        summary="Harmonic mean of set_precision and set_recall",
        cutoff="none",
    ),
)
