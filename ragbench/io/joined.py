"""What a source has recorded, joined with the cases of a dataset, or as retrievals alone.

Answers are joined by id where one has an id that a case has and their questions agree; else by the
exact question. Predictions of LlamaIndex have neither, and are joined by their order. Which answer
belongs to which case is decided once, over both sources whole, and kept in a temporary file: memory
stays flat.
"""

from __future__ import annotations

import pickle
import sqlite3
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from ragbench.core.case import Case
from ragbench.core.outcome import Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Entry
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.detect import detect_format
from ragbench.io.dumps.decode import from_own
from ragbench.io.dumps.form import OWN, ScoreKind
from ragbench.io.dumps.forms import RANKED
from ragbench.io.dumps.pieces import KEPT
from ragbench.io.dumps.read import OpenDump, dump_row, open_responses
from ragbench.io.entries import EntrySource, SourceInfo, in_stage_order
from ragbench.io.fields import read_table
from ragbench.io.llamaindex import IN_ORDER, IN_ORDER_OF
from ragbench.io.only import Only
from ragbench.io.presence_labels import holds_labels, labelled_retrievals
from ragbench.io.rankings import (
    WITHOUT_ITSELF,
    is_beir_result,
    missing_note,
    without_itself,
)
from ragbench.io.recorded import recorded_outcome
from ragbench.io.roles import case_roles, outcome_roles, retrieval_roles
from ragbench.io.source import GZIP_MAGIC, STDIN, Problems, Source, derived_id, noting_read_errors
from ragbench.io.sources import open_source
from ragbench.safe_text import counted, shortened_line


def _sql(name: str) -> str:
    """The text of an SQL statement of ``scratch.toml``, by its name.

    With these statements answers and cases are brought together in a temporary database on disk.
    """
    return cast("str", read_table("scratch.toml")["answers"][name])


def join_answers(
    cases: EntrySource,
    answers: EntrySource,
    *,
    keep_unanswered: bool = False,
    min_joined: float = 0.0,
) -> EntrySource:
    """The cases of one source with the outcomes of another.

    So a dataset is evaluated with answers that a system has already given, without asking it again.

    Args:
        cases: the dataset. What is recorded in it is not used.
        answers: what a system did; opened with ``is_join``.
        keep_unanswered: whether cases that no record is joined with stay in the source, for a
            RAG that is asked about them. By default they are left out.
        min_joined: the least share of the cases, 0 to 1, that a record has to be joined with.

    Returns:
        A source over the cases, in their order. Its notes say how many answers were joined, are
        repeated or belong to no case, and how many cases have none.

    Raises:
        DataError: records of one of the two are wrong; no record is joined, or fewer than are
            demanded.
        ConfigError: ``min_joined`` is no share.
    """
    _check_share(min_joined)
    db = sqlite3.connect("")  # a file of its own, gone when it is closed
    held = cases.held
    held.enter_context(closing(db))
    held.callback(answers.close)
    db.executescript(_sql("tables"))
    is_beir = answers.info.form in RANKED and cases.info.form == "beir"
    notes: dict[str, None] = {}

    db.executemany(_sql("add"), _answer_rows(answers, notes, is_beir=is_beir))
    if db.execute(_sql("recorded")).fetchone() is None:
        message = (
            "no record holds an answer or a retrieval: name its field, as in --field "
            "outputs.response=NAME"
        )
        raise DataError([Problem(message=message, path=answers.info.path)])
    db.executescript(_sql("indexes"))
    counts = _pair_cases(db, cases, answers.info)
    _check_joined(db, cases.info, answers.info, counts, min_joined)
    info = _joined_info(db, cases.info, answers.info, counts, keep_unanswered=keep_unanswered)
    info = replace(info, notes=(*info.notes, *notes))
    read = partial(
        _joined_entries,
        db,
        cases,
        answers.info,
        is_beir=is_beir,
        keep_unanswered=keep_unanswered,
    )
    return EntrySource(info=info, read=read, held=held)


def _answer_rows(
    answers: EntrySource, notes: dict[str, None], *, is_beir: bool
) -> Iterator[tuple[object, ...]]:
    """Yields the rows of the temporary table of answers, in the order of their source.

    Args:
        answers: the source with a system's answers.
        notes: takes the note that a query was among its own retrieved documents.
        is_beir: whether the answers are a ranking for a dataset of BEIR, where that happens.
    """
    for number, entry in enumerate(answers):
        if is_beir and _holds_itself(entry):
            notes[WITHOUT_ITSELF] = None
        yield _answer_row(number, entry)


