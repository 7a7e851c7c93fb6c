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
from pathlib import Path
from typing import Any

from ragbench.core.record import Record
from ragbench.errors import DataError, Problem
from ragbench.io.detect import container_rows
from ragbench.io.encoding import decoded
from ragbench.io.json_files import load
from ragbench.io.people import HumanLabel, Key, read_people, value_of
from ragbench.io.source import Problems, Source, noting_read_errors
from ragbench.io.values import ValueProblem, as_number, as_object, as_texts, is_list, is_object
from ragbench.io.verdicts import label_value

LEVELS: tuple[str, ...] = ("not_supported", "partially_supported", "supported")
"""What a label may say, lowest first."""


class LabelledClaim(Record):
    """A claim with the labels of people: whether its evidence supports it."""

    id: str
    claim: str
    evidence: tuple[str, ...]
    """Passages; of an answer that is judged beside right ones, the right answers."""
    level: int
    """Place in `LEVELS`."""
    question: str = ""
    cluster: str | None = None
    """The answer or question that the claim is from: claims that share one are not independent."""
    grade: float | None = None
    """What people said on a scale of their own, such as 1 to 5; None where the level is all."""

    @property
    def graded(self) -> float:
        """The people's grade of the claim; its level where they gave none.

        Judges' scores are ranked against it, so a finer scale says more than three levels.
        """
        if self.grade is None:
            return float(self.level)
        return self.grade


_EXPERTQA = {"Complete": 1.0, "Incomplete": 0.5, "Partial": 0.5, "Missing": 0.0}
"""What ExpertQA's field ``support`` says, as a label. What is not applicable is none of these."""
Row = Mapping[str, Any]


class _FieldError(ValueProblem):
    """What is wrong with a field, which it names."""

    def __init__(self, field: str, problem: object) -> None:
        """Takes the name of the wrong field, which a report shows beside the problem.

        The reader of a row catches it, and reports the problem with the row's line.
        """
        super().__init__(problem)
        self.field = field


def read_labels(path: Path, metric: str = "") -> tuple[LabelledClaim, ...]:
    """Reads labels, of answers too (`ragbench.io.people`).

    They are people's labels of claims, against which a judge is measured. Rows without evidence,
    and those that their makers call not applicable, are left out: there is nothing that a judge
    could be right about.

    Args:
        metric: labels of answers by another metric are left out; empty keeps those of all.

    Raises:
        DataError: the file cannot be read, holds no labels or has problems; holds all of them.
    """
    problems = Problems()
    source = decoded(Source.of(path))
    document = None
    if source.suffix == ".json":
        # A file that is no MTRAG is read again below, which says then what is wrong with it.
        document = load(source, Problems())
    if is_object(document) and {"tasks", "evaluations", "documents"} <= document.keys():
        claims = []
        with noting_read_errors(source.name, problems):  # such as a document that is missing
            claims = list(_mtrag_claims(document))
    elif _holds_answers(source):
        # `_answers_as_claims` opens the file itself.
        source.close()
        claims = list(_answers_as_claims(path, metric))
    else:
        claims = [claim for claim in _own_claims(source, problems) if claim.evidence]
    problems.raise_if_any()
    if not claims:
        raise DataError([Problem(message="holds no labelled claim with evidence", path=str(path))])
    return tuple(claims)


def _holds_answers(source: Source) -> bool:
    """Whether a file has people's labels of answers, not of claims.

    Tables and exports of labelling tools hold labels of answers; in JSON the names of fields
    decide. Labels of answers and of claims have different readers, see `ragbench.io.people`.
    """
    if source.suffix in (".csv", ".tsv", ".xlsx"):
        return True
    head = source.head(Problems()) or b""
    if b'"claim"' in head:
        return False
    return any(field in head for field in (b'"value"', b'"annotations"', b'"responses"'))


def _level_on_scale(value: float, *, lowest: float, highest: float) -> int:
    """The place in `LEVELS` of a value on a scale: anything between its ends is the middle one.

    Datasets label on scales of their own: a judge's verdict has three levels, so each label gets
    one.
    """
    if value >= highest:
        return LEVELS.index("supported")
    if value <= lowest:
        return LEVELS.index("not_supported")
    return LEVELS.index("partially_supported")


def _answers_as_claims(path: Path, metric: str) -> Iterator[LabelledClaim]:
    """Yields labelled answers as claims, their contexts as evidence; of several people the mean.

    A judge of claims can so be measured with labels of whole answers, too.
    """
    labels_of: dict[Key, list[HumanLabel]] = {}
    for label in read_people(path):
        is_of_metric = not metric or label.metric in (metric, "")
        if is_of_metric:
            labels_of.setdefault(label.key, []).append(label)
    for number, labels in enumerate(labels_of.values(), start=1):
        # Each label of an answer holds its question, text and contexts: the first one's are taken.
        answer = labels[0]
        value = value_of(labels)
        if value is not None and answer.contexts:
            yield LabelledClaim(
                id=answer.case or str(number),
                claim=answer.answer,
                evidence=answer.contexts,
                level=_level_on_scale(value, lowest=0, highest=1),
                question=answer.question,
                grade=value,
            )


