"""Any file, folder or run as cases with the outcomes that are already known.

A dataset, recorded answers, a store's dump, an export, an earlier run: they differ only in what is
recorded. The fields of a record say it, or the form that a tool writes.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b, file_digest
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ragbench.core.roles import FieldRole
from ragbench.core.trace import Entry
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.detect import CONTAINERS, detect_format, reader_of, readers
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import DumpForm, DumpMapping
from ragbench.io.dumps.forms import RANKED, find_form
from ragbench.io.dumps.guess import guess_mapping
from ragbench.io.dumps.reranked import (
    holds_ranking,
    own_hits,
    request_fields,
    reranked,
    unread_ranking,
)
from ragbench.io.encoding import decoded
from ragbench.io.entries import (
    LOOK,
    EntrySource,
    SourceInfo,
    gold_notes,
    looked_at,
    notes_of,
    repeat_notes,
)
from ragbench.io.fields import (
    ANSWER_FIELDS,
    HIT_FIELDS,
    entry_fields,
    field_names,
    outcome_fields,
    says_gold,
)
from ragbench.io.llamaindex import IN_ORDER
from ragbench.io.only import Only
from ragbench.io.overrides import Overrides, joined_rows, meant_fields
from ragbench.io.proposals import propose, question_problem
from ragbench.io.read import EntryDecoder, FieldMap
from ragbench.io.recorded import Retrieved, recorded_outcome, retrieved
from ragbench.io.roles import Roles, dump_roles
from ragbench.io.source import STDIN, Problems, Row, Source, looking_at, noting_read_errors
from ragbench.io.unread import document_notes, verdict_notes
from ragbench.io.values import ValueProblem
from ragbench.shell import shell_quoted

if TYPE_CHECKING:
    from ragbench.io.dumps.read import OpenDump
    from ragbench.io.rankings import RankingFile, Topics

Reader = Callable[..., Iterator[Row]]
"""Reads the rows of cases: it takes the source, and ``problems`` by name."""
_GUESSED_FROM = 20
"""Rows from which the fields of a dump are guessed: each is tried in every form of every store."""
_DUMP = {**HIT_FIELDS, "query": "query", "id": "query_id", "retrieved_contexts": "chunks"}
"""Field of a case that a user may map in a dump, and what the dump's mapping calls it."""
_NO_QUESTIONS = (
    "holds no questions: join it with its dataset, as in: ragbench eval DATASET --outputs {name}"
)
_FOR_JOINING = frozenset({"verdicts", IN_ORDER})
"""Formats without questions: they make sense only when they are joined with a dataset."""
_LABEL_FIELDS = frozenset(
    {
        "reference",
        "answers",
        "reference_contexts",
        "reference_context_ids",
        "grades",
        "evidence",
    }
)
"""Fields by which a record is known to be a dataset's."""


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
    only: Only | None = None,
    is_join: bool = False,
) -> EntrySource:
    """Opens a source: recognises its form, its fields and the recorded outcomes.

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
        only: which of its records are taken.
        is_join: whether its outcomes are to be joined with other cases: it may then lack queries,
            and an id may come back.

    Raises:
        ConfigError: no such form, field or encoding, or something is needed that is not given.
        DataError: it cannot be read at all, or holds nothing that could be a case.
        MissingExtraError: the form needs a package that is not installed.
    """
    stack = ExitStack()
    try:
        place = Source.of(where, split=split, encoding=encoding)
        overrides = meant_fields("cases", fields or {})
        if where == STDIN:
            place = _stdin_as_file(place, stack)
        else:
            place = place.run() or decoded(place)
        opening = _Opening(
            names=FieldMap("cases", dict(overrides.fields), is_join=is_join),
            place=place,
            fields=dict(overrides.fields),
            overrides=overrides,
            corpus=corpus,
            queries=queries,
            qrels=qrels,
            encoding=encoding,
            only=only,
            is_join=is_join,
            stack=stack,
        )
        with looking_at(place.name):
            opened = opening.open(form)
        # Where the files have the same content, a later run need not read them. Other formats may
        # read more than these files.
        is_of_files = opened.info.form in (*CONTAINERS, "beir")
        if place.path is not None and where != STDIN and is_of_files:
            settings = repr((opened.info, form, fields, split, encoding, only, is_join))
            paths = (place.path, corpus, queries, qrels)
            opened.content = partial(_content_digest, paths, settings)
        return opened
    except BaseException:
        # What was put on disk for the source goes, also when the user interrupts.
        stack.close()
        raise


