"""SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from ragbench.io.ids import derived_id
from ragbench.io.json_files import load
from ragbench.io.source import Kind, Problems, Row, Source

__all__ = [
    "flatten_squad_row",
    "paragraph_id",
    "read",
    "spans",
]


def paragraph_id(text: str) -> str:
    """The id of a paragraph: SQuAD names none, so it is made from the text.

    Returns:
        ``"p-"`` and 12 hexadecimal digits.
    """
    return derived_id("p", text, digits=12)


def spans(
    answers: Iterable[tuple[str, object]], context: str, document_id: str
) -> list[dict[str, object]]:
    """Evidence for distinct answers.

    Args:
        answers: text of the answer and its offset in the paragraph, in characters.
        context: the paragraph.
        document_id: its id.

    Returns:
        One object an answer. Offsets are given only when the text really stands there.
    """
    found: list[dict[str, object]] = []
    for text, start in dict.fromkeys(answers):
        span: dict[str, object] = {"text": text, "document_id": document_id}
        if type(start) is int and start >= 0 and context.startswith(text, start):
            span |= {"start": start, "end": start + len(text)}
        found.append(span)
    return found


def flatten_squad_row(values: Mapping[str, object]) -> dict[str, object]:
    """Reads ``context`` and ``answers: {text: [...], answer_start: [...]}`` as SQuAD means them.

    Args:
        values: a row whose ``answers`` is an object.

    Returns:
        The row with the paragraph as gold context, spans as evidence, and ``title`` as the
        cluster. A row of any other shape comes back as it is.
    """
    row = dict(values)
    answers = cast("Mapping[str, object]", row.get("answers"))
    context, texts, starts = row.get("context"), answers.get("text"), answers.get("answer_start")
    if not isinstance(context, str) or not isinstance(texts, list) or not isinstance(starts, list):
        return row
    del row["context"]
    if isinstance(row.get("title"), str) and "cluster" not in row:
        row["cluster"] = row.pop("title")
    if not texts:
        # SQuAD 2.0: the paragraph was written beside the question and does not answer it.
        row |= {"reference_contexts": [], "reference_context_ids": [], "context": context}
        row.setdefault("answerable", False)
        return row
    row.setdefault("answerable", True)
    identifier = paragraph_id(context)
    pairs = zip(cast("list[object]", texts), cast("list[object]", starts), strict=False)
    row["reference_contexts"] = [context]
    row["reference_context_ids"] = [identifier]
    row["evidence"] = spans(
        ((text, start) for text, start in pairs if isinstance(text, str)), context, identifier
    )
    return row


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
