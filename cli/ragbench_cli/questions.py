"""Questions of a batch: lines of text, lines of JSON, or any dataset."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple, cast

__all__ = ["Question", "read_questions"]


class Question(NamedTuple):
    """One question of a batch."""

    id: str
    text: str


def read_questions(source: str) -> list[Question]:
    """Reads questions.

    Args:
        source: ``-`` for standard input or a file that ends in ``.txt``: a question a line, or a
            JSON object with ``query`` and perhaps ``id``; anything else is read as a dataset.

    Raises:
        DataError: a line is no question, or the dataset has problems.
    """
    if source == "-":
        return _lines(sys.stdin.read(), "<stdin>")
    if source.endswith(".txt") and Path(source).is_file():
        return _lines(Path(source).read_text("utf-8-sig", errors="replace"), source)
    from ragbench.data.read import read_cases

    return [Question(case.id, case.query) for case in read_cases(source)]


def _lines(text: str, name: str) -> list[Question]:
    from ragbench.errors import DataError, Problem

    problems: list[Problem] = []
    found: list[Question] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        question = _question(line.strip(), number)
        if question is None:
            message = (
                "expected a question, or a JSON object with the texts 'query' and perhaps 'id'"
            )
            problems.append(Problem(message=message, path=name, line=number))
        else:
            found.append(question)
    if problems:
        raise DataError(problems)
    return found


def _question(line: str, number: int) -> Question | None:
    if not line.startswith("{"):
        return Question(str(number), line)
    try:
        value = cast("object", json.loads(line))
    except ValueError:
        return None
    row = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    query, id_ = row.get("query"), row.get("id", row.get("query_id", str(number)))
    return Question(str(id_), query) if isinstance(query, str) else None
