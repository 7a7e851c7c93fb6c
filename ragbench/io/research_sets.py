"""SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ragbench.core.in_words import UnreadableError
from ragbench.io.json_files import load
from ragbench.io.source import Kind, Problems, Row, Source, derived_id
from ragbench.io.values import as_list, as_object, is_list, is_object

Values = Mapping[str, object]


class _Paragraph(NamedTuple):
    """A paragraph of an article with the questions about it."""

    title: str | None
    """Of the Wikipedia article that the paragraph is from."""
    context: str
    questions: list[object]
    place: str
    """Such as ``data[3].paragraphs[0]``: what the file calls it."""


def read_squad(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per question of a SQuAD file, or as documents one per distinct paragraph.

    ``formats.toml`` names this reader.

    SQuAD nests questions in paragraphs of articles, from which no reader of plain records gets
    cases. The row's line is the number of the question, or of the paragraph, in the file.
    """
    paragraphs = _paragraphs(load(source, problems), source.name, problems)
    if kind == "cases":
        yield from _squad_cases(paragraphs, source.name, problems)
        return
    # Read as documents, a paragraph that several articles share is one document.
    read_ids: set[str] = set()
    for number, paragraph in enumerate(paragraphs, start=1):
        paragraph_id = _paragraph_id(paragraph.context)
        if paragraph_id not in read_ids:
            read_ids.add(paragraph_id)
            values = {"id": paragraph_id, "text": paragraph.context, "title": paragraph.title}
            yield Row(source.name, number, values)


def _paragraphs(document: object, path: str, problems: Problems) -> Iterator[_Paragraph]:
    """The paragraphs of all articles of a SQuAD file, without those that are malformed.

    Args:
        document: the parsed file; None is a file that could not be read, which is noted already.
        path: the file, as problems name it.
    """
    articles = as_object(document).get("data")
    if document is not None and not is_list(articles):
        raise UnreadableError("expected an object with a list under 'data'")
    # Damage is noted at each level with its place, and what is sound beside it is read.
    for article_number, article in enumerate(as_list(articles)):
        article_place = f"data[{article_number}]"
        fields = as_object(article)
        title = fields.get("title")
        paragraphs = fields.get("paragraphs")
        if not is_list(paragraphs) or not isinstance(title, (str, type(None))):
            message = "expected 'title' and a list of 'paragraphs'"
            problems.add(message, path=path, field=article_place)
            continue
        for position, paragraph in enumerate(paragraphs):
            fields = as_object(paragraph)
            context = fields.get("context")
            questions = fields.get("qas", [])
            place = f"{article_place}.paragraphs[{position}]"
            if isinstance(context, str) and is_list(questions):
                yield _Paragraph(title, context, [*questions], place)
            else:
                message = "expected 'context' as text and a list of 'qas'"
                problems.add(message, path=path, field=place)


def _squad_cases(paragraphs: Iterator[_Paragraph], path: str, problems: Problems) -> Iterator[Row]:
    """A row per question of a SQuAD file, numbered over all paragraphs.

    The number serves as the line in a report: JSON on one line has no better one.

    Args:
        path: the file, as rows and problems name it.
    """
    number = 0
    for paragraph in paragraphs:
        for position, question in enumerate(paragraph.questions):
            # Counted before it is looked at: the number is the question's place in the file.
            number += 1
            place = f"{paragraph.place}.qas[{position}]"
            if not is_object(question):
                problems.add("expected a question object", path=path, line=number, field=place)
                continue
            answers = _answers_with_starts(question.get("answers"))
            if answers is None:
                message = "expected a list of objects with 'text' and 'answer_start'"
                problems.add(message, path=path, line=number, field=f"{place}.answers")
                continue
            yield Row(path, number, _squad_case(question, answers, paragraph))


