"""Rankings joined with the texts of a corpus and its queries."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.core.chunk import Document
from ragbench.errors import DataError, Problem
from ragbench.io.dumps.form import DumpRecord, is_object
from ragbench.io.encodings import decoded
from ragbench.io.lines import decode_head, decode_line, read_bytes, read_lines
from ragbench.io.rankings import Ranking
from ragbench.io.read import read_cases, read_documents
from ragbench.io.source import Problems, Source

_BATCH = 5000


@dataclass(frozen=True, slots=True)
class CorpusTexts:
    """Finds the text of a document."""

    _db: sqlite3.Connection

    def get(self, ids: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for id in ids:
            row = self._db.execute("SELECT text FROM texts WHERE id = ?", (id,)).fetchone()
            if row is not None:
                found[id] = row[0]
        return found


@contextmanager
def corpus_texts(path: str | Path) -> Generator[CorpusTexts, None, None]:
    """Reads a corpus into a temporary file, which is gone when the block ends."""
    with (
        TemporaryDirectory(prefix="ragbench-corpus-") as folder,
        closing(sqlite3.connect(Path(folder) / "texts.sqlite")) as db,
    ):
        # The file is thrown away: it need not survive a crash.
        db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
        )
        problems = Problems()
        documents = read_documents(path, problems=problems)
        count = 0
        while batch := list(islice(documents, _BATCH)):
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", map(_row, batch))
            count += len(batch)
        problems.raise_if_any()
        if not count:
            name = Source.of(path).name
            raise DataError([Problem(message="the corpus holds no document", path=name)])
        yield CorpusTexts(db)


def _row(document: Document) -> tuple[str, str]:
    return document.id, document.text


_FILES = ("queries.jsonl", "queries.tsv", "topics.tsv", "topics.txt", "cases.jsonl")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?\s*(.*?)\s*(?=<)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queries:
    """The queries of a file."""

    texts: dict[str, str]
    """Text by id, in the order of the file."""
    notes: Mapping[str, None] = field(default_factory=dict[str, None])
    """What had to be chosen to read it, in words."""

    def in_order(self) -> Iterator[tuple[str, str]]:
        yield from self.texts.items()


def read_queries(path: str | Path, encoding: str | None = None) -> Queries:
    """Reads all queries of a file, or of the usual file in a folder."""
    problems = Problems()
    source = Source.of(path, encoding=encoding)
    if source.is_folder:
        found = next((child for name in _FILES if (child := source.child(name))), None)
        if found is None:
            names = ", ".join(_FILES)
            problem = Problem(message=f"the folder has none of {names}", path=source.name)
            raise DataError([problem])
        source = found
    source = decoded(source)
    with closing(source):
        texts = dict(_read(source, problems))
    problems.raise_if_any()
    if not texts:
        raise DataError([Problem(message="it holds no query", path=source.name)])
    return Queries(texts=texts, notes=source.notes)


def _read(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    head = source.head(problems)
    if head is None:
        return
    text = decode_head(head, source.encoding).lstrip()
    if "<top>" in text.lower():
        yield from _topics(source, problems)
    elif text.startswith(("{", "[")) or _is_table(source.suffix, text):
        yield from _records(source, problems)
    else:
        yield from _topic_lines(source, problems)


def _is_table(suffix: str, text: str) -> bool:
    """Whether a file has named columns, rather than an id and a text on each line."""
    if suffix in {".csv", ".parquet", ".xlsx", ".xlsm"}:
        return True
    if suffix != ".tsv":
        return False
    names = {cell.strip().lower() for cell in text.partition("\n")[0].split("\t")}
    return not names.isdisjoint({"query", "question", "text", "user_input"})


def _topics(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    raw = read_bytes(source, problems)
    for topic in _TOPIC.finditer("" if raw is None else raw.decode("utf-8", "replace")):
        number, title = _NUMBER.search(topic[1]), _TITLE.search(f"{topic[1]}<")
        if number is None or title is None:
            problems.add("a topic lacks <num> or <title>", path=source.name)
        else:
            yield number[1], " ".join(title[1].split())


def _topic_lines(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    """Id and text with a tab between, or the text alone, whose line is then its id."""
    for line in read_lines(source, problems):
        text = (decode_line(line, source.name, problems) or "").strip()
        if text:
            id, tab, query = text.partition("\t")
            yield (id.strip(), query.strip()) if tab else (str(line.number), text)


def _records(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    if source.path is None:
        problems.add("the queries cannot come from standard input", path=source.name)
        return
    value = _object(source)
    if value is not None:
        yield from value.items()
        return
    fields = {"query": "text"} if _names_text(source) else None
    for case in read_cases(source.path, fields=fields, encoding=source.encoding, problems=problems):
        yield case.id, case.query


def _object(source: Source) -> dict[str, str] | None:
    """A JSON object of id and text."""
    import orjson

    if source.path is None or source.suffix != ".json":
        return None
    try:
        value: object = orjson.loads(source.limits.read_data(source.path))
    except (orjson.JSONDecodeError, OSError):
        return None
    if is_object(value) and value and all(isinstance(text, str) for text in value.values()):
        return {id: str(text) for id, text in value.items()}
    return None


def _names_text(source: Source) -> bool:
    """Whether a query's text is called what BEIR calls it."""
    head = decode_head(source.head(Problems()) or b"", source.encoding)
    return '"text"' in head and not any(
        f'"{name}"' in head for name in ("query", "question", "user_input")
    )


def read_ranking_records(
    rankings: Iterable[Ranking], path: str, texts: CorpusTexts, queries: Queries, problems: Problems
) -> Iterator[DumpRecord]:
    """Yields a record per query, best document first, in ragbench's own form."""
    for ranking in rankings:
        query = queries.texts.get(ranking.query)
        if query is None:
            message = f"no query has the id '{ranking.query}'"
            problems.add(message, path=path, line=ranking.line, field="query")
            continue
        ordered = ranking.ordered()
        found = texts.get(ordered)
        chunks = [{"id": id, "text": found.get(id), "score": ranking.scores[id]} for id in ordered]
        value = {"query_id": ranking.query, "query": query, "chunks": chunks}
        yield DumpRecord(path, ranking.line, value)
