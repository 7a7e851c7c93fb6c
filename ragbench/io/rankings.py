"""TREC runs and BEIR results, read: for each query its documents with their scores.

A run's line is ``query Q0 document rank score tag``; formats:
https://github.com/usnistgov/trec_eval. BEIR's results are an object of score by document by query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ragbench.io.dumps.form import is_object
from ragbench.io.ids import IdRegister
from ragbench.io.json_files import load
from ragbench.io.lines import decode_line, read_lines
from ragbench.io.source import Problems, Source
from ragbench.io.trec_run import TAG, unescape_id
from ragbench.io.values import as_score, describe

_EXPECTED = "expected 'query Q0 document rank score tag'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """What a file holds of a query."""

    query: str
    """The query's id; what ragbench escaped in its own runs is itself again."""
    line: int | None = None
    """Where it begins, from 1; None where the file has no lines."""
    scores: dict[str, float] = field(default_factory=dict[str, float])
    """Score by document, in the order of the file."""
    is_own: bool = False
    """Whether ragbench wrote it."""

    def ordered(self) -> list[str]:
        """Documents, best first, as trec_eval orders them; equal scores keep the file's order."""
        return sorted(self.scores, key=lambda document: -self.scores[document])


def read_run(source: Source, problems: Problems) -> Iterator[Ranking]:
    """Yields a ranking per query of a TREC run."""
    seen = IdRegister()
    held: Ranking | None = None
    for number, columns in _columns(source, problems):
        is_own = columns[5] == TAG
        plain = unescape_id if is_own else str
        query, document = plain(columns[0]), plain(columns[2])
        if held is None or query != held.query:
            if held is not None:
                yield held
            held = Ranking(query=query, line=number, is_own=is_own)
            earlier = seen.add(query, number)
            if earlier is not None:
                message = f"query '{query}' has lines at {earlier} already: sort the run by query"
                problems.add(message, path=source.name, line=number)
        if document in held.scores:
            message = f"document '{document}' appears twice in the ranking of query '{query}'"
            problems.add(message, path=source.name, line=number)
        held.scores.setdefault(document, float(columns[4]))
    if held is not None:
        yield held


def _columns(source: Source, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Line number and the six columns of each line; the score is a finite number."""
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        columns = [] if text is None else text.strip().split("\t" if "\t" in text else None)
        if not any(columns):
            continue
        if len(columns) == 6 and as_score(columns[4]) is not None:
            yield line.number, columns
            continue
        found = f"found {len(columns)} columns"
        if len(columns) == 6:
            found = f"found '{columns[4][:40]}' as score"
        problems.add(f"{_EXPECTED}, {found}", path=source.name, line=line.number)


def is_own_run(place: Source) -> bool:
    """Whether a run's tag says that ragbench wrote it: the ids in it are escaped."""
    first = next(_columns(replace(place), Problems()), None)
    return first is not None and first[1][5] == TAG


def is_beir_result(value: object) -> bool:
    """Whether a value is scores by document by query."""
    if not is_object(value) or not value:
        return False
    first = next(iter(value.values()))
    return is_object(first) and bool(first) and all(map(_is_number, first.values()))


def read_result(source: Source, problems: Problems) -> Iterator[Ranking]:
    """Yields a ranking per query of BEIR results; the whole file is loaded."""
    value = load(source, problems)
    if not is_object(value):
        if value is not None:
            message = f"expected an object of query, document and score, found {describe(value)}"
            problems.add(message, path=source.name)
        return
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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
