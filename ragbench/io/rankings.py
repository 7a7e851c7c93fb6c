"""Rankings in files (TREC runs, BEIR results), joined with queries, judgements and texts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ragbench.core.in_words import UnreadableError
from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.encoding import decoded
from ragbench.io.fields import (
    CASES_FILE,
    CORPUS_FILE,
    QRELS_FOLDER,
    QUERIES_FILE,
    QUERY_FILES,
    read_table,
)
from ragbench.io.json_files import decode_head, decode_line, load, read_bytes, read_lines
from ragbench.io.read import read_cases, read_documents
from ragbench.io.recorded import Texts
from ragbench.io.source import Problems, Row, Source, noting_read_errors
from ragbench.io.trec import (
    DOCUMENT_FILES,
    NO_TOPICS,
    Ranking,
    judged_fields,
    pick_qrels,
    read_grades,
    read_run,
    run_queries,
    trec_qrels,
    unescape_id,
)
from ragbench.io.values import as_object, as_score, describe, is_object

_QUERY_FILES = ("queries.jsonl", "queries.tsv", "topics.tsv", "topics.txt", "cases.jsonl")
"""Where a folder may have its queries, the likelier file first."""
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?\s*(.*?)\s*(?=<)", re.DOTALL | re.IGNORECASE)
"""A topic of TREC, its number and title; its inner tags are not closed, so it is no XML."""


def is_beir_result(place: Source) -> bool:
    """Whether a JSON file holds scores by document by query, as BEIR saves what it retrieved.

    Only the first query with documents is looked at: by it the file is known from other JSON
    objects.
    """
    for value in as_object(load(place, Problems())).values():
        ranking = as_object(value)
        if ranking:  # a query for which nothing was retrieved is empty
            return all(type(score) in (int, float) for score in ranking.values())
    return False


def read_result(source: Source, problems: Problems) -> Iterator[Ranking]:
    """Yields a ranking (document to score) per query of a file of BEIR results.

    The whole file is loaded: it is one JSON object. Bad scores are noted, and the others still
    count.
    """
    value = load(source, problems)
    # The file is empty, or is no JSON: `load` has noted that.
    if value is None:
        return
    if not is_object(value):
        expected = "expected an object of query, document and score"
        raise UnreadableError(f"{expected}, found {describe(value)}")
    for query, score_of_document in value.items():
        if not is_object(score_of_document):
            actual = describe(score_of_document)
            message = f"expected an object of document and score, found {actual}"
            problems.add(message, path=source.name, field=query)
            continue
        ranking = Ranking(query=query)
        for document, number in score_of_document.items():
            score = as_score(number)
            if score is None:
                message = f"expected a number as score, found {describe(number)}"
                problems.add(message, path=source.name, field=f"{query}.{document}")
            else:
                ranking.scores[document] = score
        yield ranking


# --- texts of documents


def holds_texts(corpus: str | Path) -> bool:
    """Whether texts of documents can be looked up in a corpus.

    A folder may be the dataset of a ranking with queries and judgements alone. Reading it as a
    corpus would then fail for want of documents, although the ids can be scored without texts.
    """
    folder = Source.of(corpus)
    if not folder.is_folder:
        return True
    query_file = folder.first_child((CASES_FILE, QUERIES_FILE, *QUERY_FILES))
    has_judgements = trec_qrels(folder) is not None or (Path(corpus) / QRELS_FOLDER).is_dir()
    if query_file is None and not has_judgements:
        return True  # no dataset: a folder of documents
    return folder.first_child((CORPUS_FILE, *DOCUMENT_FILES)) is not None


@contextmanager
def corpus_texts(path: str | Path) -> Generator[Texts]:
    """A function that looks texts of ranked documents up by id, for rankings that hold ids alone.

    The corpus is read into a temporary file at the first look-up, since many rankings need no text,
    and the file goes with the block.
    """
    with ExitStack() as stack:
        database = cache(partial(_database_of_texts, path, stack))
        yield partial(_texts_by_id, database)


def _database_of_texts(path: str | Path, stack: ExitStack) -> sqlite3.Connection:
    """The texts of a corpus by id, on disk: a corpus may not fit in memory.

    Of two documents with an id the first counts.

    Args:
        path: the corpus.
        stack: removes the database when it is closed.

    Raises:
        DataError: the corpus cannot be read, or holds no document.
    """
    db = stack.enter_context(closing(sqlite3.connect("")))  # gone when it is closed
    db.executescript(read_table("scratch.toml")["texts"]["tables"])
    problems = Problems()
    documents = read_documents(path, problems=problems)
    rows = ((document.id, document.text) for document in documents)
    count = db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", rows).rowcount
    problems.raise_if_any()
    if count < 1:
        name = Source.of(path).name
        raise DataError([Problem(message="the corpus holds no document", path=name)])
    return db


def _texts_by_id(
    database: Callable[[], sqlite3.Connection], ids: Iterable[str]
) -> Mapping[str, str]:
    """The texts of ranked documents by id; an id that the corpus lacks is left out.

    The caller counts the missing ids for a note, and shows these documents without a text.

    Args:
        database: opens the texts of the corpus, which it reads at its first call alone.
    """
    db = database()
    texts: dict[str, str] = {}
    # One by one: SQLite takes a limited number of values in a statement.
    for id in ids:
        row = db.execute("SELECT text FROM texts WHERE id = ?", (id,)).fetchone()
        if row is not None:
            texts[id] = row[0]
    return texts


# --- queries


def read_queries(
    path: str | Path, encoding: str | None = None, notes: dict[str, None] | None = None
) -> dict[str, str]:
    """Reads all queries of a file, or of the usual file in a folder: text by id.

    A ranking names its queries by id alone, while reports and judges need their texts.

    Args:
        notes: takes what is said of how they are read.
    """
    problems = Problems()
    source = Source.of(path, encoding=encoding)
    if source.is_folder:
        file = source.first_child(_QUERY_FILES)
        if file is None:
            message = f"the folder has none of {', '.join(_QUERY_FILES)}"
            raise DataError([Problem(message=message, path=source.name)])
        source = file
    # Files of topics are often old, and not in UTF-8.
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
    """Id and text of each query, of a file in any of the forms in which queries of rankings come.

    TREC's topics and records with fields are recognised by the beginning of the file. All else is
    lines of ``id<TAB>text``; a line without a tab is a text alone, known by its number.
    """
    head = source.head(problems)
    if head is None:
        return
    text = decode_head(head, source.encoding).lstrip()
    if "<top>" in text.lower():
        yield from _topics(source, problems)
    elif text.startswith(("{", "[")) or _is_table(source, text):
        yield from _query_records(source, text, problems)
    else:
        for line in read_lines(source, problems):
            text = (decode_line(line, source.name, problems) or "").strip()
            if not text:
                continue
            id, tab, query = text.partition("\t")
            if tab:
                yield id.strip(), query.strip()
            else:
                yield str(line.number), text


def _topics(source: Source, problems: Problems) -> Iterator[tuple[str, str]]:
    """Id and title of each query of a TREC file of topics, which is read by regular expressions.

    Its tags look like SGML, but the inner ones are not closed, so no parser takes it. Bytes that
    are no UTF-8 are replaced: old files of TREC have some, in parts that are not read.
    """
    raw = read_bytes(source, problems)
    if raw is None:
        return
    for topic in _TOPIC.finditer(raw.decode("utf-8", "replace")):
        number = _NUMBER.search(topic[1])
        # A title ends where the next tag begins, and the last one has none behind it.
        title = _TITLE.search(f"{topic[1]}<")
        if number is None or title is None:
            problems.add("a topic lacks <num> or <title>", path=source.name)
        else:
            yield number[1], " ".join(title[1].split())


def _is_table(source: Source, text: str) -> bool:
    """Whether a file of queries has columns with names, and so is read as records with fields.

    A ``.tsv`` counts only if its first line names a column of queries: often a ``.tsv`` has ids and
    queries without a header, which are read line by line.
    """
    if source.suffix == ".tsv":  # which may also be ids and queries, without a header
        header = text.partition("\n")[0]
        names = {cell.strip().lower() for cell in header.split("\t")}
        return not names.isdisjoint({*_QUERY_NAMES, "text"})
    return source.suffix in {".csv", ".parquet", ".xlsx", ".xlsm"}


_QUERY_NAMES = ("query", "question", "user_input")


def _query_records(source: Source, head: str, problems: Problems) -> Iterator[tuple[str, str]]:
    """Id and text of each query of a file with named fields, or of a JSON object of text by id.

    Args:
        source: a file: cases are read from its path, so standard input is a problem.
        head: the beginning of its text, by which BEIR's name ``text`` for a query is recognised.
    """
    if source.path is None:
        problems.add("the queries cannot come from standard input", path=source.name)
        return
    if source.suffix == ".json":
        texts = as_object(load(Source.of(source.path), Problems()))
        if texts and all(isinstance(text, str) for text in texts.values()):
            for id, text in texts.items():
                yield id, str(text)
            return
    fields: dict[str, str] | None = None
    has_query_name = any(f'"{name}"' in head for name in _QUERY_NAMES)
    if '"text"' in head and not has_query_name:
        fields = {"query": "text"}  # BEIR calls a query's text so
    for case in read_cases(source.path, fields=fields, encoding=source.encoding, problems=problems):
        yield case.id, case.query


# --- joined


Where = str | Path


class RankingFile(Record):
    """What a first reading of a ranking shows."""

    queries: tuple[str, ...]
    is_own: bool = False
    """Whether it is a run that ragbench wrote: ids of its judgements are escaped like its own."""
    read: Callable[[Source, Problems], Iterator[Ranking]]


def look_at(place: Source, form: str) -> RankingFile:
    """The queries that a TREC run or BEIR results rank, and the function that reads the rankings.

    Which queries it ranks says which judgements and texts have to be there, so the file is read
    once for them before any case is made.

    Args:
        form: ``"trec"`` or ``"beir"``.
    """
    problems = Problems()
    ranking_file = RankingFile(queries=(), read=read_result)
    # A copy of the source, so that the later reading of its cases begins at the file's start.
    with closing(replace(place)) as opened, noting_read_errors(place.name, problems):
        if form == "beir":
            # The file's problems are dropped here: `read_result` reports them when it reads it.
            results = as_object(load(opened, Problems()))
            ranking_file = RankingFile(queries=tuple(results), read=read_result)
        else:
            queries = run_queries(opened)
            ranking_file = RankingFile(
                queries=queries.ids,
                is_own=queries.is_own,
                read=partial(read_run, is_grouped=queries.is_grouped),
            )
    problems.raise_if_any()
    return ranking_file


class Topics(Record):
    """The queries of a ranking, with their judgements."""

    queries: Mapping[str, str] | None = None
    """Text by id; None where the run is joined with cases that have it."""
    grades: Mapping[str, Mapping[str, int]] | None = None
    """Grade by document, by query id; None where nobody judged."""
    is_beir: bool = False
    """Whether BEIR's rule holds that a query does not retrieve itself; see `without_itself`."""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """Takes what is said of how rankings are read."""

    def row(self, path: str, ranking: Ranking) -> Row:
        """The row of the case that a ranked query is: documents by rank, and grades where judged.

        Rankings are read as rows so that all else, such as checks and look-ups of texts, is the
        same for them as for any dataset. The keys are fields of a case, as `ragbench.io.fields`
        names them.
        """
        query = ranking.query
        grades: Mapping[str, int] | None = None
        if self.grades is not None:
            grades = self.grades.get(query)
        documents = ranking.ordered()
        if self.is_beir and query in ranking.scores:
            documents = without_itself(query, documents, grades or {})
            self.notes[WITHOUT_ITSELF] = None
        values: dict[str, object] = {
            "id": query,
            "retrieved_context_ids": documents,
            "retrieved_scores": [ranking.scores[document] for document in documents],
        }
        if self.queries is not None:
            # The caller has looked whether the query is known.
            values["query"] = self.queries[query]
        if grades is not None:
            values |= judged_fields(grades)
        return Row(path, ranking.line, values)