def _content_digest(paths: Iterable[str | Path | None], settings: str) -> str:
    """A digest of all files of a source, and of the settings by which they are read.

    Where the digest is equal, a later run need not read the files again. It is empty where a file
    cannot be read, or where a link leads to another folder: that folder would not be digested.

    Args:
        paths: files, and folders with all files below them.
        settings: a text that is equal for the same reading.

    The digest is kept in runs: with another one, runs on the same files read them once more.
    """
    digest = blake2b(settings.encode("utf-8", "backslashreplace"))
    try:
        for name in paths:
            if name is None:
                continue
            path = Path(name)
            # Sorted, since systems list the files of a folder in different orders.
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            if any(file.is_symlink() and file.is_dir() for file in files):
                return ""
            for file in files:
                if not file.is_file():
                    continue
                with file.open("rb") as stream:
                    file_hash = file_digest(stream, blake2b).digest()
                digest.update(repr((str(file), file_hash)).encode("utf-8", "backslashreplace"))
    except OSError:
        return ""
    return digest.hexdigest()


def _stdin_as_file(stdin: Source, stack: ExitStack) -> Source:
    """Standard input as a temporary file, because a source is read more than once.

    The first reading recognises fields, and the later ones read all records.

    Args:
        stack: removes the file when it is closed.
    """
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="ragbench-stdin-")))
    problems = Problems()
    with noting_read_errors(stdin.name, problems), (folder / "stdin").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    problems.raise_if_any()
    return decoded(replace(stdin, path=folder / "stdin"))


