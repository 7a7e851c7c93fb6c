"""Rows with fields as cases with what is recorded of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from ragbench.core.trace import Entry
from ragbench.io.decoder import EntryDecoder
from ragbench.io.dumps.form import DumpMapping
from ragbench.io.dumps.joined import CorpusTexts, corpus_texts
from ragbench.io.fields import ANSWER_FIELDS, ENTRY_FIELDS, HIT_FIELDS, FieldMap
from ragbench.io.proposals import proposals
from ragbench.io.recorded import Retrieved, Texts
from ragbench.io.source import NotingReadErrors, Problems, Row, Source
from ragbench.io.source_info import SourceInfo, looked_at

LOOK = 1000
"""Cases of the first look."""

Reader = Callable[[Source, Problems], Iterator[Row]]


@dataclass(kw_only=True)
class EntrySource:
    """Cases with what is recorded for them; read from the start at each iteration.

    Bad records are left out and raised together at the end of each iteration.
    """

    info: SourceInfo
    read: Callable[[], Iterator[Entry]]
    """Reads it from the start."""
    held: ExitStack = field(default_factory=ExitStack)
    """What is kept for it on disk, until it is closed."""

    def __iter__(self) -> Iterator[Entry]:
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets what was kept for it on disk."""
        self.held.close()


@dataclass(kw_only=True, slots=True)
class RowEntries:
    """Reads rows whose fields say what they hold."""

    place: Source
    reader: Reader
    fields: Mapping[str, str]
    """Field of a case, or of what a system did, to field of the source."""
    corpus: str | Path | None
    """The texts of documents, for rows that hold ids alone."""
    is_join: bool
    """Whether the entries are to be joined with other cases."""
    stack: ExitStack
    """Keeps what is needed while it is read."""
    has_answers: bool = False

    def opened(self, form: str, known: Sequence[Row]) -> EntrySource:
        """The source, once a first look has found out how it is read."""
        chunks = Retrieved(fields=self.fields, texts=self._texts())
        names = FieldMap(recognised=ENTRY_FIELDS, overrides=self.fields)
        self.has_answers = any(
            target in ANSWER_FIELDS
            for row in known
            for target, _ in names.plan(row.values).bindings
        )
        decoder = self._decoder(Problems(), chunks)
        looked = [entry for row in known if (entry := decoder.decode(row)) is not None]
        bound, unused = self._bindings(decoder, known)
        if chunks.mapping is not None:
            bound |= _hit_bindings(chunks.mapping, bound.get("retrieved_contexts", ""))
        notes = (
            *self.place.notes,
            *_no_value_notes(decoder.no_values),
            *proposals([row.values for row in known], unused, bound),
            *_chunk_notes(chunks),
        )
        info = SourceInfo(
            path=self.place.name,
            form=form,
            mapping=bound,
            unused=unused,
            uses_corpus=chunks.looked_up,
            notes=notes,
        )
        return EntrySource(
            info=looked_at(info, looked, is_whole=len(known) < LOOK),
            read=partial(self._entries, chunks),
            held=self.stack,
        )

    def _entries(self, chunks: Retrieved) -> Iterator[Entry]:
        """Reads all of it from the start, as the first look found that it is to be read."""
        problems, place = Problems(), replace(self.place)
        decoder = self._decoder(problems, replace(chunks, warnings=Counter()))
        try:
            with NotingReadErrors(place.name, problems):
                for row in self.reader(place, problems):
                    entry = decoder.decode(row)
                    if entry is not None:
                        yield entry
        finally:
            place.close()
        decoder.finish(place.name)
        problems.raise_if_any()

    def _texts(self) -> Texts | None:
        """Looks up texts in the corpus, which is read when it is first asked."""
        if self.corpus is None:
            return None
        corpus, opened = self.corpus, list[CorpusTexts]()

        def get(ids: Iterable[str]) -> Mapping[str, str]:
            if not opened:
                opened.append(self.stack.enter_context(corpus_texts(corpus)))
            return opened[0].get(ids)

        return get

    def _decoder(self, problems: Problems, chunks: Retrieved) -> EntryDecoder:
        return EntryDecoder(
            problems=problems,
            fields=self.fields,
            chunks=chunks,
            has_answers=self.has_answers,
            is_join=self.is_join,
        )

    def _bindings(
        self, decoder: EntryDecoder, rows: Sequence[Row]
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        bound: dict[str, str] = {}
        unused: dict[str, None] = {}
        for row in rows:
            plan = decoder.plan(row)
            for target, source in plan.bindings:
                bound.setdefault(target, source)
            unused.update(dict.fromkeys(plan.rest))
        order = [*ENTRY_FIELDS]
        return {name: bound[name] for name in order if name in bound}, tuple(unused)


def _hit_bindings(mapping: DumpMapping, chunks: str) -> dict[str, str]:
    found = {
        target: f"{chunks}[].{path}"
        for target, name in HIT_FIELDS.items()
        if (path := getattr(mapping, name)) is not None
    }
    if "chunk_score" in found and mapping.scores is not None:
        found["chunk_score"] += f" ({mapping.scores.value})"
    return found


def _no_value_notes(counts: Mapping[str, int]) -> Iterator[str]:
    for name, count in counts.items():
        cells = "cell says" if count == 1 else "cells say"
        yield (
            f"'{name}': {count:,} {cells} NaN, null or the like, and hold no value (in JSON such a "
            "word is a text)"
        )


def _chunk_notes(chunks: Retrieved) -> Iterator[str]:
    if chunks.ids_alone:
        yield (
            f"{chunks.ids_alone:,} of the cases looked at have ids of what was retrieved and no "
            "texts: not recorded. Name the texts with --corpus PATH"
        )
    if chunks.unknown_ids:
        yield f"{chunks.unknown_ids:,} retrieved ids are not in the corpus: their text is empty"
    for kind, count in chunks.warnings.items():
        yield f"{count:,} retrieved chunks: {kind.replace('_', ' ')}"
