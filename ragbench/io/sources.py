"""Any file, folder or run as cases with the outcomes that are already known.

A dataset, recorded answers, a store's dump, an export, an earlier run: they differ only in what is
recorded. The fields of a record say it, or the form that a tool writes.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

from ragbench.core.case import Case
from ragbench.core.trace import Entry
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.decoder import EntryDecoder
from ragbench.io.detect import CONTAINERS, JOURNAL_FILE, MANIFEST_FILE, detect_format
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import DumpForm, DumpRecord
from ragbench.io.dumps.forms import find_form, form_names
from ragbench.io.dumps.guess import GuessedMapping, guess_mapping
from ragbench.io.dumps.joined import CorpusTexts, corpus_texts
from ragbench.io.dumps.mapping import DumpMapping, Layout
from ragbench.io.dumps.read import open_dump
from ragbench.io.encodings import guess_encoding
from ragbench.io.fields import (
    ANSWER_FIELDS,
    CASE_FIELDS,
    ENTRY_FIELDS,
    HIT_FIELDS,
    FieldMap,
)
from ragbench.io.formats import READERS
from ragbench.io.ids import IdRegister
from ragbench.io.json_files import load
from ragbench.io.proposals import proposals
from ragbench.io.rankings import is_beir_result, read_result, read_run
from ragbench.io.recorded import Retrieved, Texts, recorded_outcome, retrieved
from ragbench.io.run_files import Topics, find_topics, read_ranking_rows
from ragbench.io.source import STDIN, NotingReadErrors, Problems, Row, Source
from ragbench.io.source_info import SourceInfo, looked_at
from ragbench.io.values import ValueProblem

__all__ = [
    "LOOK",
    "EntrySource",
    "open_source",
]

LOOK = 1000
"""Cases of the first look."""
_GUESSED_FROM = 20
_NO_QUESTIONS = (
    "holds no questions: join it with its dataset, as in: ragbench eval DATASET --answers {name}"
)


@dataclass(kw_only=True)
class EntrySource:
    """Cases with what is recorded for them; read from the start at each iteration.

    Bad records are left out and raised together at the end of each iteration.
    """

    info: SourceInfo
    _read: Callable[[], Iterator[Entry]]
    held: ExitStack = field(default_factory=ExitStack)
    """What is kept for it on disk, until it is closed."""

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in the order of the source.

        Raises:
            DataError: records are wrong (at the end, all of them), or the source cannot be read.
        """
        return self._read()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Forgets what was kept for it on disk."""
        self.close()

    def close(self) -> None:
        """Forgets what was kept for it on disk."""
        self.held.close()


def open_source(
    where: str | Path,
    *,
    form: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    corpus: str | Path | None = None,
    queries: str | Path | None = None,
    qrels: str | Path | None = None,
    encoding: str | None = None,
    is_join: bool = False,
) -> EntrySource:
    """Opens a source: finds out its form, which field means what, and what is recorded.

    Example:
        >>> with open_source("answers.jsonl") as source:  # doctest: +SKIP
        ...     print(*source.info.lines())
        ...     report = evaluate(source, None, out=Path("run"))

    Args:
        where: a file, a folder, ``-`` for standard input, or ``hf:owner/name[:split]``.
        form: name of a format or of a dump's form; recognised when not given.
        fields: field of a case, or of what a system did, to field of the source (dots lead into
            objects); an empty name means that no field has it.
        split: which part to read, of a source that has several.
        corpus: the texts of documents, for sources that hold ids alone.
        queries: the queries, for a TREC run.
        qrels: the judgements of a TREC run; by default those beside it, or of the corpus's folder.
        encoding: how text is encoded, when it is neither UTF-8 nor UTF-16 with a mark.
        is_join: whether its outcomes are to be joined with other cases: it may then lack queries,
            and an id may come back.

    Raises:
        ConfigError: no such form, field or encoding, or something is needed that is not given.
        DataError: it cannot be read at all, or holds nothing that could be a case.
        MissingExtraError: the form needs a package that is not installed.
    """
    stack = ExitStack()
    try:
        opening = _Opening(
            place=_place(where, split, encoding, stack),
            fields=dict(fields or {}),
            corpus=corpus,
            queries=queries,
            qrels=qrels,
            is_join=is_join,
            stack=stack,
        )
        FieldMap(recognised=ENTRY_FIELDS, overrides=opening.fields)  # a wrong name is told at once
        return opening.open(form)
    except BaseException:
        stack.close()
        raise


def _place(where: str | Path, split: str | None, encoding: str | None, stack: ExitStack) -> Source:
    """Where to read from; standard input is kept in a file, because it is read more than once."""
    found = Source.of(where, split=split, encoding=encoding)
    if where != STDIN:
        return _run_around(found) or _decoded(found)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="ragbench-stdin-")))
    problems = Problems()
    with NotingReadErrors(found.name, problems), (folder / "stdin").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    problems.raise_if_any()
    return _decoded(replace(found, path=folder / "stdin"))


def _decoded(place: Source) -> Source:
    """The source with its encoding, where that has to be guessed."""
    if place.encoding is not None or place.path is None or not place.path.is_file():
        return place
    head = place.head(Problems())
    place.close()
    guess = None if head is None else guess_encoding(head)
    if guess is None:
        return place
    notes = {f"'{place.name}' is not UTF-8 and is read as {guess}, a guess (--encoding)": None}
    return replace(place, encoding=guess, notes=notes)


_RUN_FILES = frozenset({"report.json", "cases.csv", "timings.json", "manifest.json", JOURNAL_FILE})


def _run_around(place: Source) -> Source | None:
    """The run's folder, for one of its files: it knows more than they do."""
    path = place.path
    if path is None or path.name not in _RUN_FILES:
        return None
    folder = path.parent
    if not all((folder / name).is_file() for name in (JOURNAL_FILE, MANIFEST_FILE)):
        return None
    return replace(place, name=str(folder), path=folder)


