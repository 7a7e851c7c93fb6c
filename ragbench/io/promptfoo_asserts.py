"""promptfoo's assertions as right answers, and as expectations of a case.

An assertion whose value is a right answer as a whole is a reference. One on the text of the answer
is an expectation: ``must_contain``, ``must_not_contain``, ``must_match``. All others need a program
or a judge. The kinds of each are in ``fields.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragbench.io.fields import named
from ragbench.io.values import is_list

Values = Mapping[str, object]

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_FILE = "file://"
_READ = (
    "whole_answer",
    "contains_all",
    "contains_any",
    "contains_none",
    "matches",
    "matches_not",
    "begins",
)


def is_read(kind: str) -> bool:
    """Whether assertions of a kind become a reference or an expectation."""
    return any(kind in named("promptfoo")[name] for name in _READ)


def kinds_of_assertions(assertions: Iterable[Values]) -> Iterator[str]:
    for assertion in assertions:
        kind = assertion.get("type")
        yield kind if isinstance(kind, str) else "without a type"


def references(assertions: Iterable[Values], variables: Values) -> list[str]:
    """The right answers among the values of assertions, each once."""
    found: list[str] = []
    for assertion in assertions:
        if assertion.get("type") not in named("promptfoo")["whole_answer"]:
            continue
        answer = _text(assertion.get("value"), variables)
        if answer is not None and answer not in found:
            found.append(answer)
    return found


def expectations(assertions: Iterable[Values], variables: Values) -> dict[str, list[str]]:
    """What the text of an answer has to hold, must not hold, and has to match."""
    kinds = named("promptfoo")
    contained: list[str] = []
    excluded: list[str] = []
    patterns: list[str] = []
    for assertion in assertions:
        kind = assertion.get("type")
        texts = _texts(str(kind), assertion.get("value"), variables)
        if not texts:
            continue
        if kind in kinds["contains_all"]:
            contained += texts
        elif kind in kinds["contains_none"]:
            excluded += texts
        elif kind in kinds["contains_any"]:
            choice = "|".join(map(re.escape, texts))
            patterns.append(f"(?i:{choice})" if str(kind).startswith("i") else f"(?:{choice})")
        elif kind in kinds["matches"]:
            patterns += texts
        elif kind in kinds["matches_not"]:
            patterns += [rf"\A(?![\s\S]*?(?:{text}))" for text in texts]
        elif kind in kinds["begins"]:
            patterns += [rf"\A{re.escape(text)}" for text in texts]
    found = {"must_contain": contained, "must_not_contain": excluded, "must_match": patterns}
    return {name: list(dict.fromkeys(texts)) for name, texts in found.items() if texts}


def _texts(kind: str, value: object, variables: Values) -> list[str]:
    """The texts of an assertion: of a kind for several, a list or what commas separate."""
    values: Sequence[object] = [value]
    if is_list(value):
        values = value
    elif isinstance(value, str) and kind.endswith(("-all", "-any")):
        values = [part.strip() for part in value.split(",")]
    texts = [_text(each, variables) for each in values]
    return [text for text in texts if text]


def _text(value: object, variables: Values) -> str | None:
    """A value as text, with variables filled in; None where it holds what only promptfoo knows."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value)
    for match in _VARIABLE.finditer(text):
        if not isinstance(variables.get(match[1]), (str, int, float)):
            return None
    text = _VARIABLE.sub(lambda match: str(variables[match[1]]), text)
    return None if text.startswith(_FILE) or "{{" in text or "{%" in text else text
