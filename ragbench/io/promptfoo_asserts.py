"""promptfoo's assertions whose value is a right answer as a whole.

Those on the text of an answer are expectations: see `ragbench.io.expected`. All others need a
program or a judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ragbench.io.expected import becomes_expectation
from ragbench.io.fields import field_names

Values = Mapping[str, object]

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_FILE = "file://"


def is_read(kind: str) -> bool:
    """Whether assertions of a kind become a reference or an expectation."""
    return kind in field_names("promptfoo")["whole_answer"] or becomes_expectation(kind)


def kinds_of_assertions(assertions: Iterable[Values]) -> Iterator[str]:
    """The kind of each assertion, in the words of the note that counts those not read."""
    for assertion in assertions:
        kind = assertion.get("type")
        yield kind if isinstance(kind, str) else "without a type"


def references(assertions: Iterable[Values], variables: Values) -> list[str]:
    """The right answers among the values of assertions, each once.

    Of assertions whose value is a whole answer, such as ``equals``: others name parts of one.
    """
    answers: list[str] = []
    for assertion in assertions:
        if assertion.get("type") not in field_names("promptfoo")["whole_answer"]:
            continue
        answer = _text(assertion.get("value"), variables)
        if answer is not None and answer not in answers:
            answers.append(answer)
    return answers


def _text(value: object, variables: Values) -> str | None:
    """A value as text, with variables filled in; None where it holds what only promptfoo knows."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value)
    for match in _VARIABLE.finditer(text):
        if not isinstance(variables.get(match[1]), (str, int, float)):
            return None
    text = _VARIABLE.sub(lambda match: str(variables[match[1]]), text)
    # The name of a file, or what is left of a template.
    if text.startswith(_FILE) or "{{" in text or "{%" in text:
        return None
    return text
