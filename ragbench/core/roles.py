"""Where each field of a case, or of what a system did, was read from, and for which reason."""

from __future__ import annotations

from enum import StrEnum

from ragbench.core.record import Record


class RoleReason(StrEnum):
    """Why a field of a source has its role. There is no fourth reason."""

    NAME = "name"
    """Its name is one of ragbench's documented names."""
    FORM = "form"
    """It belongs to a tool's form that was recognised whole."""
    FIELD = "field"
    """The user named it with ``--field``."""


class FieldRole(Record):
    """A field of a case, or of what a system did, and what it was read from."""

    field: str
    source: str = ""
    """The field of the source; empty where the form says it in another way than by a field."""
    reason: RoleReason
    form: str = ""
    """The form, as ``ragbench show formats`` and ``show dumps`` name it; else empty."""
    path: str = ""
    """The file or folder that it stands in."""

    @property
    def because(self) -> str:
        """The reason in words, such as ``the form azure-results``."""
        match self.reason:
            case RoleReason.NAME:
                return "ragbench's name"
            case RoleReason.FORM:
                return f"the form {self.form}"
            case RoleReason.FIELD:
                return "--field"
