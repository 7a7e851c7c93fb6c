"""RAGAS' own metrics that need no model, as RAGAS' own objects."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

from ragbench.extras import require
from ragbench.extras_ragas import import_ragas
from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.sample_row import SampleRow, sample_row
from ragbench.runs.trace import Trace
from ragbench.scoring.measured import measured

__all__ = ["RagasScorer"]

_CLASSES = {
    "ragas:id_based_context_precision": "IDBasedContextPrecision",
    "ragas:id_based_context_recall": "IDBasedContextRecall",
    "ragas:non_llm_context_precision_with_reference": "NonLLMContextPrecisionWithReference",
    "ragas:non_llm_context_recall": "NonLLMContextRecall",
    "ragas:exact_match": "ExactMatch",
    "ragas:string_presence": "StringPresence",
    "ragas:non_llm_string_similarity": "NonLLMStringSimilarity",
    "ragas:bleu": "BleuScore",
    "ragas:rouge": "RougeScore",
    "ragas:chrf": "ChrfScore",
}
_PACKAGES = {
    "ragas:bleu": "sacrebleu",
    "ragas:chrf": "sacrebleu",
    "ragas:rouge": "rouge_score",
}
_FIELDS = [field.name for field in fields(SampleRow)]
_NAN = Cell.skipped("RAGAS gave NaN: the metric is not defined for this case")


class RagasScorer:
    """Computes every metric of ``definitions/ragas.py``, one row at a time.

    RAGAS' ``evaluate()`` does the same with two hundred times the work around each score, and
    turns an exception into NaN; asked directly, the object raises.
    """

    def __init__(self) -> None:
        """Loads ragas, which takes seconds.

        Raises:
            MissingExtraError: ragas is not installed.
        """
        ragas = import_ragas()
        self._metrics = require("ragas.metrics", extra="ragas")
        self._sample = ragas.__dict__["SingleTurnSample"]
        self._objects: dict[str, Any] = {}

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        objects = [self._object(metric.definition.name) for metric in metrics]
        return _run(self._columns(objects, traces))

    def _object(self, name: str) -> Any:
        if name not in self._objects:
            if package := _PACKAGES.get(name):
                require(package, extra="text")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self._objects[name] = getattr(self._metrics, _CLASSES[name])()
        return self._objects[name]

    async def _columns(self, objects: Sequence[Any], traces: Sequence[Trace]) -> list[list[Cell]]:
        columns: list[list[Cell]] = [[] for _ in objects]
        for trace in traces:
            row = sample_row(trace)
            known = {name: value for name in _FIELDS if (value := getattr(row, name)) is not None}
            for column, metric in zip(columns, objects, strict=True):
                column.append(await self._cell(metric, known))
        return columns

    async def _cell(self, metric: Any, known: Mapping[str, Any]) -> Cell:
        missing = sorted(_required(metric) - known.keys())
        if missing:
            return Cell.skipped(f"RAGAS needs {', '.join(missing)}")
        value = float(await metric.single_turn_ascore(self._sample(**known)))
        return _NAN if math.isnan(value) else measured(value)


def _required(metric: Any) -> set[str]:
    columns: Mapping[str, set[str]] = metric.required_columns
    return {name for names in columns.values() for name in names if not name.endswith(":optional")}


def _run(work: Coroutine[Any, Any, list[list[Cell]]]) -> list[list[Cell]]:
    """Runs a coroutine to its end; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