WITHOUT_ITSELF = (
    "a document with the query's own id is left out of its ranking unless it is judged, as BEIR "
    "evaluates (ignore_identical_ids)"
)


def without_itself(query: str, ids: Sequence[str], grades: Mapping[str, int]) -> list[str]:
    """Retrieved ids without the query's own id, as BEIR evaluates (``ignore_identical_ids``).

    ArguAna and Quora take their queries from the corpus, where each query would find itself first.
    A document that is judged for the query stays: there the two ids are equal by chance. Scores are
    comparable with published ones only under this rule.
    """
    return [id for id in ids if id != query or id in grades]


def read_ranking_rows(
    rankings: Iterable[Ranking], path: str, topics: Topics, problems: Problems
) -> Iterator[Row]:
    """Yields a row per ranked query, then one per query that is judged and not ranked.

    Nothing was retrieved for the latter: they count 0, as in ``trec_eval -c``. Without their rows a
    run would score better for leaving hard queries out.
    """
    seen = set[str]()
    for ranking in rankings:
        seen.add(ranking.query)
        if topics.queries is None or ranking.query in topics.queries:
            yield topics.row(path, ranking)
        else:
            message = f"no query has the id '{ranking.query}'"
            problems.add(message, path=path, line=ranking.line, field="query")
    # Joined with a dataset: the join adds the queries that are not ranked.
    if topics.grades is None or topics.queries is None:
        return
    for query in topics.grades:
        if query in topics.queries and query not in seen:
            yield topics.row(path, Ranking(query=query))


