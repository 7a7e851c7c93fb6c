"""How RAGAS' judged metrics are asked: each question sent, its answer checked and counted.

RAGAS counts what a judge forgets as if it had never been there, takes 2 for a verdict of 0 or 1,
and gives 1 or 0 for an empty list. Here such answers are repaired by the client, or fail.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
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
        """The judge's answer to a prompt of RAGAS, in the form of a pydantic model.

        The same prompt again is another repetition. An answer that is an empty list, and any
        failure, end the judging of this case: RAGAS would go on and give a score.

        Args:
            model: the pydantic class of the answer.
        """
        if self.problem is not None:
            raise self.problem
        if self.panel.chat is None:
            raise ConfigError(f"{self.purpose} needs a language model, and none is named")
        # The cache knows a reply by its prompt and repetition: each of equal prompts has its own.
        repeat = self.repeat * _MOST_QUESTIONS + self._asked[prompt]
        self._asked[prompt] += 1
        schema = _answer_schema(model, {**_BINARY, **self.allowed}, input_of(prompt))
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
        """The vectors of texts, which are also kept.

        RAGAS asks for some of these texts again in code that cannot wait, and then gets the kept
        vectors. An error is kept, too: RAGAS swallows it.
        """
        if self.panel.embeddings is None:
            raise ConfigError(f"{self.purpose} needs a model for embeddings, and none is named")
        try:
            arrays = await self.panel.embeddings.embed(texts, purpose=self.purpose)
        except LLMError as error:
            # Read after the judging: RAGAS turns the error into a score that means nothing.
            self.problem = error
            raise
        vectors = [list(array) for array in arrays]
        self.vectors.update(zip(texts, vectors, strict=True))
        return vectors


_SCHEMAS: dict[tuple[type[Any], str], Schema[Any]] = {}
"""Made ones by the answer's class and its allowed values: making one takes milliseconds."""


def _answer_schema(
    model: type[Any], allowed: Mapping[str, Sequence[int]], prompt_input: Mapping[str, Any]
) -> Schema[Any]:
    """The form of a judge's answer to a prompt: its numbers in range, an entry a question.

    RAGAS would take a 2 for a verdict of 0 or 1, and count an entry that the judge forgot as if it
    had not been asked for. An answer of another form is sent back to the judge for repair.

    Args:
        model: the pydantic class of the answer.
        allowed: the values of numbers, by the name of their field.
        prompt_input: the statements and questions that the prompt asks about.
    """
    # A model's schema is the same for each case: made once, as pydantic takes long for it.
    key = (model, json.dumps(allowed, sort_keys=True))
    schema = _SCHEMAS.get(key)
    if schema is None:
        plain = schema_of(model)
        definition = changed(plain.definition, partial(_with_allowed_values, allowed))
        schema = replace(plain, definition=definition)
        _SCHEMAS[key] = schema
    counts: dict[str, int] = {}
    # Fields of RAGAS' prompts: as many verdicts as statements, as many answers as questions.
    for name, source in (("statements", "statements"), ("answers", "questions")):
        things = prompt_input.get(source)
        if name in model.model_fields and isinstance(things, list):
            counts[name] = len(cast("list[object]", things))
    # The copy is for this prompt alone, since the counts differ from case to case.
    return replace(schema, check=partial(_checked_answer, schema.check, allowed, counts))


def _with_allowed_values(
    allowed: Mapping[str, Sequence[int]], name: str, part: dict[str, Any]
) -> dict[str, Any]:
    """The JSON schema of an answer's field, with the numbers that the field may take.

    RAGAS declares any whole number, and some models give a 2 where 0 or 1 is meant.

    Args:
        allowed: the values of numbers, by the name of their field.
        name: of the field.
        part: its schema so far.
    """
    if name in allowed and part.get("type") == "integer":
        return {**part, "enum": list(allowed[name])}
    return part


def _checked_answer(
    parse: Callable[[object], Any],
    allowed: Mapping[str, Sequence[int]],
    counts: Mapping[str, int],
    value: object,
) -> Any:
    """A judge's answer as a pydantic object, once its numbers and entries are those asked for.

    RAGAS takes an answer with missing entries or other numbers as it is, and gives a wrong score.

    Args:
        parse: reads the answer in the form that RAGAS declares.
        allowed: the values of numbers, by the name of their field.
        counts: the number of entries that each list must have, by the name of its field.
        value: the answer as JSON.

    Raises:
        ValueError: a number or the length of a list is wrong; the judge is asked again.
    """
    answer = parse(value)
    # From the object: `parse` may have filled in defaults.
    _check_values(answer.model_dump(mode="json"), allowed)
    for name, count in counts.items():
        length = len(getattr(answer, name))
        if length != count:
            raise ValueError(f"{name} must hold one entry for each of {count}, not {length}")
    return answer


