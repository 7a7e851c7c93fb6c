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

_BINARY = {"verdict": (0, 1), "attributed": (0, 1), "noncommittal": (0, 1)}
"""Fields of answers that RAGAS reads as yes or no, and declares as any whole number."""
_MOST_QUESTIONS = 1000
"""More equal questions than one judging asks: the next repetition counts on from here."""
_REASONS_OF_EMPTY_LISTS = {
    "statements": "the judge found no statement to check",
    "claims": "the judge found no claim to check",
    "classifications": "the judge found no statement to check",
    "questions": "the judge found nothing to ask about",
}
"""Why a case has no value, by the field of an answer that is an empty list."""


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
        # The cache knows a reply by its prompt and repetition: each of equal prompts has its own.
        repeat = self.repeat * _MOST_QUESTIONS + self._asked[prompt]
        self._asked[prompt] += 1
        schema = _schema(model, {**_BINARY, **self.allowed}, input_of(prompt))
        try:
            reply = await self.panel.chat.ask(
                [Message(role="user", content=prompt)],
                schema=schema,
                purpose=self.purpose,
                version=self.version,
                repeat=repeat,
            )
            answer = reply.value.model_dump(mode="json")
            self.steps.append(step_of(reply, model.__name__, answer))
            for name, reason in _REASONS_OF_EMPTY_LISTS.items():
                if answer.get(name) == []:
                    raise NothingToJudgeError(reason)
            # RAGAS asks for the entities of the reference first; contexts may hold none of them.
            is_of_reference = len(self.steps) == 1
            if is_of_reference and answer.get("entities") == []:
                raise NothingToJudgeError("the judge found no entity in the reference")
        except (LLMError, NothingToJudgeError, InterruptedRunError) as error:
            self.problem = error
            raise
        return reply.value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of texts, also kept: RAGAS asks for some of them again, without waiting."""
        if self.panel.embeddings is None:
            raise ConfigError(f"{self.purpose} needs a model for embeddings, and none is named")
        try:
            arrays = await self.panel.embeddings.embed(texts, purpose=self.purpose)
        except LLMError as error:
            self.problem = error
            raise
        vectors = [list(array) for array in arrays]
        self.vectors.update(zip(texts, vectors, strict=True))
        return vectors


_SCHEMAS: dict[tuple[type[Any], str], Schema[Any]] = {}
"""Made ones by the answer's class and its allowed values: making one takes milliseconds."""


def _schema(
    model: type[Any], allowed: Mapping[str, Sequence[int]], prompt_input: Mapping[str, Any]
) -> Schema[Any]:
    """The schema of an answer: numbers within their values, an answer for each thing asked about.

    Args:
        allowed: the values of numbers, by the name of their field.
        prompt_input: what the prompt asks about.
    """
    key = (model, json.dumps(allowed, sort_keys=True))
    schema = _SCHEMAS.get(key)
    if schema is None:

        def narrow(name: str, part: dict[str, Any]) -> dict[str, Any]:
            """The schema of a field, with the values that it may take."""
            if name in allowed and part.get("type") == "integer":
                return {**part, "enum": list(allowed[name])}
            return part

        plain = schema_of(model)
        schema = replace(plain, definition=changed(plain.definition, narrow))
        _SCHEMAS[key] = schema
    counts: dict[str, int] = {}
    for name, source in (("statements", "statements"), ("answers", "questions")):
        things = prompt_input.get(source)
        if name in model.model_fields and isinstance(things, list):
            counts[name] = len(cast("list[object]", things))
    parse = schema.check  # else the check below would call itself

    def check(value: object) -> Any:
        answer = parse(value)
        _check_values(answer.model_dump(mode="json"), allowed)
        for name, count in counts.items():
            length = len(getattr(answer, name))
            if length != count:
                raise ValueError(f"{name} must hold one entry for each of {count}, not {length}")
        return answer

    return replace(schema, check=check)


