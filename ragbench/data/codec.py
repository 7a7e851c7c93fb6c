"""ragbench's own form of cases and documents: plain JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ragbench.data.decoder import build_case, build_document, read_fields
from ragbench.data.fields import FieldPlan
from ragbench.data.problems import Problems
from ragbench.data.rows import Row
from ragbench.records.cases import Case, Evidence
from ragbench.records.corpus import Document

__all__ = ["decode_case", "decode_document", "encode_case", "encode_document"]

_CASE_FIELDS = tuple(Case.__dataclass_fields__)
_DOCUMENT_FIELDS = tuple(Document.__dataclass_fields__)


def encode_case(case: Case) -> dict[str, Any]:
    """A case as a JSON object: fields in a fixed order, those that say nothing left out.

    An empty tuple in ``reference_contexts`` or ``reference_context_ids`` says something and is
    kept.
    """
    values: dict[str, Any] = {"id": case.id, "query": case.query}
    if case.reference is not None:
        values["reference"] = case.reference
    if case.alternative_references:
        values["alternative_references"] = case.alternative_references
    if case.reference_contexts is not None:
        values["reference_contexts"] = case.reference_contexts
    if case.reference_context_ids is not None:
        values["reference_context_ids"] = case.reference_context_ids
    if case.grades is not None:
        values["grades"] = dict(case.grades)
    if case.evidence:
        values["evidence"] = [_encode_evidence(span) for span in case.evidence]
    return values | _encode_rest(case)


def decode_case(values: Mapping[str, Any]) -> Case:
    """The case of a JSON object in ragbench's own form; unknown fields become metadata.

    Raises:
        DataError: a field is missing or wrong; holds every wrong field.
    """
    return build_case(_decode(values, _CASE_FIELDS, ("id", "query")))


def encode_document(document: Document) -> dict[str, Any]:
    """A document as a JSON object."""
    values: dict[str, Any] = {"id": document.id}
    if document.title is not None:
        values["title"] = document.title
    values["text"] = document.text
    if document.metadata:
        values["metadata"] = dict(document.metadata)
    return values


def decode_document(values: Mapping[str, Any]) -> Document:
    """The document of a JSON object in ragbench's own form; unknown fields become metadata.

    Raises:
        DataError: a field is missing or wrong; holds every wrong field.
    """
    return build_document(_decode(values, _DOCUMENT_FIELDS, ("id", "text")))


def _encode_rest(case: Case) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if case.answerable is not None:
        values["answerable"] = case.answerable
    if case.cluster is not None:
        values["cluster"] = case.cluster
    if case.tags:
        values["tags"] = case.tags
    if case.language is not None:
        values["language"] = case.language
    if case.metadata:
        values["metadata"] = dict(case.metadata)
    return values


def _encode_evidence(span: Evidence) -> dict[str, Any]:
    values: dict[str, Any] = {"text": span.text}
    if span.document_id is not None:
        values["document_id"] = span.document_id
    if span.start is not None:
        values["start"] = span.start
    if span.end is not None:
        values["end"] = span.end
    return values


def _decode(
    values: Mapping[str, Any], names: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, Any]:
    problems = Problems()
    found = read_fields(Row("", None, values), _plan(tuple(values), names), problems)
    for name in required:
        if found is not None and name not in found:
            problems.add(f"expected the {name}, found none", field=name)
    problems.raise_if_any()
    return found or {}


@lru_cache(maxsize=256)
def _plan(present: tuple[str, ...], names: tuple[str, ...]) -> FieldPlan:
    return FieldPlan(
        bindings=tuple((name, name) for name in present if name in names),
        rest=tuple(name for name in present if name not in names),
    )
