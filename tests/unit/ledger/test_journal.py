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
FAILURE = Failure(type="ValueError", message="no", stage="score", cause="E: x", traceback="lines")


def cases(*ids: str, query: str = "q") -> list[Case]:
    return [Case(id=name, query=f"{query} {name}") for name in ids]


ASKED: Outcome[Any] = Outcome(status=Status.MEASURED, value="any", seconds=0.5)


def encoded(*texts: str) -> Encoded:
    digests = [*map(text_digest, texts)]
    return Encoded([*texts], digests, b"".join(digests), b"[]", b"d" * 16)


def ids(journal: Journal) -> list[str]:
    return [stored.case.id for window in journal.cases() for stored in window]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


# --- cases


@pytest.mark.parametrize("second", [1, 511, 512, 600])
def test_an_id_used_twice_is_reported_and_leaves_the_old_cases(path: Path, second: int) -> None:
    doubled = [Case(id=f"n{n}", query="q") for n in range(second)] + cases("n0")
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
        with pytest.raises(DataError, match=rf"cases 1 and {second + 1} have the same id 'n0'"):
            journal.replace_cases(doubled)
        assert ids(journal) == ["a"]


@pytest.mark.parametrize("facts", [{"id": "\ud800"}, {"query": "\ud800"}, {"tags": ("\udfff",)}])
def test_a_case_with_half_a_character_is_reported(path: Path, facts: dict[str, Any]) -> None:
    case = replace(Case(id="a", query="q"), **facts)
    with Journal(path) as journal, pytest.raises(DataError, match=r"case 2 .* surrogate"):
        journal.replace_cases([Case(id="good", query="q"), case])


def test_of_cases_that_are_refused_no_recorded_outcome_stays(path: Path) -> None:
    entries = [
        Entry(case=case, recorded={"generate": replace(ASKED, value=GenerationResult(text))})
        for case, text in zip(cases("x", "y"), "a\ud800", strict=True)
    ]
    with Journal(path) as journal, pytest.raises(ValueError, match="surrogate"):
        journal.replace_cases(entries)
    with Journal(path) as journal:
        assert journal.is_empty()


def test_a_report_is_of_the_cases_that_are_there(path: Path) -> None:
    def failing() -> Iterator[Case]:
        yield from cases("x", "y")
        raise DataError([])

    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
        journal.runs.begin(b"setting")
        journal.runs.complete(b"{}")
        with pytest.raises(DataError):
            journal.replace_cases(failing())
        assert journal.runs.report() == b"{}"
        journal.replace_cases(cases("b"))
        assert journal.runs.report() is None


# --- outcomes


def test_a_text_is_stored_once(path: Path) -> None:
    for _ in range(2):
        with Journal(path) as journal:
            for number in range(5):
                found = encoded(f"own {number}", "shared", "shared")
                journal.record_outcome(number, "retrieve", KEY, ASKED, found)
            stored = journal.outcomes("retrieve", range(5))[3, KEY]
            assert journal.texts(stored) == ["own 3", "shared", "shared"]
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT count(*) FROM texts").fetchone() == (6,)


# --- cells


@pytest.mark.parametrize(
    "cell",
    [
        *map(Cell.measured, (0.1 + 0.2, -0.0, 5e-324)),
        Cell.skipped("no reference"),
        Cell.abstained("declined"),
        Cell.failed(FAILURE),
    ],
)
def test_cells_come_back_as_they_were(path: Path, cell: Cell) -> None:
    line = CaseCells(KEY, b"a" * 16, [cell])
    with Journal(path) as journal:
        assert journal.scores.numbers([("recall@5 v1", b"", "recall@5")]) == [0]
        journal.scores.record(1, line)
        journal.scores.record(2, line)
    with Journal(path) as journal:
        assert journal.scores.cells([1]) == {1: line}


def test_more_metrics_than_a_table_bears_are_refused(path: Path) -> None:
    with Journal(path) as journal, pytest.raises(ConfigError, match="at most 400 metrics"):
        journal.scores.numbers([(f"m{n} v1", b"", f"m{n}") for n in range(401)])


def test_a_stage_failure_in_a_cell_keeps_no_second_traceback(path: Path) -> None:
    failure = replace(FAILURE, stage="retrieve")
    with Journal(path) as journal:
        journal.scores.numbers([("m v1", b"", "m")])
        journal.scores.record(1, CaseCells(KEY, KEY, [Cell.failed(failure)]))
        (cell,) = journal.scores.cells([1])[1].cells
    assert cell == Cell.failed(replace(failure, traceback=None))


# --- the file


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(RunMismatchError, match="something else wrote it"):
        Journal(path)
    assert path.read_bytes() == before


def test_another_version_is_refused(path: Path) -> None:
    Journal(path).__exit__(None, None, None)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(RunMismatchError, match=r"journal version 99.*--fresh"):
        Journal(path)


def test_a_cut_file_is_refused_when_it_is_read(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(Case(id=str(n), query="q" * 500) for n in range(200))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError), Journal(path) as journal:
        list(journal.cases())


def test_a_full_disk_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
    real: Callable[..., sqlite3.Connection] = sqlite3.connect

    def small(file: Path, **options: Any) -> sqlite3.Connection:
        db = real(file, **options)
        db.execute("PRAGMA max_page_count=20")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    full = pytest.raises(RunError, match=r"journal\.sqlite cannot be used: .*full")
    with full, Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, ASKED, encoded("x" * 10**6))
    monkeypatch.undo()
    with Journal(path) as journal:
        assert ids(journal) == ["a"] and journal.was_empty
