"""How a source is read, and what a first look shows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.io.fields import outcome_fields

_NAMED = 8
_OWN_NAMED = 3
"""Fields of a case under their own names that are listed; the others are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceInfo:
    """How a source is read, and what a first look shows of it."""

    path: str
    form: str
    mapping: Mapping[str, str]
    """Field of a case, or of what a system did, to the field of the source that holds it."""
    unused: tuple[str, ...] = ()
    """Fields of the source that mean nothing known: they are kept as metadata."""
    looked: int = 0
    cases: int | None = None
    """Cases in all; None where only reading on would show it."""
    recorded: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of those looked at, how many have an outcome, by stage."""
    failed: int = 0
    """Of those looked at, how many have a failure recorded."""
    timed: int = 0
    """Of those looked at, how many say how long it took."""
    uses_corpus: bool = False
    """Whether texts of what was retrieved were looked up in the corpus."""
    answers: SourceInfo | None = None
    """How the answers are read that were joined with the cases."""
    notes: tuple[str, ...] = ()
    """What a reader of scores must know."""

    def lines(self) -> Iterator[str]:
        yield from self._read()
        if self.answers is not None:
            yield from self.answers._read()
        if self.recorded:
            yield self._recorded()
        yield from self.notes

    def _read(self) -> Iterator[str]:
        shown: list[str] = []
        own = 0
        for target, source in self.mapping.items():
            if target != source or target in outcome_fields():
                shown.append(target if target == source else f"{target}={source}")
            else:
                own += 1
                shown += [target] if own <= _OWN_NAMED else []
        more = f" and {own - _OWN_NAMED} more" if own > _OWN_NAMED else ""
        yield f"read {self.path} as {self.form}: {', '.join(shown)}{more}".rstrip(": ")
        if self.unused:
            hidden = len(self.unused) - _NAMED
            rest = f" and {hidden} more" if hidden > 0 else ""
            yield f"kept as metadata: {', '.join(self.unused[:_NAMED])}{rest}"

    def _recorded(self) -> str:
        first = counted(self.looked, "case")
        where = first if self.cases is not None else f"the first {first}"
        counts = ", ".join(
            f"{stage} {count:,}" + ("" if count == self.looked else f" of {self.looked:,}")
            for stage, count in self.recorded.items()
        )
        failed = f" ({self.failed:,} failed)" if self.failed else ""
        times = "" if self.timed else "; no times are recorded"
        return f"{where}; recorded: {counts}{failed}{times}"


def looked_at(info: SourceInfo, entries: Sequence[Entry], *, is_whole: bool) -> SourceInfo:
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update(entry.recorded.keys())
    known = [[*entry.recorded.values()] for entry in entries]
    return replace(
        info,
        looked=len(entries),
        cases=len(entries) if is_whole else None,
        recorded=in_stage_order(counts),
        failed=sum(any(o.status is Status.FAILED for o in found) for found in known),
        timed=sum(any(o.seconds is not None for o in found) for found in known),
    )


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def in_stage_order(counts: Mapping[str, int]) -> dict[str, int]:
    order = ("retrieve", "post_retrieve", "validate", "generate")
    return {stage: counts[stage] for stage in order if counts.get(stage)}
