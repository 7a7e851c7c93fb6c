"""TREC's qrels and runs, as trec_eval has them, and folders: BEIR's, TREC's and ragbench's own.

A qrels' line is ``query iteration document grade``, a run's ``query Q0 document rank score tag``;
see https://github.com/usnistgov/trec_eval.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote, unquote

from ragbench.core.case import Case
from ragbench.core.in_words import UnreadableError
from ragbench.core.record import Record, field
from ragbench.core.trace import Trace, sample_row
from ragbench.errors import InputError
from ragbench.io.atomic import written_whole
from ragbench.io.export import Exported, Scores, failed_stage
from ragbench.io.fields import CASES_FILE, CORPUS_FILE, QRELS_FOLDER, QUERIES_FILE, QUERY_FILES
from ragbench.io.json_files import decode_line, read_json_lines, read_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import ValueProblem, as_id, as_score
from ragbench.safe_text import counted

_TAG = "ragbench"
"""The tag of runs that ragbench writes, by which their ids are known to be escaped."""
_RUN_COLUMNS = 6
# White space and control characters end a column or a line; a byte order mark may be eaten at the
# start of a file; a per cent sign counts only where it would be read as an escape.
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]|%(?=[0-9A-Fa-f]{2})")


def _numbered_lines(source: Source, problems: Problems) -> Iterator[tuple[int, str]]:
    """The lines of a TREC file that are not blank, each with its number; bad ones are problems.

    A line that is no text in the file's encoding is noted and left out.
    """
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        if text is not None and text.strip():
            yield line.number, text


def _tab_columns(text: str) -> list[str]:
    """The columns of a line of a TREC file between single tabs.

    An empty column stays: if it were dropped, the columns behind it would move to the left.
    """
    columns = text.strip("\r\n").split("\t")
    return [column.strip() for column in columns]


def _run_columns_of(text: str) -> list[str]:
    """The columns of a line of a TREC run: between blanks and tabs, or tabs alone.

    Ids may hold blanks. Only if the line has not six columns otherwise, tabs alone separate.
    """
    columns = text.split()
    if len(columns) == _RUN_COLUMNS:
        return columns
    by_tabs = _tab_columns(text)
    if len(by_tabs) == _RUN_COLUMNS and all(by_tabs):
        return by_tabs
    return columns


def _judgement_columns(text: str, *, is_table: bool) -> list[str]:
    """The three or four columns of a line of judgements (qrels).

    Args:
        is_table: whether the file is BEIR's table with tabs, in which ids may hold blanks. In
            TREC's files any run of blanks and tabs is between two columns.
    """
    columns = text.split()
    by_tabs = _tab_columns(text)
    fits_tabs = len(by_tabs) in (3, 4) and all(by_tabs)
    if fits_tabs and (is_table or len(columns) not in (3, 4)):
        return by_tabs
    return columns


class RelevanceGrade(NamedTuple):
    """How relevant a document is to a query, and the line that says so."""

    grade: int
    line: int


def read_grades(source: Source, problems: Problems) -> dict[str, dict[str, RelevanceGrade]]:
    """Reads judgements (qrels): query to document to grade with its line.

    Takes TREC's four columns, and BEIR's three with or without a header. Bad lines, and two
    different grades of one document, are noted.
    """
    grades_by_query: dict[str, dict[str, RelevanceGrade]] = {}
    is_table = source.suffix == ".tsv"
    for number, text in _numbered_lines(source, problems):
        columns = _judgement_columns(text, is_table=is_table)
        if len(columns) not in (3, 4):
            expected = "expected 'query 0 document grade' or 'query document grade'"
            message = f"{expected}, found {counted(len(columns), 'column')}"
            problems.add(message, path=source.name, line=number)
            continue
        # TREC's second column, the iteration, says nothing, and BEIR has none: count from the end.
        query = columns[0]
        document = columns[-2]
        written = columns[-1]
        grade = as_score(written)
        if grade is None or not grade.is_integer():
            if number == 1 and len(columns) == 3:
                is_table = "\t" in text  # it was BEIR's header, which TREC's files do not have
                continue
            message = f"expected a whole number as grade, found '{written[:40]}'"
            problems.add(message, path=source.name, line=number)
            continue
        judgement = RelevanceGrade(int(grade), number)
        earlier = grades_by_query.setdefault(query, {}).setdefault(document, judgement)
        if earlier.grade != judgement.grade:
            message = f"'{document}' for query '{query}' has another grade at line {earlier.line}"
            problems.add(message, path=source.name, line=number)
    return grades_by_query


class Ranking(Record):
    """What was retrieved for a query: a score by document."""

    query: str
    """The query's id; what ragbench escaped in its own runs is itself again."""
    line: int | None = None
    """The first line of the query."""
    scores: dict[str, float] = field(default_factory=dict[str, float])

    def ordered(self) -> list[str]:
        """The documents of the ranking, best first, as trec_eval orders them.

        Scores fall; of equal ones the document with the greater id comes first, by the bytes of
        ids, which is also the order of their code points. trec_eval keeps scores in single
        precision: two that are equal there are equal. Any other order would give other figures than
        trec_eval.
        """
        documents = list(self.scores)
        single = array("f", self.scores.values())
        ranked = sorted(zip(single, documents, strict=True), reverse=True)
        return [document for _, document in ranked]


