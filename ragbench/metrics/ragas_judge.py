"""How RAGAS' judged metrics are asked: each question sent, its answer checked and counted.

RAGAS counts what a judge forgets as if it had never been there, takes 2 for a verdict of 0 or 1,
and gives 1 or 0 for an empty list. Here such answers are repaired by the client, or fail.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chat import Message
from ragbench.core.metric import Group, Metric
from ragbench.core.outcome import Cell, Failure, Judgement, JudgeStep
from ragbench.core.record import replace
from ragbench.core.trace import Trace, sample_row
from ragbench.errors import ConfigError, InterruptedRunError, LLMError, LLMStoppedError
from ragbench.llm.schema import Schema, changed, schema_of
from ragbench.metrics.judging import digest_of, step_of
from ragbench.metrics.ragas import RagasMetric, judged_metrics
from ragbench.plugins import import_ragas, require

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients

_BINARY = {name: (0, 1) for name in ("verdict", "attributed", "noncommittal")}
_MOST_QUESTIONS = 1000
"""More equal questions than one judging asks: the next repetition counts on from here."""
_NOTHING = {
    "statements": "the judge found no statement to check",
    "claims": "the judge found no claim to check",
    "classifications": "the judge found no statement to check",
    "questions": "the judge found nothing to ask about",
}


class NothingToJudgeError(Exception):
    """A judge found nothing in a text that the metric could be computed of."""


@dataclass(kw_only=True, slots=True)
class JudgeCalls:
    """Asks for one judging of one case by one metric."""

    panel: ModelClients
    purpose: str
    version: str
    repeat: int
    allowed: Mapping[str, Sequence[int]]
    """Values that numbers of answers may take, beside 0 and 1 of verdicts."""
    steps: list[JudgeStep] = field(default_factory=list[JudgeStep])
    problem: Exception | None = None
    """Why it cannot go on. RAGAS swallows exceptions of some metrics, asks again five times and
    gives half of the judgement for the whole."""
    vectors: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Of the texts that `embed` was asked for."""
    _asked: Counter[str] = field(default_factory=Counter[str])

    async def ask(self, prompt: str, model: type[Any]) -> Any:
        """Asks for a pydantic model; the same prompt again is another repetition."""
        if self.problem is not None:
            raise self.problem
        if self.panel.chat is None:
            raise ConfigError(f"{self.purpose} needs a language model, and none is named")
        repeat = self.repeat * _MOST_QUESTIONS + self._asked[prompt]
        self._asked[prompt] += 1
        try:
            reply = await self.panel.chat.ask(
                [Message(role="user", content=prompt)],
                schema=_schema(model, {**_BINARY, **self.allowed}, input_of(prompt)),
                purpose=self.purpose,
                version=self.version,
                repeat=repeat,
            )
            answer = reply.value.model_dump(mode="json")
            self.steps.append(step_of(reply, model.__name__, answer))
            for name, reason in _NOTHING.items():
                if answer.get(name) == []:
                    raise NothingToJudgeError(reason)
            if answer.get("entities") == [] and len(self.steps) == 1:  # of the reference
                raise NothingToJudgeError("the judge found no entity in the reference")
        except (LLMError, NothingToJudgeError, InterruptedRunError) as error:
            self.problem = error
            raise
        return reply.value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.panel.embeddings is None:
            raise ConfigError(f"{self.purpose} needs a model for embeddings, and none is named")
        try:
            found = await self.panel.embeddings.embed(texts, purpose=self.purpose)
        except LLMError as error:
            self.problem = error
            raise
        vectors = [list(vector) for vector in found]
        self.vectors.update(zip(texts, vectors, strict=True))
        return vectors


_SCHEMAS: dict[tuple[type[Any], str], Schema[Any]] = {}


