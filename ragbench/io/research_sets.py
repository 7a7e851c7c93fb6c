"""SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from ragbench.io.json_files import load
from ragbench.io.limits import UnreadableError
from ragbench.io.source import Kind, Problems, Row, Source, derived_id
from ragbench.io.values import as_list, as_object, is_list, is_object

Values = Mapping[str, object]


class _Paragraph(NamedTuple):
    title: str | None
    context: str
    questions: list[object]
    place: str
    """Such as ``data[3].paragraphs[0]``: what the file calls it."""


def read_squad(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a question, or one a distinct paragraph.

    The row's line is the number of the question, or of the paragraph, in the file.
    """
    paragraphs = _paragraphs(load(source, problems), source.name, problems)
    if kind == "cases":
        yield from _squad_cases(paragraphs, source.name, problems)
        return
    seen: set[str] = set()
    for number, paragraph in enumerate(paragraphs, start=1):
        identifier = _paragraph_id(paragraph.context)
        if identifier not in seen:
            seen.add(identifier)
            values = {"id": identifier, "text": paragraph.context, "title": paragraph.title}
            yield Row(source.name, number, values)


def _paragraphs(value: object, path: str, problems: Problems) -> Iterator[_Paragraph]:
    data = as_object(value).get("data")
    if value is not None and not is_list(data):
        raise UnreadableError("expected an object with a list under 'data'")
    for number, item in enumerate(as_list(data)):
        place = f"data[{number}]"
        title, paragraphs = map(as_object(item).get, ("title", "paragraphs"))
        if not is_list(paragraphs) or not isinstance(title, (str, type(None))):
            problems.add("expected 'title' and a list of 'paragraphs'", path=path, field=place)
            continue
        for position, inner in enumerate(as_list(paragraphs)):
            paragraph = as_object(inner)
            context, questions = paragraph.get("context"), paragraph.get("qas", [])
            inner_place = f"{place}.paragraphs[{position}]"
            if isinstance(context, str) and is_list(questions):
                yield _Paragraph(title, context, as_list(questions), inner_place)
            else:
                message = "expected 'context' as text and a list of 'qas'"
                problems.add(message, path=path, field=inner_place)


def _squad_cases(paragraphs: Iterator[_Paragraph], path: str, problems: Problems) -> Iterator[Row]:
    number = 0
    for paragraph in paragraphs:
        for position, item in enumerate(paragraph.questions):
            number += 1
            place = f"{paragraph.place}.qas[{position}]"
            if not is_object(item):
                problems.add("expected a question object", path=path, line=number, field=place)
                continue
            answers = _squad_answers(item.get("answers"))
            if answers is None:
                message = "expected a list of objects with 'text' and 'answer_start'"
                problems.add(message, path=path, line=number, field=f"{place}.answers")
                continue
            yield Row(path, number, _squad_case(item, answers, paragraph))


def _squad_case(
    question: Values, answers: list[tuple[str, object]], paragraph: _Paragraph
) -> dict[str, object]:
    case = {**question, "cluster": paragraph.title, "answers": [text for text, _ in answers]}
    impossible = question.get("is_impossible")
    if impossible is True:
        paragraph_id = _paragraph_id(paragraph.context)
        return case | _NO_GOLD | {"answers": None, "paragraph_id": paragraph_id}
    if impossible is None and answers:  # SQuAD 1.1: each of its questions has an answer
        case["answerable"] = True
    return case | _gold(paragraph.context, answers)


def _squad_answers(value: object) -> list[tuple[str, object]] | None:
    if value is not None and not is_list(value):
        return None
    answers = map(as_object, as_list(value))
    found = [(answer.get("text"), answer.get("answer_start")) for answer in answers]
    texts = [(text, start) for text, start in found if isinstance(text, str)]
    return texts if len(texts) == len(found) else None


_NO_GOLD: dict[str, object] = {"reference_contexts": [], "reference_context_ids": []}
"""Of SQuAD 2.0: the paragraph was written beside the question and does not answer it."""


def _gold(context: str, answers: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The paragraph as gold context, and the spans of distinct answers as evidence.

    An answer is a text and its offset in the paragraph, in characters.
    """
    identifier = _paragraph_id(context)
    spans: list[dict[str, object]] = []
    for text, start in dict.fromkeys(answers):
        span: dict[str, object] = {"text": text, "document_id": identifier}
        if type(start) is int and start >= 0 and context.startswith(text, start):
            span |= {"start": start, "end": start + len(text)}
        spans.append(span)
    return {
        "reference_contexts": [context],
        "reference_context_ids": [identifier],
        "evidence": spans,
    }


def _paragraph_id(text: str) -> str:
    """The id of a paragraph: SQuAD names none, so it is made from the text."""
    return derived_id("p", text, digits=12)


def flatten_squad_row(values: Values) -> Values:
    """Reads ``context`` and ``answers: {text: [...], answer_start: [...]}`` as SQuAD means them.

    A row of any other shape comes back as it is.
    """
    answers = cast("Values", values.get("answers"))
    context, texts, starts = values.get("context"), answers.get("text"), answers.get("answer_start")
    if not isinstance(context, str) or not is_list(texts) or not is_list(starts):
        return values
    row = {name: value for name, value in values.items() if name != "context"}
    if isinstance(row.get("title"), str) and "cluster" not in row:
        row["cluster"] = row.pop("title")
    row.setdefault("answerable", bool(texts))
    if not texts:
        return row | _NO_GOLD | {"context": context}
    pairs = zip(as_list(texts), as_list(starts), strict=False)
    return row | _gold(context, [(text, start) for text, start in pairs if isinstance(text, str)])
