"""TREC: judgements (qrels), runs, and a folder of queries and judgements as cases.

Formats as trec_eval reads them: ``query iteration document grade`` and
``query Q0 document rank score tag``, separated by white space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ragbench.data.atomic import written_whole
from ragbench.data.problems import Problems
from ragbench.data.source import Source
from ragbench.data.text import decode_line, read_lines
from ragbench.errors import DataError, Problem

__all__ = ["Judgement", "read_judgements", "read_qrels", "read_run", "write_qrels", "write_run"]

_QRELS_EXPECTED = "expected 'query 0 document grade' or 'query document grade'"
_RUN_EXPECTED = "expected 'query Q0 document rank score tag'"


class Judgement(NamedTuple):
    """One judged document."""

    grade: int
    line: int


def read_qrels(source: str | Path) -> dict[str, dict[str, int]]:
    """Reads judgements: TREC's four columns, or BEIR's three with or without a header.

    Returns:
        Grade by document id, by query id, in the order of the file.

    Raises:
        DataError: a line is wrong; holds every wrong line.
    """
    problems = Problems()
    judged = read_judgements(Source.of(source), problems)
    problems.raise_if_any()
    return {query: {d: j.grade for d, j in found.items()} for query, found in judged.items()}


def read_judgements(source: Source, problems: Problems) -> dict[str, dict[str, Judgement]]:
    """As ``read_qrels``, with the line of each judgement, and noting what is wrong."""
    found: dict[str, dict[str, Judgement]] = {}
    for number, columns in _columns(source, problems):
        if len(columns) not in (3, 4):
            message = f"{_QRELS_EXPECTED}, found {len(columns)} columns"
            problems.add(message, path=source.name, line=number)
            continue
        query, document, written = columns[0], columns[-2], columns[-1]
        grade = _whole(written)
        if grade is None:
            if number > 1 or len(columns) == 4:
                message = f"expected a whole number as grade, found '{written[:40]}'"
                problems.add(message, path=source.name, line=number)
            continue
        earlier = found.setdefault(query, {}).setdefault(document, Judgement(grade, number))
        if earlier.grade != grade:
            message = f"'{document}' for query '{query}' has another grade at line {earlier.line}"
            problems.add(message, path=source.name, line=number)
    return found


def write_qrels(qrels: Mapping[str, Mapping[str, int]], path: str | Path) -> int:
    """Writes judgements in TREC's four columns, whole or not at all.

    Returns:
        How many lines were written.

    Raises:
        DataError: an id is empty or holds white space, which the format cannot express.
    """
    count = 0
    with written_whole(Path(path)) as out:
        for query, grades in qrels.items():
            for document, grade in grades.items():
                _check_ids(query, document, str(path))
                out.write(f"{query} 0 {document} {grade}\n".encode())
                count += 1
    return count


def read_run(source: str | Path) -> dict[str, dict[str, float]]:
    """Reads a run.

    Returns:
        Score by document id, best first, by query id. Ranks in the file are not used: as in
        trec_eval, the score decides; equal scores keep the order of the file.

    Raises:
        DataError: a line is wrong, or a document stands twice in one ranking; holds all of them.
    """
    problems = Problems()
    origin = Source.of(source)
    found: dict[str, dict[str, float]] = {}
    for number, columns in _columns(origin, problems):
        if len(columns) != 6:
            message = f"{_RUN_EXPECTED}, found {len(columns)} columns"
            problems.add(message, path=origin.name, line=number)
            continue
        query, document, written = columns[0], columns[2], columns[4]
        score = _number(written)
        ranking = found.setdefault(query, {})
        if score is None or document in ranking:
            message = (
                f"expected a number as score, found '{written[:40]}'"
                if score is None
                else f"document '{document}' stands twice in the ranking of query '{query}'"
            )
            problems.add(message, path=origin.name, line=number)
            continue
        ranking[document] = score
    problems.raise_if_any()
    return {
        query: dict(sorted(ranking.items(), key=lambda item: -item[1]))
        for query, ranking in found.items()
    }


def write_run(
    run: Mapping[str, Mapping[str, float]], path: str | Path, *, tag: str = "ragbench"
) -> int:
    """Writes a run, best score first (equal scores as given), ranks from 1, whole or not at all.

    Returns:
        How many lines were written.

    Raises:
        DataError: an id is empty or holds white space, or a score is not finite.
    """
    count = 0
    with written_whole(Path(path)) as out:
        for query, scores in run.items():
            ranking = sorted(scores.items(), key=lambda item: -item[1])
            for rank, (document, score) in enumerate(ranking, start=1):
                _check_ids(query, document, str(path))
                if _number(repr(float(score))) is None:
                    message = f"the score of '{document}' for query '{query}' is {score!r}"
                    raise DataError([Problem(message=message, path=str(path))])
                out.write(f"{query} Q0 {document} {rank} {float(score)!r} {tag}\n".encode())
                count += 1
    return count


def _columns(source: Source, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for line in read_lines(source, problems):
        text = decode_line(line, source.name, problems)
        # A tab separates when there is one: BEIR's ids may hold spaces.
        columns = [] if text is None else text.strip().split("\t" if "\t" in text else None)
        if any(columns):
            yield line.number, columns


def _whole(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number.is_integer() else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def _check_ids(query: str, document: str, path: str) -> None:
    for identifier in (query, document):
        if identifier.split() != [identifier]:
            message = f"a TREC file cannot hold the id '{identifier}': empty, or with white space"
            raise DataError([Problem(message=message, path=path)])
