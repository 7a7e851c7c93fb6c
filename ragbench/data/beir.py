"""A BEIR folder: queries.jsonl, corpus.jsonl, and qrels/SPLIT.tsv with graded relevance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.data.json_lines import read as read_json_lines
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.trec import read_judgements
from ragbench.data.values import ValueProblem, as_id

__all__ = ["CORPUS_FILE", "QRELS_FOLDER", "QUERIES_FILE", "join_judgements", "pick_qrels", "read"]

QUERIES_FILE = "queries.jsonl"
CORPUS_FILE = "corpus.jsonl"
QRELS_FOLDER = "qrels"
_USUAL_SPLIT = "test"


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
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
    """The judgements of the wanted split: the one asked for, the only one, or ``test``.

    Returns:
        The file; None, and a problem, when there is none.
    """
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
    return file


def join_judgements(queries: Iterator[Row], qrels: Source, problems: Problems) -> Iterator[Row]:
    """Adds ``grades`` and ``reference_context_ids`` to the queries that are judged.

    A query without a judgement belongs to another split and is left out. A judgement of a query
    that does not exist is a problem.
    """
    judgements = read_judgements(qrels, problems)
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
