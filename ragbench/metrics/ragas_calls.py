"""The questions that RAGAS asks in one judging: sent, checked, counted.

RAGAS counts what a judge forgets as if it had never been there, takes 2 for a verdict of 0 or 1,
and gives 1 or 0 for an empty list. Here such answers are repaired by the client, or fail.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ragbench.core.chat import Message
from ragbench.core.outcome import JudgeStep
from ragbench.errors import ConfigError, InterruptedRunError, LLMError
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.judging import JudgeModels, step_of

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


class JudgeCalls:
    """Asks for one judging of one case by one metric."""

    def __init__(
        self,
        panel: JudgeModels,
        *,
        purpose: str,
        version: str,
        repeat: int,
        allowed: Mapping[str, Sequence[int]],
    ) -> None:
        self._panel = panel
        self._purpose = purpose
        self._version = version
        self._first = repeat * _MOST_QUESTIONS
        self._allowed = {**_BINARY, **allowed}
        self._asked: Counter[str] = Counter()
        self._vectors: dict[str, list[float]] = {}
        self.steps: list[JudgeStep] = []
        self.problem: Exception | None = None
        """Why it cannot go on. RAGAS swallows exceptions of some metrics, asks again five times
        and gives half of the judgement for the whole."""

    async def ask(self, prompt: str, model: type[Any]) -> Any:
        """Asks for a pydantic model; the same prompt again is another repetition."""
        if self.problem is not None:
            raise self.problem
        if self._panel.chat is None:
            raise ConfigError(f"{self._purpose} needs a language model, and none is named")
        repeat = self._first + self._asked[prompt]
        self._asked[prompt] += 1
        try:
            reply = await self._panel.chat.ask(
                [Message(role="user", content=prompt)],
                schema=_schema(model, self._allowed, input_of(prompt)),
                purpose=self._purpose,
                version=self._version,
                repeat=repeat,
            )
            answer = reply.value.model_dump(mode="json")
            self.steps.append(step_of(reply, model.__name__, answer))
            self._check_any(answer)
        except (LLMError, NothingToJudgeError, InterruptedRunError) as error:
            self.problem = error
            raise
        return reply.value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self._panel.embeddings is None:
            raise ConfigError(f"{self._purpose} needs a model for embeddings, and none is named")
        try:
            found = await self._panel.embeddings.embed(texts, purpose=self._purpose)
        except LLMError as error:
            self.problem = error
            raise
        vectors = [list(vector) for vector in found.vectors]
        self._vectors.update(zip(texts, vectors, strict=True))
        return vectors

    def embedded(self, text: str) -> list[float]:
        """The vector of a text that `embed` was asked for before."""
        return self._vectors[text]

    def _check_any(self, answer: Mapping[str, Any]) -> None:
        for field, reason in _NOTHING.items():
            if answer.get(field) == []:
                raise NothingToJudgeError(reason)
        if answer.get("entities") == [] and len(self.steps) == 1:  # of the reference, the divisor
            raise NothingToJudgeError("the judge found no entity in the reference")


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
        field: len(given[source])
        for field, source in (("statements", "statements"), ("answers", "questions"))
        if field in model.model_fields and isinstance(given.get(source), list)
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
            field: _narrowed(inner, allowed, field)
            for field, inner in cast("dict[str, object]", value).items()
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
    for field, count in counts.items():
        length = len(getattr(found, field))
        if length != count:
            raise ValueError(f"{field} must hold one entry for each of {count}, not {length}")
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
