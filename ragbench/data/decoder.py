"""Rows to records: every field checked, every problem noted, ids made and kept unique."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.data.cells import parse_cell
from ragbench.data.fields import CASE_FIELDS, DOCUMENT_FIELDS, FieldMap, FieldPlan
from ragbench.data.ids import IdRegister, derived_id
from ragbench.data.problems import Problems
from ragbench.data.rows import Row
from ragbench.data.squad_row import flatten_squad_row
from ragbench.data.values import (
    ValueProblem,
    as_answers,
    as_evidence,
    as_flag,
    as_grades,
    as_id,
    as_ids,
    as_labels,
    as_metadata,
    as_text,
    as_texts,
    check_depth,
    is_missing,
)
from ragbench.records.cases import Case
from ragbench.records.corpus import Document

__all__ = ["CaseDecoder", "DocumentDecoder", "build_case", "build_document", "read_fields"]

_CONVERTERS: Mapping[str, Callable[[object], Any]] = {
    "id": as_id,
    "query": as_text,
    "reference": as_answers,
    "answers": as_answers,
    "alternative_references": as_texts,
    "reference_contexts": as_texts,
    "reference_context_ids": as_ids,
    "grades": as_grades,
    "evidence": as_evidence,
    "answerable": as_flag,
    "unanswerable": as_flag,
    "cluster": as_id,
    "tags": as_labels,
    "language": as_text,
    "metadata": as_metadata,
    "text": as_text,
    "title": as_text,
}


def read_fields(row: Row, plan: FieldPlan, problems: Problems) -> dict[str, Any] | None:
    """Converts the fields of one row, metadata included.

    Args:
        row: the record.
        plan: which of its fields means what.
        problems: takes one problem for each field that is wrong.

    Returns:
        The fields that the row holds, by their name in the record; None when one is wrong.
    """
    path, line, values, cells = row
    known = len(problems)
    found: dict[str, Any] = {}
    for target, source in plan.bindings:
        value = values[source]
        # White space alone says nothing as an answer, but is the text of a document as it stands.
        if is_missing(value) and not (target == "text" and type(value) is str):
            continue
        try:
            if cells:
                value = parse_cell(target, str(value))
            converted = _CONVERTERS[target](value)
        except ValueProblem as problem:
            problems.add(str(problem), path=path, line=line, field=source)
            continue
        if target in found and found[target] != converted:
            first = next(name for bound, name in plan.bindings if bound == target)
            message = _disagreement(target, first, source)
            problems.add(message, path=path, line=line, field=source)
        found[target] = converted
    if plan.rest:
        _add_rest(found, row, plan.rest, problems)
    return found if len(problems) == known else None


def build_case(found: dict[str, Any]) -> Case:
    """A case of converted fields; ``id`` and ``query`` must be among them."""
    main: tuple[str, ...] = found.pop("reference", ())
    answers: tuple[str, ...] = found.pop("answers", ())
    if answers:
        main += tuple([answer for answer in answers if answer not in main])
    if main:
        found["reference"] = main[0]
        if len(main) > 1:
            found["alternative_references"] = main[1:] + found.get("alternative_references", ())
    unanswerable: bool | None = found.pop("unanswerable", None)
    if unanswerable is not None:
        found["answerable"] = not unanswerable
    return Case(**found)


def build_document(found: dict[str, Any]) -> Document:
    """A document of converted fields; ``id`` and ``text`` must be among them."""
    return Document(**found)


@dataclass(kw_only=True, slots=True)
class CaseDecoder:
    """Rows of one source to cases."""

    problems: Problems
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    _map: FieldMap = field(init=False)
    _ids: IdRegister = field(default_factory=IdRegister)
    _count: int = 0
    _known: int = field(init=False)
    _reported: set[FieldPlan] = field(default_factory=set[FieldPlan])

    def __post_init__(self) -> None:
        """Raises ConfigError for a field mapping that cannot be."""
        self._map = FieldMap(recognised=CASE_FIELDS, overrides=self.fields)
        self._known = len(self.problems)

    def decode(self, row: Row) -> Case | None:
        """The case that a row holds, or None with at least one problem noted."""
        self._count += 1
        values = row.values
        # An abstract check would cost more than the rest of this method's own work.
        if type(values.get("answers")) is dict:
            values = flatten_squad_row(values)
            row = row._replace(values=values)
        plan = self._map.plan(values)
        found = read_fields(row, plan, self.problems)
        if found is None or _contradicts(found, row, self.problems):
            return None
        if "query" not in found:
            _add_absent("query", row, plan, self._reported, self.problems)
            return None
        line = self._count if row.line is None else row.line
        if "id" not in found:
            found["id"] = self._ids.add_derived(derived_id("q", found["query"]), line)
        elif _is_repeated(found["id"], line, row, self._ids, self.problems):
            return None
        return build_case(found)

    def finish(self, source: str) -> None:
        """Notes what only the end shows: no case at all, or a mapping that never applied."""
        if self._count == 0:
            _add_nothing("cases", source, self._known, self.problems)
        else:
            _add_unused(source, self._map, self.problems)


@dataclass(kw_only=True, slots=True)
class DocumentDecoder:
    """Rows of one source to documents."""

    problems: Problems
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    _map: FieldMap = field(init=False)
    _ids: IdRegister = field(default_factory=IdRegister)
    _count: int = 0
    _known: int = field(init=False)
    _reported: set[FieldPlan] = field(default_factory=set[FieldPlan])

    def __post_init__(self) -> None:
        """Raises ConfigError for a field mapping that cannot be."""
        self._map = FieldMap(recognised=DOCUMENT_FIELDS, overrides=self.fields)
        self._known = len(self.problems)

    def decode(self, row: Row) -> Document | None:
        """The document that a row holds, or None with at least one problem noted."""
        self._count += 1
        plan = self._map.plan(row.values)
        found = read_fields(row, plan, self.problems)
        if found is None:
            return None
        if "text" not in found:
            _add_absent("text", row, plan, self._reported, self.problems)
            return None
        line = self._count if row.line is None else row.line
        if "id" not in found:
            found["id"] = self._ids.add_derived(derived_id("d", found["text"]), line)
        elif _is_repeated(found["id"], line, row, self._ids, self.problems):
            return None
        return build_document(found)

    def finish(self, source: str) -> None:
        """Notes what only the end shows: no document at all, or a mapping that never applied."""
        if self._count == 0:
            _add_nothing("documents", source, self._known, self.problems)
        else:
            _add_unused(source, self._map, self.problems)


def _disagreement(target: str, first: str, second: str) -> str:
    return (
        f"'{first}' and '{second}' both hold the {target} and disagree; "
        f"choose one with the field mapping {target}={first} or {target}={second}"
    )


def _add_rest(found: dict[str, Any], row: Row, rest: tuple[str, ...], problems: Problems) -> None:
    values = row.values
    metadata: dict[str, Any] = {name: values[name] for name in rest}
    for name in rest:
        try:
            check_depth(metadata[name])
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=name)
    nested: dict[str, Any] | None = found.get("metadata")
    if nested is not None:
        for name in metadata.keys() & nested.keys():
            if metadata[name] != nested[name]:
                message = "stands in the record and in its 'metadata', and the two disagree"
                problems.add(message, path=row.path, line=row.line, field=name)
        metadata = {**nested, **metadata}
    found["metadata"] = metadata


def _contradicts(found: dict[str, Any], row: Row, problems: Problems) -> bool:
    if "unanswerable" in found and found.get("answerable") is found["unanswerable"]:
        message = "'answerable' and its opposite are given and contradict each other"
        problems.add(message, path=row.path, line=row.line, field="answerable")
        return True
    return False


def _add_absent(
    target: str, row: Row, plan: FieldPlan, reported: set[FieldPlan], problems: Problems
) -> None:
    for bound, source in plan.bindings:
        if bound == target:
            message = f"expected the {target} as text, found nothing"
            problems.add(message, path=row.path, line=row.line, field=source)
            return
    if plan in reported:
        return
    reported.add(plan)
    names = ", ".join(sorted(map(str, row.values))) or "none"
    message = (
        f"no field for the {target}, here and in every further record with the same fields "
        f"({names}). Name the right one with the field mapping {target}=NAME"
    )
    problems.add(message, path=row.path, line=row.line)


def _is_repeated(identifier: str, line: int, row: Row, ids: IdRegister, problems: Problems) -> bool:
    earlier = ids.add(identifier, line)
    if earlier is None:
        return False
    message = f"'{identifier}' is already the id of record {earlier}; ids must be unique"
    problems.add(message, path=row.path, line=line, field="id")
    return True


def _add_nothing(kind: str, source: str, known: int, problems: Problems) -> None:
    # A source that could not be read at all has said so already.
    if len(problems) == known:
        problems.add(f"holds no {kind}", path=source)


def _add_unused(source: str, fields: FieldMap, problems: Problems) -> None:
    for target in sorted(fields.unseen):
        name = fields.overrides[target]
        message = f"no record has the field that the mapping {target}={name} names"
        problems.add(message, path=source, field=name)