def _check_values(value: object, allowed: Mapping[str, Sequence[int]]) -> None:
    """Refuses a number of an answer, however deep in it, that is none of those allowed."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _check_values(item, allowed)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if isinstance(inner, int) and name in allowed and inner not in allowed[name]:
                choices = ", ".join(map(str, allowed[name]))
                raise ValueError(f"{name} must be one of {choices}, not {inner}")
            _check_values(inner, allowed)


def input_of(prompt: str) -> Mapping[str, Any]:
    """The input that a prompt of RAGAS ends with; empty where it has another form."""
    behind_label = prompt.rpartition("\ninput: ")[2]
    text = behind_label.rpartition("\nOutput:")[0]
    try:
        value = cast("object", json.loads(text))
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return cast("dict[str, Any]", value)


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
        """Asks for the case that this task judges: RAGAS passes on no more than the prompt."""
        return await ASKING.get().ask(prompt, response_model)


class _Embeddings:
    """``BaseRagasEmbedding``. Inside of a loop RAGAS' own blocking call would start another one."""

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """The vector of a text that was embedded before: nothing can be awaited here."""
        return ASKING.get().vectors[text]

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """Embeds for the case that this task judges."""
        [vector] = await ASKING.get().embed([text])
        return vector

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Embeds for the case that this task judges."""
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
        # RAGAS refuses what does not inherit from its classes, which are imported only now.
        llm_bases: Any = (_LLM, llms.InstructorBaseRagasLLM)
        self._llm: Any = type("RagbenchLLM", llm_bases, {})()
        embeddings_bases: Any = (_Embeddings, embeddings.BaseRagasEmbedding)
        self._embeddings: Any = type("RagbenchEmbeddings", embeddings_bases, {})()
        self._objects: dict[str, Any] = {}
        """RAGAS' objects of metrics, by the metrics' names."""

    def identity(self) -> Mapping[str, str]:
        """RAGAS' version and all its prompts: another one of either judges anew."""
        digests: list[str] = []
        for metric in judged_metrics().values():
            if metric.name == "aspect_critic":
                continue  # its prompt is the user's definition, and without one there is none
            digests.append(self.prepare(Metric(definition=metric.definition)))
        return {"ragas": self._version, "prompts": digest_of(digests)}

    def prepare(self, metric: Metric) -> str:
        """A digest of the metric's prompts, which are RAGAS' own, with its version."""
        return digest_of([self._version, *_prompts(self._object(metric))])

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Judges a case once by RAGAS' own code, which asks through `JudgeCalls`."""
        ragas_metric = judged_metrics()[metric.definition.name]
        row = _row(trace, ragas_metric)
        unasked = _unasked_cell(metric, ragas_metric, row)
        if unasked is not None:
            return Judgement(cell=unasked)
        allowed = ragas_metric.allowed
        if not allowed:
            allowed = _grades(row)
        calls = JudgeCalls(
            panel=panel,
            purpose=metric.name,
            version=f"ragas {self._version}, {metric.definition.version}",
            repeat=repeat,
            allowed=allowed,
        )
        token = ASKING.set(calls)
        try:
            cell = await self._cell(metric, ragas_metric, row, calls)
        finally:
            ASKING.reset(token)
        # RAGAS gives 0 to an answer that commits to nothing. Where the case has no answer, that
        # was right.
        is_unanswerable = trace.case.answerable is False
        if is_unanswerable and calls.problem is None and _are_noncommittal(calls.steps):
            cell = _NONCOMMITTAL
        return Judgement(cell=cell, steps=tuple(calls.steps))

    async def _cell(
        self, metric: Metric, ragas_metric: RagasMetric, row: Mapping[str, Any], calls: JudgeCalls
    ) -> Cell:
        """The cell of a case: the value, or what kept RAGAS from giving one.

        Raises:
            LLMStoppedError, ConfigError, InterruptedRunError: no case could be judged.
        """
        try:
            value = await self._value(metric, ragas_metric, row, calls)
            problem = calls.problem
            if problem is None:
                return Cell.measured(value) if math.isfinite(value) else _UNDEFINED
        except Exception as error:  # noqa: BLE001  # RAGAS may raise anything: it costs this cell
            problem = calls.problem or error
        if isinstance(problem, (LLMStoppedError, ConfigError, InterruptedRunError)):
            raise problem
        if isinstance(problem, NothingToJudgeError):
            return Cell.skipped(str(problem))
        failure = Failure.of(problem, stage="score")
        if isinstance(problem, LLMError):  # its message says all; a traceback a cell says no more
            failure = replace(failure, cause=None, traceback=None)
        return Cell.failed(failure)

    async def _value(
        self, metric: Metric, ragas_metric: RagasMetric, row: Mapping[str, Any], calls: JudgeCalls
    ) -> float:
        """What RAGAS gives for a case."""
        judge = self._object(metric)
        arguments: dict[str, Any] = {}
        for name in (*ragas_metric.takes, *ragas_metric.optional):
            value = row[name]
            if value is not None:
                arguments[name] = _listed(value)
        if ragas_metric.is_aspect:
            sample = self._ragas.__dict__["SingleTurnSample"](**arguments)
            return float(await judge.single_turn_ascore(sample))
        if not ragas_metric.asks:
            # RAGAS embeds through a call that blocks, which finds these vectors already there.
            await calls.embed([arguments[name] for name in ragas_metric.takes])
        result = await judge.ascore(**arguments)
        return float(result.value)

    def _object(self, metric: Metric) -> Any:
        """RAGAS' own object of a metric, made once and asked for all cases."""
        ragas_object = self._objects.get(metric.name)
        if ragas_object is not None:
            return ragas_object
        ragas_metric = judged_metrics()[metric.definition.name]
        arguments = ragas_metric.arguments(metric)
        if ragas_metric.asks:
            arguments["llm"] = self._llm
        if ragas_metric.embeds:
            arguments["embeddings"] = self._embeddings
        # RAGAS warns of its older interface, which a user of ragbench cannot change.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            metric_class = getattr(_metrics_module(ragas_metric), ragas_metric.cls, None)
            if metric_class is None:
                raise ConfigError(f"ragas {self._version} has no metric {ragas_metric.cls}")
            ragas_object = metric_class(**arguments)
        self._objects[metric.name] = ragas_object
        return ragas_object


