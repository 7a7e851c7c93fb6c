"""The questions that RAGAS asks in one judging: sent, checked, counted.

RAGAS counts what a judge forgets as if it had never been there, takes 2 for a verdict of 0 or 1,
and gives 1 or 0 for an empty list. Here such answers are repaired by the client, or fail.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chat import Message
from ragbench.core.outcome import JudgeStep
from ragbench.core.record import replace
from ragbench.errors import ConfigError, InterruptedRunError, LLMError
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.judging import step_of

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
        vectors = [list(vector) for vector in found.vectors]
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
        plain = schema_of(model)
        definition = cast("dict[str, Any]", _narrowed(plain.definition, allowed))
        known = _SCHEMAS[key] = replace(plain, definition=definition)
    counts = {
        name: len(given[source])
        for name, source in (("statements", "statements"), ("answers", "questions"))
        if name in model.model_fields and isinstance(given.get(source), list)
    }
    return replace(known, check=partial(_checked, known.check, allowed, counts))


def _narrowed(schema: object, allowed: Mapping[str, Sequence[int]], name: str = "") -> object:
    """The same JSON schema, with the values that numbers may take."""
    if isinstance(schema, list):
        return [_narrowed(item, allowed) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, object]", schema)
    if name in allowed and known.get("type") == "integer":
        return {**known, "enum": list(allowed[name])}
    return {
        key: {
            name: _narrowed(inner, allowed, name)
            for name, inner in cast("dict[str, object]", value).items()
        }
        if key == "properties"
        else _narrowed(value, allowed)
        for key, value in known.items()
    }


def _checked(
    check: Callable[[object], Any],
    allowed: Mapping[str, Sequence[int]],
    counts: Mapping[str, int],
    value: object,
) -> Any:
    found = check(value)
    _check_values(found.model_dump(mode="json"), allowed)
    for name, count in counts.items():
        length = len(getattr(found, name))
        if length != count:
            raise ValueError(f"{name} must hold one entry for each of {count}, not {length}")
    return found


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
