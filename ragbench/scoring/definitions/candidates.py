"""Metrics of several candidate answers and of the confidence that comes with an answer."""

from __future__ import annotations

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need, Parameter

__all__ = ["DEFINITIONS"]

_CORRECT = (
    Parameter(
        name="by",
        default="token_f1",
        choices=("token_f1", "exact_match", "edit_similarity"),
        summary="the metric that says whether an answer is correct",
    ),
    Parameter(
        name="threshold",
        default=0.5,
        low=0.0,
        summary="the answer is correct when that metric gives at least this much",
    ),
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    MetricDefinition(
        name="best_of_n",
        group=Group.GENERATOR,
        needs=frozenset({Need.MULTI_RESPONSES, Need.REFERENCE}),
        direction=Direction.HIGHER,
        summary="Score of the best of the first n candidates: what a perfect choice would give",
        citation="oracle best-of-n, as in Brown et al. 2024, Large Language Monkeys, 2407.21787",
        scorer="ragbench.scoring.candidates:CandidateScorer",
        abstains=True,
        parameters=(
            Parameter(
                name="n", default=0, low=0, summary="how many candidates; 0 takes all there are"
            ),
            Parameter(
                name="metric",
                default="token_f1",
                choices=("token_f1", "exact_match", "edit_similarity"),
                summary="the metric that scores each candidate",
            ),
        ),
    ),
    MetricDefinition(
        name="candidate_agreement",
        group=Group.GENERATOR,
        needs=frozenset({Need.MULTI_RESPONSES}),
        direction=Direction.NEITHER,
        summary="Mean token F1 over all pairs of candidates: how alike they are",
        citation="lexical similarity of Kuhn, Gal and Farquhar 2023, Semantic Uncertainty, "
        "arXiv:2302.09664, with token F1 in place of ROUGE-L",
        scorer="ragbench.scoring.candidates:CandidateScorer",
    ),
    MetricDefinition(
        name="brier",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.REFERENCE, Need.CONFIDENCE}),
        direction=Direction.LOWER,
        summary="(confidence - correct)^2, where correct is 1 or 0",
        citation="Brier 1950, Verification of Forecasts Expressed in Terms of Probability",
        scorer="ragbench.scoring.calibration:CalibrationScorer",
        abstains=True,
        parameters=_CORRECT,
    ),
    MetricDefinition(
        name="ECE",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.REFERENCE, Need.CONFIDENCE}),
        direction=Direction.LOWER,
        summary="Expected calibration error; a case's own value is correct - confidence",
        citation="Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, arXiv:1706.04599",
        scorer="ragbench.scoring.calibration:CalibrationScorer",
        aliases=("expected_calibration_error",),
        low=-1.0,
        abstains=True,
        parameters=(
            Parameter(name="bins", default=10, low=1, summary="bins of equal width over [0, 1]"),
            *_CORRECT,
        ),
        aggregate="ragbench.scoring.calibration:expected_calibration_error",
    ),
)
