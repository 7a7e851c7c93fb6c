"""ROUGE by the rouge-score package, on tokens of any script."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ragbench.extras import require
from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.answer import best
from ragbench.scoring.measured import measured
from ragbench.scoring.tokenise import multilingual_tokens

__all__ = ["RougeScorer"]


class _Tokeniser:
    """rouge-score's own tokeniser drops everything but a-z and 0-9."""

    def tokenize(self, text: str) -> list[str]:
        return list(multilingual_tokens(text))


class RougeScorer:
    """Computes rouge in its variants."""

    def __init__(self) -> None:
        """Loads rouge-score.

        Raises:
            MissingExtraError: it is not installed.
        """
        self._package = require("rouge_score.rouge_scorer", extra="text")

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace: the F-measure against the best reference."""
        return [
            [self._cell(str(metric.parameter("variant")), trace) for trace in traces]
            for metric in metrics
        ]

    def _cell(self, variant: str, trace: Trace) -> Cell:
        scorer = _scorer(self._package, variant)

        def f_measure(answer: str, reference: str) -> float:
            return float(scorer.score(reference, answer)[variant].fmeasure)

        response = trace.generation.value.response if trace.generation.value is not None else ""
        return measured(best(f_measure, response, trace.case.references))


@cache
def _scorer(package: Any, variant: str) -> Any:
    return package.RougeScorer([variant], tokenizer=_Tokeniser())
