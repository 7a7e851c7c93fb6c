"""The field of a source from which each field of a case or answer was read, and the reason."""

from __future__ import annotations

from enum import StrEnum

from ragbench.core.record import Record


class RoleReason(StrEnum):
    """Why a field of a source is read as a certain field of a case. Nothing else is a reason."""

    NAME = "name"
    """Its name is one of ragbench's documented names."""
    FORM = "form"
    """It belongs to the record of a tool, of which every field was recognised."""
    FIELD = "field"
    """The user named it with ``--field``."""


class FieldRole(Record):
    """A field of a case or of an answer, with the field of the source that it was read from."""

    field: str
    source: str = ""
    """The field of the source; empty where the form has it in another way than as a field."""
    reason: RoleReason
    form: str = ""
    """The form, as ``ragbench show formats`` and ``show dumps`` name it; else empty."""
    path: str = ""
    """The file or folder of the source."""

    @property
    def because(self) -> str:
        """Why the source's field is read as this field: in words, such as ``the form csv``.

        Users check by it whether their data were understood.
        """
        match self.reason:
            case RoleReason.NAME:
                return "ragbench's name"
            case RoleReason.FORM:
                return f"the form {self.form}"
            case RoleReason.FIELD:
                return "--field"
