"""The journal keeps what it got, refuses what it cannot keep, and leaves foreign files alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, Cell, Failure, GenerationResult, Outcome, Status
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError, RunError, RunMismatchError
from ragbench.ledger.codec import Encoded
from ragbench.ledger.fingerprint import text_digest
from ragbench.ledger.journal import Journal
from ragbench.ledger.tables import CaseCells

KEY = b"k" * 16
FAILURE = Failure(
    type="ValueError",
    message="no",
    stage="score",
    cause="E: x",
    traceback="lines",
)


def cases(*case_ids: str) -> list[Case]:
    return [Case(id=case_id, query=f"q {case_id}") for case_id in case_ids]


ASKED: Outcome[Any] = Outcome(status=Status.MEASURED, value="any", seconds=0.5)


def encoded(*texts: str) -> Encoded:
    """An outcome with these texts."""
    digests = [text_digest(text) for text in texts]
    return Encoded(list(texts), digests, b"".join(digests), b"[]", b"d" * 16)


def ids(journal: Journal) -> list[str]:
    """Of the cases that a journal has."""
    case_ids: list[str] = []
    for window in journal.cases():
        case_ids += [run_case.case.id for run_case in window]
    return case_ids


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


# --- cases


def first_id_twice(unique: int) -> list[Case]:
    """So many cases n0, n1, ..., and a last one that is called n0 again."""
    unique_ids = [f"n{number}" for number in range(unique)]
    return cases(*unique_ids, "n0")


# Cases are placed in windows of 512: the second of the two may be in the same or a later one.
@pytest.mark.parametrize("unique", [1, 511, 512, 600])
def test_an_id_used_twice_is_reported_with_both_positions(path: Path, unique: int) -> None:
    repeated = first_id_twice(unique)

    message = rf"cases 1 and {unique + 1} have the same id 'n0'"
    with Journal(path) as journal, pytest.raises(DataError, match=message):
        journal.replace_cases(repeated)


@pytest.mark.parametrize("unique", [1, 600], ids=["in a window", "in a later window"])
def test_cases_that_are_refused_leave_the_old_cases(path: Path, unique: int) -> None:
    repeated = first_id_twice(unique)
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))

        with pytest.raises(DataError):
            journal.replace_cases(repeated)

        assert ids(journal) == ["a"]


@pytest.mark.parametrize(
    "half_a_character",
    [
        pytest.param({"id": "\ud800"}, id="the id"),
        pytest.param({"query": "\ud800"}, id="the query"),
        pytest.param({"tags": ("\udfff",)}, id="a tag"),
    ],
)
def test_a_case_with_half_a_character_is_reported(
    path: Path, half_a_character: dict[str, Any]
) -> None:
    good = Case(id="good", query="q")
    broken = replace(Case(id="a", query="q"), **half_a_character)

    with Journal(path) as journal, pytest.raises(DataError, match=r"case 2 .* surrogate"):
        journal.replace_cases([good, broken])


def recorded_answer(case_id: str, answer: str) -> Entry:
    outcome = replace(ASKED, value=GenerationResult(answer))
    return Entry(case=Case(id=case_id, query="q"), recorded={"generate": outcome})


def test_of_cases_that_are_refused_no_recorded_outcome_stays(path: Path) -> None:
    entries = [recorded_answer("x", "a"), recorded_answer("y", "\ud800")]

    with Journal(path) as journal, pytest.raises(ValueError, match="surrogate"):
        journal.replace_cases(entries)

    with Journal(path) as journal:
        assert journal.is_empty()


# --- the report


def store_report(journal: Journal) -> None:
    journal.replace_cases(cases("a"))
    journal.runs.begin(b"setting")
    journal.runs.complete(b"{}")


def test_cases_that_cannot_be_read_leave_the_report(path: Path) -> None:
    def unreadable() -> Iterator[Case]:
        yield from cases("x", "y")
        raise DataError([])

    with Journal(path) as journal:
        store_report(journal)

        with pytest.raises(DataError):
            journal.replace_cases(unreadable())

        assert journal.runs.report() == b"{}"


def test_new_cases_remove_the_report_of_the_old_ones(path: Path) -> None:
    with Journal(path) as journal:
        store_report(journal)

        journal.replace_cases(cases("b"))

        assert journal.runs.report() is None


# --- outcomes


def record_five_outcomes(journal: Journal) -> None:
    """Each with a text of its own, and twice with a text that all share."""
    for number in range(5):
        texts = encoded(f"own {number}", "shared", "shared")
        journal.record_outcome(number, "retrieve", KEY, ASKED, texts)


def test_the_texts_of_an_outcome_come_back_in_order(path: Path) -> None:
    with Journal(path) as journal:
        record_five_outcomes(journal)

    with Journal(path) as journal:
        outcomes = journal.outcomes("retrieve", range(5))
        outcome = outcomes[3, KEY]
        assert journal.texts(outcome) == ["own 3", "shared", "shared"]


def test_a_text_is_stored_once(path: Path) -> None:
    with Journal(path) as journal:
        record_five_outcomes(journal)
    with Journal(path) as journal:
        record_five_outcomes(journal)

    with closing(sqlite3.connect(path)) as database:
        (count,) = database.execute("SELECT count(*) FROM texts").fetchone()
    # Five of their own, and the shared one.
    assert count == 6


# --- cells


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(Cell.measured(0.1 + 0.2), id="a rounded sum"),
        pytest.param(Cell.measured(-0.0), id="a negative zero"),
        pytest.param(Cell.measured(5e-324), id="the smallest number"),
        pytest.param(Cell.skipped("no reference"), id="skipped"),
        pytest.param(Cell.abstained("declined"), id="abstained"),
        pytest.param(Cell.failed(FAILURE), id="failed"),
    ],
)
def test_cells_come_back_as_they_were(path: Path, cell: Cell) -> None:
    cells = CaseCells(KEY, b"a" * 16, [cell])
    with Journal(path) as journal:
        journal.scores.numbers([("recall@5 v1", b"", "recall@5")])
        journal.scores.record(1, cells)
        journal.scores.record(2, cells)

    with Journal(path) as journal:
        assert journal.scores.cells([1]) == {1: cells}


def test_a_stage_failure_in_a_cell_keeps_no_second_traceback(path: Path) -> None:
    failure = replace(FAILURE, stage="retrieve")
    cells = CaseCells(KEY, KEY, [Cell.failed(failure)])
    with Journal(path) as journal:
        journal.scores.numbers([("m v1", b"", "m")])
        journal.scores.record(1, cells)

        (cell,) = journal.scores.cells([1])[1].cells

    assert cell == Cell.failed(replace(failure, traceback=None))


def test_metrics_are_numbered_from_zero(path: Path) -> None:
    metrics = [
        ("recall@5 v1", b"", "recall@5"),
        ("mrr v1", b"", "mrr"),
    ]

    with Journal(path) as journal:
        numbers = journal.scores.numbers(metrics)

    assert numbers == [0, 1]


def test_more_metrics_than_a_table_bears_are_refused(path: Path) -> None:
    metrics = [(f"m{number} v1", b"", f"m{number}") for number in range(401)]

    with Journal(path) as journal, pytest.raises(ConfigError, match="at most 400 metrics"):
        journal.scores.numbers(metrics)


# --- the file


@pytest.fixture(name="foreign")
def database_of_another_program(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE theirs (x)")
    return path


def test_a_database_of_another_program_is_refused(foreign: Path) -> None:
    with pytest.raises(RunMismatchError, match="something else wrote it"):
        Journal(foreign)


def test_a_database_of_another_program_is_left_alone(foreign: Path) -> None:
    content = foreign.read_bytes()

    with pytest.raises(RunMismatchError):
        Journal(foreign)

    assert foreign.read_bytes() == content


def test_another_version_is_refused(path: Path) -> None:
    with Journal(path):
        pass
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version=99")

    with pytest.raises(RunMismatchError, match=r"journal version 99.*--fresh"):
        Journal(path)


def test_a_cut_file_is_refused_when_it_is_read(path: Path) -> None:
    long_cases = [Case(id=str(number), query="q" * 500) for number in range(200)]
    with Journal(path) as journal:
        journal.replace_cases(long_cases)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])

    with pytest.raises(RunError), Journal(path) as journal:
        list(journal.cases())


@pytest.fixture(name="full_disk")
def journal_that_cannot_grow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal with the case "a", whose file may not grow beyond 20 pages from now on."""
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect_small(file: Path, **options: Any) -> sqlite3.Connection:
        database = connect(file, **options)
        database.execute("PRAGMA max_page_count=20")
        return database

    monkeypatch.setattr(sqlite3, "connect", connect_small)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_reported(path: Path) -> None:
    message = r"journal\.sqlite cannot be used: .*full"

    with pytest.raises(RunError, match=message), Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, ASKED, encoded("x" * 10**6))


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_loses_nothing_that_was_stored(path: Path) -> None:
    with pytest.raises(RunError), Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, ASKED, encoded("x" * 10**6))

    with Journal(path) as journal:
        assert ids(journal) == ["a"]
        assert journal.was_empty


# --- damage


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE cases SET body = x'ff'", "not valid UTF-8"),
        ("UPDATE cases SET body = '[]'", "it lacks"),
        ("UPDATE runs SET notes = '{'", "unexpected end"),
        ("DROP TABLE metrics", "no such table"),
    ],
)
def test_a_damaged_journal_names_itself_and_the_ways_on(
    path: Path, statement: str, words: str
) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
        journal.runs.begin(b"setting")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)

    with pytest.raises(RunMismatchError) as refused, Journal(path) as journal:
        ids(journal)

    message = str(refused.value)
    assert message.startswith(f"{path} is damaged: ")
    assert words in message
    assert message.endswith(
        "Nothing that it holds was overwritten. Restore the file from a copy, or use --fresh to "
        "start over"
    )
