"""Says of each field of a source for which of the three reasons it has its role.

A field has a role because its name is a documented one, because it belongs to a tool's form that
was recognised whole, or because the user named it with ``--field``. Reports show it, so that a
reader sees what was measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ragbench.core.record import Record, field
from ragbench.core.roles import FieldRole, RoleReason
from ragbench.io.detect import CONTAINERS
from ragbench.io.dumps.form import DumpMapping
from ragbench.io.fields import HIT_FIELDS, outcome_fields

_FORMS_BY_NAME = frozenset({*CONTAINERS, "ragbench", "run", "export", "report", "verdicts"})
"""Formats whose fields go by ragbench's names alone."""
_PLAIN_CHUNK_FORMS = frozenset({"", "plain", "ragbench"})
"""Forms of chunks that no tool writes: their fields go by their names."""
_DUMP_PARTS: Mapping[str, str] = {
    "query": "query",
    "query_id": "id",
    "chunks": "retrieved_contexts",
    **{name: target for target, name in HIT_FIELDS.items()},
}
"""What a dump calls its parts, as fields of a case and of a chunk."""
_RETRIEVAL_FIELDS = frozenset(
    {"retrieved_contexts", "retrieved_context_ids", "retrieved_scores", *HIT_FIELDS}
)


class Roles(Record):
    """Finds the reasons for the fields of one source."""

    path: str
    form: str
    named: Collection[str]
    """The fields that the user named with ``--field``."""
    of_form: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the tool calls a field that its reader gave another name."""
    response_form: str = ""
    """The form by which a field is known to hold a store's response; empty without one."""
    chunk_form: str = ""
    """The form of the chunks, where they are objects."""

    def of(self, mapping: Mapping[str, str]) -> tuple[FieldRole, ...]:
        """A role for each field of a case, or of what a system did, that has a source.

        A role says under which name the source has the field, and why it is taken for that. Reports
        show it, so that a reader sees what was measured.

        Args:
            mapping: field of a case to field of the source.
        """
        roles: list[FieldRole] = []
        chunks = mapping.get("retrieved_contexts", "")
        for target, source in mapping.items():
            if target in HIT_FIELDS and "retrieved_contexts" in self.of_form:
                # A path in a chunk begins with the field of the chunks, here by the tool's name.
                source = self.of_form["retrieved_contexts"] + source.removeprefix(chunks)
            role = self._role(target, source)
            # An id that a form's reader makes, and metadata that it collects, have no field.
            if role.source or target not in ("id", "metadata"):
                roles.append(role)
        return tuple(roles)

    def _role(self, target: str, source: str) -> FieldRole:
        """The role of one field: what the user named goes before names, and these before forms.

        Args:
            target: the field of a case.
            source: its name in the rows, which a form's reader may have given it itself.
        """
        form = self._form_of(target)
        reason = RoleReason.FORM
        if target in self.named:
            reason = RoleReason.FIELD
        elif form in _FORMS_BY_NAME or form in _PLAIN_CHUNK_FORMS:
            reason = RoleReason.NAME
        elif target in self.of_form:
            source = self.of_form[target]
        elif source == target:
            source = ""  # the form's reader may have given it this name
        if reason is not RoleReason.FORM:
            form = ""
        return FieldRole(field=target, source=source, reason=reason, form=form, path=self.path)

    def _form_of(self, target: str) -> str:
        """The form by which a field is known: the chunks may be of another form than the file.

        A JSON Lines file, say, may hold responses of a store, whose names are not those of the
        file.
        """
        if target in HIT_FIELDS and self.chunk_form not in _PLAIN_CHUNK_FORMS:
            return self.chunk_form
        if target == "retrieved_contexts" and self.response_form:
            return self.response_form
        return self.form


def dump_roles(mapping: DumpMapping, path: str, named: Collection[str]) -> tuple[FieldRole, ...]:
    """The roles of the fields of a retrieval log (dump), under the names that a case has for them.

    A report shows by them where the query and the chunks were read from, and why: by the user's
    word, by a documented name, or by a store's form.

    Args:
        mapping: how the dump is read.
        path: the dump, as the user called it.
        named: the fields that the user named, in the words of a dump.
    """
    roles: list[FieldRole] = []
    for name, target in _DUMP_PARTS.items():
        source = getattr(mapping, name)
        if source is None:
            continue
        form = ""
        reason = RoleReason.NAME
        # Where a record holds a store's whole response, the chunks go by the store's form. The
        # query beside it is the user's own field.
        is_of_response = name not in ("query", "query_id") and mapping.layout == "queries"
        if name in named:
            reason = RoleReason.FIELD
        elif is_of_response and mapping.format not in _PLAIN_CHUNK_FORMS:
            reason = RoleReason.FORM
            form = mapping.format
        roles.append(FieldRole(field=target, source=source, reason=reason, form=form, path=path))
    return tuple(roles)


def case_roles(roles: Iterable[FieldRole]) -> tuple[FieldRole, ...]:
    """The roles of the fields of a case, for a report that measures a system anew.

    A recorded system's fields are left out: they are in the source, and not used.
    """
    outcome_names = {*outcome_fields(), *HIT_FIELDS}
    return tuple([role for role in roles if role.field not in outcome_names])


def outcome_roles(roles: Iterable[FieldRole]) -> tuple[FieldRole, ...]:
    """The roles of what a recorded system did, and of the fields by which it is joined with cases.

    For a source that gives answers alone: its other fields are not used.
    """
    names = {"id", "query", *outcome_fields(), *HIT_FIELDS}
    return tuple([role for role in roles if role.field in names])


def retrieval_roles(roles: Iterable[FieldRole]) -> tuple[FieldRole, ...]:
    """The roles of the fields that a validator judges: the query and its retrieved chunks.

    A report of a validation shows by them where these were read from.
    """
    names = {"id", "query", *_RETRIEVAL_FIELDS}
    return tuple([role for role in roles if role.field in names])
