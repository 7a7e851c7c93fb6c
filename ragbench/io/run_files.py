"""TREC runs and BEIR results, read: ids with scores, joined with queries and judgements.

A run's line is ``query Q0 document rank score tag``. Ids that ragbench wrote are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.io.dumps.form import is_object
from ragbench.io.dumps.joined import read_queries
from ragbench.io.ids import IdRegister
from ragbench.io.json_files import load
from ragbench.io.lines import decode_line, read_lines
from ragbench.io.source import Problems, Row, Source
from ragbench.io.trec import pick_qrels, read_grades
from ragbench.io.trec_run import TAG, unescape_id

__all__ = [
    "Topics",
    "find_topics",
    "read_result_rows",
    "read_run_rows",
]

_EXPECTED = "expected 'query Q0 document rank score tag'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topics:
    """What a run does not hold of its queries."""

    queries: Mapping[str, str] | None = None
    """Text by id; None where the run is joined with cases that have it."""
    grades: Mapping[str, Mapping[str, int]] | None = None
    """Grade by document, by query id; None where nobody judged."""

    def row(self, path: str, line: int, query: str, ranking: Mapping[str, float]) -> Row:
        """A row of a query, best document first, as trec_eval orders them."""
        ordered = sorted(ranking, key=lambda document: -ranking[document])
        values: dict[str, object] = {
            "id": query,
            "retrieved_context_ids": ordered,
            "retrieved_scores": [ranking[document] for document in ordered],
        }
        if self.queries is not None:
            values["query"] = self.queries[query]
        if self.grades is not None and query in self.grades:
            grades = self.grades[query]
            values["grades"] = dict(grades)
            relevant = [d for d in sorted(grades, key=lambda d: -grades[d]) if grades[d] > 0]
            values["reference_context_ids"] = relevant
        return Row(path, line, values)

    def knows(self, query: str) -> bool:
        """Whether the query can become a case."""
        return self.queries is None or query in self.queries


def read_run_rows(source: Source, topics: Topics, problems: Problems) -> Iterator[Row]:
    """Yields a row per query; its lines must follow one another.

    The score decides the order, as in trec_eval; equal scores keep that of the file.
    """
    seen = IdRegister()
    current, first, ranking, is_ours = "", 0, dict[str, float](), False
    for number, columns in _run_columns(source, problems):
        is_ours = columns[5] == TAG
        query = unescape_id(columns[0]) if is_ours else columns[0]
        document = unescape_id(columns[2]) if is_ours else columns[2]
        if query != current:
            yield from _rows(source, topics, (current, first, ranking), problems)
            current, first, ranking = query, number, {}
            earlier = seen.add(query, number)
            if earlier is not None:
                message = f"query '{query}' has lines at {earlier} already: sort the run by query"
                problems.add(message, path=source.name, line=number)
        if document in ranking:
            message = f"document '{document}' appears twice in the ranking of query '{query}'"
            problems.add(message, path=source.name, line=number)
        ranking.setdefault(document, float(columns[4]))
    yield from _rows(source, topics, (current, first, ranking), problems)
    yield from _judged_alone(source, topics, seen, is_ours=is_ours)


def _judged_alone(
    source: Source, topics: Topics, seen: IdRegister, *, is_ours: bool
) -> Iterator[Row]:
    """Queries that are judged and not in the run.

    `write` leaves a query for which nothing was found to the qrels. In a run of another tool
    nobody knows why it is not there: nothing is recorded for it.
    """
    for query in topics.grades or ():
        if topics.queries is not None and query in topics.queries and query not in seen:
            row = topics.row(source.name, 0, query, {})
            nothing = ("retrieved_context_ids", "retrieved_scores")
            values = {n: v for n, v in row.values.items() if is_ours or n not in nothing}
            yield row._replace(line=None, values=values)


def read_result_rows(source: Source, topics: Topics, problems: Problems) -> Iterator[Row]:
    """Yields a row per query of BEIR results; the whole file is loaded."""
    value = load(source, problems)
    for number, (query, scores) in enumerate(value.items() if is_object(value) else (), start=1):
        ranking: dict[str, float] = {}
        for document, score in scores.items() if is_object(scores) else ():
            if isinstance(score, bool) or not isinstance(score, (int, float)):
                message = f"expected a number as score of '{document}', found {score!r}"
                problems.add(message, path=source.name, line=number)
            else:
                ranking[document] = float(score)
        yield from _rows(source, topics, (query, number, ranking), problems)


def _rows(
    source: Source, topics: Topics, held: tuple[str, int, dict[str, float]], problems: Problems
) -> Iterator[Row]:
    query, line, ranking = held
    if line and not topics.knows(query):
        message = f"no query has the id '{query}'"
        problems.add(message, path=source.name, line=line, field="query")
    elif line:
        yield topics.row(source.name, line, query, ranking)


def _run_columns(source: Source, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        columns = [] if text is None else text.strip().split("\t" if "\t" in text else None)
        if not any(columns):
            continue
        found = f"found {len(columns)} columns"
        if len(columns) == 6:
            try:
                if isfinite(float(columns[4])):
                    yield line.number, columns
                    continue
            except ValueError:
                pass
            found = f"found '{columns[4][:40]}' as score"
        problems.add(f"{_EXPECTED}, {found}", path=source.name, line=line.number)


def find_topics(
    place: Source,
    *,
    corpus: str | Path,
    queries: str | Path | None,
    qrels: str | Path | None,
) -> Topics:
    """What a run does not hold of its queries.

    Args:
        place: the run.
        corpus: where the texts are; a BEIR or TREC folder holds queries and judgements, too.
        queries: where the queries are, when the user says.
        qrels: the judgements, when the user says; else those beside the run count first.

    Raises:
        ConfigError: nobody says where the queries are.
        DataError: queries or judgements cannot be read.
    """
    folder = corpus if Path(corpus).is_dir() else None
    known = queries if queries is not None else folder
    if known is None:
        raise ConfigError(
            f"{place.name} holds ids alone: name the queries with --queries FILE, or join it with "
            f"its dataset: ragbench eval DATASET --answers {place.name}"
        )
    problems = Problems()
    judged = Source.of(qrels) if qrels is not None else _qrels(place, folder, problems)
    grades = None
    if judged is not None:
        plain = unescape_id if _is_ours(place) else str
        grades = {
            plain(query): {plain(document): judged.grade for document, judged in found.items()}
            for query, found in read_grades(judged, problems).items()
        }
    problems.raise_if_any()
    return Topics(queries=read_queries(known).texts, grades=grades)


def _qrels(place: Source, folder: str | Path | None, problems: Problems) -> Source | None:
    """The judgements beside a run, or those of the corpus's folder."""
    path = place.path
    beside = None if path is None else path.with_suffix(".qrels")
    if beside is not None and beside != path and beside.is_file():
        return Source.of(beside)
    if folder is None:
        return None
    whole = Source.of(folder, split=place.split)
    for file in ("qrels.txt", "qrels.tsv"):
        if (found := whole.child(file)) is not None:
            return found
    return pick_qrels(whole, problems) if (Path(folder) / "qrels").is_dir() else None


def _is_ours(place: Source) -> bool:
    """Whether a run's tag says that ragbench wrote it: the ids in it are escaped."""
    first = next(_run_columns(replace(place), Problems()), None)
    return first is not None and first[1][5] == TAG
