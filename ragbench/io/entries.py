"""Rows with fields, and dumps of stores, as cases with what is recorded of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

from ragbench.core.case import Case
from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.core.validation import RetrievalDump
from ragbench.errors import DataError
from ragbench.io.decoder import EntryDecoder
from ragbench.io.dumps.form import DumpMapping
from ragbench.io.dumps.read import OpenDump
from ragbench.io.fields import ANSWER_FIELDS, HIT_FIELDS, FieldMap, entry_fields, outcome_fields
from ragbench.io.ids import IdRegister
from ragbench.io.rankings import corpus_texts
from ragbench.io.recorded import Retrieved, Texts, recorded_outcome, retrieved
from ragbench.io.source import Problems, Row, Source, noting_read_errors
from ragbench.safe_text import counted

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


def in_stage_order(counts: Mapping[str, int]) -> dict[str, int]:
    order = ("retrieve", "post_retrieve", "validate", "generate")
    return {stage: counts[stage] for stage in order if counts.get(stage)}


LOOK = 1000

Reader = Callable[..., Iterator[Row]]
"""A reader of rows, of cases: given the place, and ``problems`` by name."""


@dataclass(kw_only=True)
class EntrySource(AbstractContextManager["EntrySource"]):
    """Cases with what is recorded for them; read from the start at each iteration.

    Bad records are left out and raised together at the end of each iteration.
    """

    info: SourceInfo
    read: Callable[[], Iterator[Entry]]
    held: ExitStack = field(default_factory=ExitStack)
    """What is kept for it on disk, until it is closed."""

    def __iter__(self) -> Iterator[Entry]:
        return self.read()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.held.close()


# --- rows with fields


def entries_of_rows(
    place: Source,
    reader: Reader,
    form: str,
    known: Sequence[Row],
    *,
    fields: Mapping[str, str],
    corpus: str | Path | None,
    is_join: bool,
    stack: ExitStack,
) -> EntrySource:
    """The source, once a first look at some rows has found out how all of it is read.

    Args:
        fields: field of a case, or of what a system did, to field of the source.
    """
    texts = None if corpus is None else _texts(corpus, stack)
    chunks = Retrieved(fields=fields, texts=texts)
    names = FieldMap("cases", fields)
    plans = [names[tuple(row.values)] for row in known]
    has_answers = any(target in ANSWER_FIELDS for plan in plans for target, _ in plan.bindings)
    decoder_of = partial(EntryDecoder, fields=fields, has_answers=has_answers, is_join=is_join)
    decoder = decoder_of(problems=Problems(), chunks=chunks)
    looked = [entry for row in known if (entry := decoder.decode(row)) is not None]
    plans = [*decoder.plans.values()]
    all_bound = dict(reversed([pair for plan in plans for pair in plan.bindings]))
    bound = {name: all_bound[name] for name in entry_fields() if name in all_bound}
    unused = tuple(dict.fromkeys(name for plan in plans for name in plan.rest))
    if chunks.decoder is not None:
        bound |= _hit_bindings(chunks.decoder.mapping, bound.get("retrieved_contexts", ""))
    gold = _gold_notes([row.values for row in known], unused, bound)
    info = SourceInfo(
        path=place.name,
        form=form,
        mapping=bound,
        unused=unused,
        uses_corpus=chunks.looked_up,
        notes=(*place.notes, *_notes(decoder.no_values, chunks), *gold),
    )
    return EntrySource(
        info=looked_at(info, looked, is_whole=len(known) < LOOK),
        read=partial(_row_entries, place, reader, decoder_of, chunks),
        held=stack,
    )


def _row_entries(
    place: Source, reader: Reader, decoder_of: Callable[..., EntryDecoder], chunks: Retrieved
) -> Iterator[Entry]:
    """Reads all of it from the start, as the first look found that it is to be read."""
    problems, place = Problems(), replace(place)
    decoder = decoder_of(problems=problems, chunks=replace(chunks, warnings=Counter()))
    try:
        with noting_read_errors(place.name, problems):
            for row in reader(place, problems=problems):
                entry = decoder.decode(row)
                if entry is not None:
                    yield entry
    finally:
        place.close()
    decoder.finish(place.name)
    problems.raise_if_any()


def _texts(corpus: str | Path, stack: ExitStack) -> Texts:
    """Looks up texts in the corpus, which is read when it is first asked."""
    opened: list[Texts] = []

    def get(ids: Iterable[str]) -> Mapping[str, str]:
        if not opened:
            opened.append(stack.enter_context(corpus_texts(corpus)))
        return opened[0](ids)

    return get


def _hit_bindings(mapping: DumpMapping, chunks: str) -> dict[str, str]:
    found = {
        target: f"{chunks}[].{path}"
        for target, name in HIT_FIELDS.items()
        if (path := getattr(mapping, name)) is not None
    }
    if "chunk_score" in found and mapping.scores is not None:
        found["chunk_score"] += f" ({mapping.scores.value})"
    return found


def _notes(no_values: Mapping[str, int], chunks: Retrieved) -> Iterator[str]:
    for name, count in no_values.items():
        cells = "cell says" if count == 1 else "cells say"
        yield (
            f"'{name}': {count:,} {cells} NaN, null or the like, and hold no value (in JSON such a "
            "word is a text)"
        )
    if chunks.ids_alone:
        yield (
            f"{chunks.ids_alone:,} of the cases looked at have ids of what was retrieved and no "
            "texts: not recorded. Name the texts with --corpus PATH"
        )
    if chunks.unknown_ids:
        yield f"{chunks.unknown_ids:,} retrieved ids are not in the corpus: their text is empty"
    for kind, count in chunks.warnings.items():
        yield f"{count:,} retrieved chunks: {kind.replace('_', ' ')}"


_GOLD = re.compile(
    r"gold|positive|relevan|qrel|pids?$|target|support|ground.?truth|(?:correct|true|expected).?(?:doc"
    r"|id|chunk|passage|context)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"neg(?:ative)?|non.?relevan|irrelevan|score|prob|wrong|fake", re.IGNORECASE)
_LONGEST_ID = 120
_LOOKED_AT = 50


def _gold_notes(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], bound: Collection[str]
) -> Iterator[str]:
    """Says how unused fields could be read whose names and values look like the gold."""
    for name in unused:
        if not _GOLD.search(name) or _NEGATIVE.search(name):
            continue
        values = [v for row in rows[:_LOOKED_AT] if (v := row.get(name)) not in (None, "", [])]
        lists = [cast("list[object]", v) if isinstance(v, list) else [v] for v in values]
        items = [item for items in lists for item in items]
        if items and all(type(item) in (str, int) and _is_id(str(item)) for item in items):
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


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and not any(map(str.isspace, text))


# --- dumps of stores


def entries_of_dump(
    name: str,
    open_dump: Callable[[], AbstractContextManager[OpenDump]],
    *,
    is_join: bool,
    stack: ExitStack,
) -> EntrySource:
    """A dump whose records are no questions with fields: responses, rows, batches."""
    with open_dump() as dump:
        mapping = dump.mapping
        known = list(islice(dump, LOOK))
    has_ids = mapping.id is not None
    looked = [_dump_entry(retrieval, has_ids=has_ids) for retrieval in known]
    named = ("query", "query_id", "chunks", "id", "text", "score")
    paths = {name: str(path) for name in named if (path := getattr(mapping, name))}
    info = SourceInfo(path=name, form=mapping.format, mapping=paths)

    def entries() -> Iterator[Entry]:
        found, ids = Problems(), IdRegister()
        with open_dump() as dump:
            for number, retrieval in enumerate(dump, start=1):
                entry = _dump_entry(retrieval, has_ids=has_ids)
                earlier = ids.add(entry.case.id, number)
                if earlier is None or is_join:
                    yield entry
                else:
                    message = f"'{entry.case.id}' is already the id of record {earlier}"
                    found.add(message, path=name, line=number, field="id")
            if dump.problems.items:
                raise DataError([*dump.problems, *found])
        found.raise_if_any()

    is_whole = len(looked) < LOOK
    return EntrySource(info=looked_at(info, looked, is_whole=is_whole), read=entries, held=stack)


def _dump_entry(dump: RetrievalDump, *, has_ids: bool) -> Entry:
    relevant = None
    if dump.relevant_ids is not None:
        ranked = [chunk.id for chunk in dump.chunks if chunk.id in dump.relevant_ids]
        relevant = (*ranked, *sorted(dump.relevant_ids.difference(ranked)))
    case = Case(
        id=dump.query_id,
        query=dump.query,
        reference=dump.answers[0] if dump.answers else None,
        alternative_references=dump.answers[1:],
        reference_context_ids=relevant,
    )
    recorded = {"retrieve": recorded_outcome(retrieved(dump, has_ids=has_ids))}
    return Entry(case=case, recorded=recorded)
