"""What a retriever returned, from any source that has it recorded."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ragbench.core.outcome import Outcome
from ragbench.core.result import RetrievalResult
from ragbench.core.validation import RetrievalDump
from ragbench.errors import DataError, Problem
from ragbench.io.detect import detect_format
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import DumpMapping, DumpRecord, ScoreKind
from ragbench.io.dumps.forms import forms
from ragbench.io.dumps.read import OpenDump, dump_row, open_dump
from ragbench.io.entries import EntrySource
from ragbench.io.source import STDIN, Problems, Source, noting_read_errors
from ragbench.io.sources import open_source, run_of


@contextmanager
def open_retrievals(
    where: str | Path, *, format: str | None = None, **options: Any
) -> Generator[OpenDump]:
    """As `ragbench.io.dumps.read.open_dump`, also for sources that hold more than retrievals.

    A run, an export, a report or another tool's results give what generation was given, or else
    what was retrieved.
    """
    form = format if format is None or format in _WHOLE_FORMS else ""
    if form is None and where != STDIN:
        with (
            closing(Source.of(where, encoding=options.get("encoding"))) as place,
            noting_read_errors(place.name, Problems()),
        ):
            form = "run" if run_of(place) else detect_format(place, "cases", Problems())
    if form == "verdicts":
        raise DataError([Problem(message=_NO_CHUNKS, path=str(where))])
    if form not in _WHOLE_FORMS:
        with open_dump(where, format=format, **options) as dump:
            yield dump
        return
    ours = {name: options.get(name) for name in _OF_SOURCES}
    with open_source(where, form=format, **cast("Any", ours)) as source:
        problems = Problems()
        yield OpenDump(
            name=source.info.path,
            mapping=replace(_OWN_MAPPING, format=source.info.form),
            problems=problems,
            notes=source.info.notes,
            _retrievals=_retrievals(source, problems),
        )


_OF_SOURCES = ("corpus", "split", "encoding")
"""Options of dumps that other sources have, too."""
_WHOLE_FORMS = frozenset(
    {"run", "export", "report", "deepeval", "ragchecker", "promptfoo", "open-rag-eval"}
)
_NO_CHUNKS = (
    "holds verdicts, not the retrievals that they judge; to use them in a report: ragbench eval "
    "DATASET --answers FILE"
)
_OWN_MAPPING = DumpMapping(
    format="",
    query="query",
    query_id="query_id",
    chunks="chunks",
    id="id",
    text="text",
    score="score",
    metadata="metadata",
    scores=ScoreKind.SIMILARITY,
)


def _retrievals(source: EntrySource, problems: Problems) -> Iterator[RetrievalDump]:
    decoder = Decoder(_OWN_MAPPING, forms()["plain"])
    entries = iter(source)
    while True:
        try:
            entry = next(entries, None)
        except DataError as error:
            problems.items += error.problems
            return
        if entry is None:
            return
        case = entry.case
        outcome = entry.recorded.get("post_retrieve", entry.recorded.get("retrieve"))
        if outcome is None or outcome.value is None:
            why = "no retrieval is recorded" if outcome is None else _why(outcome)
            problems.add(f"case '{case.id}': {why}", path=source.info.path)
            continue
        result: RetrievalResult[Any] = outcome.value
        row = dump_row(case.id, case.query, result.to_chunks())
        if result.context_ids is None:
            row["chunks"] = [{**chunk, "id": None} for chunk in row["chunks"]]
        (raw,) = decoder.raw(DumpRecord(source.info.path, None, row))
        ids = case.reference_context_ids
        yield replace(
            decoder.retrieval(raw, case.id, case.query),
            relevant_ids=None if ids is None else frozenset(ids),
            answers=case.references,
        )


def _why(outcome: Outcome[Any]) -> str:
    return str(outcome.failure) if outcome.failure is not None else str(outcome.reason)