def _check_values(value: object, allowed: Mapping[str, Sequence[int]]) -> None:
    """Refuses an answer with a number, however deep in it, that its field does not allow.

    The schema says so to the judge, and not every endpoint obeys a schema.

    Args:
        value: the answer, or a part of it, as JSON.
        allowed: the values of numbers, by the name of their field.
    """
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _check_values(item, allowed)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            # True is an int too, and equals 1: it is allowed where 1 is.
            if isinstance(inner, int) and name in allowed and inner not in allowed[name]:
                choices = ", ".join(map(str, allowed[name]))
                raise ValueError(f"{name} must be one of {choices}, not {inner}")
            _check_values(inner, allowed)


def input_of(prompt: str) -> Mapping[str, Any]:
    """The input of a prompt of RAGAS, the JSON that it ends with; empty where it has another form.

    RAGAS hands on its prompts as text alone, and the number of statements in it tells how many
    verdicts the judge owes.
    """
    # From the right: the examples above hold both labels as well.
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
        """Refuses a call that blocks.

        RAGAS makes such a call only where no event loop runs, and wants the method in each model.
        """
        raise RuntimeError("this judge answers coroutines only")

    async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
        """The judge's answer to a prompt, for the case that this task judges.

        RAGAS passes on no more than the prompt: the case is looked up by the task (`ASKING`). The
        name and the parameters are those that RAGAS calls.
        """
        return await ASKING.get().ask(prompt, response_model)


class _Embeddings:
    """``BaseRagasEmbedding``. Inside of a loop RAGAS' own blocking call would start another one."""

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """The vector of a text that was embedded before.

        Nothing can be awaited in this call of RAGAS. A text that was not embedded is a `KeyError`:
        the installed RAGAS then embeds other texts than `RagasJudge` has embedded for it.
        """
        return ASKING.get().vectors[text]

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """The vector of a text, for the case that this task judges (`ASKING`).

        RAGAS calls it by this name. RAGAS' objects are shared by all cases, so that the case is
        found by the running task.
        """
        [vector] = await ASKING.get().embed([text])
        return vector

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """The vectors of texts, for the case that this task judges (`ASKING`).

        RAGAS calls it by this name. RAGAS' objects are shared by all cases, so that the case is
        found by the running task.
        """
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
        """Loads ragas, which takes seconds, and makes the objects through which RAGAS' metrics ask.

        RAGAS' metrics refuse a model that does not inherit from RAGAS' own classes, so that the
        classes of the two models are made here.
        """
        self._ragas = import_ragas()
        require("pydantic", extra="llm")
        # A part of every digest: another version may ask otherwise.
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
        """RAGAS' version and a digest of its prompts: only the same one compares.

        Stored with a run, so that a comparison of two runs can refuse judgements of different
        prompts.
        """
        digests: list[str] = []
        for metric in judged_metrics().values():
            if metric.name == "aspect_critic":
                continue  # its prompt is the user's definition, and without one there is none
            digests.append(self.prepare(Metric(definition=metric.definition)))
        return {"ragas": self._version, "prompts": digest_of(digests)}

    def prepare(self, metric: Metric) -> str:
        """The digest of a metric's prompts, which are RAGAS' own, with its version.

        Judgements are kept under this digest, so that another version of RAGAS judges anew.
        """
        return digest_of([self._version, *_prompt_parts(self._object(metric))])

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Judges a case once by RAGAS' own code, which asks through `JudgeCalls`.

        RAGAS' own code makes the prompts and the score; here its questions are sent, counted and
        kept.

        Args:
            panel: the models that may be asked.
            repeat: which of several judgings this is, from 0.
        """
        ragas_metric = judged_metrics()[metric.definition.name]
        row = _sample_fields(trace, ragas_metric)
        unasked = _unasked_cell(metric, ragas_metric, row)
        if unasked is not None:
            return Judgement(cell=unasked)
        allowed = ragas_metric.allowed
        if not allowed:
            allowed = _rubric_grades(row)
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
        """The cell of a case: RAGAS' value, or what kept RAGAS from giving one.

        RAGAS may raise anything, or give NaN: that costs this cell and not the run.

        Args:
            row: the case in the fields of RAGAS' sample.
            calls: through which RAGAS asks, with the problem that it may have swallowed.

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
        # Its message says all: a traceback in each cell would say no more.
        if isinstance(problem, LLMError):
            failure = replace(failure, cause=None, traceback=None)
        return Cell.failed(failure)

    async def _value(
        self, metric: Metric, ragas_metric: RagasMetric, row: Mapping[str, Any], calls: JudgeCalls
    ) -> float:
        """The value that RAGAS' metric gives for a case; RAGAS' older classes take it as a sample.

        A field that the case does not have is left out of the call.

        Args:
            row: the case in the fields of RAGAS' sample.
        """
        judge = self._object(metric)
        arguments: dict[str, Any] = {}
        for name in (*ragas_metric.takes, *ragas_metric.optional):
            value = row[name]
            if value is not None:
                arguments[name] = _in_plain_types(value)
        if ragas_metric.is_aspect:
            sample = self._ragas.__dict__["SingleTurnSample"](**arguments)
            return float(await judge.single_turn_ascore(sample))
        if not ragas_metric.asks:
            # RAGAS embeds through a call that blocks, which finds these vectors already there.
            await calls.embed([arguments[name] for name in ragas_metric.takes])
        result = await judge.ascore(**arguments)
        return float(result.value)

    def _object(self, metric: Metric) -> Any:
        """RAGAS' object of a metric, made once for all cases: it holds the prompts.

        The object is given the models through which RAGAS asks. RAGAS' warnings of its older
        interface, which no user can change, are turned off.

        Raises:
            ConfigError: the installed RAGAS has no such metric.
        """
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
    """Whether the judge was asked if an answer commits to anything, and always denied it.

    RAGAS gives 0 to such an answer; where a case has no answer, that would be unjust.
    """
    verdicts: list[Any] = []
    for step in steps:
        if "noncommittal" in step.answer:
            verdicts.append(step.answer["noncommittal"])
    # Without a verdict the model was never asked this: `all` of none would be True.
    return bool(verdicts) and all(verdicts)


