"""What SQuAD means by a paragraph and its answers: gold contexts, and spans as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ragbench.io.ids import derived_id


def paragraph_id(text: str) -> str:
    """The id of a paragraph: SQuAD names none, so it is made from the text."""
    return derived_id("p", text, digits=12)


def spans(
    answers: Iterable[tuple[str, object]], context: str, document_id: str
) -> list[dict[str, object]]:
    """Evidence for distinct answers.

    Args:
        answers: text of the answer and its offset in the paragraph, in characters.
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

    Returns:
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
