"""Cases with what is recorded of them, and what is said of how they are read."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import cast

from ragbench.core.outcome import Status
from ragbench.core.record import Record, field, replace
from ragbench.core.roles import FieldRole
from ragbench.core.trace import Entry
from ragbench.io.fields import outcome_fields
from ragbench.io.recorded import Retrieved
from ragbench.safe_text import counted

_NAMED = 8
_OWN_NAMED = 3
"""Fields of a case under their own names that are listed; the others are counted."""


class SourceInfo(Record):
    """How a source is read, and what a first look shows of it."""

    path: str
    form: str
    mapping: Mapping[str, str]
    """Field of a case, or of what a system did, to the field of the source that holds it."""
    roles: tuple[FieldRole, ...] = ()
    """The same with the reason for each, those of joined answers after those of the cases."""
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
    has_hops: bool = False
    """Whether one of those looked at records several searches for an answer."""
    has_expectations: bool = False
    """Whether one of those looked at says what an answer has to contain."""
    uses_corpus: bool = False
    """Whether texts of what was retrieved were looked up in the corpus."""
    answers: SourceInfo | None = None
    """How the answers are read that were joined with the cases."""
    notes: tuple[str, ...] = ()
    """What a reader of scores must know."""
    hints: tuple[str, ...] = ()
    """How more of it could be used; of no concern to a reader of scores."""

    @property
    def all_hints(self) -> tuple[str, ...]:
        """Its hints, and those of the answers that were joined."""
        return self.hints if self.answers is None else (*self.hints, *self.answers.hints)

    def lines(self) -> Iterator[str]:
        for info in (self,) if self.answers is None else (self, self.answers):
            shown: list[str] = []
            own = 0
            for target, source in info.mapping.items():
                if target != source or target in outcome_fields():
                    shown.append(target if target == source else f"{target}={source}")
                else:
                    own += 1
                    shown += [target] if own <= _OWN_NAMED else []
            more = f" and {own - _OWN_NAMED} more" if own > _OWN_NAMED else ""
            yield f"read {info.path} as {info.form}: {', '.join(shown)}{more}".rstrip(": ")
            if info.unused:
                hidden = len(info.unused) - _NAMED
                rest = f" and {hidden} more" if hidden > 0 else ""
                yield f"kept as metadata: {', '.join(info.unused[:_NAMED])}{rest}"
        if self.recorded:
            yield self._recorded()
        yield from self.notes

    def _recorded(self) -> str:
        first = counted(self.looked, "case")
        where = first if self.cases is not None else f"the first {first} (all are read)"
        counts = ", ".join(
            f"{stage} {count:,}" + ("" if count == self.looked else f" of {self.looked:,}")
            for stage, count in self.recorded.items()
        )
        failed = f" ({self.failed:,} failed)" if self.failed else ""
        times = "" if self.timed else "; no times are recorded"
        return f"{where}; recorded: {counts}{failed}{times}"


def looked_at(info: SourceInfo, entries: Sequence[Entry], *, is_whole: bool) -> SourceInfo:
    counts = Counter(stage for entry in entries for stage in entry.recorded)
    searches = (entry.recorded.get("retrieve") for entry in entries)
    found = (one.value.metadata for one in searches if one is not None and one.value is not None)
    known = [[*entry.recorded.values()] for entry in entries]
    return replace(
        info,
        looked=len(entries),
        cases=len(entries) if is_whole else None,
        recorded=in_stage_order(counts) if counts else {},
        has_hops=any("hops" in (metadata or ()) for metadata in found),
        has_expectations=any(entry.case.expectations for entry in entries),
        failed=sum(any(o.status is Status.FAILED for o in found) for found in known),
        timed=sum(any(o.seconds is not None for o in found) for found in known),
    )


def in_stage_order(counts: Mapping[str, int]) -> dict[str, int]:
    order = ("retrieve", "post_retrieve", "validate", "generate")
    return {stage: counts[stage] for stage in order if counts.get(stage)}


LOOK = 1000
"""Records that are looked at to find out how all are read."""


@dataclass(kw_only=True)
class EntrySource(AbstractContextManager["EntrySource"]):
    """Cases with what is recorded for them; read from the start at each iteration.

    Bad records are left out and raised together at the end of each iteration.
    """

    info: SourceInfo
    read: Callable[[], Iterator[Entry]]
    held: ExitStack = dataclasses.field(default_factory=ExitStack)
    """What is kept for it on disk, until it is closed."""
    content: Callable[[], str] = lambda: ""
    """Digests all that is read, and how it is: equal where the cases are. Empty where only reading
    them shows that."""

    def __iter__(self) -> Iterator[Entry]:
        return self.read()

    def __exit__(self, *_: object) -> None:
        self.held.close()

    close = __exit__


# --- what a reader of scores must know


def notes_of(
    no_values: Mapping[str, int], null_ids: Mapping[str, int], chunks: Retrieved
) -> Iterator[str]:
    for name, count in null_ids.items():
        yield f"'{name}': {counted(count, 'null')} among the ids, skipped"
    for name, count in no_values.items():
        cells = "cell says" if count == 1 else "cells say"
        yield (
            f"'{name}': {count:,} {cells} NaN, null or the like, and hold no value (in JSON such a "
            "word is a text)"
        )
    if chunks.ids_alone:
        yield (
            f"{chunks.ids_alone:,} of the cases looked at have ids of what was retrieved and no "
            "texts: metrics that read texts are skipped. --corpus PATH names the texts"
        )
    if chunks.unknown_ids:
        yield f"{counted(chunks.unknown_ids, 'retrieved id')} not in the corpus: without text"
    for kind, count in chunks.warnings.items():
        yield f"{count:,} retrieved chunks: {kind.replace('_', ' ')}"


_GOLD = re.compile(
    r"gold|positive|relevan|qrel|pids?$|target|support|ground.?truth|(?:correct|true|expected).?(?:doc"
    r"|id|chunk|passage|context)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"neg(?:ative)?|non.?relevan|irrelevan|score|prob|wrong|fake|relevancy|precision|recall|"
    r"(?:answer|context|response)s?.?relevance",  # which are metrics
    re.IGNORECASE,
)
_ID = re.compile(r"\S{1,120}")
_LOOKED_AT = 50


def repeat_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Asks whether records are retrieved texts, where most of their questions come again."""
    asked = {one.case.query for one in entries}
    if 2 * len(asked) <= len(entries):
        yield (
            f"{len(entries):,} records ask {counted(len(asked), 'question')}, and each is a case. "
            "If a record is one retrieved text, bring one per question, with a list of texts"
        )


def gold_notes(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], bound: Collection[str]
) -> Iterator[str]:
    """Says how unused fields could be read whose names and values look like the gold."""
    for name in unused:
        if not _GOLD.search(name) or _NEGATIVE.search(name):
            continue
        values = [v for row in rows[:_LOOKED_AT] if (v := row.get(name)) not in (None, "", [])]
        lists = [cast("list[object]", v) if isinstance(v, list) else [v] for v in values]
        items = [item for items in lists for item in items]
        if items and all(type(item) in (str, int) and _ID.fullmatch(str(item)) for item in items):
            target, held = "reference_context_ids", "ids of what is relevant"
        elif items and all(type(item) is str for item in items):
            target, held = "reference_contexts", "relevant texts"
        else:
            continue
        if _INSTEAD[target].isdisjoint(bound):
            yield f"'{name}' is not read: if it holds the {held}, add --field {target}={name}"


_INSTEAD = {
    "reference_context_ids": {"reference_context_ids", "grades", "reference_contexts"},
    "reference_contexts": {"reference_contexts"},
}
