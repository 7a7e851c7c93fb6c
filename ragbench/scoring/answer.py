"""Answer metrics against references: exact match, token F1, edit similarity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.measured import measured
from ragbench.scoring.tokenise import multilingual_tokens, squad_tokens

__all__ = [
    "AnswerMeasure",
    "AnswerScorer",
    "answer_measure",
    "best",
    "edit_similarity",
    "exact_match",
    "token_f1",
]

AnswerMeasure = Callable[[str, str], float]
"""A score in [0, 1] of an answer against one reference."""

Tokeniser = Callable[[str], tuple[str, ...]]

_TOKENISERS: dict[str, Tokeniser] = {"multilingual": multilingual_tokens, "squad": squad_tokens}


def exact_match(
    answer: str, reference: str, *, tokens: Tokeniser | None = multilingual_tokens
) -> float:
    """1.0 when both are the same tokens, or the same text where ``tokens`` is None; else 0.0."""
    if tokens is None:
        return float(answer == reference)
    # SQuAD's script compares the tokens joined by spaces, which is the same.
    return float(tokens(answer) == tokens(reference))


def token_f1(answer: str, reference: str, *, tokens: Tokeniser = multilingual_tokens) -> float:
    """F1 of the tokens that both share, counted with repetitions.

    Where either has no tokens it is 1.0 when neither has any, else 0.0, as in SQuAD 2.0.
    """
    given, wanted = tokens(answer), tokens(reference)
    if not given or not wanted:
        return float(given == wanted)
    distinct, distinct_wanted = set(given), set(wanted)
    shared = len(distinct & distinct_wanted)
    # Where either side repeats no token, no repetition can be shared.
    if len(distinct) < len(given) and len(distinct_wanted) < len(wanted):
        shared = (Counter(given) & Counter(wanted)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def edit_similarity(answer: str, reference: str) -> float:
    """1 - Levenshtein distance / length of the longer text; 1.0 for two empty texts."""
    from rapidfuzz.distance import Levenshtein

    return 1 - Levenshtein.normalized_distance(reference, answer)


def answer_measure(name: str, normalise: str = "multilingual") -> AnswerMeasure:
    """What computes a metric of this module.

    Args:
        name: ``"exact_match"``, ``"token_f1"`` or ``"edit_similarity"``.
        normalise: ``"multilingual"``, ``"squad"`` or, for an exact match, ``"none"``.
    """
    tokens = _TOKENISERS.get(normalise)
    if name == "exact_match":
        return partial(exact_match, tokens=tokens)
    if name == "token_f1":
        return partial(token_f1, tokens=tokens or multilingual_tokens)
    return edit_similarity


def best(measure: AnswerMeasure, answer: str, references: Sequence[str]) -> float:
    """The score against the reference that gives most, as SQuAD has it."""
    return max(measure(answer, reference) for reference in references)


class AnswerScorer:
    """Computes exact_match, token_f1 and edit_similarity."""

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        rows = [
            (trace.generation.value.response, trace.case.references)
            for trace in traces
            if trace.generation.value is not None
        ]
        return [_column(_of(metric), rows) for metric in metrics]


def _of(metric: Metric) -> AnswerMeasure:
    normalise = dict(metric.parameters).get("normalise", "multilingual")
    return answer_measure(metric.definition.name, str(normalise))


def _column(measure: AnswerMeasure, rows: Sequence[tuple[str, tuple[str, ...]]]) -> list[Cell]:
    return [
        measured(
            measure(response, references[0])
            if len(references) == 1
            else best(measure, response, references)
        )
        for response, references in rows
    ]
