"""The four forms of each family of methods, and which one stands in for which.

A family (retrieval, generation) can be implemented in any of four forms: plain or with metadata,
for one query or for a batch. A user writes at least one; the others are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["FAMILIES", "FORMS", "GENERATION", "RETRIEVAL", "Family", "Form", "routes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One of the four ways to ask for the same thing."""

    name: str
    """The method's name."""
    rich: bool
    """Whether it returns results with metadata."""
    batch: bool
    """Whether it takes a list of queries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """The four forms of one ability of a RAG."""

    name: str
    plain: Form
    rich: Form
    batch: Form
    rich_batch: Form

    @property
    def forms(self) -> tuple[Form, Form, Form, Form]:
        """All four."""
        return (self.plain, self.rich, self.batch, self.rich_batch)

    def substitutes(self, form: Form) -> tuple[Form, Form, Form]:
        """The other forms, in the order in which they stand in for a missing one.

        A form with metadata is derived from forms with metadata first, so that no metadata is
        lost. A plain batch is derived from a real batch first, so that a batch stays one call.
        """
        return {
            self.plain: (self.rich, self.batch, self.rich_batch),
            self.rich: (self.rich_batch, self.plain, self.batch),
            self.batch: (self.rich_batch, self.plain, self.rich),
            self.rich_batch: (self.rich, self.batch, self.plain),
        }[form]


def _family(name: str, verb: str) -> Family:
    return Family(
        name=name,
        plain=Form(name=verb, rich=False, batch=False),
        rich=Form(name=f"{verb}_with_metadata", rich=True, batch=False),
        batch=Form(name=f"batch_{verb}", rich=False, batch=True),
        rich_batch=Form(name=f"batch_{verb}_with_metadata", rich=True, batch=True),
    )


RETRIEVAL = _family("retrieval", "retrieve")
GENERATION = _family("generation", "generate")
FAMILIES: Mapping[str, Family] = {family.name: family for family in (RETRIEVAL, GENERATION)}
FORMS: Mapping[str, tuple[Family, Form]] = {
    form.name: (family, form) for family in FAMILIES.values() for form in family.forms
}


def routes(implemented: Iterable[str]) -> dict[str, Form]:
    """Which implemented form each form falls back on, were it not implemented itself.

    Args:
        implemented: names of the methods that the user wrote.

    Returns:
        Method name to the form that stands in for it. A method is left out when nothing else
        can stand in: it is then either the only primitive or its family has none.
    """
    written = set(implemented)
    found: dict[str, Form] = {}
    for family, form in FORMS.values():
        for substitute in family.substitutes(form):
            if substitute.name in written:
                found[form.name] = substitute
                break
    return found
