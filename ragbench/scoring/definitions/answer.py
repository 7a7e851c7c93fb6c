"""Metrics of the answer's text against the reference answers: the best reference counts."""

from __future__ import annotations

from dataclasses import replace

from ragbench.records.metrics import Direction, Group, MetricDefinition, Need, Parameter

__all__ = ["DEFINITIONS"]

_SQUAD = "Rajpurkar et al. 2016, SQuAD, arXiv:1606.05250; official evaluation script"

_ANSWER = MetricDefinition(
    name="token_f1",
    group=Group.GENERATOR,
    needs=frozenset({Need.RESPONSE, Need.REFERENCE}),
    direction=Direction.HIGHER,
    summary="F1 of the tokens that answer and reference share; characters in Chinese",
    citation=_SQUAD,
    scorer="ragbench.scoring.answer:AnswerScorer",
    aliases=("F1",),
    abstains=True,
    parameters=(
        Parameter(
            name="normalise",
            default="multilingual",
            choices=("multilingual", "squad"),
            summary="how texts become tokens: for any script, or exactly as SQuAD's script does",
        ),
    ),
)

DEFINITIONS: tuple[MetricDefinition, ...] = (
    replace(
        _ANSWER,
        name="exact_match",
        aliases=("EM",),
        summary="1 when the answer equals a reference after normalisation, else 0",
        parameters=(
            Parameter(
                name="normalise",
                default="multilingual",
                choices=("multilingual", "squad", "none"),
                summary="how texts are made alike: for any script, as SQuAD's script does, not",
            ),
        ),
    ),
    _ANSWER,
    replace(
        _ANSWER,
        name="edit_similarity",
        aliases=("string_similarity",),
        summary="1 - Levenshtein distance / length of the longer text",
        citation="Levenshtein 1966, Binary codes capable of correcting deletions, insertions ...",
        parameters=(),
    ),
    replace(
        _ANSWER,
        name="rouge",
        aliases=(),
        summary="F-measure of shared n-grams or of the longest common subsequence",
        citation="Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries",
        scorer="ragbench.scoring.rouge:RougeScorer",
        extra="text",
        parameters=(
            Parameter(
                name="variant",
                default="rougeL",
                choices=("rouge1", "rouge2", "rougeL"),
                summary="single tokens, pairs of tokens, or longest common subsequence",
            ),
        ),
    ),
    replace(
        _ANSWER,
        name="bleu",
        aliases=(),
        summary="Sentence BLEU with effective order, divided by 100",
        citation="Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores",
        scorer="ragbench.scoring.translation:TranslationScorer",
        extra="text",
        parameters=(),
    ),
    replace(
        _ANSWER,
        name="chrf",
        aliases=(),
        summary="F-score of shared character n-grams (chrF2), divided by 100",
        citation="Popović 2015, chrF: character n-gram F-score for automatic MT evaluation",
        scorer="ragbench.scoring.translation:TranslationScorer",
        extra="text",
        parameters=(),
    ),
)
