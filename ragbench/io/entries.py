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
from ragbench.io.values import as_object
from ragbench.safe_text import counted
from ragbench.shell import shell_quoted

_UNUSED_SHOWN = 8
"""Fields kept as metadata that are listed; the others are counted."""
_OWN_NAMES_SHOWN = 3
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
        """Hints how more of the cases could be used, then those for the joined answers.

        A hint is an option to try. Hints are shown to the user, and are of no concern to a reader
        of scores.
        """
        if self.answers is None:
            return self.hints
        return self.hints + self.answers.hints

    def lines(self) -> Iterator[str]:
        """Yields the lines that show a user how the source is read.

        A wrong guess of a field shows here before its scores are believed.
        """
        infos: list[SourceInfo] = [self]
        if self.answers is not None:
            infos.append(self.answers)
        for info in infos:
            yield info._fields_line()
            if info.unused:
                names = ", ".join(info.unused[:_UNUSED_SHOWN])
                yield f"kept as metadata: {names}{_and_more(len(info.unused) - _UNUSED_SHOWN)}"
        if self.recorded:
            yield self._recorded_line()
        yield from self.notes

    def _fields_line(self) -> str:
        """The line that names the source's format and the fields that are read.

        All fields are listed that a user may not expect: those with another name in the source, and
        those of a system's outcomes. Of the others the first few show that the names are
        understood.
        """
        shown: list[str] = []
        own_names = 0
        for target, source in self.mapping.items():
            if target != source:
                shown.append(f"{target}={source}")
            elif target in outcome_fields():
                shown.append(target)
            else:
                own_names += 1
                if own_names <= _OWN_NAMES_SHOWN:
                    shown.append(target)
        fields = ", ".join(shown) + _and_more(own_names - _OWN_NAMES_SHOWN)
        # Without any field nothing follows the colon.
        return f"read {self.path} as {self.form}: {fields}".rstrip(": ")

    def _recorded_line(self) -> str:
        """The line that counts the cases with a recorded outcome, by stage of the RAG.

        A user sees by it which metrics can be had without asking the RAG again.
        """
        where = counted(self.looked, "case")
        if self.cases is None:
            where = f"the first {where} (all are read)"
        counts: list[str] = []
        for stage, count in self.recorded.items():
            text = f"{stage} {count:,}"
            # A stage that every case has needs no second number.
            if count != self.looked:
                text += f" of {self.looked:,}"
            counts.append(text)
        line = f"{where}; recorded: {', '.join(counts)}"
        if self.failed:
            line += f" ({self.failed:,} failed)"
        if not self.timed:
            line += "; no times are recorded"
        return line


def _and_more(count: int) -> str:
    """The end of a list that leaves out ``count`` of its items; empty where it leaves out none.

    A list of a hundred fields would hide the other lines that a user should read.
    """
    if count <= 0:
        return ""
    return f" and {count} more"


def looked_at(info: SourceInfo, entries: Sequence[Entry], *, is_whole: bool) -> SourceInfo:
    """The info of a source, with counts of what its first entries hold.

    From these the user sees, before a long run, what is recorded and what is missing.

    Args:
        is_whole: whether these are all entries of the source, so that their number is known.
    """
    counts: Counter[str] = Counter()
    failed = 0
    timed = 0
    has_hops = False
    for entry in entries:
        counts.update(entry.recorded.keys())
        outcomes = entry.recorded.values()
        if any(outcome.status is Status.FAILED for outcome in outcomes):
            failed += 1
        if any(outcome.seconds is not None for outcome in outcomes):
            timed += 1
        # Several searches for one answer: the reader of traces lists them in the metadata.
        search = entry.recorded.get("retrieve")
        if search is not None and search.value is not None:
            has_hops = has_hops or "hops" in as_object(search.value.metadata)
    return replace(
        info,
        looked=len(entries),
        cases=len(entries) if is_whole else None,
        recorded=in_stage_order(counts),
        has_hops=has_hops,
        has_expectations=any(entry.case.expectations for entry in entries),
        failed=failed,
        timed=timed,
    )


