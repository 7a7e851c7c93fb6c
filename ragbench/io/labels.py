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

import statistics
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.core.record import Record
from ragbench.errors import DataError, Problem
from ragbench.io.detect import container_rows
from ragbench.io.json_files import load
from ragbench.io.people import HumanLabel, Key, label_value, read_people, value_of
from ragbench.io.source import Problems, Source, noting_read_errors
from ragbench.io.values import ValueProblem, as_number, as_object, as_texts, is_list, is_object

LEVELS: tuple[str, ...] = ("not_supported", "partially_supported", "supported")
"""What a label may say, lowest first."""


class LabelledClaim(Record):
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


_EXPERTQA = {"Complete": 1.0, "Incomplete": 0.5, "Partial": 0.5, "Missing": 0.0}
Row = Mapping[str, Any]


class _FieldError(ValueProblem):
    def __init__(self, field: str, problem: object) -> None:
        super().__init__(problem)
        self.field = field


def read_labels(path: Path, metric: str = "") -> tuple[LabelledClaim, ...]:
    """Reads labels, of answers too (`ragbench.io.people`).

    Args:
        metric: labels of answers by another metric are left out.

    Rows without evidence, and those that their makers call not applicable, are left out: there is
    nothing that a judge could be right about.

    Raises:
        DataError: the file cannot be read, holds no labels or has problems; holds all of them.
    """
    problems, source = Problems(), Source.of(path)
    whole = load(source, Problems()) if source.suffix == ".json" else None
    if is_object(whole) and {"tasks", "evaluations", "documents"} <= whole.keys():
        found = list(_mtrag(whole))
    elif _is_of_answers(source):
        source.close()
        found = list(_answers(path, metric))
    else:
        found = [one for one in _claims(source, problems) if one.evidence]
    problems.raise_if_any()
    if not found:
        raise DataError([Problem(message="holds no labelled claim with evidence", path=str(path))])
    return tuple(found)


def _is_of_answers(source: Source) -> bool:
    head = source.head(Problems()) or b""
    marks = (b'"value"', b'"annotations"', b'"responses"')
    is_table = source.suffix in (".csv", ".tsv", ".xlsx")
    return is_table or (b'"claim"' not in head and any(mark in head for mark in marks))


def _answers(path: Path, metric: str) -> Iterator[LabelledClaim]:
    """What people said of answers on their contexts; of several people the mean."""
    items: dict[Key, list[HumanLabel]] = {}
    for label in read_people(path):
        if label.metric in (metric, "") or not metric:
            items.setdefault(label.key, []).append(label)
    for number, said in enumerate(items.values(), 1):
        value, first = value_of(said), said[0]
        if value is not None and first.contexts:
            yield LabelledClaim(
                id=first.case or str(number),
                claim=first.answer,
                evidence=first.contexts,
                level=2 if value >= 1 else 0 if value <= 0 else 1,
                question=first.question,
                grade=value,
            )


def _claims(source: Source, problems: Problems) -> Iterator[LabelledClaim]:
    with noting_read_errors(source.name, problems):
        for row in container_rows(source, problems):
            try:
                # What ExpertQA calls not applicable has no level.
                if "label" in row.values or row.values.get("support", "Missing") in _EXPERTQA:
                    yield _claim(row.values, str(row.line))
            except _FieldError as error:
                problems.add(str(error), path=row.path, line=row.line, field=error.field)


def _claim(row: Row, number: str) -> LabelledClaim:
    is_expertqa = "support" in row and "label" not in row
    meta, question, grade = row.get("meta"), row.get("question"), row.get("grade")
    evidence = _texts(row, "evidence", "contexts")
    claim = _texts(row, "claim", "response")
    if len(claim) != 1:
        raise _FieldError("claim", "must be a text")
    if "supporting_sentences" in row:  # WiCE: the sentences of one page
        evidence = ("\n".join(evidence),)
    cluster = question if is_expertqa else row.get("cluster")
    value = _EXPERTQA[row["support"]] if is_expertqa else None
    with suppress(ValueProblem):
        value = value if is_expertqa else label_value(row.get("label"))
    if value not in (0, 0.5, 1):
        named, given = ", ".join(LEVELS), row.get("label")
        raise _FieldError("label", f"must be {named}, true, false, 1, 0.5 or 0, not {given!r}")
    try:
        graded = None if grade is None else as_number(grade)
    except ValueProblem as problem:
        raise _FieldError("grade", problem) from None
    return LabelledClaim(
        id=str(row.get("id") or as_object(meta).get("id") or number),
        claim=claim[0],
        evidence=evidence,
        level=int(2 * value),
        question=question if isinstance(question, str) else "",
        cluster=None if cluster is None else str(cluster),
        grade=graded,
    )


def _texts(row: Row, *names: str) -> tuple[str, ...]:
    given = next((row[name] for name in names if row.get(name) is not None), None)
    try:
        if not isinstance(given, str) and not is_list(given):
            raise ValueProblem("must be a text or a list of texts")
        return tuple([text for text in as_texts(given) if text.strip()])
    except ValueProblem as problem:
        raise _FieldError(names[0], problem) from None


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