def _joined_entries(
    db: sqlite3.Connection,
    cases: EntrySource,
    answers: SourceInfo,
    *,
    is_beir: bool,
    keep_unanswered: bool,
) -> Iterator[Entry]:
    """Yields the cases in their order, each with the answer that it was paired with.

    Args:
        db: the temporary database with the answers and the pairs.
        cases: the dataset; its entries' positions are those of the pairs.
        answers: how the source of the answers is read.
        is_beir: whether a query is taken out of its own ranking, as BEIR does.
        keep_unanswered: whether a case without an answer is yielded, for a RAG to answer.
    """
    for position, entry in enumerate(cases):
        row = db.execute(_sql("of_case"), (position,)).fetchone()
        if row is None:
            recorded = _recorded_of_missing(entry.case, answers)
            if recorded or keep_unanswered:
                yield Entry(case=entry.case, recorded=recorded)
            continue
        # Written by `_answer_row`, into a file that no one else can open.
        recorded = pickle.loads(row[0])
        if is_beir:
            recorded = _without_itself(entry.case, recorded)
        yield Entry(case=entry.case, recorded=recorded)


def _check_share(min_joined: float) -> None:
    """Refuses a share that is not between 0 and 1, such as 90 for 90 %, before files are read.

    Both files may be large: a mistyped option is reported at once.
    """
    if not 0.0 <= min_joined <= 1.0:
        raise ConfigError(f"the share of joined cases must be between 0 and 1, not {min_joined:g}")


def _recorded_of_missing(case: Case, answers: SourceInfo) -> dict[str, Outcome[Any]]:
    """The outcomes of a case that has no answer among the outputs; empty where nothing is known.

    A ranking leaves out a judged query for which nothing was retrieved: an empty retrieval counts
    as zero then, as in ``trec_eval -c``.
    """
    if answers.form not in RANKED or case.judgements is None:
        return {}
    return {"retrieve": recorded_outcome(RetrievalResult[Any]([], context_ids=[]))}


def _holds_itself(entry: Entry) -> bool:
    """Whether a query's own id is among the documents that were retrieved for it.

    In some datasets, such as ArguAna, the query is itself a document of the corpus.
    """
    outcome = entry.recorded.get("retrieve")
    if outcome is None or outcome.value is None:
        return False
    ids = outcome.value.context_ids
    return ids is not None and entry.case.id in ids


def _without_itself(case: Case, recorded: dict[str, Outcome[Any]]) -> dict[str, Outcome[Any]]:
    """The outcomes of a BEIR query with the query itself taken out of its ranking.

    BEIR scores a ranking so, see `without_itself`: with it the scores would not be comparable with
    published ones.
    """
    outcome = recorded.get("retrieve")
    if outcome is None or outcome.value is None:
        return recorded
    all_chunks = outcome.value.to_chunks()
    ids = [chunk.id for chunk in all_chunks]
    ids_to_keep = set(without_itself(case.id, ids, case.judgements or {}))
    if len(ids_to_keep) == len(ids):
        return recorded
    chunks = [chunk for chunk in all_chunks if chunk.id in ids_to_keep]
    result = RetrievalResult[Any](
        [chunk.text for chunk in chunks],
        context_ids=[chunk.id for chunk in chunks],
        # Rankings give each document a score; a missing one could not be listed beside the others.
        scores=[chunk.score or 0.0 for chunk in chunks],
    )
    return {**recorded, "retrieve": replace(outcome, value=result)}


def _answer_row(number: int, entry: Entry) -> tuple[object, ...]:
    """An answer as a row of the temporary table of answers, in the order of its columns.

    The columns are those of ``scratch.toml``; change the two together. An id that the reader made
    from the query is left out, so that such an answer is joined by its question.
    """
    case = entry.case
    outcomes = entry.recorded.values()
    # An id that was made from the query, because the source has none, says no more than that.
    query_digest: str | None = None
    id: str | None = case.id
    if case.query:
        query_digest = derived_id("q", case.query)
        if case.id == query_digest or case.id.startswith(f"{query_digest}-"):
            id = None
    return (
        number,
        id,
        case.query.strip() or None,
        query_digest,
        " ".join(entry.recorded),
        any(outcome.status is Status.FAILED for outcome in outcomes),
        any(outcome.seconds is not None for outcome in outcomes),
        pickle.dumps(dict(entry.recorded), pickle.HIGHEST_PROTOCOL),
    )


