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
import re
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
from ragbench.io.export import Exported, Scores
from ragbench.io.fields import entry_fields, named, says_verdict
from ragbench.io.json_text import in_case, json_bytes
from ragbench.io.source import Problems, Row, Source, noting_read_errors
from ragbench.io.values import (
    ValueProblem,
    as_list,
    as_number,
    as_texts,
    is_list,
    is_missing,
    is_object,
    parse_cell,
)

Key = tuple[str, str, str | None]
"""Digests of question, answer and contexts; None: the label does not say on which contexts."""


class HumanLabel(Record):
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
        return self.key, self.metric


@cache
def _names() -> Mapping[str, tuple[str, ...]]:
    """The names of each field of a label; those of a case are known by theirs, too."""
    also = {"question": "query", "answer": "response", "contexts": "retrieved_contexts"}
    return {
        name: (*names, *(entry_fields()[also[name]] if name in also else ()))
        for name, names in named("label").items()
    }


@cache
def _words() -> Mapping[str, float | None]:
    """What words say; None: the person passed it over."""
    values = {"right": 1.0, "partly": 0.5, "wrong": 0.0, "skipped": None}
    return {word: values[name] for name, words in named("label_words").items() for word in words}


def digest_of(texts: Iterable[str]) -> str:
    """The same for texts that differ in white space or in how letters are composed alone."""
    normal = [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]
    return hashlib.sha256(json.dumps(normal).encode()).hexdigest()[:24]


NOTHING = digest_of([""])


def key_of(question: str, answer: str, contexts: Sequence[str] | None) -> Key:
    return (
        digest_of([question]),
        digest_of([answer]),
        None if contexts is None else digest_of(contexts),
    )


def read_people(path: str | Path) -> tuple[HumanLabel, ...]:
    """Reads labels in any of the forms; of several by one person on one thing the last one counts.

    Raises:
        DataError: it cannot be read, or a row is no label; holds every problem.
    """
    problems, source = Problems(), Source.of(path)
    found: dict[tuple[Any, ...], HumanLabel] = {}
    with closing(source), noting_read_errors(source.name, problems):
        for row in container_rows(source, problems):
            try:
                found |= {(*label.item, label.by): label for label in _labels(row)}
            except ValueProblem as problem:
                problems.add(str(problem), path=row.path, line=row.line)
    problems.raise_if_any()
    if not found:
        raise DataError([Problem(message="holds no label", path=str(path))])
    return tuple(found.values())


def _labels(row: Row) -> Iterator[HumanLabel]:
    values = row.values
    form: type[_Task | _Record] | None = None
    if is_object(values.get("data")) and "annotations" in values:
        form = _Task
    elif is_object(values.get("fields")) and "responses" in values:
        form = _Record
    try:
        rows = [values] if form is None else [*msgspec.convert(dict(values), form).rows()]
    except msgspec.ValidationError as error:
        raise ValueProblem(f"is not as its tool exports it: {error}") from None
    for entry in rows:
        plain: dict[str, object] = {}
        verdicts: list[object] = []
        for name, value in entry.items():
            plain[re.sub("[ -]", "_", str(name).strip().casefold())] = value
            if says_verdict(str(name)):
                verdicts.append(value)
        yield _label(plain, verdicts, cells=row.cells)


def _label(values: Mapping[str, object], verdicts: Sequence[object], *, cells: bool) -> HumanLabel:
    """A label of a row's fields.

    Args:
        verdicts: the values of the fields whose names say that they hold one, such as ``OK?``.
    """
    known = {
        target: next((values[name] for name in names if not is_missing(values.get(name))), None)
        for target, names in _names().items()
    }
    question, answer = known["question"], known["answer"]
    given, contexts, digest = known["contexts"], None, known["digest"]
    if answer is None and not (given is None and digest is None):
        answer = ""  # of what was retrieved alone
    if not isinstance(question, str) or not isinstance(answer, str):
        lacking = "question" if not isinstance(question, str) else "answer"
        raise ValueProblem(
            f"field '{lacking}' is missing, or not a text: a label is known by its question and "
            f"its answer. The fields are: {', '.join(map(str, values)) or 'none'}"
        )
    value = known["value"]
    if not any(name in values for name in _names()["value"]):
        if len(verdicts) != 1:
            raise ValueProblem(
                f"no field holds the label. It is in one of: {', '.join(_names()['value'])}"
            )
        value = None if is_missing(verdicts[0]) else verdicts[0]
    if cells and isinstance(given, str):
        given = parse_cell("retrieved_contexts", given)
    if given is not None:
        contexts = as_texts(given)
    key, drawn = key_of(question, answer, contexts), known["drawn"]
    return HumanLabel(
        question=question,
        answer=answer,
        contexts=contexts,
        metric=str(known["metric"] or ""),
        value=label_value(value),
        by=str(known["by"] or "somebody"),
        key=(key[0], key[1], str(digest)) if digest is not None else key,
        is_of_pairs=is_object(drawn) and drawn.get("differing") is True,
        is_drawn=is_object(drawn) or drawn in (True, "true", "True", "TRUE"),
        case=str(known["case"] or ""),
    )


def is_yes_or_no(value: object) -> bool:
    """Whether a value is a verdict: yes, no, partly, true, false, 1 or 0, or a word for these."""
    if isinstance(value, str):
        word = re.sub("[ -]", "_", value.strip().casefold())
        return word in ("0", "1", "0.0", "1.0") or _words().get(word) is not None
    return isinstance(value, (bool, int, float)) and value in (0, 1)