@dataclass(kw_only=True, slots=True)
class _Opening:
    """The steps by which a source is opened: its format, its fields, how its rows are read."""

    names: FieldMap
    place: Source
    fields: dict[str, str]
    """Field of a case to field of the source: those of the user, and those found on the way."""
    overrides: Overrides
    corpus: str | Path | None
    queries: str | Path | None
    qrels: str | Path | None
    encoding: str | None
    only: Only | None
    is_join: bool
    stack: ExitStack
    response_form: str = ""
    """The form by which a field was found to hold a store's response."""

    def open(self, form: str | None) -> EntrySource:
        """The source as cases with recorded outcomes, read in the first way that fits its content.

        The order of the attempts counts. A file that is recognised as nothing may still be a
        store's response. A run or a tool's format is read by its own rules. Rows with fields are
        looked at for chunks that are under an unknown name, and for a reranker's results; without
        either they are cases as they are.

        Args:
            form: the name of a format or of a store's response, where the user says one.

        Raises:
            DataError: the source cannot be read, or holds no questions and is not joined with
                cases.
        """
        format_name = form
        dump_form = None
        if form is not None and not readers().has(form):
            # The user named a store's response, not a file format.
            format_name = None
            dump_form = find_form(form, readers().targets())
        if format_name is None:
            problems = Problems()
            format_name = self._format_name(problems)
            if format_name is None or problems.count:
                return self._open_as_dump(form, problems)
        if format_name in RANKED and not self.place.is_folder:
            return self._open_as_ranking(format_name)
        if format_name in _FOR_JOINING and not self.is_join:
            message = _NO_QUESTIONS.format(name=self.place.name)
            raise DataError([Problem(message=message, path=self.place.name)])

        reader = self._reader_of_wanted_rows(self._reader_of(format_name))
        if format_name not in CONTAINERS:
            # The format of a tool says itself what its fields are.
            return self._open_as_rows(format_name, reader, self._first_rows(reader))
        sample = self._first_rows(reader)
        if dump_form is None and self._has_reranked(sample):
            reader = partial(_reranked_rows, reader)
            self.response_form = _RERANKED
            sample = self._first_rows(reader)
        dump = self._as_dump_or_chunks(sample, form, dump_form)
        if dump is not None:
            return dump
        return self._open_as_rows(format_name, reader, sample)

    def _format_name(self, problems: Problems) -> str | None:
        """The name of the source's format; None where it is not recognised, which is noted.

        BEIR's results look like any other JSON object: they are looked for only where the user
        named a corpus, queries or judgements, or joins the source with cases.
        """
        with closing(replace(self.place)) as place, noting_read_errors(place.name, problems):
            format_name = detect_format(place, "cases", problems)
            joins_ids = (self.corpus, self.queries, self.qrels) != (None, None, None)
            if format_name == "json" and (joins_ids or self.is_join):
                from ragbench.io.rankings import is_beir_result

                # Ids of queries with ids of documents look like any other JSON object.
                if is_beir_result(place):
                    format_name = "beir"
            return format_name
        return None

    def _reader_of(self, format_name: str) -> Reader:
        """The reader of the rows of a format, which can be called for each of several readings.

        Spans of a trace are collected on disk once for all readings, since that takes long.
        """
        if format_name != "traces":
            return partial(reader_of(format_name), kind="cases")
        from ragbench.io.traces import TraceFile

        # The spans of a trace are collected on disk, once for all readings.
        file = TraceFile()
        self.stack.enter_context(closing(file.db))
        return file.rows

    def _reader_of_wanted_rows(self, reader: Reader) -> Reader:
        """A reader of the rows that the user wants, with columns joined that the user named.

        Columns are joined first: the choice of rows may go by the joined field.
        """
        if self.overrides.columns:
            reader = partial(joined_rows, self.overrides, reader)
        if self.only is not None:
            reader = partial(_rows_of_only, self.only, reader)
            self.place.notes[f"Only records {self.only.described} are taken"] = None
        return reader

    def _first_rows(self, reader: Reader) -> list[Row]:
        """The source's first rows, by which its fields are recognised before it is read in earnest.

        Problems are dropped here, since reading in earnest reports them.
        """
        problems = Problems()
        rows: list[Row] = []
        with closing(replace(self.place)) as place, noting_read_errors(place.name, problems):
            # Taken one by one: rows before one that cannot be read are still looked at.
            for row in islice(reader(place, problems=problems), LOOK):
                rows.append(row)
        return rows

    def _bindings(self, row: Row) -> tuple[tuple[str, str], ...]:
        """The fields of a row that are recognised by name: field of a case and name in the row.

        From these it is decided whether the row is a question, a chunk or a response.
        """
        return self.names[tuple(row.values)].bindings

    # --- records with fields

    def _has_reranked(self, sample: Sequence[Row]) -> bool:
        """Whether questions hold a reranker's results, and the documents that these results are of.

        Read as fields, the documents would count in the order from before the reranking.

        Args:
            sample: the first rows of the source.
        """
        if "retrieved_contexts" in self.fields:
            return False
        form = find_form("cohere")  # the name under which all rerankers' results are one form
        for row in sample[:_GUESSED_FROM]:
            if not any(target == "query" for target, _ in self._bindings(row)):
                continue
            try:
                if reranked(form, row.values) is not None:
                    return True
            except ValueProblem:
                return True  # reported with its line when the rows are read
        return False

    def _as_dump_or_chunks(
        self, sample: Sequence[Row], form: str | None, dump_form: DumpForm | None
    ) -> EntrySource | None:
        """The source as a retrieval log (dump), where its records are no questions with fields.

        Where they are questions, the result is None. If they hold chunks under a name that is not
        recognised, the names of that field and of the query are added to `fields`.

        Args:
            sample: the first rows of the source.
            form: the user's name of the form, passed on to the reader of logs.
            dump_form: the form of a store's response, where the user named one.
        """
        guessed_from = sample[:_GUESSED_FROM]
        if dump_form is None and "retrieved_contexts" not in self.fields:
            for row in guessed_from:
                _refuse_ranking(row, dict(self._bindings(row)))
        bindings = list(chain.from_iterable(map(self._bindings, sample)))
        bound = {target for target, _ in bindings}
        gold = {source for target, source in bindings if target not in outcome_fields()}
        has_query = "." in self.fields.get("query", "") or "query" in bound

        decoder = None
        if dump_form is not None or self._may_hold_chunks(guessed_from, bound, gold):
            decoder = self._chunk_decoder(guessed_from, bound, gold, dump_form)
        if decoder is None:
            if not has_query and not self._is_table_of_answers(sample, bound):
                # If it is no dump either, what it lacks as a dataset is reported when it is read.
                with suppress(DataError, ConfigError):
                    return self._open_as_dump(form, Problems())
            return None

        mapping = decoder.mapping
        if not mapping.chunks:  # each record is a response
            return self._open_as_dump(form, Problems())
        self.fields.setdefault("retrieved_contexts", mapping.chunks)
        self.response_form = mapping.format
        if mapping.query is not None and not has_query:
            self.fields.setdefault("query", mapping.query)
            if mapping.query_id is not None:
                self.fields.setdefault("id", mapping.query_id)
        return None

    def _is_table_of_answers(self, sample: Sequence[Row], bound: set[str]) -> bool:
        """Whether a table's headers suggest questions with answers: then it is no retrieval log.

        A reader of logs would drop the answers: the user gets a proposal for the columns instead.

        Args:
            sample: the first rows of the source.
            bound: the fields that are recognised already.
        """
        if not sample or not sample[0].cells:
            return False
        proposal = propose([row.values for row in sample], list(sample[0].values), bound)
        fields = bound.union(proposal.fields)
        return "query" in proposal.fields and not fields.isdisjoint({"reference", "response"})

    def _may_hold_chunks(self, rows: Sequence[Row], bound: set[str], gold: set[str]) -> bool:
        """Whether retrieved chunks may be in a field whose name is not recognised.

        Such a field is a list or an object that is no gold, or the score of a row that is a chunk.
        This is a quick look, before each field is tried in every form of every store.

        Args:
            bound: the fields of a case, or of what a system did, that are recognised.
            gold: the names in the source that hold labels of a dataset.
        """
        if self.fields.get("retrieved_contexts") == "":
            return False  # the user says that no field has them
        if not bound.isdisjoint({"retrieved_contexts", "retrieved_context_ids"}):
            return False
        score_names = field_names("hit")["score"]
        for row in rows:
            for name, value in row.values.items():
                if name in gold:
                    continue
                if name in score_names or type(value) in (list, dict):
                    return True
                if isinstance(value, str) and value[:1] in ("{", "["):  # JSON in a text
                    return True
        return False

    def _chunk_decoder(
        self, sample: Sequence[Row], bound: set[str], gold: set[str], form: DumpForm | None
    ) -> Decoder | None:
        """The reader of retrieved chunks that no recognised field holds.

        None if there are none for sure.

        A dataset may bring passages of its own: only scores, or the form of a store's response, say
        that they were retrieved. Counting passages of a dataset as retrieved would make its scores
        perfect.

        Args:
            sample: rows from which it is guessed.
            bound: the fields of a case, or of what a system did, that are recognised.
            gold: the names in the source that hold labels of a dataset.
            form: the form of a store's response, where the user named one.
        """
        if form is not None:
            if not sample:
                return None
            return guess_mapping(sample, form=form, overrides=self._dump_overrides())
        try:
            decoder = guess_mapping(sample, overrides=self._dump_overrides())
        except DataError:
            return None
        mapping = decoder.mapping
        is_guessed = mapping.layout == "queries" and "retrieved_contexts" not in self.fields
        if is_guessed and not _says_retrieved(mapping.chunks or "", bound):
            return None
        # Datasets have passages in these forms, too; only a score says that they were retrieved.
        is_plain = decoder.form.name in ("plain", "ragbench", "ragas", "pgvector")
        if is_plain and mapping.score is None:
            return None
        if (mapping.chunks or "").partition(".")[0] in gold:
            return None
        if mapping.layout == "rows":
            # A row with an answer is a case, not a chunk.
            are_chunks = bound.isdisjoint({"reference", "answers", "response"})
        else:
            are_chunks = _holds_any_text(decoder, sample)
        return decoder if are_chunks else None

    def _dump_overrides(self) -> dict[str, str]:
        """The user's mapping of fields in the words of a retrieval log, such as ``chunks``.

        The options are one list for all sources, while the reader of logs has shorter names. Fields
        that a log does not have are left out.
        """
        overrides: dict[str, str] = {}
        for target, path in self.fields.items():
            if target in _DUMP and path:
                overrides[_DUMP[target]] = path
        return overrides

    def _open_as_rows(self, form: str, reader: Reader, sample: Sequence[Row]) -> EntrySource:
        """The source of cases whose rows are read by `reader`, after a first look at some rows.

        The look finds out how all of it is read, and what a user has to know beforehand: which
        field is what, what is not read, and what looks wrong.

        Args:
            form: the name of the form, as reports show it.
            reader: reads the rows, from the start each time.
            sample: the first rows.
        """
        texts = None
        if self.corpus is not None:
            from ragbench.io.rankings import corpus_texts, holds_texts

            if holds_texts(self.corpus):
                texts = self.stack.enter_context(corpus_texts(self.corpus))
        chunks = Retrieved(fields=self.fields, texts=texts)
        plans = FieldMap("cases", self.fields, is_join=self.is_join)
        targets = _bound_fields(plans, sample)
        decoder_of = partial(
            EntryDecoder,
            fields=self.fields,
            has_answers=not targets.isdisjoint(ANSWER_FIELDS),
            is_join=self.is_join,
        )

        # The first look decodes the sample, and counts what it finds on the way.
        decoder = decoder_of(problems=Problems(), chunks=chunks)
        entries: list[Entry] = []
        for row in sample:
            entry = decoder.decode(row)
            if entry is not None:
                entries.append(entry)
        source_of: dict[str, str] = {}
        unused: dict[str, None] = {}
        for plan in decoder.plans.values():
            for target, source in plan.bindings:
                source_of.setdefault(target, source)
            unused.update(dict.fromkeys(plan.unknown))
        bound = {name: source_of[name] for name in entry_fields() if name in source_of}
        self._refuse_lone_chunk_fields(entries, bound)
        if chunks.decoder is not None:
            bound |= _hit_bindings(chunks.decoder.mapping, bound.get("retrieved_contexts", ""))

        values = [row.values for row in sample]
        notes = [*self.place.notes, *notes_of(decoder.no_values, decoder.null_ids, chunks)]
        notes += gold_notes(values, unused, bound)
        notes += document_notes(values, unused, bound)
        if unused and not self.is_join:
            notes += repeat_notes(entries)
        info = SourceInfo(
            path=self.place.name,
            form=form,
            mapping=bound,
            roles=self._roles_of_fields(form, bound, chunks),
            unused=tuple(unused),
            # A folder without texts has the queries and judgements of a ranking.
            uses_corpus=chunks.looked_up or (form in RANKED and self.corpus is not None),
            notes=tuple(notes),
            hints=tuple(self._hints_on_unused(sample, list(unused), bound)),
        )

        return EntrySource(
            info=looked_at(info, entries, is_whole=len(sample) < LOOK),
            read=partial(self._entries_anew, reader, decoder_of, chunks),
            held=self.stack,
        )

    def _entries_anew(
        self, reader: Reader, decoder_of: Callable[..., EntryDecoder], chunks: Retrieved
    ) -> Iterator[Entry]:
        """The source's cases and recorded outcomes from its start, for one of several readings.

        How chunks are read stays from the first look; warnings are counted anew, so that a second
        reading does not double them.

        Args:
            reader: reads the rows of the source.
            decoder_of: makes the decoder of rows, with ``problems`` and ``chunks`` by name.
            chunks: how retrieved chunks are read.
        """
        fresh_chunks = replace(chunks, warnings=Counter[str]())
        fresh_decoder = decoder_of(problems=Problems(), chunks=fresh_chunks)
        return fresh_decoder.records(replace(self.place), reader)

    def _hints_on_unused(
        self, sample: Sequence[Row], unused: Sequence[str], bound: Mapping[str, str]
    ) -> Iterator[str]:
        """Yields what the unread fields of a source may be, for a user to name them with options.

        A table gets a proposal by its headers; of other records verdicts of people are looked for.

        Args:
            sample: the first rows.
            unused: the names in the source that mean nothing known.
            bound: field of a case to its name in the source.

        Raises:
            DataError: no column has the question, and headers suggest what the columns are.
        """
        values = [row.values for row in sample]
        # Only a table has headers by which fields can be proposed; answers that are joined with
        # cases need no question.
        if not sample or not sample[0].cells or self.is_join:
            yield from verdict_notes(values, unused, bound, self.place.name)
            return
        if "query" not in bound:
            problem = question_problem(values, unused, bound, self.place.name)
            if problem is not None:
                raise DataError([problem])
            return
        proposal = propose(values, unused, bound)
        if proposal.is_empty:
            yield from verdict_notes(values, unused, bound, self.place.name)
        else:
            lines = "\n".join(proposal.lines(self.place.name))
            yield f"Columns that are not read may be:\n{lines}"

    def _refuse_lone_chunk_fields(self, entries: Sequence[Entry], bound: Mapping[str, str]) -> None:
        """Refuses a mapping of a chunk's fields (``chunk_id=...``) where no field holds chunks.

        The mapping would have no effect, and the user would not notice.

        Raises:
            ConfigError: the user named such a field.
        """
        # Where no record was read it is not known whether the field of chunks is missing.
        if not entries or "retrieved_contexts" in bound:
            return
        options: list[str] = []
        for target, path in self.fields.items():
            if path and target in HIT_FIELDS:
                options.append(f"{target}={path}")
        if options:
            raise ConfigError(
                f"{self.place.name} has no field with a list of chunks, and {', '.join(options)} "
                "names one of a chunk: add --field retrieved_contexts=NAME"
            )

    def _roles_of_fields(
        self, form: str, mapping: Mapping[str, str], chunks: Retrieved
    ) -> tuple[FieldRole, ...]:
        """The role of each field that is read, with its reason: reports show what was measured.

        Args:
            form: the form of the source.
            mapping: field of a case to field of the source.
            chunks: how retrieved chunks are read, which may be by another form.
        """
        chunk_form = ""
        if chunks.decoder is not None:
            chunk_form = chunks.decoder.mapping.format
        # What a reranker left has become chunks of ragbench's own form, which says nothing.
        if self.response_form == _RERANKED:
            chunk_form = _RERANKED
        roles = Roles(
            path=self.place.name,
            form=form,
            named=frozenset(name for name, path in self.overrides.fields.items() if path),
            of_form=self.place.roles,
            response_form=self.response_form,
            chunk_form=chunk_form,
        )
        return roles.of(mapping)

    # --- ids with scores

    def _open_as_ranking(self, name: str) -> EntrySource:
        """A TREC run, or BEIR results, as a source: ids, which may get their texts from a corpus.

        Joined with cases it needs ids alone; else its queries and judgements are looked for.

        Args:
            name: the name of the format, ``"trec"`` or ``"beir"``.
        """
        # Loaded late: few sources are rankings.
        from ragbench.io.rankings import Topics, find_topics, look_at

        ranking = look_at(self.place, name)
        topics = Topics()
        if not self.is_join:
            topics = find_topics(
                self.place,
                ranking,
                corpus=self.corpus,
                queries=self.queries,
                qrels=self.qrels,
                encoding=self.encoding,
            )

        reader = partial(_ranking_rows, ranking, topics)
        return self._open_as_rows(name, reader, self._first_rows(reader))

    # --- responses of stores

    def _open_as_dump(self, form: str | None, problems: Problems) -> EntrySource:
        """A retrieval log as a source.

        The records of a log are responses of a store or rows of chunks, and no questions with
        fields.

        Args:
            form: the user's name of the form; recognised where it is None.
            problems: of the attempt to recognise another format. They are raised in place of those
                of the log, where the source is none: they say more.

        Raises:
            DataError: it is no retrieval log either.
        """
        from ragbench.io.dumps.read import open_responses

        place = self.place
        open_dump = partial(
            open_responses,
            place.path or place.address or place.name,
            format=form,
            split=place.split,
            encoding=place.encoding,
            overrides=self._dump_overrides(),
            queries=self.queries,
            only=self.only,
        )

        try:
            self._refuse_fields_of_no_dump()
            with open_dump() as dump:
                mapping = dump.mapping
                notes = dump.notes
        except (DataError, ConfigError):
            if problems.count:  # it was not recognised as anything, and that says more
                raise DataError(problems.items) from None
            raise
        reader = partial(_dump_rows, open_dump)
        sample = self._first_rows(reader)
        # The rows are made here, with the fields of cases: the user's names are those of the dump.
        opened = replace(self, fields={})._open_as_rows(mapping.format, reader, sample)
        paths: dict[str, str] = {}
        for name in ("query", "query_id", "chunks", "id", "text", "score"):
            path = getattr(mapping, name)
            if path:
                paths[name] = str(path)
        roles = dump_roles(mapping, place.name, self._dump_overrides())
        opened.info = replace(opened.info, mapping=paths, roles=roles, notes=notes)
        return opened

    def _refuse_fields_of_no_dump(self) -> None:
        """Refuses a mapping of fields that a retrieval log does not have, such as a reference.

        The mapping would have no effect, and the user would not notice.

        Raises:
            ConfigError: the user named such a field.
        """
        options: list[str] = []
        for target, path in self.fields.items():
            if path and target not in _DUMP:
                options.append(f"{target}={path}")
        if options:
            raise ConfigError(
                f"{self.place.name} is read as a retrieval log, which holds no "
                f"{', '.join(options)}: leave that out, or name the fields of its records "
                "(--field query=NAME --field retrieved_contexts=NAME)"
            )


