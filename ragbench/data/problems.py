"""Where readers put what is wrong with a file, so that one bad line never hides the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ragbench.errors import DataError, Problem

__all__ = ["Problems"]


@dataclass(kw_only=True, slots=True)
class Problems:
    """What was found wrong so far, in the order of the file.

    Example:
        >>> found = Problems()
        >>> found.add("expected text, found a number", path="cases.jsonl", line=3, field="query")
        >>> print(*found)
        cases.jsonl:3: field 'query': expected text, found a number
    """

    items: list[Problem] = field(default_factory=list[Problem])

    def add(
        self, message: str, *, path: str = "", line: int | None = None, field: str | None = None
    ) -> None:
        """Notes one problem; the arguments are the fields of ``Problem``."""
        self.items.append(Problem(message=message, path=path, line=line, field=field))

    def raise_if_any(self) -> None:
        """Raises all of them as one error.

        Raises:
            DataError: at least one problem was noted.
        """
        if self.items:
            raise DataError(self.items)

    def __len__(self) -> int:
        """How many problems there are."""
        return len(self.items)

    def __iter__(self) -> Iterator[Problem]:
        """The problems, in the order in which they were found."""
        return iter(self.items)
