"""A batch of which some queries failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragbench.errors import InterfaceError

__all__ = ["PartialBatchError", "settled"]


class PartialBatchError(InterfaceError):
    """Some queries of a batch failed, the others have their results.

    A batch method raises it so that nothing is asked twice: whoever called it takes the results
    that are there and counts only the others as failed. A caller that does not know it sees a
    batch that failed and asks for each query alone, which ends the same.
    """

    def __init__(self, outcomes: Sequence[object], where: str) -> None:
        """Keeps the outcomes.

        Args:
            outcomes: for each query, in order, its result or the exception that it failed with;
                at least one exception.
            where: the method, for the message.
        """
        self.outcomes = tuple(outcomes)
        self.where = where
        errors = [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]
        super().__init__(
            f"{where}: {len(errors)} of {len(self.outcomes)} queries failed; the first with "
            f"{type(errors[0]).__name__}: {errors[0]}"
        )

    def __reduce__(self) -> tuple[type[PartialBatchError], tuple[tuple[object, ...], str]]:
        """Makes it travel between processes with all that it holds."""
        return type(self), (self.outcomes, self.where)


def settled(outcomes: Sequence[Any], where: str) -> list[Any]:
    """The results of a batch when there is no exception among them.

    Raises:
        PartialBatchError: some of several queries failed.
        Exception: the only query failed; its own exception.
    """
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if not errors:
        return list(outcomes)
    if len(outcomes) == 1:
        raise errors[0]
    raise PartialBatchError(outcomes, where)
