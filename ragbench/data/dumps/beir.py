"""BEIR results: score by document by query, joined with the corpus and queries of a BEIR folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.data.dumps.corpus_texts import CorpusTexts
from ragbench.data.dumps.form import is_object
from ragbench.data.dumps.records import DumpRecord
from ragbench.data.dumps.score_order import as_score
from ragbench.data.dumps.topics import Queries
from ragbench.data.dumps.trec import joined_record
from ragbench.data.json_file import load
from ragbench.data.problems import Problems
from ragbench.data.source import Source
from ragbench.data.values import describe

__all__ = ["is_beir_result", "read_result_records"]


def is_beir_result(value: object) -> bool:
    """Whether a value is scores by document by query."""
    if not is_object(value) or not value:
        return False
    first = next(iter(value.values()))
    return is_object(first) and bool(first) and all(map(_is_number, first.values()))


def read_result_records(
    source: Source, texts: CorpusTexts, queries: Queries, problems: Problems
) -> Iterator[DumpRecord]:
    """Yields a record a query, in ragbench's own form; the whole file is loaded."""
    value = load(source, problems)
    if not is_object(value):
        if value is not None:
            message = f"expected an object of query, document and score, found {describe(value)}"
            problems.add(message, path=source.name)
        return
    for query, scores in value.items():
        if not is_object(scores):
            message = f"expected an object of document and score, found {describe(scores)}"
            problems.add(message, path=source.name, field=query)
            continue
        ranking = _ranking(source.name, query, scores, problems)
        yield from joined_record(source.name, None, query, ranking, texts, queries, problems)


def _ranking(
    path: str, query: str, scores: Mapping[str, object], problems: Problems
) -> dict[str, float]:
    found: dict[str, float] = {}
    for document, given in scores.items():
        score = as_score(given)
        if score is None:
            message = f"expected a number as score, found {describe(given)}"
            problems.add(message, path=path, field=f"{query}.{document}")
        else:
            found[document] = score
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
