"""When each chunk is from, before its text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.derived import rewritten
from ragbench.postretrieval.rerankers.timestamps import parse_time
from ragbench.postretrieval.settings import not_empty

__all__ = ["Temporal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Temporal:
    """Begins each chunk with its date and its age, such as ``[2024-05-01, 12 days old]``.

    Ages are counted from the query's ``now``, and without it from the newest time among the
    chunks, so that the same input gives the same output. A chunk without a time stays as it is.

    Raises:
        ConfigError: the name of the field is empty.
    """

    field: str = "timestamp"
    """The metadata key of the time: ISO 8601, a `datetime`, or seconds since 1970."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(not_empty("field", self.field))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "augment.temporal"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        times = [parse_time(entry.chunk.metadata.get(self.field)) for entry in context.chunks]
        known = [time for time in times if time is not None]
        if not known:
            return OperatorOutput(chunks=context.chunks)
        now = parse_time(context.query.now) or max(known)
        return OperatorOutput(
            chunks=tuple(
                entry
                if time is None
                else rewritten(entry, f"[{_told(time, now)}]\n{entry.chunk.text}", by=self.name)
                for entry, time in zip(context.chunks, times, strict=True)
            )
        )


def _told(time: datetime, now: datetime) -> str:
    day = time.astimezone(UTC).date()
    days = (now.astimezone(UTC).date() - day).days
    if days < 0:
        age = f"in {-days} {'day' if days == -1 else 'days'}"
    elif days == 0:
        age = "today"
    else:
        age = f"{days} {'day' if days == 1 else 'days'} old"
    return f"{day.isoformat()}, {age}"
