"""What each field was read from and why, as a section of a report."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.core.roles import FieldRole
from ragbench.views.document import Section

_HINT = (
    "A field has a role because its name is one of ragbench's, because it belongs to a tool's form "
    "that was recognised whole, or because --field names it."
)


def roles_section(roles: Sequence[FieldRole]) -> Section:
    """The section of a report that says from which field of the user's file each part was read.

    A row for each field; of several files, each row names its own.

    A column that was taken for the wrong field makes every figure wrong: a user can see it here.
    """
    # With one file the column would repeat one path.
    paths = {role.path for role in roles}
    columns = ["field", "read from", "because of"]
    if len(paths) > 1:
        columns.append("in")
    rows: list[list[str]] = []
    for role in roles:
        row = [role.field, role.source, role.because]
        if len(paths) > 1:
            row.append(role.path)
        rows.append(row)
    return Section(title="Read as follows", columns=columns, rows=rows, hint=_HINT)