class _Example(NamedTuple):
    """By what a case or an output is joined."""

    id: str | None
    query: str | None

    def __str__(self) -> str:
        """The id and the query of a case or an output, in the words of an error.

        An example of each of the two sources is shown, one below the other, so that a user sees
        what differs.
        """
        parts: list[str] = []
        if self.id is not None:
            parts.append(f"id '{shortened_line(self.id)}'")
        if self.query is not None:
            parts.append(f"query '{shortened_line(self.query)}'")
        return ", ".join(parts) or "neither id nor query"


@dataclass(kw_only=True, slots=True)
class _Counts:
    """How many cases were joined with an answer, and by what."""

    cases: int = 0
    by_id: int = 0
    by_query: int = 0
    by_order: int = 0
    disagreeing: int = 0
    """Cases with the id of an answer to another question."""
    own: int = 0
    """Cases of which the dataset itself has something recorded."""
    unanswered: _Example | None = None
    """The first case without an answer."""
    empty: int = 0
    """Judged queries that a ranking lacks: nothing was retrieved for them."""
    first_empty: str = ""

    @property
    def joined(self) -> int:
        """How many cases have an answer of the outputs, joined by id, by question or by order.

        With the number of cases it shows whether the two files belong together at all.
        """
        return self.by_id + self.by_query + self.by_order

    @property
    def without(self) -> int:
        """How many cases have no outcome at all: a RAG has to answer them, or they are left out.

        An error or a note names this number: these cases have no scores.
        """
        return self.cases - self.joined - self.empty


def _pair_in_order(db: sqlite3.Connection, cases: EntrySource, answers: SourceInfo) -> _Counts:
    """Gives each case the prediction at its place: LlamaIndex stores predictions without ids.

    The order is the only link, so it is trusted only where the dataset is LlamaIndex's and the
    numbers agree.

    Raises:
        DataError: the cases are none of LlamaIndex, or there are more or fewer of them.
    """
    if cases.info.form != IN_ORDER_OF:
        message = (
            "holds predictions of LlamaIndex, which belong to the examples of their dataset by "
            f"their order alone, and {cases.info.path} is none of its datasets. Name that: "
            f"ragbench eval rag_dataset.json --outputs {answers.path}"
        )
        raise DataError([Problem(message=message, path=answers.path)])
    counts = _Counts()
    for entry in cases:
        counts.cases += 1
        counts.own += bool(entry.recorded)
    (records,) = db.execute("SELECT count(*) FROM answers").fetchone()
    if records != counts.cases:
        message = (
            f"holds {counted(records, 'prediction')}, and {cases.info.path} "
            f"{counted(counts.cases, 'case')}: predictions belong to the examples of their dataset "
            "by their order, so that there must be as many. Name the dataset that they were made "
            f"on: ragbench eval DATASET --outputs {answers.path}"
        )
        raise DataError([Problem(message=message, path=answers.path)])
    # Cases and answers both count from 0.
    for position in range(counts.cases):
        counts.by_order += 1
        _give_answer(db, position, position)
    return counts


def _pair_cases(db: sqlite3.Connection, cases: EntrySource, answers: SourceInfo) -> _Counts:
    """Decides which answer belongs to which case, writes the pairs to the database, counts them.

    By id first, for all cases: an answer that a case has by its id is not given to another case by
    question.
    """
    if answers.form == IN_ORDER:
        return _pair_in_order(db, cases, answers)
    counts = _Counts()
    judged = set[int]()
    for position, entry in enumerate(cases):
        case = entry.case
        if _recorded_of_missing(case, answers):
            judged.add(position)
        counts.cases += 1
        counts.own += bool(entry.recorded)
        number = None
        row = db.execute(_sql("by_id"), (case.id,)).fetchone()
        if row is not None:
            number, query_digest = row
            # Two files that number their lines have the same ids for different questions.
            if query_digest is not None and query_digest != derived_id("q", case.query):
                counts.disagreeing += 1
                number = None
        if number is None:
            pending_row = (position, case.id, case.query.strip())
            db.execute("INSERT INTO pending VALUES (?, ?, ?)", pending_row)
        else:
            counts.by_id += 1
            _give_answer(db, position, number)
    _pair_by_question(db, counts, judged)
    return counts