def _bound_fields(plans: FieldMap, rows: Sequence[Row]) -> set[str]:
    """The fields of a case, and of what a system did, that some of the rows have.

    Whether any row has an answer decides how the other fields are understood.
    """
    targets: set[str] = set()
    for row in rows:
        plan = plans[tuple(row.values)]
        targets.update(target for target, _ in plan.bindings)
    return targets


def _rows_of_only(
    only: Only, reader: Reader, place: Source, *, problems: Problems
) -> Iterator[Row]:
    """The rows of a reader that the user wants: bound to the first two, it is a reader itself.

    Args:
        only: which records are wanted.
        reader: reads all rows.
        place: the source, as for any reader.
    """
    return only.of(reader(place, problems=problems), problems, place.name)


def _ranking_rows(
    ranking: RankingFile, topics: Topics, place: Source, *, problems: Problems
) -> Iterator[Row]:
    """The rows of a ranking, a case per query; bound to the first two, a reader of rows.

    So a TREC run or BEIR results are read like rows of any other form.

    Args:
        ranking: what a first look at the file showed.
        topics: the queries and judgements that belong to it.
    """
    from ragbench.io.rankings import read_ranking_rows

    rankings = ranking.read(place, problems)
    yield from read_ranking_rows(rankings, place.name, topics, problems)


