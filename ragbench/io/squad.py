"""SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from ragbench.io.json_files import load
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.squad_rows import paragraph_id, spans

_QUESTION_FIELDS = frozenset({"id", "question", "answers", "is_impossible"})


class _Paragraph(NamedTuple):
    title: str | None
    context: str
    questions: list[object]
    place: str
    """Such as ``data[3].paragraphs[0]``: what the file calls it."""


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a question, or one a distinct paragraph.

    The row's line is the number of the question, or of the paragraph, in the file.
    """
    known = len(problems)
    value = load(source, problems)
    if value is None and len(problems) > known:
        return
    paragraphs = _paragraphs(value, source.name, problems)
    if kind == "documents":
        yield from _documents(paragraphs, source.name)
    else:
        yield from _cases(paragraphs, source.name, problems)


def _documents(paragraphs: Iterator[_Paragraph], path: str) -> Iterator[Row]:
    seen: set[str] = set()
    for number, paragraph in enumerate(paragraphs, start=1):
        identifier = paragraph_id(paragraph.context)
        if identifier not in seen:
            seen.add(identifier)
            values = {"id": identifier, "text": paragraph.context, "title": paragraph.title}
            yield Row(path, number, values)


def _cases(paragraphs: Iterator[_Paragraph], path: str, problems: Problems) -> Iterator[Row]:
    number = 0
    for paragraph in paragraphs:
        for position, item in enumerate(paragraph.questions):
            number += 1
            place = f"{paragraph.place}.qas[{position}]"
            if not isinstance(item, dict):
                problems.add("expected a question object", path=path, line=number, field=place)
                continue
            question = cast("dict[str, object]", item)
            answers = _answers(question.get("answers"))
            if answers is None:
                message = "expected a list of objects with 'text' and 'answer_start'"
                problems.add(message, path=path, line=number, field=f"{place}.answers")
                continue
            yield Row(path, number, _case(question, answers, paragraph))


def _case(
    question: Mapping[str, object], answers: list[tuple[str, object]], paragraph: _Paragraph
) -> dict[str, object]:
    identifier = paragraph_id(paragraph.context)
    impossible = question.get("is_impossible")
    case: dict[str, object] = {
        "id": question.get("id"),
        "query": question.get("question"),
        "cluster": paragraph.title,
    }
    if impossible is not None:
        case["is_impossible"] = impossible
    elif answers:  # SQuAD 1.1 has no such field: each of its questions has an answer
        case["answerable"] = True
    if impossible is True:
        # The paragraph was written beside the question and does not answer it.
        case |= {"reference_contexts": [], "reference_context_ids": []}
        case["paragraph_id"] = identifier
    else:
        case["answers"] = [text for text, _ in answers]
        case["reference_contexts"] = [paragraph.context]
        case["reference_context_ids"] = [identifier]
        case["evidence"] = spans(answers, paragraph.context, identifier)
    case["metadata"] = {k: v for k, v in question.items() if k not in _QUESTION_FIELDS}
    return case


def _answers(value: object) -> list[tuple[str, object]] | None:
    if value is None:
        return []
    if not isinstance(value, list):
        return None
    found: list[tuple[str, object]] = []
    for item in cast("list[object]", value):
        answer = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        text = answer.get("text")
        if not isinstance(text, str):
            return None
        found.append((text, answer.get("answer_start")))
    return found


def _paragraphs(value: object, path: str, problems: Problems) -> Iterator[_Paragraph]:
    root = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if not isinstance(root.get("data"), list):
        if value is not None:
            problems.add("expected an object with a list under 'data'", path=path)
        return
    for number, item in enumerate(cast("list[object]", root["data"])):
        place = f"data[{number}]"
        article = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        title, paragraphs = article.get("title"), article.get("paragraphs")
        if not isinstance(paragraphs, list) or not isinstance(title, (str, type(None))):
            problems.add("expected 'title' and a list of 'paragraphs'", path=path, field=place)
            continue
        for position, inner in enumerate(cast("list[object]", paragraphs)):
            paragraph = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
            context, questions = paragraph.get("context"), paragraph.get("qas", [])
            inner_place = f"{place}.paragraphs[{position}]"
            if not isinstance(context, str) or not isinstance(questions, list):
                message = "expected 'context' as text and a list of 'qas'"
                problems.add(message, path=path, field=inner_place)
                continue
            yield _Paragraph(title, context, cast("list[object]", questions), inner_place)