def _own_claims(source: Source, problems: Problems) -> Iterator[LabelledClaim]:
    """Yields the claims of ragbench's own form, WiCE and ExpertQA, which have a record a claim.

    A record with a wrong field is noted as a problem, and the others are read.
    """
    with noting_read_errors(source.name, problems):
        for row in container_rows(source, problems):
            values = row.values
            if "label" not in values and values.get("support", "Missing") not in _EXPERTQA:
                continue  # what ExpertQA calls not applicable has no level
            try:
                yield _claim_of_record(values, str(row.line))
            except _FieldError as error:
                problems.add(str(error), path=row.path, line=row.line, field=error.field)


def _claim_of_record(row: Row, number: str) -> LabelledClaim:
    """The labelled claim of a record in ragbench's own form, of WiCE or of ExpertQA.

    Args:
        row: the record's fields.
        number: the claim's id, where the record has none.

    Raises:
        _FieldError: a field of the record cannot be used.
    """
    is_expertqa = "support" in row and "label" not in row
    question = row.get("question")
    evidence = _texts_of_fields(row, "evidence", "contexts", "references", "reference")
    claim_texts = _texts_of_fields(row, "claim", "response")
    if len(claim_texts) != 1:
        raise _FieldError("claim", "must be a text")
    if "supporting_sentences" in row:  # WiCE: the sentences of one page
        evidence = ("\n".join(evidence),)
    value = _label_value(row, is_expertqa=is_expertqa)
    grade = row.get("grade")
    if grade is not None:
        try:
            grade = as_number(grade)
        except ValueProblem as problem:
            raise _FieldError("grade", problem) from None
    # ExpertQA has no field for the answer that a claim is from: claims about one question are from
    # one answer, and so of one cluster.
    cluster = question if is_expertqa else row.get("cluster")
    claim_id = row.get("id") or as_object(row.get("meta")).get("id")  # WiCE has it in "meta"
    if cluster is not None:
        cluster = str(cluster)
    if not isinstance(question, str):
        question = ""
    return LabelledClaim(
        id=str(claim_id or number),
        claim=claim_texts[0],
        evidence=evidence,
        level=int(2 * value),  # 0, 0.5 and 1 are places 0, 1 and 2
        question=question,
        cluster=cluster,
        grade=grade,
    )


def _label_value(row: Row, *, is_expertqa: bool) -> float:
    """The value of a record's label: 0 (not supported), 0.5 (partially) or 1 (supported).

    Datasets spell a label in words, as a truth value or as a number; ExpertQA says it in
    ``support``.

    Raises:
        _FieldError: the label is none of these.
    """
    if is_expertqa:
        return _EXPERTQA[row["support"]]
    label = row.get("label")
    try:
        value = label_value(label)
    except ValueProblem:
        value = None
    # Any other number is a rating, not a label: no level fits it.
    if value is None or value not in (0, 0.5, 1):
        levels = ", ".join(LEVELS)
        raise _FieldError("label", f"must be {levels}, true, false, 1, 0.5 or 0, not {label!r}")
    return value


def _texts_of_fields(row: Row, *names: str) -> tuple[str, ...]:
    """The non-empty texts in the first of several fields that a record of a claim has.

    Args:
        names: of the fields: ragbench's own, and then those of other datasets.

    Raises:
        _FieldError: the value is neither a text nor a list of texts.
    """
    value = None
    for name in names:
        value = row.get(name)
        if value is not None:
            break
    try:
        if not isinstance(value, str) and not is_list(value):
            raise ValueProblem("must be a text or a list of texts")
        return tuple([text for text in as_texts(value) if text.strip()])
    except ValueProblem as problem:
        raise _FieldError(names[0], problem) from None


def _mtrag_claims(document: Row) -> Iterator[LabelledClaim]:
    """Yields the answers of an MTRAG evaluation as claims, labelled by the median of three people.

    The people graded how faithful an answer is, from 1 to 4: 4 is supported, 1 is not, and anything
    between is partially supported.
    """
    text_of = {entry["document_id"]: entry["text"] for entry in document["documents"]}
    task_of = {entry["task_id"]: entry for entry in document["tasks"]}
    for evaluation in document["evaluations"]:
        grades = evaluation["annotations"].get("faithfulness", {})
        task = task_of.get(evaluation["task_id"])
        if task is None or not grades:
            continue
        evidence = [text_of[context["document_id"]] for context in task["contexts"]]
        median = statistics.median(float(grade["value"]) for grade in grades.values())
        if evidence and evaluation["model_response"].strip():
            yield LabelledClaim(
                id=f"{evaluation['task_id']} {evaluation['model_id']}",
                claim=evaluation["model_response"],
                evidence=tuple(evidence),
                level=_level_on_scale(median, lowest=1, highest=4),
                question=task["input"][-1]["text"],
                # A task is a turn of a conversation, before whose id it has that of the whole.
                cluster=str(evaluation["task_id"]).split("<::>")[0],
                grade=float(median),
            )
