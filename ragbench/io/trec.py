"""Qrels, runs and folders of TREC, read and written; BEIR folders.

Formats as trec_eval reads them: ``query iteration document grade`` and
``query Q0 document rank score tag``, separated by white space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ragbench.errors import DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.formats import QRELS_FOLDER, QUERIES_FILE, QUERY_FILES
from ragbench.io.json_files import read_json_lines
from ragbench.io.lines import decode_line, read_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import ValueProblem, as_id

_QRELS_EXPECTED = "expected 'query 0 document grade' or 'query document grade'"
_RUN_EXPECTED = "expected 'query Q0 document rank score tag'"


class RelevanceGrade(NamedTuple):
    """One judged document."""

    grade: int
    line: int


def read_qrels(source: str | Path) -> dict[str, dict[str, int]]:
    """Reads judgements: TREC's four columns, or BEIR's three with or without a header."""
    problems = Problems()
    judged = read_grades(Source.of(source), problems)
    problems.raise_if_any()
    return {query: {d: j.grade for d, j in found.items()} for query, found in judged.items()}


def read_grades(source: Source, problems: Problems) -> dict[str, dict[str, RelevanceGrade]]:
    """As ``read_qrels``, with the line of each judgement, and noting what is wrong."""
    found: dict[str, dict[str, RelevanceGrade]] = {}
    for number, columns in _columns(source, problems):
        if len(columns) not in (3, 4):
            message = f"{_QRELS_EXPECTED}, found {len(columns)} columns"
            problems.add(message, path=source.name, line=number)
            continue
        query, document, written = columns[0], columns[-2], columns[-1]
        grade = _whole(written)
        if grade is None:
            if number > 1 or len(columns) == 4:
                message = f"expected a whole number as grade, found '{written[:40]}'"
                problems.add(message, path=source.name, line=number)
            continue
        earlier = found.setdefault(query, {}).setdefault(document, RelevanceGrade(grade, number))
        if earlier.grade != grade:
            message = f"'{document}' for query '{query}' has another grade at line {earlier.line}"
            problems.add(message, path=source.name, line=number)
    return found


def write_qrels(qrels: Mapping[str, Mapping[str, int]], path: str | Path) -> int:
    """Writes judgements in TREC's four columns, whole or not at all."""
    count = 0
    with written_whole(Path(path)) as out:
        for query, grades in qrels.items():
            for document, grade in grades.items():
                _check_ids(query, document, str(path))
                out.write(f"{query} 0 {document} {grade}\n".encode())
                count += 1
    return count


def read_run(source: str | Path) -> dict[str, dict[str, float]]:
    problems = Problems()
    origin = Source.of(source)
    found: dict[str, dict[str, float]] = {}
    for number, columns in _columns(origin, problems):
        if len(columns) != 6:
            message = f"{_RUN_EXPECTED}, found {len(columns)} columns"
            problems.add(message, path=origin.name, line=number)
            continue
        query, document, written = columns[0], columns[2], columns[4]
        score = _number(written)
        ranking = found.setdefault(query, {})
        if score is None or document in ranking:
            message = (
                f"expected a number as score, found '{written[:40]}'"
                if score is None
                else f"document '{document}' appears twice in the ranking of query '{query}'"
            )
            problems.add(message, path=origin.name, line=number)
            continue
        ranking[document] = score
    problems.raise_if_any()
    return {
        query: dict(sorted(ranking.items(), key=lambda item: -item[1]))
        for query, ranking in found.items()
    }


def write_run(
    run: Mapping[str, Mapping[str, float]], path: str | Path, *, tag: str = "ragbench"
) -> int:
    """Writes a run, best score first (equal scores as given), ranks from 1, whole or not at all."""
    count = 0
    with written_whole(Path(path)) as out:
        for query, scores in run.items():
            ranking = sorted(scores.items(), key=lambda item: -item[1])
            for rank, (document, score) in enumerate(ranking, start=1):
                _check_ids(query, document, str(path))
                if _number(repr(float(score))) is None:
                    message = f"the score of '{document}' for query '{query}' is {score!r}"
                    raise DataError([Problem(message=message, path=str(path))])
                out.write(f"{query} Q0 {document} {rank} {float(score)!r} {tag}\n".encode())
                count += 1
    return count


