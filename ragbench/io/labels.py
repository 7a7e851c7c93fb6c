"""Labels of people on claims.

A line of ragbench's own form::

    {"claim": "Bees fly.", "evidence": ["Bees have wings and fly."], "label": "supported",
     "question": "Can bees fly?", "id": "c1", "cluster": "bees"}

``label`` is ``supported``, ``partially_supported`` or ``not_supported``; or true or false; or 1,
0.5 or 0. The last three fields may be missing. A number under ``grade``, on any scale, is what the
judge's scores are ranked against. Recognised besides: claims of WiCE (Kamoi et al.
2023), of ExpertQA (Malaviya et al. 2024) and the human evaluation of MTRAG (Katsis et al. 2025).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragbench.errors import DataError, Problem
from ragbench.io.limits import ReadLimits

LEVELS: tuple[str, ...] = ("not_supported", "partially_supported", "supported")
"""What a label may say, lowest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledClaim:
    id: str
    claim: str
    evidence: tuple[str, ...]
    level: int
    """Place in `LEVELS`."""
    question: str = ""
    cluster: str | None = None
    """Claims of one answer or question share one: they are not independent."""
    grade: float | None = None
    """What people said on a scale of their own, such as 1 to 5; None where the level is all."""

    @property
    def graded(self) -> float:
        """The grade; the level where there is none."""
        return float(self.level) if self.grade is None else self.grade


_NAMED: dict[object, int] = {
    **{name: level for level, name in enumerate(LEVELS)},
    "true": 2, "false": 0, "yes": 2, "no": 0,
}  # fmt: skip
_EXPERTQA = {"Complete": 2, "Incomplete": 1, "Partial": 1, "Missing": 0}
Row = Mapping[str, Any]


def read_labels(path: Path) -> tuple[LabelledClaim, ...]:
    """Reads labels.

    Rows without evidence, and those that their makers call not applicable, are left out: there is
    nothing that a judge could be right about.

    Raises:
        DataError: the file cannot be read, holds no labels or has problems; holds all of them.
    """
    try:
        text = ReadLimits.of_environment().read_data(path).decode()
    except OSError as error:
        raise DataError([Problem(message=str(error.strerror), path=str(path))]) from error
    except UnicodeDecodeError:
        raise DataError([Problem(message="is not UTF-8", path=str(path))]) from None
    problems: list[Problem] = []
    whole = _object(text)
    if whole is not None and {"tasks", "evaluations", "documents"} <= whole.keys():
        found = list(_mtrag(whole))
    else:
        found = [
            claim for claim in _lines(path, text, problems) if claim is not None and claim.evidence
        ]
    if problems:
        raise DataError(problems)
    if not found:
        raise DataError([Problem(message="holds no labelled claim with evidence", path=str(path))])
    return tuple(found)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = cast("object", json.loads(text))
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _lines(path: Path, text: str, problems: list[Problem]) -> Iterator[LabelledClaim | None]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        row = _object(line)
        try:
            if row is None:
                raise _FieldError(None, "is not a JSON object")
            yield _claim(row, str(number))
        except _FieldError as error:
            problems.append(
                Problem(message=error.problem, path=str(path), line=number, field=error.field)
            )


class _FieldError(Exception):
    def __init__(self, field: str | None, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem


def _claim(row: Row, number: str) -> LabelledClaim | None:
    level: int | None
    if "support" in row and "label" not in row:  # ExpertQA
        level = _EXPERTQA.get(str(row["support"]))
        if level is None:
            return None
        cluster: object = row.get("question")
    else:
        level = _level(row)
        cluster = row.get("cluster")
    meta = row.get("meta")
    known: Row = cast("Row", meta) if isinstance(meta, dict) else {}
    question = row.get("question")
    evidence = _texts(row, "evidence", "contexts")
    if "supporting_sentences" in row:  # WiCE: the sentences of one page
        evidence = ("\n".join(evidence),)
    return LabelledClaim(
        id=str(row.get("id") or known.get("id") or number),
        claim=_text(row, "claim", "response"),
        evidence=evidence,
        level=level,
        question=question if isinstance(question, str) else "",
        cluster=None if cluster is None else str(cluster),
        grade=_grade(row),
    )


def _grade(row: Row) -> float | None:
    value = row.get("grade")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _FieldError("grade", f"must be a number, not {value!r}")
    return float(value)


def _level(row: Row) -> int:
    value = row.get("label")
    if isinstance(value, str) and value.strip().lower() in _NAMED:
        return _NAMED[value.strip().lower()]
    if isinstance(value, (int, float)) and value in (0, 0.5, 1):
        return int(value * 2)
    raise _FieldError(
        "label", f"must be {', '.join(LEVELS)}, true, false, 1, 0.5 or 0, not {value!r}"
    )


def _text(row: Row, *names: str) -> str:
    for name in names:
        if isinstance(row.get(name), str) and row[name].strip():
            return str(row[name])
    raise _FieldError(names[0], "must be a text")


def _texts(row: Row, *names: str) -> tuple[str, ...]:
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            return (value,) if value.strip() else ()
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            if not all(isinstance(text, str) for text in listed):
                raise _FieldError(name, "must be a text or a list of texts")
            return tuple(text for text in listed if text.strip())
    raise _FieldError(names[0], "must be a text or a list of texts")


def _mtrag(whole: Row) -> Iterator[LabelledClaim]:
    """Whole answers, of which three people said how faithful each is, from 1 to 4.

    Their median counts: 4 is supported, 1 is not, what lies between is partially supported.
    """
    texts = {entry["document_id"]: entry["text"] for entry in whole["documents"]}
    tasks = {entry["task_id"]: entry for entry in whole["tasks"]}
    for entry in whole["evaluations"]:
        grades = entry["annotations"].get("faithfulness", {})
        task = tasks.get(entry["task_id"])
        if task is None or not grades:
            continue
        evidence = [texts[context["document_id"]] for context in task["contexts"]]
        median = statistics.median(float(grade["value"]) for grade in grades.values())
        if evidence and entry["model_response"].strip():
            yield LabelledClaim(
                id=f"{entry['task_id']} {entry['model_id']}",
                claim=entry["model_response"],
                evidence=tuple(evidence),
                level=2 if median == 4 else 0 if median == 1 else 1,
                question=task["input"][-1]["text"],
                cluster=str(entry["task_id"]).split("<::>")[0],
                grade=float(median),
            )
