"""RAGAS' judged metrics, by RAGAS' own objects, one case at a time in the run's event loop."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import Any, cast

from ragbench.errors import ConfigError, InterruptedRunError, LLMError, LLMStoppedError
from ragbench.extras import require
from ragbench.extras_ragas import import_ragas
from ragbench.records.cells import Cell, Failure
from ragbench.records.judgements import Judgement
from ragbench.records.metrics import Group, Metric
from ragbench.runs.sample_row import SampleRow, sample_row
from ragbench.runs.trace import Trace
from ragbench.scoring.asking import Asking, NothingToJudgeError
from ragbench.scoring.definitions.judged import DEFINITIONS
from ragbench.scoring.panel import Panel
from ragbench.scoring.ragas_catalogue import CATALOGUE, RagasClass
from ragbench.scoring.ragas_models import ASKING, ragas_models

__all__ = ["RagasJudge"]

_FIELDS = [field.name for field in fields(SampleRow)]
_NONCOMMITTAL = Cell.abstained("the judge calls the answer noncommittal, and there is none to give")
_NO_CONTEXTS = Cell.skipped("retrieval gave no contexts to judge the answer by")
_UNDEFINED = Cell.skipped("RAGAS gave NaN: the metric is not defined for this case")


class RagasJudge:
    """Computes every metric of ``definitions/judged.py``.

    RAGAS' ``evaluate()`` sends the same prompts, loses their answers and turns what fails into
    NaN.
    """

    def __init__(self) -> None:
        """Loads ragas, which takes seconds.

        Raises:
            MissingExtraError: ragas is not installed.
        """
        self._ragas = import_ragas()
        require("pydantic", extra="llm")
        self._version = version("ragas")
        self._models = ragas_models()
        self._objects: dict[str, Any] = {}

    def identity(self) -> Mapping[str, str]:
        """See `ragbench.scoring.judge.JudgeScorer.identity`."""
        every = [
            Metric(definition=definition)
            for definition in DEFINITIONS
            if definition.name != "ragas:aspect_critic"  # without a definition there is none
        ]
        return {"ragas": self._version, "prompts": _digest([self.prepare(m) for m in every])}

    def prepare(self, metric: Metric) -> str:
        """See `ragbench.scoring.judge.JudgeScorer.prepare`."""
        return _digest([self._version, *_prompts(self._object(metric))])

    async def judge(self, metric: Metric, trace: Trace, panel: Panel, repeat: int) -> Judgement:
        """See `ragbench.scoring.judge.JudgeScorer.judge`."""
        known = CATALOGUE[metric.definition.name]
        row = sample_row(trace).as_mapping()
        found = _unaskable(metric, known, row)
        if found is not None:
            return Judgement(cell=found)
        asking = Asking(
            panel,
            purpose=metric.name,
            version=f"ragas {self._version}, {metric.definition.version}",
            repeat=repeat,
            allowed=known.allowed or _grades(row),
        )
        token = ASKING.set(asking)
        try:
            cell = await self._cell(metric, known, row, asking)
        finally:
            ASKING.reset(token)
        if _is_right_to_decline(asking, trace):
            cell = _NONCOMMITTAL
        return Judgement(cell=cell, steps=tuple(asking.steps))

    async def _cell(
        self, metric: Metric, known: RagasClass, row: Mapping[str, Any], asking: Asking
    ) -> Cell:
        try:
            value = await self._value(metric, known, row, asking)
            problem = asking.problem
            if problem is None:
                return Cell.measured(value) if math.isfinite(value) else _UNDEFINED
        except Exception as error:  # noqa: BLE001  # RAGAS may raise anything: it costs this cell
            problem = asking.problem or error
        if isinstance(problem, (LLMStoppedError, ConfigError, InterruptedRunError)):
            raise problem
        if isinstance(problem, NothingToJudgeError):
            return Cell.skipped(str(problem))
        return Cell.failed(_failure(problem))

    async def _value(
        self, metric: Metric, known: RagasClass, row: Mapping[str, Any], asking: Asking
    ) -> float:
        judge = self._object(metric)
        given = {
            name: _listed(row[name])
            for name in (*known.columns, *known.optional)
            if row[name] is not None
        }
        if known.is_aspect:
            sample = self._ragas.__dict__["SingleTurnSample"](**given)
            return float(await judge.single_turn_ascore(sample))
        if not known.asks:  # it embeds through a call that blocks
            await asking.embed([given[name] for name in known.columns])
        result = await judge.ascore(**given)
        return float(result.value)

    def _object(self, metric: Metric) -> Any:
        if metric.name not in self._objects:
            known = CATALOGUE[metric.definition.name]
            module = "ragas.metrics" if known.is_aspect else "ragas.metrics.collections"
            arguments = known.arguments(metric)
            if known.asks:
                arguments["llm"] = self._models.llm
            if known.embeds:
                arguments["embeddings"] = self._models.embeddings
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                kind = getattr(require(module, extra="ragas"), known.name, None)
                if kind is None:
                    raise ConfigError(f"ragas {self._version} has no metric {known.name}")
                self._objects[metric.name] = kind(**arguments)
        return self._objects[metric.name]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _prompts(judge: object) -> Iterator[Any]:
    """All that a metric's object puts into its prompts."""
    known: dict[str, Any] = vars(judge)
    for name, value in sorted(known.items()):
        if hasattr(value, "instruction") and hasattr(value, "output_model"):
            yield [
                name,
                type(value).__qualname__,
                value.instruction,
                [[given.model_dump(), told.model_dump()] for given, told in value.examples],
                value.output_model.model_json_schema(),
            ]
        elif isinstance(value, (str, int, float)):
            yield [name, value]


def _unaskable(metric: Metric, known: RagasClass, row: Mapping[str, Any]) -> Cell | None:
    """What needs no judge: RAGAS refuses empty texts and empty retrievals."""
    for name in known.columns:
        value = row[name]
        if value is None:
            return Cell.skipped(f"RAGAS needs {name}")
        if isinstance(value, str) and not value.strip():
            return Cell.skipped(f"{name} is empty")
    contexts = row["retrieved_contexts"]
    if "retrieved_contexts" in known.columns and not any(text.strip() for text in contexts):
        # A retriever that finds nothing has found nothing of what is wanted.
        return Cell.measured(0.0) if metric.definition.group is Group.RETRIEVER else _NO_CONTEXTS
    return None


def _grades(row: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The grades that a case's own rubrics describe, where their names end in numbers."""
    rubrics: Mapping[str, str] = row["rubrics"] or {}
    digits = ["".join(letter for letter in name if letter.isdigit()) for name in rubrics]
    return {"score": tuple(map(int, digits))} if digits and all(digits) else {}


def _is_right_to_decline(asking: Asking, trace: Trace) -> bool:
    """Whether every answer calls the response noncommittal, where the case has no answer."""
    told = [step.answer["noncommittal"] for step in asking.steps if "noncommittal" in step.answer]
    return bool(told) and all(told) and trace.case.answerable is False and asking.problem is None


def _listed(value: Any) -> Any:
    """RAGAS' models take lists and dictionaries."""
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, str]", value))
    return list(value)


def _failure(problem: BaseException) -> Failure:
    failure = Failure.of(problem, stage="score")
    if isinstance(problem, LLMError):  # its message says all; a traceback a cell says nothing more
        return Failure(type=failure.type, message=failure.message, stage="score")
    return failure