def _columns(source: Source, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        # A tab separates when there is one: BEIR's ids may hold spaces.
        columns = [] if text is None else text.strip().split("\t" if "\t" in text else None)
        if any(columns):
            yield line.number, columns


def _whole(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number.is_integer() else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def _check_ids(query: str, document: str, path: str) -> None:
    for identifier in (query, document):
        if identifier.split() != [identifier]:
            message = f"a TREC file cannot hold the id '{identifier}': empty, or with white space"
            raise DataError([Problem(message=message, path=path)])


CORPUS_FILE = "corpus.jsonl"
_USUAL_SPLIT = "test"


def read_beir(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the documents, or the queries that the split judges, in the order of their file.

    Memory holds the judgements of the split; queries and documents are streamed.
    """
    name = CORPUS_FILE if kind == "documents" else QUERIES_FILE
    file = source.child(name)
    if file is None:
        problems.add(f"the BEIR folder has no {name}", path=source.name)
        return
    rows = read_json_lines(file, kind=kind, problems=problems)
    if kind == "documents":
        yield from rows
        return
    qrels = pick_qrels(source, problems)
    if qrels is not None:
        yield from join_judgements(map(_with_query, rows), qrels, problems)


def pick_qrels(source: Source, problems: Problems) -> Source | None:
    """The judgements of the wanted split: the one asked for, the only one, or ``test``."""
    folder = None if source.path is None else source.path / QRELS_FOLDER
    if folder is None or not folder.is_dir():
        problems.add(f"no folder '{QRELS_FOLDER}' with the judgements", path=source.name)
        return None
    files = (path.name.removesuffix(".gz") for path in folder.iterdir() if path.is_file())
    splits = sorted({name.removesuffix(".tsv") for name in files if name.endswith(".tsv")})
    wanted = source.split or (splits[0] if len(splits) == 1 else _USUAL_SPLIT)
    file = source.child(f"{QRELS_FOLDER}/{wanted}.tsv")
    if file is None:
        known = ", ".join(splits) or "none"
        problems.add(f"no judgements for split '{wanted}'; there are: {known}", path=source.name)
    elif source.split is None and len(splits) > 1:
        others = ", ".join(name for name in splits if name != wanted)
        source.notes[f"The split '{wanted}' is read; --split names another: {others}"] = None
    return file


def join_judgements(queries: Iterator[Row], qrels: Source, problems: Problems) -> Iterator[Row]:
    """Adds ``grades`` and ``reference_context_ids`` to the queries that are judged.

    A query without a judgement belongs to another split and is left out. A judgement of a query
    that does not exist is a problem.
    """
    judgements = read_grades(qrels, problems)
    lines = {query: next(iter(grades.values())).line for query, grades in judgements.items()}
    for row in queries:
        identifier = _id_of(row.values)
        if identifier is None:
            problems.add("expected the query's id, found none", path=row.path, line=row.line)
            continue
        lines.pop(identifier, None)
        judged = judgements.get(identifier)
        if judged is not None:
            grades = {document: judgement.grade for document, judgement in judged.items()}
            # Sorting is stable: equal grades keep the order of the file.
            relevant = [d for d in sorted(grades, key=lambda d: -grades[d]) if grades[d] > 0]
            added = {"grades": grades, "reference_context_ids": relevant}
            yield row._replace(values={**row.values, **added})
    for query, line in lines.items():
        message = f"no query has the id '{query}'"
        problems.add(message, path=qrels.name, line=line, field="query-id")


def _with_query(row: Row) -> Row:
    # BEIR calls a query's text what it calls a document's.
    if "text" not in row.values or "query" in row.values:
        return row
    return row._replace(values={"query" if k == "text" else k: v for k, v in row.values.items()})


def _id_of(values: Mapping[str, object]) -> str | None:
    for name in ("_id", "id", "qid", "query_id"):
        if values.get(name) is not None:
            try:
                return as_id(values[name])
            except ValueProblem:
                return None
    return None


_DOCUMENT_FILES = ("collection.tsv", "corpus.tsv")
_QRELS_FILES = ("qrels.txt", "qrels.tsv", "qrels")


def read_trec_folder(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields ``queries.tsv`` joined with ``qrels.txt``, or the texts of ``collection.tsv``."""
    names = _DOCUMENT_FILES if kind == "documents" else QUERY_FILES
    file = _first(source, names)
    if file is None:
        problems.add(f"the folder has none of {', '.join(names)}", path=source.name)
        return
    rows = _rows(file, "text" if kind == "documents" else "query", problems)
    if kind == "documents":
        yield from rows
        return
    qrels = _first(source, _QRELS_FILES) or pick_qrels(source, problems)
    if qrels is not None:
        yield from join_judgements(rows, qrels, problems)


def _first(source: Source, names: tuple[str, ...]) -> Source | None:
    return next((file for file in map(source.child, names) if file is not None), None)


def _rows(file: Source, target: str, problems: Problems) -> Iterator[Row]:
    for line in read_lines(file, problems):
        text = decode_line(line, file.name, problems)
        if text is None or not text.strip():
            continue
        # No quoting: a quotation mark in a query is part of it.
        identifier, tab, rest = text.rstrip("\r\n").partition("\t")
        if tab:
            yield Row(file.name, line.number, {"id": identifier.strip(), target: rest})
        else:
            message = f"expected an id, a tab and the {target}, found no tab"
            problems.add(message, path=file.name, line=line.number)