def _pair_by_question(db: sqlite3.Connection, counts: _Counts, judged: Collection[int]) -> None:
    """Gives the cases that are still without an answer one to exactly their question.

    This comes after all ids: an answer that a case has by its id is not given to another one too.

    Args:
        judged: positions of the cases of which a ranking without an answer says something.
    """
    pending = db.execute("SELECT * FROM pending ORDER BY position").fetchall()
    for position, case_id, query in pending:
        answer = db.execute(_sql("by_query"), (query,)).fetchone()
        if answer is not None:
            counts.by_query += 1
            _give_answer(db, position, answer[0])
            continue
        if position in judged:
            if counts.empty == 0:
                counts.first_empty = case_id
            counts.empty += 1
        if counts.unanswered is None:
            counts.unanswered = _Example(case_id, query)


def _give_answer(db: sqlite3.Connection, position: int, number: int) -> None:
    """Writes that a case has an answer, and that the answer is used once more.

    Afterwards a note counts the answers that no case has, and those that are repeated.

    Args:
        position: the case's place in its dataset, from 0.
        number: the answer's place in its source, from 0.
    """
    db.execute("INSERT INTO pairs VALUES (?, ?)", (position, number))
    db.execute("UPDATE answers SET used = used + 1 WHERE number = ?", (number,))


def _check_joined(
    db: sqlite3.Connection,
    cases: SourceInfo,
    answers: SourceInfo,
    counts: _Counts,
    min_joined: float,
) -> None:
    """Refuses outputs that belong to other cases: too few of the cases have one to be measured.

    The message shows a case and an output without each other, so that a user sees what differs.

    Args:
        min_joined: the least share of the cases that have an output, 0 to 1.
    """
    # Without a single pair the files do not belong together, whatever is demanded.
    if counts.joined and counts.joined >= min_joined * counts.cases:
        return
    (records,) = db.execute("SELECT count(*) FROM answers").fetchone()
    if counts.joined:
        reason = (
            f"{counts.joined:,} of {counted(counts.cases, 'case')} of {cases.path} have a "
            f"recorded output, and {min_joined:.0%} are demanded"
        )
    else:
        reason = (
            f"none of its {counted(records, 'record')} is joined with the "
            f"{counted(counts.cases, 'case')} of {cases.path}"
        )
    message = reason
    for line in _unjoined_lines(db, counts):
        message += f"\n  {line}"
    if counts.disagreeing:
        message += (
            f"\n{counted(counts.disagreeing, 'record')} with the id of a case that asks something "
            "else"
        )
    message += (
        "\nA record belongs to the case with its id, if both ask the same; else to the case with "
        "exactly its question. Name the fields that hold them:\n"
        "  of the cases:    --field id=NAME --field query=NAME\n"
        "  of the outputs:  --field outputs.id=NAME --field outputs.query=NAME"
    )
    raise DataError([Problem(message=message, path=answers.path)])


def _unjoined_lines(db: sqlite3.Connection, counts: _Counts) -> Iterator[str]:
    """Yields a line with a case that no output was joined with, and one with such an output.

    One below the other they show a user what differs, such as the form of the ids.
    """
    if counts.unanswered is not None:
        yield f"a case without an output:  {counts.unanswered}"
    output = db.execute(_sql("first_unused")).fetchone()
    if output is not None:
        yield f"an output without a case:  {_Example(*output)}"


def _joined_info(
    db: sqlite3.Connection,
    cases: SourceInfo,
    answers: SourceInfo,
    counts: _Counts,
    *,
    keep_unanswered: bool,
) -> SourceInfo:
    """The info of the joined source: how both are read, and what is recorded in all of them.

    Unlike a source alone, both were read whole to be joined: the counts are of all cases.
    """
    stages: Counter[str] = Counter()
    failed = 0
    timed = 0
    # The query gives a row for each set of recorded stages, with the number of cases that have it.
    for stage_names, count, with_failure, with_time in db.execute(_sql("by_stages")):
        stages.update(dict.fromkeys(stage_names.split(), count))
        failed += with_failure
        timed += with_time
    # An empty retrieval is recorded for these, see `_recorded_of_missing`.
    stages += Counter(retrieve=counts.empty)
    case_count = counts.cases
    if not keep_unanswered:
        case_count -= counts.without
    notes = _notes_on_joining(db, answers.path, counts, keep_unanswered=keep_unanswered)
    return replace(
        cases,
        looked=case_count,
        cases=case_count,
        recorded=in_stage_order(stages),
        failed=failed,
        timed=timed,
        answers=answers,
        roles=(*case_roles(cases.roles), *outcome_roles(answers.roles)),
        notes=(*cases.notes, *answers.notes, *notes),
    )


