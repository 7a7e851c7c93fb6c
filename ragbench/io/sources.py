"""Any file, folder or run as cases with the outcomes that are already known.

A dataset, recorded answers, a store's dump, an export, an earlier run: they differ only in what is
recorded. The fields of a record say it, or the form that a tool writes.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b, file_digest
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.core.roles import FieldRole
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
    named,
    outcome_fields,
    says_gold,
)
from ragbench.io.llamaindex import IN_ORDER
from ragbench.io.only import Only
from ragbench.io.overrides import Overrides, joined_rows, meant_fields
from ragbench.io.read import EntryDecoder, FieldMap
from ragbench.io.recorded import Retrieved, recorded_outcome, retrieved
from ragbench.io.roles import Roles, dump_roles
from ragbench.io.source import STDIN, Problems, Row, Source, noting_read_errors
from ragbench.io.unread import document_notes, verdict_notes
from ragbench.io.values import ValueProblem

Reader = Callable[..., Iterator[Row]]
"""A reader of rows, of cases: given the place, and ``problems`` by name."""
_GUESSED_FROM = 20
_DUMP = {**HIT_FIELDS, "query": "query", "id": "query_id", "retrieved_contexts": "chunks"}
"""What a user's mapping can name in a dump, in the words of a dump."""
_NO_QUESTIONS = (
    "holds no questions: join it with its dataset, as in: ragbench eval DATASET --outputs {name}"
)


_FOR_JOINING = frozenset({"verdicts", IN_ORDER})
"""Formats without questions."""


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
        place = _kept(place, stack) if where == STDIN else place.run() or decoded(place)
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
        opened = opening.open(form)
        if place.path is not None and where != STDIN and opened.info.form in (*CONTAINERS, "beir"):
            how = repr((opened.info, form, fields, split, encoding, only, is_join))
            opened.content = partial(_content, (place.path, corpus, queries, qrels), how)
        return opened
    except BaseException:
        stack.close()
        raise


def _content(paths: Iterable[str | Path | None], how: str) -> str:
    """Digests files, and folders with all below them; empty where one cannot be read so."""
    whole = blake2b(how.encode("utf-8", "backslashreplace"))
    with suppress(OSError):
        for path in (Path(each) for each in paths if each is not None):
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            if any(file.is_symlink() and file.is_dir() for file in files):
                return ""
            for file in (each for each in files if path.is_file() or each.is_file()):
                with file.open("rb") as opened:
                    digest = file_digest(opened, blake2b).digest()
                whole.update(repr((str(file), digest)).encode("utf-8", "backslashreplace"))
        return whole.hexdigest()
    return ""