def _dump_rows(
    open_dump: Callable[[], AbstractContextManager[OpenDump]], place: Source, *, problems: Problems
) -> Iterator[Row]:
    """The rows of a retrieval log, a case per query; bound to the first, a reader of rows.

    The log keeps its own problems, which are handed on when all queries are read.

    Args:
        open_dump: opens the log from its start, for each of several readings.
        problems: takes them; beyond the most that are listed they are counted.
    """
    with open_dump() as dump:
        has_ids = dump.mapping.id is not None
        for number, retrieval in enumerate(dump, start=1):
            yield _dump_row(place.name, number, retrieval, has_ids=has_ids)
        problems.note(*dump.problems)
        # The dump counts all that is wrong, and lists the first of it.
        problems.count += dump.malformed - len(dump.problems.items)


def _hit_bindings(mapping: DumpMapping, chunks: str) -> dict[str, str]:
    """The fields of a chunk with the path of each from the record on, as a report shows them.

    Args:
        mapping: how chunks are read.
        chunks: the field of the record that holds the list of chunks.
    """
    bindings: dict[str, str] = {}
    for target, name in HIT_FIELDS.items():
        path = getattr(mapping, name)
        if path is not None:
            bindings[target] = f"{chunks}[].{path}"
    # Distances are read with their sign turned: a reader of the report has to know.
    if "chunk_score" in bindings and mapping.scores is not None:
        bindings["chunk_score"] += f" ({mapping.scores.value})"
    return bindings