def find_topics(
    place: Source,
    ranking: RankingFile,
    *,
    corpus: Where | None,
    queries: Where | None,
    qrels: Where | None,
    encoding: str | None,
) -> Topics:
    """The queries of a ranking that is evaluated without a dataset, with their judgements.

    Both are looked for in the files that the user named, beside the ranking, and in the corpus's
    folder. Without any file of queries, each id serves as the text of its query, which a note says.

    Args:
        place: the file of the ranking.
        ranking: what `look_at` found in it.

    Raises:
        ConfigError: neither queries nor judgements are there.
        DataError: they cannot be read, or no query of the run is judged.
    """
    folder: Where | None = None
    if corpus is not None and Path(corpus).is_dir():
        folder = corpus
    grades = _grades(place, ranking, folder, qrels)
    query_source = queries
    if query_source is None and folder is not None:
        has_queries = Source.of(folder).first_child(_QUERY_FILES) is not None
        # A folder without queries is of no use where judgements name the queries.
        if has_queries or grades is None:
            query_source = folder
    if query_source is None and grades is None:
        raise ConfigError(
            f"{place.name} is a ranking without judgements or queries: name the judgements "
            f"with --qrels FILE, the queries with --queries FILE, or join it with its dataset: "
            f"ragbench eval DATASET --outputs {place.name}"
        )
    if grades is not None:
        _check_shared(place, ranking, grades)
    if query_source is None:
        place.notes[NO_TOPICS] = None
        judged_queries = grades or {}
        texts = {query: query for query in (*judged_queries, *ranking.queries)}
    else:
        texts = read_queries(query_source, encoding, place.notes)
    return Topics(queries=texts, grades=grades, is_beir=_is_beir(folder), notes=place.notes)


