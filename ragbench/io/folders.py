"""Folders of cases, documents and judgements: BEIR's, TREC's and ragbench's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.io.fields import CASES_FILE, CORPUS_FILE, QRELS_FOLDER, QUERIES_FILE, QUERY_FILES
from ragbench.io.json_files import read_json_lines
from ragbench.io.lines import decode_line, read_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.trec import read_grades
from ragbench.io.values import ValueProblem, as_id

_USUAL_SPLIT = "test"
_DOCUMENT_FILES = ("collection.tsv", "corpus.tsv")
_QRELS_FILES = ("qrels.txt", "qrels.tsv", "qrels")


def read_own(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the rows of ragbench's own folder: of the file that holds what is asked for."""
    name = CORPUS_FILE if kind == "documents" else CASES_FILE
    yield from _json_lines(source, name, kind, problems, "the folder")


def read_beir(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the documents, or the queries that the split judges, in the order of their file.

    Memory holds the judgements of the split; queries and documents are streamed.
    """
    name = CORPUS_FILE if kind == "documents" else QUERIES_FILE
    rows = _json_lines(source, name, kind, problems, "the BEIR folder")
    if kind == "documents":
        yield from rows
    elif source.child(name) is None:
        yield from rows  # says so
    elif (qrels := pick_qrels(source, problems)) is not None:
        yield from _judged(map(_with_query, rows), qrels, problems)


def _json_lines(
    source: Source, name: str, kind: Kind, problems: Problems, what: str
) -> Iterator[Row]:
    file = source.child(name)
    if file is None:
        problems.add(f"{what} has no {name}", path=source.name)
    else:
        yield from read_json_lines(file, kind=kind, problems=problems)


def read_trec(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields ``queries.tsv`` joined with ``qrels.txt``, or the texts of ``collection.tsv``."""
    names = _DOCUMENT_FILES if kind == "documents" else QUERY_FILES
    file = source.first_child(names)
    if file is None:
        problems.add(f"the folder has none of {', '.join(names)}", path=source.name)
    elif kind == "documents":
        yield from _lines_with_ids(file, "text", problems)
    elif qrels := source.first_child(_QRELS_FILES) or pick_qrels(source, problems):
        yield from _judged(_lines_with_ids(file, "query", problems), qrels, problems)


def _lines_with_ids(file: Source, target: str, problems: Problems) -> Iterator[Row]:
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


def judged_fields(grades: Mapping[str, int]) -> dict[str, object]:
    """The fields of a case that judgements give; equal grades keep the order of the file."""
    relevant = [d for d in sorted(grades, key=lambda d: -grades[d]) if grades[d] > 0]
    return {"grades": dict(grades), "reference_context_ids": relevant}


def _judged(queries: Iterator[Row], qrels: Source, problems: Problems) -> Iterator[Row]:
    """The queries that are judged, with their judgements.

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
            yield row._replace(values={**row.values, **judged_fields(grades)})
    for query, line in lines.items():
        message = f"no query has the id '{query}'"
        problems.add(message, path=qrels.name, line=line, field="query-id")


def _with_query(row: Row) -> Row:
    # BEIR calls a query's text what it calls a document's.
    if "text" not in row.values or "query" in row.values:
        return row
    return row._replace(values={"query" if k == "text" else k: v for k, v in row.values.items()})


def _id_of(values: Mapping[str, object]) -> str | None:
    names = ("_id", "id", "qid", "query_id")
    given = next((values[name] for name in names if values.get(name) is not None), None)
    try:
        return None if given is None else as_id(given)
    except ValueProblem:
        return None
