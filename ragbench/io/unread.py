"""What a field without a role could be read as: shown with an example and the line that says so.

A field that nobody named, and that no form of a tool explains, is not read. Its user sees what it
holds, and the ``--field`` line that would give it a role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ragbench.io.dumps.form import getter, opened_json
from ragbench.io.fields import field_names, says_gold, says_verdict
from ragbench.io.json_text import json_text
from ragbench.io.proposals import labels_value
from ragbench.io.ratings import RatingScale, scale_of
from ragbench.io.values import is_list, is_missing, is_object
from ragbench.io.verdicts import is_verdict
from ragbench.shell import shell_quoted

_SHOWN = 60
"""Characters of a value that a note shows."""
# Where the documents of frameworks and stores hold their texts and ids, such as LlamaIndex,
# LangChain, Haystack and Qdrant.
_TEXT_PATHS = (
    "node.text",
    "kwargs.page_content",
    "document.content",
    "payload.text",
    "_source.text",
)
_ID_PATHS = ("node.id_", "id_", "document.id", "metadata.id", "metadata.source", "meta.name")


def gold_of_objects(target: str, value: object) -> object:
    """The texts, or the ids, of objects that a dataset calls relevant, for a field of a case.

    Datasets keep frameworks' document objects as gold. Anything but a list of objects that all have
    one stays as it is: the field's own error then says what is wrong.

    Args:
        target: the field of the case; other fields than those for gold keep their value.
    """
    if target not in ("reference_contexts", "reference_context_ids") or not is_list(value):
        return value
    if not value or not all(map(is_object, value)):
        return value
    if target == "reference_contexts":
        paths = (*field_names("hit")["text"], *_TEXT_PATHS)
    else:
        paths = (*field_names("hit")["id"], *_ID_PATHS)
    texts_or_ids: list[object] = []
    for document in value:
        for path in paths:
            text_or_id = getter(path)(document)
            if type(text_or_id) in (str, int):
                texts_or_ids.append(text_or_id)
                break
        # This document has none of the fields: the list is not one of documents of a known form.
        else:
            return value
    return texts_or_ids


def document_notes(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], used_fields: Collection[str]
) -> Iterator[str]:
    """Notes on unread fields that hold documents, each with the ``--field`` option to read it.

    Only the user knows whether they were retrieved or are what is relevant.

    Args:
        rows: records of the source.
        unused: their fields without a role.
        used_fields: the fields of a case, or of what a system did, that have one.
    """
    for name in unused:
        values = [opened_json(row.get(name)) for row in rows]
        documents = [value for value in values if value not in (None, "", [])]
        if not documents or not all(map(_are_documents, documents)):
            continue
        example = json_text(documents[0])
        if len(example) > _SHOWN:
            example = f"{example[:_SHOWN]}..."
        note = f"'{name}' is not read (it holds {example}): if"
        header = shell_quoted(name)
        if not says_gold(name) and "retrieved_contexts" not in used_fields:
            yield f"{note} your system retrieved it, add --field retrieved_contexts={header}"
        elif "reference_contexts" not in used_fields and "reference_context_ids" not in used_fields:
            yield f"{note} it holds what is relevant, add --field reference_contexts={header}"


def verdict_notes(
    rows: Sequence[Mapping[str, object]],
    unused: Collection[str],
    used_fields: Mapping[str, str],
    path: str,
) -> Iterator[str]:
    """A note on an unread field with people's verdicts on answers, and the options that read it.

    Verdicts correct a judge's score, and lie unused in many a file, under a name such as ``OK?``.
    Name and values decide together: each value is yes or no, or a rating, or is missing. Only the
    first such field is noted.

    Args:
        rows: records of the source.
        unused: their fields without a role.
        used_fields: the fields of a case, or of what a system did, with the field that holds each.
        path: the file, as its user wrote it.
    """
    for name in unused:
        values = [row.get(name) for row in rows]
        verdicts = [value for value in values if not is_missing(value)]
        scale = scale_of(name, verdicts)
        is_of_verdicts = says_verdict(name) and all(map(is_verdict, verdicts))
        if not verdicts or (scale is None and not is_of_verdicts):
            continue
        options = _options_for_labels(used_fields, path, scale)
        if not options:
            continue
        if scale is None:
            kind = "verdicts on the answers"
            correction = "they correct the score"
        else:
            kind = "ratings of the answers"
            correction = f"they go {scale.described}"
        yield (
            f"'{name}' is not read. If it holds people's {kind}, add {options}: {correction}. "
            "ragbench label collects more (docs/labels.md)"
        )
        return


def _options_for_labels(
    used_fields: Mapping[str, str], path: str, scale: RatingScale | None
) -> str:
    """The options by which people's verdicts on answers are read as labels, for a note to show.

    Empty if the file has no answers that the verdicts could be on. Where ``answer`` was taken for
    the reference, the options first make it the system's answer.

    Args:
        used_fields: the fields of a case, or of what a system did, with the field that holds each.
        path: the file, as its user wrote it.
        scale: the scale of ratings; None for verdicts of yes and no.
    """
    if "response" in used_fields:
        metric = "answer_correct" if "reference" in used_fields else "METRIC"
        return f"--labels {labels_value(metric, path, scale)}"
    answer = used_fields.get("reference", "")
    if answer.casefold() not in _NAMES_OF_ANSWERS:
        return ""
    labels = labels_value("METRIC", path, scale)
    return f"--field response={shell_quoted(answer)} --labels {labels}"


_NAMES_OF_ANSWERS = ("answer", "answers", "output")
"""Names of a reference that people also give to their system's answer."""


def _are_documents(value: object) -> bool:
    """Whether a value of an unread field is a list of objects that all have a text.

    Such a field may hold retrieved chunks or gold, so a note asks which.
    """
    if not is_list(value) or not all(map(is_object, value)):
        return False
    return gold_of_objects("reference_contexts", value) is not value
