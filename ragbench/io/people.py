"""What people said of answers: labels, keyed by what was judged.

A line of ragbench's own form, which ``ragbench label`` and its page write::

    {"question": "Can bees fly?", "answer": "Yes.", "contexts": ["Bees fly."], "metric": "support",
     "value": 1, "by": "ann", "drawn": {"seed": 0, "of": 300}}

``value`` is on the metric's own scale; null says that the person passed it over. ``digest`` may
stand for the contexts. A label holds for this question with this answer on these contexts alone:
once the answer changes, it is gone. Recognised besides: tables (CSV, Excel, JSON) with such columns
under their usual names, exports of Argilla and of Label Studio.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ragbench.core.record import Record, replace
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.detect import container_rows
from ragbench.io.encoding import decoded
from ragbench.io.export import Exported, Scores
from ragbench.io.fields import entry_fields, field_names, says_verdict
from ragbench.io.headers import header_meaning
from ragbench.io.json_text import in_case, json_bytes
from ragbench.io.ratings import RatingBound, metric_and_bound, rating_column, rating_of
from ragbench.io.source import Problems, Row, Source, noting_read_errors
from ragbench.io.values import (
    ValueProblem,
    as_list,
    as_texts,
    is_list,
    is_missing,
    is_object,
    parse_cell,
)
from ragbench.io.verdicts import is_verdict, label_value, squashed_word
from ragbench.safe_text import shortened_line
from ragbench.shell import shell_quoted

Key = tuple[str, str, str | None]
"""Digests of question, answer and contexts; None: the label does not say on which contexts."""


class HumanLabel(Record):
    """One person's verdict on one answer, by one metric."""

    question: str
    answer: str
    contexts: tuple[str, ...] | None
    metric: str
    """Empty where the file does not say."""
    value: float | None
    """None: passed over."""
    by: str
    key: Key
    is_drawn: bool = False
    """Whether chance chose the case."""
    is_of_pairs: bool = False
    """Whether it chose among those alone of which two runs' answers differ."""
    case: str = ""

    @property
    def item(self) -> tuple[Key, str]:
        """The judged answer and the metric: people's labels on one thing have the same item.

        By it a second label of the same person on the same thing replaces the first one.
        """
        return self.key, self.metric

    def check_scale(self, metric: str, low: float | None, high: float | None) -> None:
        """Refuses a label whose value is outside the scale of its metric.

        Stars of 1 to 5 that are compared with scores of 0 to 1 would make any judge look bad.

        Args:
            metric: the metric's name, for the error.
            low: the scale's lowest value; None where it has none.
            high: the scale's highest value; None where it has none.

        Raises:
            ConfigError: it is outside the scale, such as 4 of 5 stars for a metric up to 1.
        """
        value = self.value
        if value is None:
            return
        limit = ""
        if low is not None and value < low:
            limit = f"at least {low:g}"
        elif high is not None and value > high:
            limit = f"at most {high:g}"
        if limit:
            raise ConfigError(
                f"--labels: the label of '{shortened_line(self.question)}' is {value:g}, and "
                f"{metric} is {limit}. If people rated answers, name the rating from which on one "
                f'is right: --labels "{metric}>=4=FILE" (docs/labels.md)'
            )


_FIELD_OF_CASE = {"question": "query", "answer": "response", "contexts": "retrieved_contexts"}
"""The field of a case file that holds the same as a field of a label."""


@cache
def _names_of_fields() -> Mapping[str, tuple[str, ...]]:
    """The columns' names by which each field of a label is recognised.

    The names that fields of case files have are among them, so that people can label in a table
    that they have already.
    """
    names_of: dict[str, tuple[str, ...]] = {}
    for field, names in field_names("label").items():
        if field in _FIELD_OF_CASE:
            names = (*names, *entry_fields()[_FIELD_OF_CASE[field]])
        names_of[field] = names
    return names_of


def digest_of(texts: Iterable[str]) -> str:
    """The digest of some texts, the same for texts that differ only in white space or composition.

    Composition is how a letter with an accent is encoded. By the digest a label finds its answer
    again after another system wrote the file anew. Files of labels may hold it in place of
    contexts: with another formula such labels would be lost.
    """
    normal_texts: list[str] = []
    for text in texts:
        words = unicodedata.normalize("NFC", text).split()
        normal_texts.append(" ".join(words))
    # As JSON the texts stay apart: ["a b"] and ["a", "b"] have two digests.
    digest = hashlib.sha256(json.dumps(normal_texts).encode())
    return digest.hexdigest()[:24]