def label_value(given: object) -> float | None:
    word = re.sub("[ -]", "_", given.strip().casefold()) if isinstance(given, str) else ""
    if given is None or word in _words():
        return None if given is None else _words()[word]
    try:
        return as_number(float(word) if word else float(given) if given in (0, 1) else given)
    except (ValueProblem, ValueError):
        raise ValueProblem(
            f"field 'value': {given!r} is not a label. Expected a number on the metric's scale, "
            "yes, no, partly or skip"
        ) from None


class _Result(msgspec.Struct):
    value: dict[str, Any]
    from_name: str = ""


class _Annotation(msgspec.Struct):
    completed_by: Any = None
    was_cancelled: bool = False
    result: list[_Result] = []


class _Task(msgspec.Struct):
    """A task of Label Studio's JSON: what every annotator chose or rated, by the control's name."""

    data: dict[str, Any]
    annotations: list[_Annotation]

    def rows(self) -> Iterator[dict[str, object]]:
        for one in self.annotations:
            who = one.completed_by
            by = who.get("email") if is_object(who) else who
            for result in () if one.was_cancelled else one.result:
                for name in ("choices", "rating", "number"):
                    if (said := result.value.get(name)) is not None:
                        value = as_list(said)[0] if is_list(said) and said else said
                        yield _said(self.data, result.from_name, value, by)


class _Response(msgspec.Struct):
    value: Any = None
    user_id: Any = None
    status: str | None = None
    values: dict[str, _Response] | None = None


class _Record(msgspec.Struct):
    """A record of Argilla: responses of 2.x by question, those of 1.x by person."""

    fields: dict[str, Any]
    responses: dict[str, list[_Response]] | list[_Response] | None

    def rows(self) -> Iterator[dict[str, object]]:
        given = self.responses or {}
        if isinstance(given, list):
            found = [
                (one, name, each) for one in given for name, each in (one.values or {}).items()
            ]
        else:
            found = [(one, name, one) for name, some in given.items() for one in some]
        for one, name, answer in found:
            if one.status in (None, "submitted"):
                yield _said(self.fields, name, answer.value, one.user_id)


def _said(base: Mapping[str, object], name: str, value: object, by: object) -> dict[str, object]:
    return {**base, "metric": base.get("metric") or name, "value": value, "by": by}


# --- what was said in production, written as labels


def write_labels(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """People's feedback as labels, a line each, with the question, contexts and answer judged."""
    done = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            rows = [*_judged(trace, done)]
            with in_case(trace.case.id):
                file.writelines(json_bytes(row) + b"\n" for row in rows)
            done.written += bool(rows)
    return done


def _judged(trace: Trace, done: Exported) -> Iterator[dict[str, Any]]:
    case, answer, context = trace.case, trace.generation.value, trace.context.value
    given = case.metadata.get("feedback")
    if not is_list(given) or answer is None:
        done.leave_out("no answer is recorded" if given else "nobody gave feedback")
        return
    for one in filter(is_object, given):
        value = None
        with suppress(ValueProblem):
            value = label_value(one.get("value"))
        if one.get("is_model"):
            done.leave_out("the feedback is a model's")
        elif value is None:
            done.leave_out("the feedback is neither a number nor yes or no")
        else:
            yield {
                "case": case.id,
                "question": case.query,
                "contexts": [] if context is None else context.contexts,
                "answer": answer.response,
                "metric": one.get("name"),
                "value": value,
                "by": one.get("by"),
            }


# --- in use


ANY = "*"
"""In place of contexts: whatever they are."""


class LabelBook:
    """Labels, found by question, answer and contexts."""

    def __init__(self, labels: Iterable[HumanLabel]) -> None:
        self.labels = tuple(labels)
        self._found: dict[tuple[str, Key], list[HumanLabel]] = {}
        for label in self.labels:
            question, answer, _ = label.key
            for key in (label.key, (question, answer, ANY)):
                self._found.setdefault((label.metric, key), []).append(label)

    @classmethod
    def read(cls, given: Sequence[str | Path]) -> LabelBook:
        """Files, or ``METRIC=FILE`` where a file does not name the metric as ragbench does."""
        found: list[HumanLabel] = []
        for entry in map(str, given):
            metric, equals, path = entry.rpartition("=")
            if not equals or Path(entry).exists():
                found += read_people(entry)
                continue
            labels = read_people(path)
            if len(names := {label.metric for label in labels}) > 1:
                raise ConfigError(
                    f"{path} holds labels of {', '.join(sorted(names))}: which of them are of "
                    f"{metric}? Give each a file of its own"
                )
            found += (replace(label, metric=metric) for label in labels)
        return cls(found)

    def of(self, metric: str, key: Key) -> list[HumanLabel]:
        """What people said of it, those included who passed it over.

        Labels that do not say on which contexts they are count on all.
        """
        found = [*self._found.get((metric, key), ())]
        if key[2] != ANY:
            found += self._found.get((metric, (key[0], key[1], None)), ())
        return found

    def by_metric(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for label in self.labels:
            counts[label.metric] = counts.get(label.metric, 0) + (label.value is not None)
        return counts


def value_of(labels: Sequence[HumanLabel]) -> float | None:
    """The mean of what people said of one thing; None where all passed it over."""
    known = [label.value for label in labels if label.value is not None]
    return sum(known) / len(known) if known else None