def _is_beir(folder: Where | None) -> bool:
    """Whether a dataset's folder has BEIR's layout: queries.jsonl and a folder of judgements.

    Then a query does not count as retrieved for itself, as BEIR evaluates; see `without_itself`.
    """
    if folder is None:
        return False
    has_qrels = (Path(folder) / QRELS_FOLDER).is_dir()
    return has_qrels and Source.of(folder).child(QUERIES_FILE) is not None


def _grades(
    place: Source, ranking: RankingFile, folder: Where | None, qrels: Where | None
) -> dict[str, dict[str, int]] | None:
    """The judgements that a ranking is scored by: query to document to grade; None without a file.

    Args:
        place: the file of the ranking, beside which judgements may be.
        ranking: what a first look found in it.
        folder: a dataset that may have judgements, where `qrels` names none.
        qrels: the file that the user named.

    Ids are as in the run: ragbench escapes them in files that it writes.
    """
    problems = Problems()
    source: Source | None = None
    if qrels is not None:
        source = Source.of(qrels)
    else:
        with noting_read_errors(str(folder), problems):
            source = _qrels(place, folder)
    if source is None:
        problems.raise_if_any()
        return None
    # A run of ours has escaped ids, and so have the judgements that were written beside it.
    plain = unescape_id if ranking.is_own else str
    grades: dict[str, dict[str, int]] = {}
    for query, judgements in read_grades(source, problems).items():
        grade_of_document: dict[str, int] = {}
        for document, judgement in judgements.items():
            grade_of_document[plain(document)] = judgement.grade
        grades[plain(query)] = grade_of_document
    problems.raise_if_any()
    return grades


