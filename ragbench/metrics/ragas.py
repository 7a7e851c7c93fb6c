"""RAGAS' metrics without a model.

RAGAS' ``evaluate()`` does the same with two hundred times the work around each score, and turns an
exception into NaN; its metrics asked directly raise.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from ragbench.core.metric import Skip
from ragbench.metrics.metric import metric
from ragbench.plugins import import_ragas, require

Lists = Sequence[Sequence[str]]
"""Texts or ids, a list for each case."""
Values = Sequence[float | Skip | Exception]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Values])


def _ragas(
    cls: str, *, abstains: bool = False, package: str = ""
) -> Callable[[FunctionT], FunctionT]:
    """A metric that asks a class of RAGAS, and what else has to be installed for it."""

    def prepare() -> None:
        _package()
        if package:
            require(package, extra="text")

    def define(function: FunctionT) -> FunctionT:
        return metric(
            name=f"ragas:{function.__name__}",
            summary=f"{(function.__doc__ or '').removesuffix('.')} ({cls})",
            abstains=abstains,
            batch=True,
            extra="ragas",
            prepare=prepare,
            cite="Es et al. 2024, RAGAS, arXiv:2309.15217; ragas 0.4",
        )(function)

    return define


@_ragas("IDBasedContextPrecision")
def id_based_context_precision(context_ids: Lists, reference_context_ids: Lists) -> Values:
    """Share of the distinct retrieved ids that are reference ids."""
    fields = {"retrieved_context_ids": context_ids, "reference_context_ids": reference_context_ids}
    return _asked("IDBasedContextPrecision", fields)


@_ragas("IDBasedContextRecall")
def id_based_context_recall(context_ids: Lists, reference_context_ids: Lists) -> Values:
    """Share of the distinct reference ids that were retrieved."""
    fields = {"retrieved_context_ids": context_ids, "reference_context_ids": reference_context_ids}
    return _asked("IDBasedContextRecall", fields)


@_ragas("NonLLMContextPrecisionWithReference")
def non_llm_context_precision_with_reference(contexts: Lists, reference_contexts: Lists) -> Values:
    """Average precision of contexts that resemble a reference context."""
    fields = {"retrieved_contexts": contexts, "reference_contexts": reference_contexts}
    return _asked("NonLLMContextPrecisionWithReference", fields)


@_ragas("NonLLMContextRecall")
def non_llm_context_recall(contexts: Lists, reference_contexts: Lists) -> Values:
    """Share of the reference contexts that a context resembles."""
    fields = {"retrieved_contexts": contexts, "reference_contexts": reference_contexts}
    asked = _asked("NonLLMContextRecall", fields)
    # Where nothing was retrieved, RAGAS takes the largest of no similarities, and raises.
    return [value if found else 0.0 for found, value in zip(contexts, asked, strict=True)]


@_ragas("ExactMatch", abstains=True)
def exact_match(response: Sequence[str], references: Lists) -> Values:
    """1 when the answer is the reference, character by character."""
    return _asked("ExactMatch", _answer(response, references))


@_ragas("StringPresence", abstains=True)
def string_presence(response: Sequence[str], references: Lists) -> Values:
    """1 when the answer holds the reference, character by character."""
    return _asked("StringPresence", _answer(response, references))


@_ragas("NonLLMStringSimilarity", abstains=True)
def non_llm_string_similarity(response: Sequence[str], references: Lists) -> Values:
    """1 - normalised Levenshtein distance."""
    return _asked("NonLLMStringSimilarity", _answer(response, references))


@_ragas("BleuScore", abstains=True, package="sacrebleu")
def bleu(response: Sequence[str], references: Lists) -> Values:
    """Corpus BLEU of the one answer."""
    return _asked("BleuScore", _answer(response, references))


@_ragas("RougeScore", abstains=True, package="rouge_score")
def rouge(response: Sequence[str], references: Lists) -> Values:
    """ROUGE-L F-measure."""
    return _asked("RougeScore", _answer(response, references))


@_ragas("ChrfScore", abstains=True, package="sacrebleu")
def chrf(response: Sequence[str], references: Lists) -> Values:
    """Corpus chrF of the one answer."""
    return _asked("ChrfScore", _answer(response, references))


_NAN = Skip("RAGAS gave NaN: the metric is not defined for this case")


def _answer(response: Sequence[str], references: Lists) -> dict[str, Sequence[Any]]:
    return {"response": response, "reference": [several[0] for several in references]}


def _asked(name: str, fields: dict[str, Sequence[Any]]) -> Values:
    rows = [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
    return _run(_scores(_instance(name), rows))


async def _scores(instance: Any, rows: Sequence[dict[str, Any]]) -> Values:
    sample: Any = _package().__dict__["SingleTurnSample"]
    found: list[float | Skip | Exception] = []
    for row in rows:
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
