"""TREC runs: ids and scores, which are joined with a corpus and with topics."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.data.dumps.corpus_texts import CorpusTexts
from ragbench.data.dumps.records import DumpRecord
from ragbench.data.dumps.score_order import as_score
from ragbench.data.dumps.topics import Queries
from ragbench.data.ids import IdRegister
from ragbench.data.problems import Problems
from ragbench.data.source import Source
from ragbench.data.text import decode_line, read_lines

__all__ = ["joined_record", "read_run_records"]

_EXPECTED = "expected 'query Q0 document rank score tag'"


def read_run_records(
    source: Source, texts: CorpusTexts, queries: Queries, problems: Problems
) -> Iterator[DumpRecord]:
    """Yields a record a query, in ragbench's own form.

    As trec_eval does, the score decides the order; equal scores keep that of the file.

    Args:
        source: the run; the lines of a query must follow one another.
        texts: the corpus.
        queries: the topics.
        problems: takes what is wrong.
    """
    seen = IdRegister()
    current, first, ranking = "", 0, dict[str, float]()
    for number, query, document, score in _lines(source, problems):
        if query != current:
            if ranking:
                yield from joined_record(
                    source.name, first, current, ranking, texts, queries, problems
                )
            current, first, ranking = query, number, {}
            earlier = seen.add(query, number)
            if earlier is not None:
                message = f"query '{query}' has lines at {earlier} already: sort the run by query"
                problems.add(message, path=source.name, line=number)
        if document in ranking:
            message = f"document '{document}' stands twice in the ranking of query '{query}'"
            problems.add(message, path=source.name, line=number)
        ranking.setdefault(document, score)
    if ranking:
        yield from joined_record(source.name, first, current, ranking, texts, queries, problems)


def joined_record(
    path: str,
    line: int | None,
    query_id: str,
    ranking: dict[str, float],
    texts: CorpusTexts,
    queries: Queries,
    problems: Problems,
) -> Iterator[DumpRecord]:
    """The record of a query, best document first; a problem when nobody knows the query's text."""
    query = queries.texts.get(query_id)
    if query is None:
        message = f"no query has the id '{query_id}'"
        problems.add(message, path=path, line=line, field="query")
        return
    ordered = sorted(ranking, key=lambda document: -ranking[document])
    found = texts.get(ordered)
    chunks = [{"id": id, "text": found.get(id), "score": ranking[id]} for id in ordered]
    yield DumpRecord(path, line, {"query_id": query_id, "query": query, "chunks": chunks})


def _lines(source: Source, problems: Problems) -> Iterator[tuple[int, str, str, float]]:
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        columns = [] if text is None else text.strip().split("\t" if "\t" in text else None)
        if not any(columns):
            continue
        score = as_score(columns[4]) if len(columns) == 6 else None
        if score is None:
            found = f"found {len(columns)} columns"
            if len(columns) == 6:
                found = f"found '{columns[4][:40]}' as score"
            problems.add(f"{_EXPECTED}, {found}", path=source.name, line=line.number)
            continue
        yield line.number, columns[0], columns[2], score