def _kept(stdin: Source, stack: ExitStack) -> Source:
    """Standard input as a file, because it is read more than once."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="ragbench-stdin-")))
    problems = Problems()
    with noting_read_errors(stdin.name, problems), (folder / "stdin").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    problems.raise_if_any()
    return decoded(replace(stdin, path=folder / "stdin"))


@dataclass(kw_only=True, slots=True)
class _Opening:
    names: FieldMap
    place: Source
    fields: dict[str, str]
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
        name, dump_form, problems = form, None, Problems()
        if form is not None and form not in readers().targets():
            name, dump_form = None, find_form(form, readers().targets())
        if name is None:
            with closing(replace(self.place)) as place, noting_read_errors(place.name, problems):
                name = detect_format(place, "cases", problems)
                joins_ids = (self.corpus, self.queries, self.qrels) != (None, None, None)
                if name == "json" and (joins_ids or self.is_join):
                    from ragbench.io.rankings import is_beir_result

                    name = "beir" if is_beir_result(place) else name
            if name is None or problems.count:
                return self._dump(form, problems)
        if name in RANKED and not self.place.is_folder:
            return self._run(name)
        if name in _FOR_JOINING and not self.is_join:
            message = _NO_QUESTIONS.format(name=self.place.name)
            raise DataError([Problem(message=message, path=self.place.name)])
        reader: Reader = partial(reader_of(name), kind="cases")
        if name == "traces":
            from ragbench.io.traces import TraceFile

            file = TraceFile()
            self.stack.enter_context(closing(file.db))
            reader = file.rows
        reader = self._narrowed(reader)
        sample = list(islice(self._quietly(reader), LOOK))
        if name in CONTAINERS and dump_form is None and self._has_reranked(sample):
            reader = partial(_reranked_rows, reader)
            self.response_form = _RERANKED
            sample = list(islice(self._quietly(reader), LOOK))
        if name in CONTAINERS and (dump := self._as_dump(sample, form, dump_form)) is not None:
            return dump
        return self._of_rows(name, reader, sample)

    def _narrowed(self, reader: Reader) -> Reader:
        """A reader of the rows that the user wants, with columns joined that the user named."""
        if self.overrides.columns:
            reader = partial(joined_rows, self.overrides, reader)
        if self.only is not None:
            reader = partial(_only, self.only, reader)
            self.place.notes[f"Only records {self.only.described} are taken"] = None
        return reader

    def _quietly(self, reader: Reader) -> Iterator[Row]:
        """Rows for a first look; what is wrong is reported when they are read in earnest."""
        problems = Problems()
        with closing(replace(self.place)) as place, noting_read_errors(place.name, problems):
            yield from reader(place, problems=problems)

    # --- records with fields

    def _has_reranked(self, sample: Sequence[Row]) -> bool:
        """Whether questions hold a reranker's results, and the documents that they are of."""
        if "retrieved_contexts" in self.fields:
            return False
        for row in sample[:_GUESSED_FROM]:
            bound = {target for target, _ in self.names[tuple(row.values)].bindings}
            try:
                if "query" in bound and reranked(find_form("cohere"), row.values) is not None:
                    return True
            except ValueProblem:
                return True  # reported with its line when the rows are read
        return False

    def _as_dump(
        self, sample: Sequence[Row], form: str | None, dump_form: DumpForm | None
    ) -> EntrySource | None:
        """The source as a dump, where its records are no questions with fields.

        Where they are, and hold chunks that no recognised name is of, these fields are named.
        """
        bindings = [pair for row in sample for pair in self.names[tuple(row.values)].bindings]
        if dump_form is None and "retrieved_contexts" not in self.fields:
            for row in sample[:_GUESSED_FROM]:
                _refuse_ranking(row, dict(self.names[tuple(row.values)].bindings))
        bound = {target for target, _ in bindings}
        has_query = "." in self.fields.get("query", "") or "query" in bound
        gold = {source for target, source in bindings if target not in outcome_fields()}
        fields = (field for row in sample[:_GUESSED_FROM] for field in row.values.items())
        adapted = None
        if (
            dump_form is not None
            or (
                self.fields.get("retrieved_contexts") != ""
                and bound.isdisjoint({"retrieved_contexts", "retrieved_context_ids"})
                # A list or an object that is no gold, or a chunk with its score.
                and any(
                    name in named("hit")["score"]
                    or type(value) in (list, dict)
                    or (isinstance(value, str) and value[:1] in ("{", "["))
                    for name, value in fields
                    if name not in gold
                )
            )
        ):
            adapted = self._adapted(sample[:_GUESSED_FROM], bound, gold, dump_form)
        if adapted is not None:
            mapping = adapted.mapping
            if not mapping.chunks:
                return self._dump(form, Problems())
            self.fields.setdefault("retrieved_contexts", mapping.chunks)
            self.response_form = mapping.format
            if mapping.query is not None and not has_query:
                self.fields.setdefault("query", mapping.query)
                if mapping.query_id is not None:
                    self.fields.setdefault("id", mapping.query_id)
        elif not has_query:
            # If it is no dump either, what it lacks as a dataset is reported when it is read.
            with suppress(DataError, ConfigError):
                return self._dump(form, Problems())
        return None

    def _adapted(
        self, sample: Sequence[Row], bound: set[str], gold: set[str], form: DumpForm | None
    ) -> Decoder | None:
        """How chunks are read that no recognised field holds; None where there are none for sure.

        A dataset may bring passages of its own: only scores, or the form of a store's response,
        say that they were retrieved.
        """
        if form is not None:
            overrides = self._overrides()
            return guess_mapping(sample, form=form, overrides=overrides) if sample else None
        try:
            found = guess_mapping(sample, overrides=self._overrides())
        except DataError:
            return None
        mapping = found.mapping
        is_guessed = mapping.layout == "queries" and "retrieved_contexts" not in self.fields
        if is_guessed and not _says_retrieved(mapping.chunks or "", bound):
            return None
        is_plain = found.form.name in ("plain", "ragbench", "ragas", "pgvector")
        is_own = (
            (is_plain and mapping.score is None)
            or (mapping.layout == "rows" and bound & {"reference", "answers", "response"})
            or (mapping.chunks or "").partition(".")[0] in gold
            or not (mapping.layout == "rows" or _has_texts(found, sample))
        )
        return None if is_own else found

    def _overrides(self) -> dict[str, str]:
        """The user's mapping in the words of a dump."""
        return {_DUMP[t]: path for t, path in self.fields.items() if t in _DUMP and path}

    def _of_rows(self, form: str, reader: Reader, known: Sequence[Row]) -> EntrySource:
        """The source, once a first look at some rows has found out how all of it is read."""
        texts = None
        if self.corpus is not None:
            from ragbench.io.rankings import corpus_texts, holds_texts

            if holds_texts(self.corpus):
                texts = self.stack.enter_context(corpus_texts(self.corpus))
        chunks = Retrieved(fields=self.fields, texts=texts)
        plans = FieldMap("cases", self.fields, is_join=self.is_join)
        targets = {target for row in known for target, _ in plans[tuple(row.values)].bindings}
        decoder_of = partial(
            EntryDecoder,
            fields=self.fields,
            has_answers=not targets.isdisjoint(ANSWER_FIELDS),
            is_join=self.is_join,
        )
        decoder = decoder_of(problems=Problems(), chunks=chunks)
        looked = [entry for row in known if (entry := decoder.decode(row)) is not None]
        pairs = [pair for plan in decoder.plans.values() for pair in plan.bindings]
        first = dict(reversed(pairs))
        bound = {name: first[name] for name in entry_fields() if name in first}
        hits = [f"{t}={path}" for t, path in self.fields.items() if path and t in HIT_FIELDS]
        if hits and looked and "retrieved_contexts" not in bound:
            raise ConfigError(
                f"{self.place.name} has no field with a list of chunks, and {', '.join(hits)} "
                "names one of a chunk: add --field retrieved_contexts=NAME"
            )
        unused = tuple(dict.fromkeys(name for p in decoder.plans.values() for name in p.rest))
        if chunks.decoder is not None:
            bound |= _hit_bindings(chunks.decoder.mapping, bound.get("retrieved_contexts", ""))
        gold = gold_notes([row.values for row in known], unused, bound) if unused else ()
        documents = document_notes([row.values for row in known], unused, bound)
        verdicts = verdict_notes([row.values for row in known], unused, bound, self.place.name)
        repeats = repeat_notes(looked) if unused and not self.is_join else ()
        info = SourceInfo(
            path=self.place.name,
            form=form,
            mapping=bound,
            roles=self._roles(form, bound, chunks),
            unused=unused,
            # A folder without texts has the queries and judgements of a ranking.
            uses_corpus=chunks.looked_up or (form in RANKED and self.corpus is not None),
            notes=(
                *self.place.notes,
                *notes_of(decoder.no_values, decoder.null_ids, chunks),
                *gold,
                *documents,
                *repeats,
            ),
            hints=tuple(verdicts),
        )
        return EntrySource(
            info=looked_at(info, looked, is_whole=len(known) < LOOK),
            read=lambda: decoder_of(
                problems=Problems(), chunks=replace(chunks, warnings=Counter())
            ).records(replace(self.place), reader),
            held=self.stack,
        )

    def _roles(
        self, form: str, mapping: Mapping[str, str], chunks: Retrieved
    ) -> tuple[FieldRole, ...]:
        chunk_form = ""
        if chunks.decoder is not None:
            chunk_form = chunks.decoder.mapping.format
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

    def _run(self, name: str) -> EntrySource:
        """A TREC run, or BEIR results: ids, which may get their texts from a corpus."""
        from ragbench.io.rankings import Topics, find_topics, look_at, read_ranking_rows

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

        def reader(place: Source, *, problems: Problems) -> Iterator[Row]:
            rankings = ranking.read(place, problems)
            yield from read_ranking_rows(rankings, place.name, topics, problems)

        known = list(islice(self._quietly(reader), LOOK))
        return self._of_rows(name, reader, known)

    # --- responses of stores

    def _dump(self, form: str | None, problems: Problems) -> EntrySource:
        """A dump whose records are no questions with fields: responses, rows, batches."""
        from ragbench.io.dumps.read import open_responses

        place = self.place
        lost = [f"{t}={path}" for t, path in self.fields.items() if path and t not in _DUMP]
        opening = partial(
            open_responses,
            place.path or place.address or place.name,
            format=form,
            split=place.split,
            encoding=place.encoding,
            overrides=self._overrides(),
            queries=self.queries,
            only=self.only,
        )

        def reader(place: Source, *, problems: Problems) -> Iterator[Row]:
            with opening() as dump:
                for number, one in enumerate(dump, start=1):
                    yield _dump_row(place.name, number, one, has_ids=dump.mapping.id is not None)
                problems.note(*dump.problems)
                problems.count += dump.malformed - len(dump.problems.items)

        try:
            if lost:
                raise ConfigError(
                    f"{place.name} is read as a retrieval log, which holds no {', '.join(lost)}: "
                    "leave that out, or name the fields of its records "
                    "(--field query=NAME --field retrieved_contexts=NAME)"
                )
            with opening() as dump:
                mapping, notes = dump.mapping, dump.notes
        except (DataError, ConfigError):
            if problems.count:  # it was not recognised as anything, and that says more
                raise DataError(problems.items) from None
            raise
        known = list(islice(self._quietly(reader), LOOK))
        opened = replace(self, fields={})._of_rows(mapping.format, reader, known)
        named = ("query", "query_id", "chunks", "id", "text", "score")
        paths = {name: str(path) for name in named if (path := getattr(mapping, name))}
        roles = dump_roles(mapping, place.name, self._overrides())
        opened.info = replace(opened.info, mapping=paths, roles=roles, notes=notes)
        return opened