class RunQueries(NamedTuple):
    """What a first reading of a run shows of its queries."""

    ids: tuple[str, ...]
    is_grouped: bool
    """Whether all lines of each query follow each other."""
    is_own: bool
    """Whether ragbench wrote it, as its tag says: the ids in it are escaped."""


def run_queries(source: Source) -> RunQueries:
    """The queries that a TREC run ranks, from a first reading of it.

    They say which judgements have to be there, and whether the run can be read one query at a time.
    """
    ids: dict[str, None] = {}
    is_grouped = True
    is_own = False
    previous: str | None = None
    # A copy, and problems of its own: the reading in earnest begins anew, and reports each once.
    for _, columns in _sound_run_lines(replace(source), Problems()):
        query = columns[0]
        if previous is None:
            is_own = columns[5] == _TAG
        if query != previous and query in ids:
            is_grouped = False
        ids[query] = None
        previous = query
    plain = unescape_id if is_own else str
    return RunQueries(tuple(map(plain, ids)), is_grouped, is_own)


def read_run(
    source: Source, problems: Problems, *, is_grouped: bool | None = None
) -> Iterator[Ranking]:
    """Yields a ranking per query of a TREC run, in the order in which queries begin.

    Rank and order of lines say nothing, as in trec_eval. Memory holds one query, or the whole run
    where the lines of a query are not together.

    Args:
        is_grouped: whether the lines of each query are together, where that is known.
    """
    if is_grouped is None:
        is_grouped = run_queries(source).is_grouped
    rankings: dict[str, Ranking] = {}
    for number, columns in _sound_run_lines(source, problems):
        plain = unescape_id if columns[5] == _TAG else str
        query = plain(columns[0])
        document = plain(columns[2])
        ranking = rankings.get(query)
        if ranking is None:
            if is_grouped:  # the query before is whole
                yield from rankings.values()
                rankings.clear()
            ranking = Ranking(query=query, line=number)
            rankings[query] = ranking
        if document in ranking.scores:
            message = f"document '{document}' appears twice in the ranking of query '{query}'"
            problems.add(message, path=source.name, line=number)
        # A document that appears twice keeps its first score.
        ranking.scores.setdefault(document, float(columns[4]))
    yield from rankings.values()