def _schema(
    model: type[Any], allowed: Mapping[str, Sequence[int]], given: Mapping[str, Any]
) -> Schema[Any]:
    """The schema of an answer: numbers within their values, an answer for each thing given."""
    key = (model, json.dumps(allowed, sort_keys=True))
    known = _SCHEMAS.get(key)
    if known is None:

        def narrowed(name: str, part: dict[str, Any]) -> dict[str, Any]:
            is_narrow = name in allowed and part.get("type") == "integer"
            return {**part, "enum": list(allowed[name])} if is_narrow else part

        plain = schema_of(model)
        definition = changed(plain.definition, narrowed)
        known = _SCHEMAS[key] = replace(plain, definition=definition)
    counts = {
        name: len(given[source])
        for name, source in (("statements", "statements"), ("answers", "questions"))
        if name in model.model_fields and isinstance(given.get(source), list)
    }
    check = known.check

    def checked(value: object) -> Any:
        found = check(value)
        _check_values(found.model_dump(mode="json"), allowed)
        for name, count in counts.items():
            length = len(getattr(found, name))
            if length != count:
                raise ValueError(f"{name} must hold one entry for each of {count}, not {length}")
        return found

    return replace(known, check=checked)


def _check_values(value: object, allowed: Mapping[str, Sequence[int]]) -> None:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _check_values(item, allowed)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if isinstance(inner, int) and name in allowed and inner not in allowed[name]:
                known = ", ".join(map(str, allowed[name]))
                raise ValueError(f"{name} must be one of {known}, not {inner}")
            _check_values(inner, allowed)


def input_of(prompt: str) -> Mapping[str, Any]:
    """The input that a prompt of RAGAS ends with; empty where it has another form."""
    given = prompt.rpartition("\ninput: ")[2].rpartition("\nOutput:")[0]
    try:
        value = cast("object", json.loads(given))
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


# --- RAGAS' own classes, asked through that

ASKING: ContextVar[JudgeCalls] = ContextVar("ragbench-asking")
"""The judging that a task works on. RAGAS' objects hold their model: with this, one object serves
all cases at once."""


class _LLM:
    """``InstructorBaseRagasLLM``: prompt and pydantic model in, instance out."""

    is_async = True

    def generate(self, prompt: str, response_model: type[Any]) -> Any:
        """RAGAS asks through it only where there is no event loop."""
        raise RuntimeError("this judge answers coroutines only")

    async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
        return await ASKING.get().ask(prompt, response_model)


class _Embeddings:
    """``BaseRagasEmbedding``. Inside of a loop RAGAS' own blocking call would start another one."""

    def embed_text(self, text: str, **_: Any) -> list[float]:
        return ASKING.get().vectors[text]

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        return (await ASKING.get().embed([text]))[0]

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        return await ASKING.get().embed(texts)


_NONCOMMITTAL = Cell.abstained("the judge calls the answer noncommittal, and there is none to give")
_NO_CONTEXTS = Cell.skipped("retrieval gave no contexts to judge the answer by")
_UNDEFINED = Cell.skipped("RAGAS gave NaN: the metric is not defined for this case")


