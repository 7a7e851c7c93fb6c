"""RAGAS' metrics without a model.

RAGAS' ``evaluate()`` does the same with two hundred times the work around each score, and turns an
exception into NaN; its metrics asked directly raise.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from ragbench.core.metric import Direction, Formula, Group, MetricDefinition, Skip
from ragbench.metrics.metric import ARGUMENTS
from ragbench.plugins import import_ragas, require
from ragbench.text.declining import RULES

Values = list[float | Skip | Exception]

_IDS = {"context_ids": "retrieved_context_ids", "reference_context_ids": "reference_context_ids"}
"""What a metric reads of a case, each with the field of RAGAS' sample that takes it."""
_TEXTS = {"contexts": "retrieved_contexts", "reference_contexts": "reference_contexts"}
_ANSWER = {"response": "response", "references": "reference"}


def _definition(
    name: str, cls: str, fields: Mapping[str, str], summary: str, package: str
) -> MetricDefinition:
    """A metric that asks a class of RAGAS, and what else has to be installed for it."""

    def prepare() -> None:
        _package()
        if package:
            require(package, extra="text")

    def scores(*columns: Sequence[Any]) -> Values:
        given = [dict(zip(fields.values(), row, strict=True)) for row in zip(*columns, strict=True)]
        if fields is _ANSWER:
            given = [{**row, "reference": row["reference"][0]} for row in given]
        return _run(_scores(cls, given))

    return MetricDefinition(
        name=f"ragas:{name}",
        group=Group.GENERATOR if fields is _ANSWER else Group.RETRIEVER,
        needs=frozenset(need for argument in fields for need in ARGUMENTS[argument].needs),
        direction=Direction.HIGHER,
        summary=f"{summary} ({cls})",
        citation="Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4",
        scorer=f"ragbench.metrics.ragas:{name}",
        abstains=fields is _ANSWER,
        version=RULES if fields is _ANSWER else 1,
        extra="ragas",
        formula=Formula(function=scores, arguments=tuple(fields), batch=True, prepare=prepare),
    )


_METRICS: tuple[tuple[str, str, Mapping[str, str], str, str], ...] = (
    ("id_based_context_precision", "IDBasedContextPrecision", _IDS,
     "Share of the distinct retrieved ids that are reference ids", ""),
    ("id_based_context_recall", "IDBasedContextRecall", _IDS,
     "Share of the distinct reference ids that were retrieved", ""),
    ("non_llm_context_precision_with_reference", "NonLLMContextPrecisionWithReference", _TEXTS,
     "Average precision of contexts that resemble a reference context", ""),
    ("non_llm_context_recall", "NonLLMContextRecall", _TEXTS,
     "Share of the reference contexts that a context resembles", ""),
    ("exact_match", "ExactMatch", _ANSWER,
     "1 when the answer is the reference, character by character", ""),
    ("string_presence", "StringPresence", _ANSWER,
     "1 when the answer holds the reference, character by character", ""),
    ("non_llm_string_similarity", "NonLLMStringSimilarity", _ANSWER,
     "1 - normalised Levenshtein distance", ""),
    ("bleu", "BleuScore", _ANSWER, "Corpus BLEU of the one answer", "sacrebleu"),
    ("rouge", "RougeScore", _ANSWER, "ROUGE-L F-measure", "rouge_score"),
    ("chrf", "ChrfScore", _ANSWER, "Corpus chrF of the one answer", "sacrebleu"),
)  # fmt: skip

DEFINITIONS = tuple(_definition(*row) for row in _METRICS)
_NAN = Skip("RAGAS gave NaN: the metric is not defined for this case")


async def _scores(cls: str, rows: Sequence[Mapping[str, Any]]) -> Values:
    sample: Any = _package().__dict__["SingleTurnSample"]
    instance = _instance(cls)
    found: Values = []
    for row in rows:
        if cls == "NonLLMContextRecall" and not row["retrieved_contexts"]:
            found.append(0.0)  # RAGAS takes the largest of no similarities, and raises
            continue
        try:
            value = float(await instance.single_turn_ascore(sample(**row)))
        except Exception as error:  # noqa: BLE001 - whatever RAGAS raises fails this case alone
            found.append(error)
        else:
            found.append(_NAN if math.isnan(value) else value)
    return found


@cache
def _package() -> Any:
    """ragas, which takes seconds to load."""
    return import_ragas()


@cache
def _instance(name: str) -> Any:
    module: Any = require("ragas.metrics", extra="ragas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(module, name)()


def _run(work: Coroutine[Any, Any, Values]) -> Values:
    """Runs a coroutine to its end; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