def _only(only: Only, reader: Reader, place: Source, *, problems: Problems) -> Iterator[Row]:
    return only.of(reader(place, problems=problems), problems, place.name)


def _hit_bindings(mapping: DumpMapping, chunks: str) -> dict[str, str]:
    found = {
        target: f"{chunks}[].{path}"
        for target, name in HIT_FIELDS.items()
        if (path := getattr(mapping, name)) is not None
    }
    if "chunk_score" in found and mapping.scores is not None:
        found["chunk_score"] += f" ({mapping.scores.value})"
    return found


_RERANKED = "reranker"
"""What a reader of roles calls a reranker's results beside its documents."""


def _reranked_rows(reader: Reader, source: Source, *, problems: Problems) -> Iterator[Row]:
    """Rows with what a reranker left of their documents as their contexts."""
    form = find_form("cohere")
    for row in reader(source, problems=problems):
        try:
            lists = reranked(form, row.values)
        except ValueProblem as problem:
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
    """Refuses recorded contexts beside a reranker's results that are not understood.

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
        f"given. Choose one: --field retrieved_contexts={ranking}, if it has texts, or --field "
        f"retrieved_contexts={source}"
    )
    raise DataError([Problem(message=message, path=row.path, line=row.line, field=ranking)])


def _dump_row(path: str, number: int, dump: RetrievalDump, *, has_ids: bool) -> Row:
    values: dict[str, object] = {"id": dump.query_id, "query": dump.query, "answers": dump.answers}
    if dump.relevant_ids is not None:
        ranked = [chunk.id for chunk in dump.chunks if chunk.id in dump.relevant_ids]
        more = sorted(dump.relevant_ids.difference(ranked))
        values["reference_context_ids"] = [*ranked, *more]
    recorded = {"retrieve": recorded_outcome(retrieved(dump, has_ids=has_ids))}
    return Row(path, number, values, recorded=recorded)


def _says_retrieved(path: str, bound: set[str]) -> bool:
    """Whether the name of a field says that a system retrieved what it holds.

    A record with labels is a dataset's, which may bring documents of its own: there only a name
    that no dataset uses for these will do.
    """
    name = path.partition(".")[0]
    names = named("retrieval")
    if name == "":
        return True  # the record is a response
    if name not in names["chunks"] or says_gold(path):
        return False
    is_labelled = not bound.isdisjoint(
        {
            "reference",
            "answers",
            "reference_contexts",
            "reference_context_ids",
            "grades",
            "evidence",
        }
    )
    return not is_labelled or name not in names["of_datasets"]


def _has_texts(decoder: Decoder, records: Sequence[Row]) -> bool:
    """Whether what was taken for chunks holds any text: an empty list fits every form."""
    for record in records:
        with suppress(ValueProblem):
            for raw in decoder.raw(record):
                if any(chunk.text.strip() for chunk in decoder.retrieval(raw, "", "").chunks):
                    return True
    return False