_RERANKED = "reranker"
"""What a reader of roles calls a reranker's results beside its documents."""


def _reranked_rows(reader: Reader, source: Source, *, problems: Problems) -> Iterator[Row]:
    """Rows with the chunks that a reranker left in place of the fields of its request.

    Bound to a reader, it is a reader itself. A row without a reranker's results comes as it is, and
    one whose results do not fit its documents is noted.
    """
    form = find_form("cohere")
    for row in reader(source, problems=problems):
        try:
            lists = reranked(form, row.values)
        except ValueProblem as problem:
            # The message names the option for a dump's chunks; in a case file, as here, the option
            # has another name.
            message = str(problem).replace("--field chunks=", "--field retrieved_contexts=")
            problems.add(message, path=row.path, line=row.line)
            continue
        if lists is None:
            yield row
            continue
        fields = request_fields(row.values)
        source.roles["retrieved_contexts"] = ", ".join(sorted(fields))
        values = {name: value for name, value in row.values.items() if name not in fields}
        yield row._replace(values={**values, "retrieved_contexts": own_hits(lists[0])})


def _refuse_ranking(row: Row, sources: Mapping[str, str]) -> None:
    """Refuses recorded chunks beside a ranking of them that is not understood.

    Either may be what generation got, and their order decides the scores: the user has to choose.

    Args:
        sources: field of a case to its name in the row.

    Raises:
        DataError: a row has both.
    """
    source = sources.get("retrieved_contexts") or sources.get("retrieved_context_ids")
    if source is None or not holds_ranking(row.values):
        return
    ranking = unread_ranking(row.values, source)
    if ranking is None:
        return
    message = (
        f"field '{ranking}' ranks the chunks in '{source}', and either may be what generation was "
        f"given. Choose one: --field retrieved_contexts={shell_quoted(ranking)}, if it has "
        f"texts, or --field retrieved_contexts={shell_quoted(source)}"
    )
    raise DataError([Problem(message=message, path=row.path, line=row.line, field=ranking)])


