"""Dumps of stores as cases with what was retrieved for them: responses, rows, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import islice

from ragbench.core.case import Case
from ragbench.core.trace import Entry
from ragbench.core.validation import RetrievalDump
from ragbench.errors import DataError
from ragbench.io.dumps.form import DumpMapping
from ragbench.io.dumps.read import OpenDump
from ragbench.io.entries import LOOK, EntrySource
from ragbench.io.ids import IdRegister
from ragbench.io.recorded import recorded_outcome, retrieved
from ragbench.io.source import Problems
from ragbench.io.source_info import SourceInfo, looked_at


@dataclass(kw_only=True, slots=True)
class DumpEntries:
    """Reads a dump whose records are no questions with fields."""

    name: str
    """As the user named it."""
    open_dump: Callable[[], AbstractContextManager[OpenDump]]
    """Opens it from the start."""
    is_join: bool
    """Whether the entries are to be joined with other cases."""

    def opened(self, held: ExitStack) -> EntrySource:
        """The source, once a first look has found out how it is read."""
        with self.open_dump() as dump:
            mapping = dump.mapping
            known = list(islice(dump, LOOK))
        has_ids = mapping.id is not None
        looked = [_entry(retrieval, has_ids=has_ids) for retrieval in known]
        info = SourceInfo(path=self.name, form=mapping.format, mapping=_described(mapping))
        return EntrySource(
            info=looked_at(info, looked, is_whole=len(looked) < LOOK),
            read=lambda: self._entries(has_ids=has_ids),
            held=held,
        )

    def _entries(self, *, has_ids: bool) -> Iterator[Entry]:
        found, ids = Problems(), IdRegister()
        with self.open_dump() as dump:
            for number, retrieval in enumerate(dump, start=1):
                entry = _entry(retrieval, has_ids=has_ids)
                earlier = ids.add(entry.case.id, number)
                if earlier is None or self.is_join:
                    yield entry
                else:
                    message = f"'{entry.case.id}' is already the id of record {earlier}"
                    found.add(message, path=self.name, line=number, field="id")
            if dump.problems.items:
                raise DataError([*dump.problems, *found])
        found.raise_if_any()


def _described(mapping: DumpMapping) -> dict[str, str]:
    return {
        name: str(value)
        for name in ("query", "query_id", "chunks", "id", "text", "score")
        if (value := getattr(mapping, name))
    }


def _entry(dump: RetrievalDump, *, has_ids: bool) -> Entry:
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
    return Entry(
        case=case, recorded={"retrieve": recorded_outcome(retrieved(dump, has_ids=has_ids))}
    )