def _squad_case(
    question: Values, answers: list[tuple[str, object]], paragraph: _Paragraph
) -> dict[str, object]:
    """A question of SQuAD as the fields of a case, with its paragraph as gold context.

    An impossible question names the paragraph that does not answer it, and has no gold. Questions
    on one article are a cluster, since they are not independent.

    Args:
        question: the question as the file has it; fields that are not SQuAD's stay.
        answers: each with where it starts in the paragraph.
    """
    case = dict(question)
    case["cluster"] = paragraph.title  # questions on one article are not independent
    case["answers"] = [text for text, _ in answers]
    is_impossible = question.get("is_impossible")
    if is_impossible is True:
        case |= _NO_GOLD
        case["answers"] = None
        case["paragraph_id"] = _paragraph_id(paragraph.context)
        return case
    if is_impossible is None and answers:  # SQuAD 1.1: each of its questions has an answer
        case["answerable"] = True
    return case | _gold(paragraph.context, answers)


def _answers_with_starts(value: object) -> list[tuple[str, object]] | None:
    """The answers of a SQuAD question, each with where it starts in the paragraph.

    None where the field holds something else than answers, which the caller reports. The starts are
    checked later, against the paragraph's text.
    """
    if value is not None and not is_list(value):
        return None
    answers: list[tuple[str, object]] = []
    for answer in as_list(value):
        fields = as_object(answer)
        text = fields.get("text")
        if not isinstance(text, str):
            return None
        answers.append((text, fields.get("answer_start")))
    return answers


_NO_GOLD: dict[str, object] = {"reference_contexts": [], "reference_context_ids": []}
"""Of SQuAD 2.0: the paragraph was written beside the question and does not answer it."""


def _gold(context: str, answers: Iterable[tuple[str, object]]) -> dict[str, object]:
    """What SQuAD's answers make of a paragraph: gold context, and their spans as evidence.

    Each distinct answer is a span of the paragraph, by which a chunk is known to hold it.

    Args:
        context: the paragraph.
        answers: each a text and its offset in the paragraph, in characters.
    """
    paragraph_id = _paragraph_id(context)
    spans: list[dict[str, object]] = []
    for text, start in dict.fromkeys(answers):
        span: dict[str, object] = {"text": text, "document_id": paragraph_id}
        # A start at which the text does not stand is wrong: then the text alone is given.
        if type(start) is int and start >= 0 and context.startswith(text, start):
            span |= {"start": start, "end": start + len(text)}
        spans.append(span)
    return {
        "reference_contexts": [context],
        "reference_context_ids": [paragraph_id],
        "evidence": spans,
    }


def _paragraph_id(text: str) -> str:
    """The id of a paragraph: SQuAD names none, so it is made from the text.

    A case's gold and the corpus's document have to get the same id, also in different runs: with
    other digits or another prefix, stored ids match no more.
    """
    return derived_id("p", text, digits=12)


def flatten_squad_row(values: Values) -> Values:
    """A row of SQuAD from the hub of Hugging Face, with the fields of a case.

    There ``context`` is the gold paragraph, and ``answers`` is ``{text: [...], answer_start:
    [...]}``. A row of any other shape comes back as it is.
    """
    answers = as_object(values.get("answers"))
    context = values.get("context")
    texts = answers.get("text")
    starts = answers.get("answer_start")
    has_answers = is_list(texts) and is_list(starts)
    if not isinstance(context, str) or not has_answers:
        return values
    row = dict(values)
    del row["context"]
    if isinstance(row.get("title"), str) and "cluster" not in row:
        row["cluster"] = row.pop("title")
    row.setdefault("answerable", bool(texts))
    if not texts:
        # The paragraph does not answer the question: it is no gold, and keeps its name.
        return row | _NO_GOLD | {"context": context}
    spans: list[tuple[str, object]] = []
    for text, start in zip(as_list(texts), as_list(starts), strict=False):
        if isinstance(text, str):
            spans.append((text, start))
    return row | _gold(context, spans)