def _dump_row(path: str, number: int, dump: RetrievalDump, *, has_ids: bool) -> Row:
    """A query of a retrieval log as a row of a case, with its chunks as a recorded retrieval.

    So logs go through the same checks as any dataset. Keys are fields of a case.

    Args:
        number: which query of the dump it is; a query of several rows has no line of its own.
        has_ids: whether the chunks' ids are the log's, or only places that ragbench numbered.
    """
    values: dict[str, object] = {"id": dump.query_id, "query": dump.query, "answers": dump.answers}
    if dump.relevant_ids is not None:
        # A set has no order: by rank, then by name, so that the same file gives the same case.
        ranked = [chunk.id for chunk in dump.chunks if chunk.id in dump.relevant_ids]
        not_retrieved = sorted(dump.relevant_ids.difference(ranked))
        values["reference_context_ids"] = [*ranked, *not_retrieved]
    recorded = {"retrieve": recorded_outcome(retrieved(dump, has_ids=has_ids))}
    return Row(path, number, values, recorded=recorded)


def _says_retrieved(path: str, bound: set[str]) -> bool:
    """Whether the name of a field says that a system retrieved the chunks in it.

    A record with labels is a dataset's, which may bring documents of its own: there only a name
    that no dataset uses for these will do. ``fields.toml`` lists the names.

    Args:
        path: the field, or a path with dots into it; empty where the record is a response.
        bound: the fields that are recognised in the record.
    """
    name = path.partition(".")[0]
    names = field_names("retrieval")
    if name == "":
        return True  # the record is a response
    if name not in names["chunks"] or says_gold(path):
        return False
    is_labelled = not bound.isdisjoint(_LABEL_FIELDS)
    return not is_labelled or name not in names["of_datasets"]


def _holds_any_text(decoder: Decoder, records: Sequence[Row]) -> bool:
    """Whether some chunk of the rows has a text: an empty list of chunks fits every form.

    Without a text the form would be a guess.

    Args:
        decoder: how the rows' chunks would be read.
    """
    for record in records:
        # A row that cannot be read is reported later, with its line.
        with suppress(ValueProblem):
            for raw in decoder.raw(record):
                chunks = decoder.retrieval(raw, "", "").chunks
                if any(chunk.text.strip() for chunk in chunks):
                    return True
    return False