def _are_noncommittal(steps: Sequence[JudgeStep]) -> bool:
    """Whether the judge was asked if an answer commits to anything, and always said no."""
    verdicts: list[Any] = []
    for step in steps:
        if "noncommittal" in step.answer:
            verdicts.append(step.answer["noncommittal"])
    return bool(verdicts) and all(verdicts)


def _metrics_module(ragas_metric: RagasMetric) -> Any:
    """The module of RAGAS that holds a metric's class: critics are of the older interface."""
    if ragas_metric.is_aspect:
        return require("ragas.metrics", extra="ragas")
    return require("ragas.metrics.collections", extra="ragas")


def _prompts(judge: object) -> Iterator[Any]:
    """All that makes the prompts of an object of RAGAS, for a digest.

    Those are its prompts, attributes with an instruction, and its settings, plain values.
    """
    attributes: dict[str, Any] = vars(judge)
    for name, value in sorted(attributes.items()):
        if hasattr(value, "instruction") and hasattr(value, "output_model"):
            examples: list[Any] = []
            for question, answer in value.examples:
                examples.append([question.model_dump(), answer.model_dump()])
            yield [
                name,
                type(value).__qualname__,
                value.instruction,
                examples,
                value.output_model.model_json_schema(),
            ]
        elif isinstance(value, (str, int, float)):
            yield [name, value]


def _row(trace: Trace, ragas_metric: RagasMetric) -> Mapping[str, Any]:
    """A case as RAGAS is given it: the question with what was said before."""
    row = sample_row(trace).as_mapping()
    case = trace.case
    if case.history:
        row["user_input"] = case.conversation
        contexts = row["retrieved_contexts"]
        if ragas_metric.name in _GROUNDED and contexts is not None:
            row["retrieved_contexts"] = [*contexts, *case.told]
    return row


_GROUNDED = frozenset({"faithfulness", "response_groundedness"})
"""Metrics by which an answer rests on what the user said, too."""


def _unasked_cell(metric: Metric, ragas_metric: RagasMetric, row: Mapping[str, Any]) -> Cell | None:
    """The cell of a case that needs no judge: RAGAS refuses empty texts and empty retrievals.

    None where the judge is to be asked.
    """
    for name in ragas_metric.takes:
        value = row[name]
        if value is None:
            return Cell.skipped(f"RAGAS needs {name}")
        if isinstance(value, str) and not value.strip():
            return Cell.skipped(f"{name} is empty")
    if "retrieved_contexts" not in ragas_metric.takes:
        return None
    if any(text.strip() for text in row["retrieved_contexts"]):
        return None
    # A retriever that finds nothing has found nothing of what is relevant.
    if metric.definition.group is Group.RETRIEVER:
        return Cell.measured(0.0)
    return _NO_CONTEXTS


def _grades(row: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The grades that a case's own rubrics describe, where their names end in numbers."""
    rubrics: Mapping[str, str] = row["rubrics"] or {}
    grades: list[int] = []
    for name in rubrics:  # such as score2_description
        digits = "".join(filter(str.isdigit, name))
        if not digits:
            return {}
        grades.append(int(digits))
    if not grades:
        return {}
    return {"score": tuple(grades)}


def _listed(value: Any) -> Any:
    """A value of a case in the types that RAGAS' samples want: lists and plain dictionaries."""
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, str]", value))
    return list(value)