class RagasJudge:
    """Computes every judged metric of `ragbench.metrics.ragas`.

    RAGAS' ``evaluate()`` sends the same prompts, loses their answers and turns what fails into
    NaN.
    """

    def __init__(self) -> None:
        """Loads ragas, which takes seconds."""
        self._ragas = import_ragas()
        require("pydantic", extra="llm")
        self._version = version("ragas")
        llms = require("ragas.llms.base", extra="ragas")
        embeddings = require("ragas.embeddings.base", extra="ragas")
        self._llm: Any = type("RagbenchLLM", (_LLM, llms.InstructorBaseRagasLLM), {})()
        kinds: Any = (_Embeddings, embeddings.BaseRagasEmbedding)
        self._embeddings: Any = type("RagbenchEmbeddings", kinds, {})()
        self._objects: dict[str, Any] = {}

    def identity(self) -> Mapping[str, str]:
        every = [
            Metric(definition=one.definition)
            for one in judged_metrics().values()
            if one.name != "aspect_critic"  # without a definition there is none
        ]
        return {"ragas": self._version, "prompts": digest_of([self.prepare(m) for m in every])}

    def prepare(self, metric: Metric) -> str:
        return digest_of([self._version, *_prompts(self._object(metric))])

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        known = judged_metrics()[metric.definition.name]
        row = _row(trace, known)
        found = _unaskable(metric, known, row)
        if found is not None:
            return Judgement(cell=found)
        asking = JudgeCalls(
            panel=panel,
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
        said = [one.answer["noncommittal"] for one in asking.steps if "noncommittal" in one.answer]
        if said and all(said) and trace.case.answerable is False and asking.problem is None:
            cell = _NONCOMMITTAL
        return Judgement(cell=cell, steps=tuple(asking.steps))

    async def _cell(
        self, metric: Metric, known: RagasMetric, row: Mapping[str, Any], asking: JudgeCalls
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
        failure = Failure.of(problem, stage="score")
        if isinstance(problem, LLMError):  # its message says all; a traceback a cell says no more
            failure = replace(failure, cause=None, traceback=None)
        return Cell.failed(failure)

    async def _value(
        self, metric: Metric, known: RagasMetric, row: Mapping[str, Any], asking: JudgeCalls
    ) -> float:
        judge = self._object(metric)
        given = {
            name: _listed(row[name])
            for name in (*known.takes, *known.optional)
            if row[name] is not None
        }
        if known.is_aspect:
            sample = self._ragas.__dict__["SingleTurnSample"](**given)
            return float(await judge.single_turn_ascore(sample))
        if not known.asks:  # it embeds through a call that blocks
            await asking.embed([given[name] for name in known.takes])
        result = await judge.ascore(**given)
        return float(result.value)

    def _object(self, metric: Metric) -> Any:
        if metric.name not in self._objects:
            known = judged_metrics()[metric.definition.name]
            arguments = known.arguments(metric)
            if known.asks:
                arguments["llm"] = self._llm
            if known.embeds:
                arguments["embeddings"] = self._embeddings
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                kind = getattr(_metrics_module(known), known.cls, None)
                if kind is None:
                    raise ConfigError(f"ragas {self._version} has no metric {known.cls}")
                self._objects[metric.name] = kind(**arguments)
        return self._objects[metric.name]


def _metrics_module(known: RagasMetric) -> Any:
    if known.is_aspect:
        return require("ragas.metrics", extra="ragas")
    return require("ragas.metrics.collections", extra="ragas")


def _prompts(judge: object) -> Iterator[Any]:
    known: dict[str, Any] = vars(judge)
    for name, value in sorted(known.items()):
        if hasattr(value, "instruction") and hasattr(value, "output_model"):
            yield [
                name,
                type(value).__qualname__,
                value.instruction,
                [[given.model_dump(), answer.model_dump()] for given, answer in value.examples],
                value.output_model.model_json_schema(),
            ]
        elif isinstance(value, (str, int, float)):
            yield [name, value]


def _row(trace: Trace, known: RagasMetric) -> Mapping[str, Any]:
    """A case as RAGAS is given it: the question with what was said before."""
    row, case = sample_row(trace).as_mapping(), trace.case
    if case.history:
        row["user_input"] = case.conversation
        if known.name in _GROUNDED and row["retrieved_contexts"] is not None:
            row["retrieved_contexts"] = [*row["retrieved_contexts"], *case.told]
    return row


_GROUNDED = frozenset({"faithfulness", "response_groundedness"})
"""Metrics by which an answer rests on what the user said, too."""


def _unaskable(metric: Metric, known: RagasMetric, row: Mapping[str, Any]) -> Cell | None:
    """What needs no judge: RAGAS refuses empty texts and empty retrievals."""
    for name in known.takes:
        value = row[name]
        if value is None:
            return Cell.skipped(f"RAGAS needs {name}")
        if isinstance(value, str) and not value.strip():
            return Cell.skipped(f"{name} is empty")
    contexts = row["retrieved_contexts"]
    if "retrieved_contexts" in known.takes and not any(text.strip() for text in contexts):
        # A retriever that finds nothing has found nothing of what is wanted.
        return Cell.measured(0.0) if metric.definition.group is Group.RETRIEVER else _NO_CONTEXTS
    return None


def _grades(row: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The grades that a case's own rubrics describe, where their names end in numbers."""
    rubrics: Mapping[str, str] = row["rubrics"] or {}
    digits = ["".join(letter for letter in name if letter.isdigit()) for name in rubrics]
    return {"score": tuple(map(int, digits))} if digits and all(digits) else {}


def _listed(value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, str]", value))
    return list(value)