def _check_shared(
    place: Source, ranking: RankingFile, grades: Mapping[str, Mapping[str, int]]
) -> None:
    """Refuses a run that shares no query with its judgements, and notes how many it lacks.

    Such a run would score 0 in everything, and most often the user named the wrong file.

    Raises:
        DataError: no query of the run is judged.
    """
    ranked = set(ranking.queries)
    missing = [query for query in grades if query not in ranked]
    # An empty file of judgements shares no query with any run, either.
    if ranked and len(missing) == len(grades):
        judged = f" (such as '{missing[0]}')" if missing else ""
        message = (
            f"no query of the run (such as '{ranking.queries[0]}') is one of the judged queries"
            f"{judged}: name the judgements of these queries with --qrels FILE"
        )
        raise DataError([Problem(message=message, path=place.name)])
    if missing:
        place.notes[missing_note(len(missing), missing[0])] = None


def missing_note(count: int, example: str) -> str:
    """The note that judged queries without lines in the ranking count 0, which users overlook.

    Args:
        count: how many such queries there are.
        example: the id of one of them.
    """
    have = "has" if count == 1 else "have"
    queries = "query" if count == 1 else "queries"
    return (
        f"{count:,} judged {queries} (such as '{example}') {have} no lines in the ranking: nothing "
        "was retrieved, which counts 0, as in trec_eval -c"
    )


def _qrels(place: Source, folder: str | Path | None) -> Source | None:
    """The file of judgements for a run that the user named none for; None where there is none.

    It is the file beside the run with its name and ``.qrels``, as ragbench writes both, or else the
    judgements in the dataset's folder: TREC's file, or BEIR's folder with the part (`split`) of the
    run.
    """
    path = place.path
    if path is not None:
        beside = path.with_suffix(".qrels")
        # A run that is itself called .qrels must not be its own judgements.
        if beside != path and beside.is_file():
            return Source.of(beside)
    if folder is None:
        return None
    source = Source.of(folder, split=place.split)
    qrels = trec_qrels(source)
    if qrels is None and (Path(folder) / QRELS_FOLDER).is_dir():
        return pick_qrels(source)
    return qrels
