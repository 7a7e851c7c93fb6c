"""BLEU and chrF by sacrebleu, as sentence scores against all references at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from ragbench.extras import require
from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.measured import measured

__all__ = ["TranslationScorer"]

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_OTHER_SPACELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff]")


class TranslationScorer:
    """Computes bleu and chrf."""

    def __init__(self) -> None:
        """Loads sacrebleu.

        Raises:
            MissingExtraError: it is not installed.
        """
        self._package = require("sacrebleu.metrics", extra="text")

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        return [
            [self._cell(metric.definition.name, trace) for trace in traces] for metric in metrics
        ]

    def _cell(self, name: str, trace: Trace) -> Cell:
        references = list(trace.case.references)
        response = trace.generation.value.response if trace.generation.value is not None else ""
        if name == "bleu":
            scorer = _bleu(self._package, _tokeniser(references))
        else:
            scorer = _chrf(self._package)
        # sacrebleu's 100 can be 100.00000000000004.
        return measured(min(scorer.sentence_score(response, references).score / 100, 1.0))


def _tokeniser(references: Sequence[str]) -> str:
    """Sacrebleu's tokeniser for the references' script."""
    text = "".join(references)
    if _OTHER_SPACELESS.search(text):
        return "char"
    return "zh" if _HAN.search(text) else "13a"


@cache
def _bleu(package: Any, tokeniser: str) -> Any:
    # Without effective order, an answer of fewer than four tokens is always 0.
    return package.BLEU(effective_order=True, tokenize=tokeniser)


@cache
def _chrf(package: Any) -> Any:
    return package.CHRF()