Reader = Callable[[Source, Problems], Iterator[Row]]


@dataclass(kw_only=True, slots=True)
class _Opening:
    """Opens one source."""

    place: Source
    fields: dict[str, str]
    corpus: str | Path | None
    queries: str | Path | None
    qrels: str | Path | None
    is_join: bool
    stack: ExitStack
    has_answers: bool = False

    def open(self, form: str | None) -> EntrySource:
        dump_form: DumpForm | None = None
        name = form
        is_file = self.place.path is not None and not self.place.is_folder
        if form is not None and (form not in READERS.targets() or (is_file and form == "trec")):
            found = _dump_form(form)
            name, dump_form = (found, None) if isinstance(found, str) else (None, found)
        if name is None:
            problems = Problems()
            name = self._detected(problems)
            if name is None or len(problems):
                return self._dump(form, problems)
        if name in ("trec", "run-file", "beir") and is_file:
            return self._run(name)
        if name == "verdicts" and not self.is_join:
            raise DataError([self._problem(_NO_QUESTIONS.format(name=self.place.name))])
        reader = cast("Reader", partial(_rows, READERS.load(name)))
        sample = list(islice(self._quietly(reader), LOOK))
        if name in CONTAINERS and (adapted := self._adapted(sample, dump_form)) is not None:
            if adapted.mapping.layout is Layout.ROWS or not adapted.mapping.chunks:
                return self._dump(form, Problems())
            self._take(adapted, sample)
        elif name in CONTAINERS and not self._has_query(sample):
            try:
                return self._dump(form, Problems())
            except (DataError, ConfigError):
                pass  # it is not a dump: what it lacks as a dataset is told when it is read
        return self._of_rows(name, reader, sample)

    def _problem(self, message: str) -> Problem:
        return Problem(message=message, path=self.place.name)

    def _detected(self, problems: Problems) -> str | None:
        place = replace(self.place)
        try:
            with NotingReadErrors(place.name, problems):
                name = detect_format(place, "cases", problems)
                value_of = self.corpus is not None or self.is_join
                if name == "json" and value_of and is_beir_result(load(place, Problems())):
                    return "beir"
                return name
        finally:
            place.close()
        return None

    def _quietly(self, reader: Reader) -> Iterator[Row]:
        """Rows for a first look; what is wrong is told when they are read in earnest."""
        place, problems = replace(self.place), Problems()
        try:
            with NotingReadErrors(place.name, problems):
                yield from reader(place, problems)
        finally:
            place.close()

    # --- records with fields

    def _has_query(self, sample: Sequence[Row]) -> bool:
        names = FieldMap(recognised=ENTRY_FIELDS, overrides=self.fields)
        given = self.fields.get("query", "")
        return "." in given or any(
            target == "query" for row in sample for target, _ in names.plan(row.values).bindings
        )

    def _adapted(self, sample: Sequence[Row], form: DumpForm | None) -> GuessedMapping | None:
        """How chunks are read that no recognised field holds; None where there are none for sure.

        A dataset may bring passages of its own: only scores, or the form of a store's response,
        say that they were retrieved.
        """
        if not sample or (form is None and self.fields.get("retrieved_contexts") == ""):
            return None
        names = FieldMap(recognised=ENTRY_FIELDS, overrides=self.fields)
        bindings = [pair for row in sample for pair in names.plan(row.values).bindings]
        bound = {target for target, _ in bindings}
        if form is None and (bound & {"retrieved_contexts", "retrieved_context_ids"}):
            return None
        records = [DumpRecord(row.path, row.line, row.values) for row in sample[:_GUESSED_FROM]]
        try:
            found = guess_mapping(records, form=form, overrides=self._overrides())
        except DataError:
            if form is not None:
                raise
            return None
        mapping = found.mapping
        gold = {source for target, source in bindings if target in CASE_FIELDS}
        if form is None:
            is_plain = found.form.name in ("plain", "ragbench", "ragas", "pgvector")
            if is_plain and mapping.score is None:
                return None
            if mapping.layout is Layout.ROWS and bound & {"reference", "answers", "response"}:
                return None
            if (mapping.chunks or "").partition(".")[0] in gold:
                return None
            if mapping.layout is Layout.QUERIES and not _has_texts(found, records):
                return None
        return found

    def _overrides(self) -> dict[str, str]:
        """The user's mapping in the words of a dump."""
        words = {**HIT_FIELDS, "query": "query", "id": "query_id", "retrieved_contexts": "chunks"}
        return {words[t]: path for t, path in self.fields.items() if t in words and path}

    def _take(self, adapted: GuessedMapping, sample: Sequence[Row]) -> None:
        """Names the fields that a dump's mapping found and no recognised name tells."""
        mapping = adapted.mapping
        known = self._has_query(sample)
        self.fields.setdefault("retrieved_contexts", mapping.chunks or "")
        if mapping.query is not None and not known:
            self.fields.setdefault("query", mapping.query)
            if mapping.query_id is not None:
                self.fields.setdefault("id", mapping.query_id)

    def _of_rows(self, name: str, reader: Reader, known: Sequence[Row]) -> EntrySource:
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
        info = looked_at(
            SourceInfo(
                path=self.place.name,
                form=name,
                mapping=bound,
                unused=unused,
                uses_corpus=chunks.looked_up,
                notes=(
                    *self.place.notes,
                    *_no_value_notes(decoder.no_values),
                    *proposals([row.values for row in known], unused, bound),
                    *_chunk_notes(chunks),
                ),
            ),
            looked,
            is_whole=len(known) < LOOK,
        )

        def read() -> Iterator[Entry]:
            problems, place = Problems(), replace(self.place)
            decoder = self._decoder(problems, replace(chunks, warnings=Counter()))
            try:
                with NotingReadErrors(place.name, problems):
                    for row in reader(place, problems):
                        entry = decoder.decode(row)
                        if entry is not None:
                            yield entry
            finally:
                place.close()
            decoder.finish(place.name)
            problems.raise_if_any()

        return EntrySource(info=info, _read=read, held=self.stack)

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

    # --- ids with scores

    def _run(self, name: str) -> EntrySource:
        """A TREC run, or BEIR results: ids that a corpus and queries give their texts."""
        if self.corpus is None:
            raise ConfigError(
                f"{self.place.name} holds ids alone: name their texts with --corpus PATH"
            )
        topics = Topics()
        if not self.is_join:
            topics = find_topics(
                self.place, corpus=self.corpus, queries=self.queries, qrels=self.qrels
            )
        read = read_result if name == "beir" else read_run

        def reader(place: Source, problems: Problems) -> Iterator[Row]:
            yield from read_ranking_rows(read(place, problems), place.name, topics, problems)

        known = list(islice(self._quietly(reader), LOOK))
        return self._of_rows("beir" if name == "beir" else "trec", reader, known)

    # --- responses of stores

    def _dump(self, form: str | None, problems: Problems) -> EntrySource:
        """A dump whose records are no questions with fields: responses, rows, batches."""
        opened = partial(
            open_dump,
            self.place.path if self.place.path is not None else self.place.name,
            format=form,
            overrides=self._overrides(),
            queries=self.queries,
            corpus=self.corpus,
        )
        try:
            with opened() as dump:
                mapping = dump.mapping
                known = list(islice(dump, LOOK))
        except (DataError, ConfigError):
            if len(problems):  # it was not recognised as anything, and that says more
                raise DataError(problems.items) from None
            raise
        described = {
            name: str(value)
            for name in ("query", "query_id", "chunks", "id", "text", "score")
            if (value := getattr(mapping, name))
        }
        has_ids = mapping.id is not None
        info = SourceInfo(path=self.place.name, form=mapping.format, mapping=described)
        looked = [_of_dump(retrieval, has_ids=has_ids) for retrieval in known]

        def read() -> Iterator[Entry]:
            found, ids = Problems(), IdRegister()
            with opened() as dump:
                for number, retrieval in enumerate(dump, start=1):
                    entry = _of_dump(retrieval, has_ids=has_ids)
                    earlier = ids.add(entry.case.id, number)
                    if earlier is None or self.is_join:
                        yield entry
                    else:
                        message = f"'{entry.case.id}' is already the id of record {earlier}"
                        found.add(message, path=self.place.name, line=number, field="id")
                if dump.problems.items:
                    raise DataError([*dump.problems, *found])
            found.raise_if_any()

        whole = looked_at(info, looked, is_whole=len(looked) < LOOK)
        return EntrySource(info=whole, _read=read, held=self.stack)


def _has_texts(found: GuessedMapping, records: Sequence[DumpRecord]) -> bool:
    """Whether what was taken for chunks holds any text: an empty list fits every form."""
    decoder = Decoder(found.mapping, found.form)
    for record in records:
        with suppress(ValueProblem):
            for raw in decoder.raw(record):
                if any(chunk.text.strip() for chunk in decoder.retrieval(raw, "", "").chunks):
                    return True
    return False


def _rows(reader: Any, place: Source, problems: Problems) -> Iterator[Row]:
    yield from reader(place, kind="cases", problems=problems)


def _dump_form(name: str) -> DumpForm | str:
    try:
        return find_form(name)
    except ConfigError as error:
        known = ", ".join(READERS.targets())
        raise ConfigError(
            f"unknown name '{name}' among formats. Known: {known}; and dumps: "
            f"{', '.join(form_names())}"
        ) from error


def _of_dump(dump: RetrievalDump, *, has_ids: bool) -> Entry:
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
