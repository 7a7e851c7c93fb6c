"""Rankings in files (TREC runs, BEIR results), joined with queries and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.io.dumps.joined import read_queries
from ragbench.io.rankings import Ranking, is_own_run
from ragbench.io.source import Problems, Row, Source
from ragbench.io.trec import pick_qrels, read_grades
from ragbench.io.trec_run import unescape_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Topics:
    """What a run does not hold of its queries."""

    queries: Mapping[str, str] | None = None
    """Text by id; None where the run is joined with cases that have it."""
    grades: Mapping[str, Mapping[str, int]] | None = None
    """Grade by document, by query id; None where nobody judged."""

    def row(self, path: str, ranking: Ranking) -> Row:
        """A row of a query, best document first."""
        query, ordered = ranking.query, ranking.ordered()
        values: dict[str, object] = {
            "id": query,
            "retrieved_context_ids": ordered,
            "retrieved_scores": [ranking.scores[document] for document in ordered],
        }
        if self.queries is not None:
            values["query"] = self.queries[query]
        if self.grades is not None and query in self.grades:
            grades = self.grades[query]
            values["grades"] = dict(grades)
            relevant = [d for d in sorted(grades, key=lambda d: -grades[d]) if grades[d] > 0]
            values["reference_context_ids"] = relevant
        return Row(path, ranking.line, values)

    def knows(self, query: str) -> bool:
        return self.queries is None or query in self.queries


def read_ranking_rows(
    rankings: Iterable[Ranking], path: str, topics: Topics, problems: Problems
) -> Iterator[Row]:
    """Yields a row per query, then the queries of a run that are judged and not in it.

    `ragbench.io.trec_run.write` leaves a query for which nothing was found to the qrels. In a run
    of another tool nobody knows why it is not there: nothing is recorded for it.
    """
    seen, is_own = set[str](), False
    for ranking in rankings:
        is_own = ranking.is_own
        seen.add(ranking.query)
        if topics.knows(ranking.query):
            yield topics.row(path, ranking)
        else:
            message = f"no query has the id '{ranking.query}'"
            problems.add(message, path=path, line=ranking.line, field="query")
    for query in topics.grades or ():
        if topics.queries is not None and query in topics.queries and query not in seen:
            row = topics.row(path, Ranking(query=query))
            nothing = ("retrieved_context_ids", "retrieved_scores")
            values = {n: v for n, v in row.values.items() if is_own or n not in nothing}
            yield row._replace(values=values)


def find_topics(
    place: Source,
    *,
    corpus: str | Path,
    queries: str | Path | None,
    qrels: str | Path | None,
) -> Topics:
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
        plain = unescape_id if is_own_run(place) else str
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