def _notes_on_joining(
    db: sqlite3.Connection, path: str, counts: _Counts, *, keep_unanswered: bool
) -> Iterator[str]:
    """Yields notes on how the answers were joined: by what, how many, which were left over.

    A reader of scores must know of cases without an answer, and of answers that were not used.
    """
    count_by_way = {
        "id": counts.by_id,
        "question": counts.by_query,
        "their order": counts.by_order,
    }
    ways = [f"{count:,} by {way}" for way, count in count_by_way.items() if count]
    yield f"outputs of {path}: {' and '.join(ways)} joined with {counted(counts.cases, 'case')}"
    if counts.empty:
        yield missing_note(counts.empty, counts.first_empty)
    if counts.without:
        consequence = "" if keep_unanswered else ": not measured"
        yield f"{counted(counts.without, 'case')} without a recorded output{consequence}"
    (unused,) = db.execute(_sql("unused")).fetchone()
    (repeated,) = db.execute(_sql("twice")).fetchone()
    if repeated:
        yield f"{counted(repeated, 'output')} for a question that has one already: the first counts"
    # Repeated answers are among the unused ones.
    if unused > repeated:
        yield f"{counted(unused - repeated, 'output')} of questions that no case asks: skipped"
    if counts.without or unused > repeated:
        yield from _unjoined_lines(db, counts)
    if counts.disagreeing:
        yield (
            f"{counted(counts.disagreeing, 'output')} with the id of a case that asks something "
            "else: joined by the question alone"
        )
    if counts.own:
        yield f"what the dataset itself has recorded ({counted(counts.own, 'case')}) is not used"


# --- retrievals alone


@contextmanager
def open_dump(
    path: str | Path,
    *,
    format: str | None = None,
    overrides: Mapping[str, str] | None = None,
    scores: ScoreKind | None = None,
    query: str | None = None,
    queries: str | Path | None = None,
    corpus: str | Path | None = None,
    split: str | None = None,
    encoding: str | None = None,
    only: Only | None = None,
) -> Generator[OpenDump]:
    """Opens a dump: recognises its form and its fields.

    A run, an export, traces or another tool's results are read, too: what generation was given, or
    else what was retrieved. Labels of ``answer_present`` from ``ragbench label`` are read as the
    chunks that people judged.

    Example:
        >>> with open_dump("dump.jsonl") as dump:  # doctest: +SKIP
        ...     print(dump.mapping.described())
        ...     for retrieval in dump:
        ...         print(retrieval.query, len(retrieval.chunks))

    Args:
        path: a file, a run's folder, or ``-`` for standard input.
        format: name of the form; recognised when not given.
        overrides: field of a retrieval to field of the dump; see
            `ragbench.io.dumps.form.MAPPABLE`.
        scores: whether the higher scores or the lower ones are better; shown by the order of the
            chunks when not given.
        query: the query, for a dump that is one response without it.
        queries: file of the queries, for responses that do not hold them: joined by id where the
            dump has ids, else by their order; and for rankings (TREC, BEIR).
        corpus: file or folder of the texts, for rankings, which hold ids alone.
        split: the sheet of a workbook, the first when not given; a provider or prompt.
        encoding: how text is encoded, that of ``queries`` too; where it is not UTF-8 it is guessed
            when not given, and `OpenDump.notes` says so.
        only: which of its records are taken.

    Raises:
        ConfigError: no such form, field or encoding, or an option that the form needs is not given.
        DataError: the file cannot be read, or nothing in its first records is understood.
    """
    form = format
    if form is None:
        form = _detect_dump_form(path, encoding, has_corpus=corpus is not None)
    if form == "verdicts":
        raise DataError([Problem(message=_NO_CHUNKS, path=str(path))])
    if form == "labels":
        yield _open_labels(path)
        return
    is_whole = form in _WHOLE_FORMS or (form in _RENAMED_FORMS and not overrides)
    if not is_whole:
        with open_responses(
            path,
            format=format,
            overrides=overrides,
            scores=scores,
            query=query,
            queries=queries,
            split=split,
            encoding=encoding,
            only=only,
        ) as dump:
            yield dump
        return
    if form in RANKED and corpus is None:
        name = Source.of(path).name
        raise ConfigError(f"{name} holds ids alone: name their texts with --corpus PATH")
    with open_source(
        path,
        form=form,
        corpus=corpus,
        queries=queries,
        split=split,
        encoding=encoding,
        only=only,
    ) as source:
        problems = Problems(most=KEPT)
        yield OpenDump(
            name=source.info.path,
            mapping=replace(OWN, format=source.info.form),
            problems=problems,
            notes=source.info.notes,
            roles=retrieval_roles(source.info.roles),
            _retrievals=_retrievals(source, problems),
        )