def in_stage_order(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by stage, in the order in which a RAG runs, as users read them; zeros are left out.

    The stages' names are those of `Entry.recorded`.
    """
    order = ("retrieve", "post_retrieve", "validate", "generate")
    return {stage: counts[stage] for stage in order if counts.get(stage)}


LOOK = 1000
"""Records that are looked at to find out how all are read."""


@dataclass(kw_only=True)
class EntrySource(AbstractContextManager["EntrySource"]):
    """Cases with their recorded outcomes; read from the start at each iteration.

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
        """Yields the entries of the source from its start; its problems are raised after the last.

        Each iteration reads anew, so that memory holds one entry, however many there are.
        """
        return self.read()

    def __exit__(self, *_: object) -> None:
        """Removes what was put on disk for the source; its entries cannot be read any more.

        Sources that are joined or looked up keep a temporary database until then.
        """
        self.held.close()

    close = __exit__


# --- what a reader of scores must know


def notes_of(
    no_values: Mapping[str, int], null_ids: Mapping[str, int], chunks: Retrieved
) -> Iterator[str]:
    """Yields notes on values that are missing among the entries that were looked at.

    A reader of scores must know of them: a missing text or id changes what a metric can count.

    Args:
        no_values: field, to how many of its cells spell that they hold no value.
        null_ids: field, to how many of the ids in its lists are null.
        chunks: what was seen of the retrieved chunks.
    """
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
"""Names of fields that often hold what is relevant."""
_NEGATIVE = re.compile(
    r"neg(?:ative)?|non.?relevan|irrelevan|score|prob|wrong|fake|relevancy|precision|recall|"
    r"(?:answer|context|response)s?.?relevance",  # which are metrics
    re.IGNORECASE,
)
"""Names that look like the gold and are not: of wrong texts, or of scores."""
_ID = re.compile(r"\S{1,120}")
"""A text without white space is taken for an id; a longer one is data of another kind."""
_ROWS_LOOKED_AT = 50
"""Rows whose values decide of which kind a field's values are, for a hint."""


def repeat_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yields a note where most questions come again: each record may be one retrieved text.

    Read as cases, such records would score every text as a retrieval of its own.
    """
    questions = {entry.case.query for entry in entries}
    # Half: some datasets ask a question twice on purpose, or by mistake.
    if 2 * len(questions) <= len(entries):
        count = counted(len(questions), "question")
        yield (
            f"{len(entries):,} records ask {count}, and each is a case. "
            "If a record is one retrieved text, bring one per question, with a list of texts"
        )


def gold_notes(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], bound: Collection[str]
) -> Iterator[str]:
    """Yields hints for unused fields that look as if they held the gold: what is right for a case.

    Names alone mislead, so the values of the first rows must look like ids or texts, too. A field
    is never read because of a hint: a wrong gold gives wrong scores.

    Args:
        unused: names of fields in the source that are kept as metadata.
        bound: fields of a case that the source already has.
    """
    for name in unused:
        if not _GOLD.search(name) or _NEGATIVE.search(name):
            continue
        items: list[object] = []
        for row in rows[:_ROWS_LOOKED_AT]:
            value = row.get(name)
            if isinstance(value, list):
                items += cast("list[object]", value)
            elif value not in (None, ""):
                items.append(value)
        if not items:
            continue
        # Exact types: a flag is also an int, and is no id.
        if all(type(item) in (str, int) and _ID.fullmatch(str(item)) for item in items):
            target = "reference_context_ids"
            contents = "ids of what is relevant"
        elif all(type(item) is str for item in items):
            target = "reference_contexts"
            contents = "relevant texts"
        else:
            continue
        if _FIELDS_OF_GOLD[target].isdisjoint(bound):
            option = f"--field {target}={shell_quoted(name)}"
            yield f"'{name}' is not read: if it holds the {contents}, add {option}"


_FIELDS_OF_GOLD = {
    "reference_context_ids": {"reference_context_ids", "grades", "reference_contexts"},
    "reference_contexts": {"reference_contexts"},
}
"""Field of a case, to those that make a hint about it needless. Texts beside ids may help: ids are
hinted at only where there is no gold, texts also where there are ids."""
