"""Answers that a dry run assumes: later prompts hold earlier answers, and are to be counted.

Assumed at least and at most: one or two statements a sentence; ten or forty words a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ragbench.text.sentences import split_sentences

__all__ = ["ASSUMPTIONS", "FEW", "MANY", "Assumption", "assumed_answer", "is_assumed"]

_MARK = "\u2060"
"""Stands in assumed texts, so that a prompt that holds one is told apart."""
_SOURCES = ("answer", "response", "text", "context")
_QUESTION = "what is it that the text says about this, and where does it say so"


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """How much a model says."""

    statements: int
    """A sentence."""
    words: int
    """A reason."""


FEW = Assumption(statements=1, words=10)
MANY = Assumption(statements=2, words=40)
ASSUMPTIONS = (
    f"From {FEW.statements} statement a sentence and reasons of {FEW.words} words to "
    f"{MANY.statements} statements a sentence and reasons of {MANY.words} words."
)
"""In words, for the reader of an estimate."""


def is_assumed(prompt: str) -> bool:
    """Whether a prompt holds an assumed answer."""
    return _MARK in prompt


def assumed_answer(
    schema: Mapping[str, Any], given: Mapping[str, Any], assumption: Assumption
) -> Any:
    """A value that follows a JSON schema, about as long as a model's.

    Args:
        schema: what is asked for.
        given: the input of the prompt.
        assumption: how much is said.
    """
    return _Writer(schema, given, assumption).value(schema, "")


class _Writer:
    def __init__(
        self, schema: Mapping[str, Any], given: Mapping[str, Any], assumption: Assumption
    ) -> None:
        self._root = schema
        self._assumption = assumption
        self._statements = _statements(given, assumption)
        questions = given.get("questions")
        self._answers = len(cast("list[Any]", questions)) if isinstance(questions, list) else 0

    def value(self, schema: Mapping[str, Any], name: str, text: str = "") -> Any:
        if "$ref" in schema:
            part = str(schema["$ref"]).rpartition("/")[2]
            return self.value(self._root["$defs"][part], name, text)
        if "enum" in schema:
            return schema["enum"][-1]
        if "anyOf" in schema:
            return self.value(schema["anyOf"][0], name, text)
        kind = schema.get("type")
        if kind == "object":
            properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
            return {key: self.value(inner, key, text) for key, inner in properties.items()}
        if kind == "array":
            texts: Sequence[str] = self._statements
            if name == "answers":
                texts = ["1"] * self._answers
            return [self.value(schema["items"], name, one) for one in texts]
        if kind == "string":
            return self._text(name, text)
        simple: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True}
        return simple.get(str(kind))

    def _text(self, name: str, text: str) -> str:
        if name == "question":
            return f"{_QUESTION}{_MARK}"
        if text and name not in ("reason", "feedback"):
            return text
        return f"{' '.join(['because'] * self._assumption.words)}{_MARK}"


def _statements(given: Mapping[str, Any], assumption: Assumption) -> list[str]:
    """Those of the input, or else its sentences."""
    listed = given.get("statements")
    if isinstance(listed, list):
        return [str(text) for text in cast("list[Any]", listed)]
    texts = [value for value in given.values() if isinstance(value, str)]
    named = [given[key] for key in _SOURCES if isinstance(given.get(key), str)]
    source = str(named[0]) if named else max(texts, key=len, default="")
    sentences = [source[span.start : span.end] for span in split_sentences(source)] or [source]
    return [f"{text}{_MARK}" for text in sentences for _ in range(assumption.statements)]