def _detect_dump_form(path: str | Path, encoding: str | None, *, has_corpus: bool) -> str | None:
    """The format of a dump of retrievals; None where it is not recognised, or cannot be looked at.

    Dumps come in forms of their own and in all forms of recorded runs, so both are looked for.
    Packed standard input is not looked at: it could not be read again.
    """
    if path == STDIN:
        # What was unpacked to be looked at cannot be read again.
        peek = getattr(sys.stdin.buffer, "peek", None)
        if peek is None or peek(2)[:2] == GZIP_MAGIC:
            return None
    form = None
    with (
        closing(Source.of(path, encoding=encoding)) as place,
        noting_read_errors(place.name, Problems()),
    ):
        form = "run" if place.run() else detect_format(place, "cases", Problems())
        # BEIR results and labels are recognised by reading the file a second time, for which
        # standard input cannot be read again.
        if form == "json" and has_corpus and path != STDIN and is_beir_result(place):
            form = "beir"
        if form == "jsonl" and path != STDIN and holds_labels(place):
            form = "labels"
    return form


def _open_labels(path: str | Path) -> OpenDump:
    """A file of ``ragbench label`` as a dump: the chunks that people judged, with their verdicts.

    So a validator can be measured against the people's verdicts.
    """
    notes: list[str] = []
    retrievals = labelled_retrievals(path, notes)
    return OpenDump(
        name=Source.of(path).name,
        # People's verdicts are in the field ``value`` of such a file.
        mapping=replace(OWN, format="labels", answer_present="value"),
        problems=Problems(most=KEPT),
        notes=tuple(notes),
        _retrievals=iter(retrievals),
    )


_WHOLE_FORMS = frozenset(
    {"run", "export", "report", "deepeval", "ragchecker", "promptfoo", "open-rag-eval", "traces"}
    | RANKED.keys()
)
"""Formats that say themselves which of their fields is what."""
_RENAMED_FORMS = frozenset({"azure-results", "langsmith", "mlflow", "phoenix", "trulens"})
"""Other tools' results, whose names mean something else to a reader of dumps. With a mapping of the
user's, they are read by it."""
_NO_CHUNKS = (
    "holds verdicts, not the retrievals that they judge; to use them in a report: ragbench eval "
    "DATASET --outputs FILE"
)


def _retrievals(source: EntrySource, problems: Problems) -> Iterator[RetrievalDump]:
    """Yields the retrievals that a source of recorded runs holds, in the form of a dump.

    An entry without a usable retrieval is noted as a problem, not raised: the other retrievals of a
    dump can still be validated.
    """
    # A ranking holds ids, whose texts are looked up: a text that the corpus lacks is a warning.
    is_ranked = source.info.form in RANKED
    try:
        for entry in source:
            outcome = entry.recorded.get("post_retrieve", entry.recorded.get("retrieve"))
            if outcome is None and (is_ranked or source.info.form == "traces"):
                continue  # it searches nothing, or is judged and not ranked
            retrieval = None if outcome is None else outcome.value
            if retrieval is not None and (is_ranked or not retrieval.is_ids_alone):
                yield _retrieval_of_dump(entry.case, retrieval)
                continue
            if retrieval is not None:  # an unknown text would be judged to hold no answer
                reason = "only the ids of its chunks are recorded, not their texts"
            elif outcome is not None:
                cause = outcome.reason if outcome.failure is None else outcome.failure
                reason = str(cause)
            else:
                reason = "no retrieval is recorded"
            problems.add(f"case '{entry.case.id}': {reason}", path=source.info.path)
    except DataError as error:
        problems.note(*error.problems)


def _retrieval_of_dump(case: Case, result: RetrievalResult[Any]) -> RetrievalDump:
    """A recorded retrieval in the form of a dump, with the faults of its chunks noted as there.

    Chunks without ids are numbered by `to_chunks`; here the numbers are taken off again, so that
    the missing ids are reported.
    """
    chunks = dump_row(case.id, case.query, result.to_chunks())["chunks"]
    if result.context_ids is None:
        chunks = [{**chunk, "id": None} for chunk in chunks]
    relevant_ids = None
    if case.reference_context_ids is not None:
        relevant_ids = frozenset(case.reference_context_ids)
    return replace(
        from_own(chunks, case.id, case.query),
        relevant_ids=relevant_ids,
        answers=case.references,
    )
