"""Rankings in files (TREC runs, BEIR results), joined with queries, judgements and texts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path

from ragbench.core.record import Record
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.encoding import decoded
from ragbench.io.fields import read_table
from ragbench.io.json_files import decode_head, decode_line, load, read_bytes, read_lines
from ragbench.io.limits import UnreadableError
from ragbench.io.read import read_cases, read_documents
from ragbench.io.recorded import Texts
from ragbench.io.source import Problems, Row, Source, noting_read_errors
from ragbench.io.trec import (
    Ranking,
    is_own_run,
    judged_fields,
    pick_qrels,
    read_grades,
    unescape_id,
)
from ragbench.io.values import as_object, as_score, describe, is_object

_FILES = ("queries.jsonl", "queries.tsv", "topics.tsv", "topics.txt", "cases.jsonl")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?\s*(.*?)\s*(?=<)", re.DOTALL | re.IGNORECASE)


def is_beir_result(place: Source) -> bool:
    """Whether a JSON file holds scores by document by query."""
    first = as_object(next(iter(as_object(load(place, Problems())).values()), None))
    return bool(first) and all(type(score) in (int, float) for score in first.values())


def read_result(source: Source, problems: Problems) -> Iterator[Ranking]:
    """Yields a ranking per query of BEIR results; the whole file is loaded."""
    value = load(source, problems)
    if not is_object(value):
        if value is None:
            return
        expected = "expected an object of query, document and score"
        raise UnreadableError(f"{expected}, found {describe(value)}")
    for query, given in value.items():
        if not is_object(given):
            message = f"expected an object of document and score, found {describe(given)}"
            problems.add(message, path=source.name, field=query)
            continue
        ranking = Ranking(query=query)
        for document, number in given.items():
            score = as_score(number)
            if score is None:
                message = f"expected a number as score, found {describe(number)}"
                problems.add(message, path=source.name, field=f"{query}.{document}")
            else:
                ranking.scores[document] = score
        yield ranking


# --- texts of documents


@contextmanager
def corpus_texts(path: str | Path) -> Generator[Texts]:
    """Looks texts up in a corpus, which is read into a temporary file when it is first asked."""
    with ExitStack() as stack:

        @cache
        def opened() -> sqlite3.Connection:
            db = stack.enter_context(closing(sqlite3.connect("")))  # gone when it is closed
            db.executescript(read_table("scratch.toml")["texts"]["tables"])
            problems = Problems()
            rows = ((one.id, one.text) for one in read_documents(path, problems=problems))
            count = db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", rows).rowcount
            problems.raise_if_any()
            if count < 1:
                name = Source.of(path).name
                raise DataError([Problem(message="the corpus holds no document", path=name)])
            return db

        def get(ids: Iterable[str]) -> Mapping[str, str]:
            db, query = opened(), "SELECT text FROM texts WHERE id = ?"
            return {id: row[0] for id in ids if (row := db.execute(query, (id,)).fetchone())}

        yield get


# --- queries


def read_queries(
    path: str | Path, encoding: str | None = None, notes: dict[str, None] | None = None
) -> dict[str, str]:
    """Reads all queries of a file, or of the usual file in a folder: text by id.

    Args:
        notes: takes what is said of how they are read.
    """
    problems = Problems()
    source = Source.of(path, encoding=encoding)
    if source.is_folder:
        found = source.first_child(_FILES)
        if found is None:
            message = f"the folder has none of {', '.join(_FILES)}"
            raise DataError([Problem(message=message, path=source.name)])
        source = found
    source = decoded(source)
    with closing(source):
        texts = dict(_queries(source, problems))
    problems.raise_if_any()
    if not texts:
        raise DataError([Problem(message="it holds no query", path=source.name)])
    if notes is not None:
        notes |= source.notes
    return texts


def _queries(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    head = source.head(problems)
    if head is None:
        return
    text = decode_head(head, source.encoding).lstrip()
    names = {cell.strip().lower() for cell in text.partition("\n")[0].split("\t")}
    has_columns = source.suffix in {".csv", ".parquet", ".xlsx", ".xlsm"} or (
        source.suffix == ".tsv" and not names.isdisjoint({*_QUERY_NAMES, "text"})
    )
    if "<top>" in text.lower():
        raw = read_bytes(source, problems)
        for topic in _TOPIC.finditer("" if raw is None else raw.decode("utf-8", "replace")):
            number, title = _NUMBER.search(topic[1]), _TITLE.search(f"{topic[1]}<")
            if number is None or title is None:
                problems.add("a topic lacks <num> or <title>", path=source.name)
            else:
                yield number[1], " ".join(title[1].split())
    elif text.startswith(("{", "[")) or has_columns:
        yield from _query_records(source, text, problems)
    else:
        for line in read_lines(source, problems):
            text = (decode_line(line, source.name, problems) or "").strip()
            if text:
                id, tab, query = text.partition("\t")
                yield (id.strip(), query.strip()) if tab else (str(line.number), text)


_QUERY_NAMES = ("query", "question", "user_input")


def _query_records(source: Source, head: str, problems: Problems) -> Iterator[tuple[str, str]]:
    if source.path is None:
        problems.add("the queries cannot come from standard input", path=source.name)
        return
    value = load(Source.of(source.path), Problems()) if source.suffix == ".json" else None
    if is_object(value) and value and all(isinstance(text, str) for text in value.values()):
        yield from ((id, str(text)) for id, text in value.items())
        return
    # BEIR calls a query's text so.
    is_text = '"text"' in head and not any(f'"{name}"' in head for name in _QUERY_NAMES)
    fields = {"query": "text"} if is_text else None
    for case in read_cases(source.path, fields=fields, encoding=source.encoding, problems=problems):
        yield case.id, case.query


# --- joined


Where = str | Path


class Topics(Record):
    queries: Mapping[str, str] | None = None
    """Text by id; None where the run is joined with cases that have it."""
    grades: Mapping[str, Mapping[str, int]] | None = None
    """Grade by document, by query id; None where nobody judged."""

    def row(self, path: str, ranking: Ranking, *, is_recorded: bool = True) -> Row:
        query, ordered = ranking.query, ranking.ordered()
        values: dict[str, object] = {"id": query}
        if is_recorded:
            values["retrieved_context_ids"] = ordered
            values["retrieved_scores"] = [ranking.scores[document] for document in ordered]
        if self.queries is not None:
            values["query"] = self.queries[query]
        if self.grades is not None and query in self.grades:
            values |= judged_fields(self.grades[query])
        return Row(path, ranking.line, values)


def read_ranking_rows(
    rankings: Iterable[Ranking], path: str, topics: Topics, problems: Problems
) -> Iterator[Row]:
    """Yields a row per query, then the queries of a run that are judged and not in it.

    `ragbench.io.trec.write` leaves a query for which nothing was found to the qrels. In a run
    of another tool nobody knows why it is not there: nothing is recorded for it.
    """
    seen, is_own = set[str](), False
    for ranking in rankings:
        if ranking.query in seen:
            continue  # it is a problem already
        is_own = ranking.is_own
        seen.add(ranking.query)
        if topics.queries is None or ranking.query in topics.queries:
            yield topics.row(path, ranking)
        else:
            message = f"no query has the id '{ranking.query}'"
            problems.add(message, path=path, line=ranking.line, field="query")
    for query in topics.grades or ():
        if topics.queries is not None and query in topics.queries and query not in seen:
            yield topics.row(path, Ranking(query=query), is_recorded=is_own)


def find_topics(
    place: Source, corpus: Where, queries: Where | None, qrels: Where | None, encoding: str | None
) -> Topics:
    folder = corpus if Path(corpus).is_dir() else None
    known = queries if queries is not None else folder
    if known is None:
        raise ConfigError(
            f"{place.name} holds ids alone: name the queries with --queries FILE, or join it with "
            f"its dataset: ragbench eval DATASET --outputs {place.name}"
        )
    problems = Problems()
    judged, grades = None if qrels is None else Source.of(qrels), None
    if judged is None:
        with noting_read_errors(str(folder), problems):
            judged = _qrels(place, folder)
    if judged is not None:
        plain = unescape_id if is_own_run(place) else str
        grades = {
            plain(query): {plain(document): judged.grade for document, judged in found.items()}
            for query, found in read_grades(judged, problems).items()
        }
    problems.raise_if_any()
    return Topics(queries=read_queries(known, encoding, place.notes), grades=grades)


def _qrels(place: Source, folder: str | Path | None) -> Source | None:
    path = place.path
    beside = None if path is None else path.with_suffix(".qrels")
    if beside is not None and beside != path and beside.is_file():
        return Source.of(beside)
    if folder is None:
        return None
    whole = Source.of(folder, split=place.split)
    found = whole.first_child(("qrels.txt", "qrels.tsv"))
    has_splits = (Path(folder) / "qrels").is_dir()
    return found or (pick_qrels(whole) if has_splits else None)
