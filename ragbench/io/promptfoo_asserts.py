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
    """Whether promptfoo's assertions of a kind become a reference answer or an expectation.

    A note counts the other kinds, so that no test seems to be checked that is not.
    """
    return kind in field_names("promptfoo")["whole_answer"] or becomes_expectation(kind)


def kinds_of_assertions(assertions: Iterable[Values]) -> Iterator[str]:
    """Yields the kind of each promptfoo assertion, for the note that counts the unread ones.

    An assertion without a type is counted as well, so that the count is that of all assertions.
    """
    for assertion in assertions:
        kind = assertion.get("type")
        yield kind if isinstance(kind, str) else "without a type"


def references(assertions: Iterable[Values], variables: Values) -> list[str]:
    """The right answers among the values of promptfoo's assertions, each once.

    Only assertions such as ``equals`` hold a whole answer: others name parts of one.
    """
    answers: list[str] = []
    for assertion in assertions:
        if assertion.get("type") not in field_names("promptfoo")["whole_answer"]:
            continue
        answer = _filled_text(assertion.get("value"), variables)
        if answer is not None and answer not in answers:
            answers.append(answer)
    return answers


def _filled_text(value: object, variables: Values) -> str | None:
    """The value of an assertion as text, with its variables filled in.

    None where the text still holds what only promptfoo can fill in: a file, a template, an unknown
    variable. A half-filled text would be a wrong answer.
    """
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