def _metrics_module(ragas_metric: RagasMetric) -> Any:
    """The module of RAGAS that holds a metric's class.

    Critics are in that of the older interface. Both modules have classes of the same names.
    """
    if ragas_metric.is_aspect:
        return require("ragas.metrics", extra="ragas")
    return require("ragas.metrics.collections", extra="ragas")


def _prompt_parts(judge: object) -> Iterator[Any]:
    """All that makes the prompts of an object of RAGAS: prompts and settings, in a fixed order.

    A digest of them shows when a new version of RAGAS asks otherwise. Prompts are the attributes
    with an instruction, settings those with plain values.
    """
    attributes: dict[str, Any] = vars(judge)
    # By name: the order of attributes is that of RAGAS' constructors, which may change.
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
        # Everything else (models, callbacks) asks nothing by itself, and has no text to compare.
        elif isinstance(value, (str, int, float)):
            yield [name, value]


def _sample_fields(trace: Trace, ragas_metric: RagasMetric) -> Mapping[str, Any]:
    """A case in the fields of RAGAS' sample, whose question has the conversation before it.

    RAGAS knows single questions only. For metrics of grounding, earlier words of the user count as
    contexts, too.
    """
    # A new mapping for each case: the changes below reach no other metric.
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
    """The cell of a case that needs no judge, since a text is missing or empty; else None.

    RAGAS refuses empty texts and empty retrievals, and no call needs to be paid for them.

    Args:
        row: the case in the fields of RAGAS' sample.
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


def _rubric_grades(row: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The grades that a case's own rubrics describe, as values of the field ``score``.

    An answer with a grade that no rubric describes is refused. Empty where the names of rubrics
    have no numbers, or the case has no rubrics.

    Args:
        row: the case in the fields of RAGAS' sample.
    """
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


def _in_plain_types(value: Any) -> Any:
    """A value of a case in the types that RAGAS' samples accept: lists and plain dictionaries.

    Cases hold them as other sequences and mappings.
    """
    # Texts are sequences, too: they go first.
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, str]", value))
    return list(value)