NOTHING = digest_of([""])
"""The digest of an empty answer: in place of the answer where the contexts alone are judged."""


def key_of(question: str, answer: str, contexts: Sequence[str] | None) -> Key:
    """The digests of question, answer and contexts: by them a label finds its answer again.

    A label holds only as long as the three texts are the same, but for white space. Labels are
    matched by this key: a change of it would lose every label that names a digest.

    Args:
        contexts: the retrieved texts; None where they are not known.
    """
    contexts_digest = None if contexts is None else digest_of(contexts)
    return digest_of([question]), digest_of([answer]), contexts_digest


def read_people(
    path: str | Path,
    *,
    bound: RatingBound | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[HumanLabel, ...]:
    """People's labels in a file of any of the known forms; a person's last label on a thing counts.

    Args:
        bound: from which rating on an answer is right, where people rated answers on a scale.
        columns: the columns of ``query`` and ``response``, where their names are the table's own.

    Raises:
        DataError: it cannot be read, or a row is no label; holds every problem.
    """
    problems = Problems()
    # Spreadsheets write CSV in the encoding of their country.
    source = decoded(Source.of(path))
    labels: dict[tuple[Any, ...], HumanLabel] = {}
    with closing(source), noting_read_errors(source.name, problems):
        for row in container_rows(source, problems):
            labels_of_row: dict[tuple[Any, ...], HumanLabel] = {}
            # All labels of a row, or none: half a record would be a vote of its own.
            with noting_read_errors(row.path, problems, row.line):
                for label in _labels_of_row(row, bound, columns or {}):
                    labels_of_row[(*label.item, label.by)] = label
                labels |= labels_of_row
    problems.raise_if_any()
    if not labels:
        raise DataError([Problem(message="holds no label", path=str(path))])
    return tuple(labels.values())


def _labels_of_row(
    row: Row, bound: RatingBound | None, columns: Mapping[str, str]
) -> Iterator[HumanLabel]:
    """Yields the labels in a row: one of a table, perhaps several of a labelling tool's record.

    Args:
        bound: from which rating on an answer is right; None where the rows hold verdicts.
        columns: the columns of ``query`` and ``response`` that the user names.

    Raises:
        ValueProblem: the record is not as its tool exports it, or a label lacks a part.
    """
    values = row.values
    form: type[_LabelStudioTask | _ArgillaRecord] | None = None
    if is_object(values.get("data")) and "annotations" in values:
        form = _LabelStudioTask
    elif is_object(values.get("fields")) and "responses" in values:
        form = _ArgillaRecord
    rows: list[Mapping[str, object]] = [values]
    if form is not None:
        try:
            rows = list(msgspec.convert(dict(values), form).rows())
        except msgspec.ValidationError as error:
            raise ValueProblem(f"is not as its tool exports it: {error}") from None
    for fields in rows:
        squashed: dict[str, object] = {}
        verdicts: list[object] = []
        for name, value in fields.items():
            squashed[squashed_word(str(name))] = value
            # A column such as ``OK?`` may also hold remarks, which are no verdicts.
            if says_verdict(str(name)) and (is_missing(value) or is_verdict(value)):
                verdicts.append(value)
        if bound is not None:
            _put_rating(squashed, fields, bound)
        _add_question_and_answer(squashed, fields, columns)
        yield _label_of_fields(squashed, verdicts, cells=row.cells, columns=list(map(str, fields)))


def _add_question_and_answer(
    squashed: dict[str, object], fields: Mapping[str, object], columns: Mapping[str, str]
) -> None:
    """Adds question and answer from the columns that the user names, or that headers suggest.

    A wrong column does no harm: a label counts only for a question with exactly this answer.

    Args:
        squashed: the fields by their squashed names, to which they are added.
        fields: the same by the names of the file.
        columns: the columns of ``query`` and ``response`` that the user names.

    Raises:
        ValueProblem: two columns hold different answers, and the user names neither.
    """
    if _FIELD_OF_CASE["answer"] not in columns:
        _refuse_two_answers(fields)
    for field, meanings in (("question", ("query",)), ("answer", ("response", "answer"))):
        column = columns.get(_FIELD_OF_CASE[field])
        if column is not None and column in fields:
            squashed[field] = fields[column]
        elif all(is_missing(squashed.get(name)) for name in _names_of_fields()[field]):
            suggested = _suggested_column(fields, meanings)
            if suggested is not None:
                squashed[field] = fields[suggested]


def _refuse_two_answers(fields: Mapping[str, object]) -> None:
    """Refuses a row with two answers that differ, such as ``answer`` beside ``response``.

    One is most likely the system's answer and the other the reference. A label is found by the
    system's answer that it judges: filed under the reference, it would fit no answer of a run, and
    be lost.
    """
    columns: list[str] = []
    answers: set[str] = set()
    for name, value in fields.items():
        is_answer = squashed_word(str(name)) in _names_of_fields()["answer"]
        if is_answer and isinstance(value, str) and not is_missing(value) and not is_verdict(value):
            columns.append(str(name))
            answers.add(digest_of([value]))
    if len(answers) > 1:
        field = _FIELD_OF_CASE["answer"]
        options = " or ".join(f"--field {field}={shell_quoted(column)}" for column in columns)
        raise ValueProblem(
            f"{' and '.join(columns)} hold different answers. Name the one of the system with "
            f"{options} (ragbench eval), or leave the other out"
        )


def _suggested_column(fields: Mapping[str, object], meanings: Sequence[str]) -> str | None:
    """The only column whose header suggests a field, such as ``Bot reply``; None without one.

    A wrong column does no harm: a label counts only for a question with exactly this answer.

    Args:
        meanings: what a header may mean, the surest first; the first with a single column counts.
    """
    for meaning in meanings:
        columns = [name for name in fields if header_meaning(str(name)) == meaning]
        if len(columns) == 1:
            return columns[0]
    return None


def _put_rating(
    squashed: dict[str, object], fields: Mapping[str, object], bound: RatingBound
) -> None:
    """Replaces the rating in a row by a verdict on the answer, 1 or 0, under ``value``.

    Args:
        squashed: the fields by their squashed names; ``value`` is put here.
        fields: the same by the names of the file.
        bound: from which rating on an answer is right.

    Raises:
        ValueProblem: the row has no rating, or several.
    """
    names = list(map(str, fields))
    column = rating_column(names, list(fields.values()))
    if column is None:
        raise ValueProblem(
            "expected one field with a rating such as 4 or 4/5, under a name such as rating, stars "
            f"or score. The fields are: {', '.join(names) or 'none'}"
        )
    rating = rating_of(fields[column])
    # The column of the rating may be named as labels are: left in, the rating itself would be read
    # as the label.
    for name in _names_of_fields()["value"]:
        squashed.pop(name, None)
    squashed["value"] = None if rating is None else float(bound.is_right(rating))


def _label_of_fields(
    values: Mapping[str, object],
    verdicts: Sequence[object],
    *,
    cells: bool,
    columns: Sequence[str],
) -> HumanLabel:
    """The label that the fields of one row hold.

    A label is known by its question and its answer, whichever columns these are in: people label in
    tables of their own.

    Args:
        values: the fields by their squashed names.
        verdicts: the values of the fields whose names say that they hold a verdict, such as
            ``OK?``.
        cells: whether the row is of a table, where a list is spelled out as text.
        columns: the names of the fields in the file, which an error lists.

    Raises:
        ValueProblem: the question, the answer or the verdict is missing.
    """
    fields: dict[str, object] = {}
    for field, names in _names_of_fields().items():
        fields[field] = None
        for name in names:
            if not is_missing(values.get(name)):
                fields[field] = values[name]
                break
    question = fields["question"]
    answer = fields["answer"]
    digest = fields["digest"]
    if answer is None and (fields["contexts"] is not None or digest is not None):
        answer = ""  # of what was retrieved alone
    if not isinstance(question, str) or not isinstance(answer, str):
        lacking = "question" if not isinstance(question, str) else "answer"
        raise ValueProblem(
            f"field '{lacking}' is missing, or not a text: a label is known by its question and "
            f"its answer. The fields are: {', '.join(columns) or 'none'}. Rename one, or name it "
            f"with --field {_FIELD_OF_CASE[lacking]}=NAME (ragbench eval)"
        )
    value = fields["value"]
    if not any(name in values for name in _names_of_fields()["value"]):
        if len(verdicts) != 1:
            columns_of_value = ", ".join(_names_of_fields()["value"])
            raise ValueProblem(f"no field holds the label. It is in one of: {columns_of_value}")
        value = None if is_missing(verdicts[0]) else verdicts[0]
    contexts = _contexts_of_label(fields["contexts"], cells=cells)
    key = key_of(question, answer, contexts)
    if digest is not None:
        key = (key[0], key[1], str(digest))
    drawn = fields["drawn"]
    return HumanLabel(
        question=question,
        answer=answer,
        contexts=contexts,
        metric=str(fields["metric"] or ""),
        value=label_value(value),
        by=str(fields["by"] or "somebody"),
        key=key,
        is_of_pairs=is_object(drawn) and drawn.get("differing") is True,
        is_drawn=is_object(drawn) or drawn in (True, "true", "True", "TRUE"),
        case=str(fields["case"] or ""),
    )


def _contexts_of_label(value: object, *, cells: bool) -> tuple[str, ...] | None:
    """The retrieved texts that a person judged an answer on; None where the row does not say.

    A label without contexts counts for the answer on whichever contexts.

    Args:
        cells: whether the row is of a table, where a list is spelled out as text.
    """
    if value is None:
        return None
    if cells and isinstance(value, str):
        value = parse_cell("retrieved_contexts", value)
    return as_texts(value)


class _Result(msgspec.Struct):
    """What an annotator entered in one control of a task."""

    value: dict[str, Any]
    from_name: str = ""


class _Annotation(msgspec.Struct):
    """All that one annotator entered for a task."""

    completed_by: Any = None
    was_cancelled: bool = False
    result: list[_Result] = []


class _LabelStudioTask(msgspec.Struct):
    """A task of Label Studio's JSON: what every annotator chose or rated, by the control's name."""

    data: dict[str, Any]
    annotations: list[_Annotation]

    def rows(self) -> Iterator[dict[str, object]]:
        """Yields a row for each choice, rating or number that an annotator of Label Studio gave.

        Cancelled annotations are left out. Of several choices the first one counts, since a label
        is one value.
        """
        for annotation in self.annotations:
            if annotation.was_cancelled:
                continue
            annotator = annotation.completed_by
            by = annotator.get("email") if is_object(annotator) else annotator
            for result in annotation.result:
                for name in ("choices", "rating", "number"):
                    value = result.value.get(name)
                    if value is None:
                        continue
                    if is_list(value) and value:
                        value = as_list(value)[0]
                    yield _label_row(self.data, result.from_name, value, by)


class _Response(msgspec.Struct):
    """A response in Argilla's export, of either version.

    In 2.x it is a person's `value` for one question; in 1.x it has a person's `values` by question.
    """

    value: Any = None
    user_id: Any = None
    status: str | None = None
    values: dict[str, _Response] | None = None


class _ArgillaRecord(msgspec.Struct):
    """A record of Argilla: responses of 2.x by question, those of 1.x by person."""

    fields: dict[str, Any]
    responses: dict[str, list[_Response]] | list[_Response] | None

    def rows(self) -> Iterator[dict[str, object]]:
        """Yields a row for each answer that a person submitted to a question of Argilla.

        Drafts are left out: a person has not decided on them yet.
        """
        responses = self.responses or {}
        if isinstance(responses, list):  # of 1.x: a person's answers to all questions
            for response in responses:
                if response.status not in _SUBMITTED:
                    continue
                for name, answer in (response.values or {}).items():
                    yield _label_row(self.fields, name, answer.value, response.user_id)
            return
        for name, answers in responses.items():  # of 2.x: all people's answers to a question
            for answer in answers:
                if answer.status in _SUBMITTED:
                    yield _label_row(self.fields, name, answer.value, answer.user_id)


_SUBMITTED = (None, "submitted")
"""The status of responses that count, in Argilla; not those of drafts."""


def _label_row(
    fields: Mapping[str, object], name: str, value: object, by: object
) -> dict[str, object]:
    """One label of a labelling tool's record as a row, like a row of a table of labels.

    Args:
        fields: what the record shows to people, such as question and answer.
        name: the tool's control or question; it is the metric where no field names one.
        value: what the person entered.
        by: the person.
    """
    return {**fields, "metric": fields.get("metric") or name, "value": value, "by": by}


# --- what was said in production, written as labels


def write_labels(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """People's feedback as labels, a line each, with the question, contexts and answer judged.

    So judges can be measured with the verdicts of real users.
    """
    exported = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            rows = list(_feedback_rows(trace, exported))
            with in_case(trace.case.id):
                file.writelines(json_bytes(row) + b"\n" for row in rows)
            if rows:  # cases are counted, however many people judged one
                exported.written += 1
    return exported


def _feedback_rows(trace: Trace, exported: Exported) -> Iterator[dict[str, Any]]:
    """Yields the labels that a case's feedback gives; other feedback is counted as left out.

    A model's scores are none: people's labels are there to check what models say. The keys are
    those of a file of labels, as `read_people` reads it: change the two together.

    Args:
        exported: counts what is left out, by its reason.
    """
    case = trace.case
    answer = trace.generation.value
    context = trace.context.value
    feedback = case.metadata.get("feedback")
    if not is_list(feedback) or answer is None:
        reason = "no answer is recorded" if feedback else "nobody gave feedback"
        exported.leave_out(reason)
        return
    for score in filter(is_object, feedback):
        value = None
        with suppress(ValueProblem):
            value = label_value(score.get("value"))
        # A model's scores are counted as such first, whatever their form is.
        if score.get("is_model"):
            exported.leave_out("the feedback is a model's")
        elif value is None:
            exported.leave_out("the feedback is neither a number nor yes or no")
        else:
            contexts: Sequence[str] = []
            if context is not None:
                contexts = context.contexts
            yield {
                "case": case.id,
                "question": case.query,
                "contexts": contexts,
                "answer": answer.response,
                "metric": score.get("name"),
                "value": value,
                "by": score.get("by"),
            }


# --- in use


ANY = "*"
"""In place of contexts: whatever they are."""


class LabelBook:
    """Labels, looked up by question, answer and contexts."""

    def __init__(
        self, labels: Iterable[HumanLabel], bounds: Mapping[str, RatingBound] | None = None
    ) -> None:
        """Takes labels, and files each one under its own contexts and under `ANY` contexts.

        A metric that judges an answer alone asks for its labels on any contexts.

        Args:
            bounds: by metric, from which rating on an answer is right, where labels are ratings.
        """
        self.labels = tuple(labels)
        self.bounds = bounds or {}
        self._by_key: dict[tuple[str, Key], list[HumanLabel]] = {}
        """The labels by metric and key; each label is filed under two keys."""
        for label in self.labels:
            question, answer, _ = label.key
            for key in (label.key, (question, answer, ANY)):
                self._by_key.setdefault((label.metric, key), []).append(label)

    @classmethod
    def read(
        cls, files: Sequence[str | Path], columns: Mapping[str, str] | None = None
    ) -> LabelBook:
        """Reads files of labels into one book, each as a user names it after ``--labels``.

        ``METRIC=FILE`` names the metric where the file does not; ``METRIC>=4=FILE`` reads ratings:
        from 4 on, an answer is right.

        Args:
            files: paths, or a metric and a path.
            columns: the columns of ``query`` and ``response`` in files that have them, as
                ``--field`` names them.

        Raises:
            ConfigError: a file for one metric holds labels of several.
        """
        labels: list[HumanLabel] = []
        bounds: dict[str, RatingBound] = {}
        for file in map(str, files):
            metric, equals, path = file.rpartition("=")
            # A file whose own name has an equals sign is a path.
            if not equals or Path(file).exists():
                labels += read_people(file, columns=columns)
                continue
            metric, bound = metric_and_bound(metric)
            labels_of_file = read_people(path, bound=bound, columns=columns)
            metrics = {label.metric for label in labels_of_file}
            if len(metrics) > 1:
                raise ConfigError(
                    f"{path} holds labels of {', '.join(sorted(metrics))}: which of them are of "
                    f"{metric}? Give each a file of its own"
                )
            labels += [replace(label, metric=metric) for label in labels_of_file]
            if bound is not None:
                bounds[metric] = bound
        return cls(labels, bounds)

    def of(self, metric: str, key: Key) -> list[HumanLabel]:
        """The people's labels of an answer by a metric, also those of people who passed it over.

        Labels that do not say on which contexts they are count on all.

        Args:
            key: the digests of the answer, as `key_of` gives them; its contexts may be `ANY`.
        """
        question, answer, contexts = key
        labels = [*self._by_key.get((metric, key), ())]
        if contexts != ANY:
            labels += self._by_key.get((metric, (question, answer, None)), ())
        return labels

    def by_metric(self) -> dict[str, int]:
        """How many labels with a value each metric has; 0 where people passed over every answer.

        A report shows with it which metrics can be compared with people.
        """
        counts: dict[str, int] = {}
        for label in self.labels:
            counts.setdefault(label.metric, 0)  # a metric of which all were passed over has none
            if label.value is not None:
                counts[label.metric] += 1
        return counts


def value_of(labels: Sequence[HumanLabel]) -> float | None:
    """The mean of several people's labels of one thing; None where all of them passed it over.

    A metric of an answer is compared with it: with several people, their mean is the best guess.
    """
    values = [label.value for label in labels if label.value is not None]
    if not values:
        return None
    return sum(values) / len(values)