def _sound_run_lines(source: Source, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Line number and columns of each line of a run with six columns and a finite score.

    Other lines are noted as problems.
    """
    for number, text in _numbered_lines(source, problems):
        columns = _run_columns_of(text)
        if len(columns) == _RUN_COLUMNS and as_score(columns[4]) is not None:
            yield number, columns
            continue
        actual = counted(len(columns), "column")
        if len(columns) == _RUN_COLUMNS:
            actual = f"'{columns[4][:40]}' as score, which is no finite number"
        message = f"expected 'query Q0 document rank score tag', found {actual}"
        problems.add(message, path=source.name, line=number)


def looks_like_a_run(text: str) -> bool:
    """Whether the first line of a file is that of a TREC run, by which the format is recognised.

    It has six columns, of which the second is ``Q0`` or the fourth and fifth are numbers, rank and
    score.
    """
    first_line = text.lstrip().partition("\n")[0]
    columns = _run_columns_of(first_line)
    if len(columns) != _RUN_COLUMNS:
        return False
    if columns[0].startswith(("{", "[")):  # a line of JSON with six words
        return False
    if columns[1].upper() == "Q0":
        return True
    return as_score(columns[3]) is not None and as_score(columns[4]) is not None


def escape_id(id_: str) -> str:
    """An id as one TREC column: white space and control characters as ``%XX`` of their UTF-8.

    A per cent sign becomes ``%25`` only where two hexadecimal digits follow it. Ids without any of
    these stay as they are. `unescape_id` has to give back every id: runs that were written before
    are read by it.

    Raises:
        ValueError: the id is empty, or no Unicode that can be stored.
    """
    if not id_:
        raise ValueError("is empty")
    try:
        id_.encode()  # only checks that there are bytes for it
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate") from None
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), id_)


unescape_id = unquote
"""Gives back the id that `escape_id` made a text of."""


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A TREC run file with its qrels, for trec_eval, ir_measures, ranx and their like.

    The run goes to ``path`` and the qrels next to it, under the same name with ``.qrels``.

    The order is the RAG's, rank 1 first. Tools sort by score and break ties by id, so the RAG's
    scores are written only where they fall strictly, in single precision, in which trec_eval
    reads them; where they do not, or there are none, the scores count down to 1. Of an id that was
    retrieved twice, the first stands.

    A case whose retrieval failed or was skipped stands in neither file: in the qrels it would
    count as 0. A case for which nothing was found stands in the qrels alone, and does count so.

    Metric scores have no place in these files and are not written.
    """
    qrels = path.with_suffix(".qrels")
    if qrels == path:
        raise InputError(f"'{path}' is where the qrels go; name the run file, such as out.run")
    tally = Exported(paths=(path, qrels))
    with (
        written_whole(path, make_folders=True, is_table=True) as run_file,
        written_whole(qrels, make_folders=True, is_table=True) as qrels_file,
    ):
        for trace in traces:
            stage = failed_stage(trace)
            if stage is not None and stage != "generation":
                tally.leave_out(f"{stage} failed")
            elif trace.context.value is None:
                tally.leave_out("retrieval skipped")
            else:
                run_file.writelines(_run_lines(trace))
                qrels_file.writelines(_qrels_lines(trace.case))
                tally.written += 1
    return tally


def _qrels_lines(case: Case) -> list[bytes]:
    """The lines of a case's judgements in a qrels file that is exported beside a run.

    The second column, the iteration, is 0 by convention.
    """
    lines: list[bytes] = []
    for document, grade in (case.judgements or {}).items():
        line = f"{_id_column(case.id, case.id)} 0 {_id_column(document, case.id)} {grade}\n"
        lines.append(line.encode())
    return lines


def _run_lines(trace: Trace) -> list[bytes]:
    """The lines of a case in an exported TREC run, best first.

    The RAG's scores are written only if they fall strictly; else they count down to 1, so that
    tools that sort by score keep the RAG's order.

    Raises:
        InputError: the contexts have no ids, or one that no column can hold.
    """
    case = trace.case.id
    row = sample_row(trace)
    ids = row.retrieved_context_ids
    if ids is None:
        if row.retrieved_contexts:
            raise InputError(
                f"case '{case}': its contexts have no ids, and a TREC run is made of ids; return "
                "context_ids from retrieve_with_metadata, or export to another format"
            )
        return []
    # An id is written once, at its best rank: a TREC run must not rank a document twice for a
    # query.
    place_of_id: dict[str, int] = {}
    for place, id_ in enumerate(ids):
        place_of_id.setdefault(id_, place)
    places = list(place_of_id.values())
    # Without scores that fall, the places themselves are the scores: the best has the highest.
    scores = [str(number) for number in range(len(places), 0, -1)]
    rag_scores = getattr(trace.context.value, "scores", None)
    if rag_scores:
        scores_of_places = [float(rag_scores[place]) for place in places]
        if _are_falling(scores_of_places):
            scores = [repr(score) for score in scores_of_places]
    query = _id_column(case, case)
    lines: list[bytes] = []
    for rank, (place, score) in enumerate(zip(places, scores, strict=True), 1):
        line = f"{query} Q0 {_id_column(ids[place], case)} {rank} {score} {_TAG}\n"
        lines.append(line.encode())
    return lines


def _are_falling(scores: Sequence[float]) -> bool:
    """Whether each score of a ranking is finite and below the one before, in single precision.

    Tools sort a run by its scores, and trec_eval reads them so: equal ones would lose the order.
    """
    single = array("f", scores)
    if not all(isfinite(score) for score in single):
        return False
    return all(high > low for high, low in pairwise(single))


def _id_column(id_: str, case: str) -> str:
    """An id as a column of an exported TREC file; an error names the case to look at.

    An id with a blank would be read as two columns, so it is escaped.

    Raises:
        InputError: TREC has no such id: it is empty, or no Unicode that can be stored.
    """
    try:
        return escape_id(id_)
    except ValueError as error:
        raise InputError(f"case '{case}': the id {id_!r} {error}; TREC has no such id") from None


# --- folders of cases, documents and judgements: BEIR's, TREC's and ragbench's own

DOCUMENT_FILES = ("collection.tsv", "corpus.tsv")
_QRELS_FILES = ("qrels.txt", "qrels.tsv", "qrels")


def read_own(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the rows of a folder in ragbench's own layout: its cases, or its documents.

    The folder is what ``ragbench`` writes a dataset to. ``formats.toml`` names this reader.

    Args:
        kind: which of the two files is read.
    """
    name = CORPUS_FILE if kind == "documents" else CASES_FILE
    file = source.child(name)
    if file is None:
        raise UnreadableError(f"the folder has no {name}")
    yield from read_json_lines(file, kind=kind, problems=problems)


def read_beir(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the documents of a BEIR folder, or the queries that the split judges, in file order.

    ``formats.toml`` names this reader.

    Memory holds the judgements of the split; queries and documents are streamed.
    """
    name = CORPUS_FILE if kind == "documents" else QUERIES_FILE
    file = source.child(name)
    if file is None:
        raise UnreadableError(f"the BEIR folder has no {name}")
    rows = read_json_lines(file, kind=kind, problems=problems)
    if kind == "cases":
        rows = judged_queries(map(_with_query, rows), pick_qrels(source), problems)
    yield from rows


def read_trec(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the judged queries of a TREC folder with their judgements, or its documents.

    ``formats.toml`` names this reader.

    Without topics the queries are those of the judgements, known by their ids.
    """
    if kind == "documents":
        file = source.first_child(DOCUMENT_FILES)
        if file is None:
            raise UnreadableError(f"the folder has none of {', '.join(DOCUMENT_FILES)}")
        yield from _lines_with_ids(file, "text", problems)
        return
    file = source.first_child(QUERY_FILES)
    # TREC's own file first; a folder such as BEIR's has one for each split.
    qrels = trec_qrels(source) or pick_qrels(source)
    if file is None:
        source.notes[NO_TOPICS] = None
        yield from queries_by_id(qrels, problems)
    else:
        yield from judged_queries(_lines_with_ids(file, "query", problems), qrels, problems)


NO_TOPICS = "no topics: a query is known by its id, which is shown in the place of its text"
"""The note of a source whose queries are ids."""


def trec_qrels(folder: Source) -> Source | None:
    """The file of judgements in a TREC folder; None where it has none by one of the usual names.

    Tools name this file differently; `_QRELS_FILES` lists the names, the likelier ones first.
    """
    return folder.first_child(_QRELS_FILES)


def queries_by_id(qrels: Source, problems: Problems) -> Iterator[Row]:
    """A row for each query that is judged, with its id as its text, which is in no file.

    Ranks can be scored without the texts of queries.
    """
    for query, judgements in read_grades(qrels, problems).items():
        fields = judged_fields(_plain_grades(judgements))
        values = {"id": query, "query": query, **fields}
        yield Row(qrels.name, _first_line(judgements), values)


def _first_line(judgements: Mapping[str, RelevanceGrade]) -> int:
    """The line on which the judgements of a query begin: a problem with the query names it."""
    return next(iter(judgements.values())).line


def _plain_grades(judgements: Mapping[str, RelevanceGrade]) -> dict[str, int]:
    """The grades of a query by document, as a case has them.

    The lines of the qrels file, which only messages need, are left out.
    """
    return {document: judgement.grade for document, judgement in judgements.items()}


def _lines_with_ids(file: Source, target: str, problems: Problems) -> Iterator[Row]:
    """Rows of lines that are an id, a tab and a text, as TREC's queries and collections are.

    A quotation mark is a part of the text: these files have no quoting, so the csv module does not
    fit.

    Args:
        target: the field that the text is of, ``query`` or ``text``.
    """
    for line in read_lines(file, problems):
        line_text = decode_line(line, file.name, problems)
        if line_text is None or not line_text.strip():
            continue
        # No quoting: a quotation mark in a query is part of it.
        identifier, tab, text = line_text.rstrip("\r\n").partition("\t")
        if tab:
            yield Row(file.name, line.number, {"id": identifier.strip(), target: text})
        else:
            message = f"expected an id, a tab and the {target}, found no tab"
            problems.add(message, path=file.name, line=line.number)


def pick_qrels(source: Source) -> Source:
    """The file of judgements of one split of a dataset: the user's, the only one, or ``test``.

    BEIR keeps one file of judgements per split in a folder.

    Raises:
        UnreadableError: there is no such folder or split.
    """
    if source.path is None or not (source.path / QRELS_FOLDER).is_dir():
        raise UnreadableError(f"no folder '{QRELS_FOLDER}' with the judgements")
    folder = source.path / QRELS_FOLDER
    splits: set[str] = set()
    for path in folder.iterdir():
        name = path.name.removesuffix(".gz")
        if path.is_file() and name.endswith(".tsv"):
            splits.add(name.removesuffix(".tsv"))
    split = source.chosen(sorted(splits))
    return cast("Source", source.child(f"{QRELS_FOLDER}/{split}.tsv"))


def judged_fields(grades: Mapping[str, int]) -> dict[str, object]:
    """The fields of a case that judgements give: its grades, and the ids of what is relevant.

    The best grade is first; equal grades keep the order of the file. A grade of 0 or less says that
    a document was judged and is not relevant. Keys are fields of a case.
    """
    best_first = sorted(grades, key=lambda document: -grades[document])
    relevant = [document for document in best_first if grades[document] > 0]
    return {"grades": dict(grades), "reference_context_ids": relevant}


_ID_NAMES = ("_id", "id", "qid", "query_id")
"""What files of queries call a query's id; BEIR's name comes first."""


def judged_queries(queries: Iterator[Row], qrels: Source, problems: Problems) -> Iterator[Row]:
    """The queries of a split that are judged, with their judgements.

    A query without a judgement belongs to another split and is left out. A judgement of a query
    that does not exist is a problem.

    Args:
        queries: rows of all queries, of any split.
        qrels: the file of the split's judgements.
    """
    judgements_by_query = read_grades(qrels, problems)
    unseen = set(judgements_by_query)
    for row in queries:
        id_ = _query_id(row)
        if id_ is None:
            problems.add("expected the query's id, found none", path=row.path, line=row.line)
            continue
        unseen.discard(id_)
        judgements = judgements_by_query.get(id_)
        if judgements is not None:
            fields = judged_fields(_plain_grades(judgements))
            yield row._replace(values={**row.values, **fields})
    # In the order of the file, which a set of unseen ids does not keep.
    for query, judgements in judgements_by_query.items():
        if query in unseen:
            message = f"no query has the id '{query}'"
            line = _first_line(judgements)
            problems.add(message, path=qrels.name, line=line, field="query-id")


def _query_id(row: Row) -> str | None:
    """The id by which judgements name a query, before the row's fields are understood.

    Queries and judgements are joined by it. None if there is none, or what has the name can be no
    id.
    """
    for name in _ID_NAMES:
        value = row.values.get(name)
        if value is not None:
            with suppress(ValueProblem):
                return as_id(value)
            return None
    return None


def _with_query(row: Row) -> Row:
    """A row of BEIR's queries with the query's text under ``query``, where BEIR has ``text``.

    Under ``text`` it would be read as the text of a document.
    """
    if "text" not in row.values or "query" in row.values:
        return row
    # Built anew, so that the field keeps its place among the others.
    values: dict[str, object] = {}
    for name, value in row.values.items():
        if name == "text":
            name = "query"
        values[name] = value
    return row._replace(values=values)
