from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case
from ragbench.errors import DataError, RunError, RunMismatchError
from ragbench.records.cells import Cell, Failure, Status
from ragbench.runs.fingerprint import text_digest
from ragbench.runs.journal import Journal, StoredOutcome

KEY = b"k" * 16
FAILURE = Failure(type="ValueError", message="no", stage="score", cause="E: x", traceback="lines")


def cases(*ids: str, query: str = "q") -> list[Case]:
    return [Case(id=name, query=f"{query} {name}") for name in ids]


def outcome(*texts: str, body: bytes = b"[]", status: Status = Status.MEASURED) -> StoredOutcome:
    digests = b"".join(text_digest(text) for text in texts)
    return StoredOutcome(status, digests, body, 0.5, b"d" * 16)


def pairs(*texts: str) -> list[tuple[bytes, str]]:
    return [(text_digest(text), text) for text in texts]


def ids(journal: Journal) -> list[str]:
    return [stored.case.id for window in journal.cases() for stored in window]


def numbers(journal: Journal) -> dict[str, int]:
    return {stored.case.id: stored.number for window in journal.cases() for stored in window}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


# --- cases


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_cases_come_back_in_order_in_windows(path: Path, window: int) -> None:
    given_ids = [f"c{n}" for n in range(7)]
    with Journal(path) as journal:
        assert journal.replace_cases(cases(*given_ids)) == 7
        windows = list(journal.cases(window=window))
    assert [stored.case.id for found in windows for stored in found] == given_ids
    assert all(len(found) == window for found in windows[:-1])


def test_more_cases_than_a_batch(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.replace_cases(Case(id=str(n), query="q") for n in range(1200)) == 1200
        assert ids(journal) == [str(n) for n in range(1200)]


def test_a_case_keeps_its_number_wherever_it_goes(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a", "b", "c"))
        before = numbers(journal)
        journal.replace_cases(cases("c", "d", "a"))
        after = numbers(journal)
        assert list(after) == ["c", "d", "a"]
        assert (after["a"], after["c"]) == (before["a"], before["c"])
        assert after["d"] not in before.values()
        journal.replace_cases(cases("b"))
        assert numbers(journal) == {"b": before["b"]}


def test_only_a_changed_case_has_another_digest(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a", "b"))
        before = list(journal.case_digests())
        journal.replace_cases([*cases("a"), *cases("b", query="changed")])
        after = list(journal.case_digests())
    assert before[0] == after[0]
    assert before[1] != after[1]


def failing() -> Iterator[Case]:
    yield from cases("x", "y")
    raise DataError([])


def test_cases_that_cannot_all_be_read_leave_the_old_ones(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a", "b"))
        with pytest.raises(DataError):
            journal.replace_cases(failing())
        assert ids(journal) == ["a", "b"]
    with Journal(path) as journal:
        assert ids(journal) == ["a", "b"]


@pytest.mark.parametrize("second", [1, 511, 512, 600])
def test_an_id_used_twice_is_told_and_leaves_the_old_cases(path: Path, second: int) -> None:
    doubled = [Case(id=f"n{n}", query="q") for n in range(second)] + cases("n0")
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
        with pytest.raises(DataError, match=rf"cases 1 and {second + 1} have the same id 'n0'"):
            journal.replace_cases(doubled)
        assert ids(journal) == ["a"]


@pytest.mark.parametrize(
    "case",
    [
        Case(id="\ud800", query="q"),
        Case(id="a", query="\ud800"),
        Case(id="a", query="q", tags=("\udfff",)),
    ],
)
def test_a_case_with_half_a_character_is_told(path: Path, case: Case) -> None:
    with Journal(path) as journal, pytest.raises(DataError, match=r"case 2 .* surrogate"):
        journal.replace_cases([Case(id="good", query="q"), case])


def test_metadata_of_a_case_may_hold_anything(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases([Case(id="a", query="q", metadata={"big": 2**70})])
        ((stored,),) = journal.cases()
    assert stored.case.metadata == {"big": str(2**70)}


# --- outcomes


def test_outcomes_are_found_by_stage_case_and_key(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.was_empty
        journal.record_outcome(1, "retrieve", KEY, outcome("ctx"), pairs("ctx"))
        journal.record_outcome(2, "retrieve", KEY, outcome(status=Status.FAILED))
        journal.record_outcome(1, "generate", KEY, outcome(body=b'["a"]'))
    with Journal(path) as journal:
        assert not journal.was_empty
        assert journal.outcomes("retrieve", [1, 2, 3]) == {
            (1, KEY): outcome("ctx"),
            (2, KEY): outcome(status=Status.FAILED),
        }
        assert journal.outcomes("generate", [1]) == {(1, KEY): outcome(body=b'["a"]')}
        assert journal.outcomes("retrieve", []) == {}


def test_what_is_recorded_can_be_read_before_it_is_flushed(path: Path) -> None:
    with Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, outcome("ctx"), pairs("ctx"))
        journal.record_cells([(1, "m v1", KEY, Cell.measured(1.0))])
        assert journal.outcomes("retrieve", [1])
        assert journal.texts(text_digest("ctx")) == ["ctx"]
        assert journal.cells([1])


def test_only_flushed_outcomes_are_seen_by_others(path: Path) -> None:
    with Journal(path) as journal, sqlite3.connect(path) as reader:
        journal.record_outcome(1, "retrieve", KEY, outcome())
        assert reader.execute("SELECT count(*) FROM outcomes").fetchone() == (0,)
        journal.flush()
        assert reader.execute("SELECT count(*) FROM outcomes").fetchone() == (1,)
    reader.close()


def test_a_later_outcome_replaces_the_earlier(path: Path) -> None:
    with Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, outcome(status=Status.FAILED))
        journal.record_outcome(1, "retrieve", KEY, outcome(body=b'["new"]'))
        assert journal.outcomes("retrieve", [1])[1, KEY].body == b'["new"]'


def test_a_text_is_stored_once(path: Path) -> None:
    for _ in range(2):
        with Journal(path) as journal:
            for number in range(5):
                found = outcome("shared", f"own {number}")
                journal.record_outcome(
                    number, "retrieve", KEY, found, pairs("shared", f"own {number}")
                )
            assert journal.texts(outcome("own 3", "shared", "shared").texts) == [
                "own 3",
                "shared",
                "shared",
            ]
    with sqlite3.connect(path) as reader:
        assert reader.execute("SELECT count(*) FROM texts").fetchone() == (6,)
    reader.close()


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_texts_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    with Journal(tmp_path_factory.mktemp("journal") / "j.sqlite") as journal:
        journal.record_outcome(1, "retrieve", KEY, outcome(*texts), pairs(*texts))
        assert journal.texts(outcome(*texts).texts) == texts


def test_a_lost_text_is_told(path: Path) -> None:
    with Journal(path) as journal, pytest.raises(RunMismatchError, match="lacks a context text"):
        journal.texts(text_digest("never stored"))


# --- cells


@pytest.mark.parametrize(
    "cell",
    [
        Cell.measured(0.1 + 0.2),
        Cell.measured(-0.0),
        Cell.measured(5e-324),
        Cell.skipped("no reference"),
        Cell.abstained("declined"),
        Cell.failed(FAILURE),
    ],
)
def test_cells_come_back_as_they_were(path: Path, cell: Cell) -> None:
    with Journal(path) as journal:
        journal.record_cells([(1, "recall@5 v1", KEY, cell), (2, "recall@5 v1", KEY, cell)])
    with Journal(path) as journal:
        assert journal.cells([1]) == {(1, "recall@5 v1", KEY): cell}


def test_a_stage_failure_in_a_cell_keeps_no_second_traceback(path: Path) -> None:
    failure = Failure(type="E", message="m", stage="retrieve", traceback="lines")
    with Journal(path) as journal:
        journal.record_cells([(1, "m v1", KEY, Cell.failed(failure))])
        (cell,) = journal.cells([1]).values()
    assert cell.failure == Failure(type="E", message="m", stage="retrieve")


# --- the file


def test_a_file_of_another_kind_is_refused(path: Path) -> None:
    path.write_text("name,value\n" * 500, encoding="utf-8")
    with pytest.raises(RunMismatchError, match=r"journal\.sqlite is not a journal of ragbench"):
        Journal(path)
    assert path.read_text(encoding="utf-8").startswith("name,value")


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(RunMismatchError, match="something else wrote it"):
        Journal(path)
    assert path.read_bytes() == before


def test_another_version_is_refused(path: Path) -> None:
    Journal(path).__exit__(None, None, None)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(RunMismatchError, match=r"journal version 99.*--fresh"):
        Journal(path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="cannot be opened"):
        Journal(tmp_path / "missing" / "journal.sqlite")


def test_a_cut_file_is_refused_when_it_is_read(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(Case(id=str(n), query="q" * 500) for n in range(200))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError), Journal(path) as journal:
        list(journal.cases())


def test_a_full_disk_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a"))
    real: Callable[..., sqlite3.Connection] = sqlite3.connect

    def small(file: Path, **options: Any) -> sqlite3.Connection:
        db = real(file, **options)
        db.execute("PRAGMA max_page_count=20")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    with (
        pytest.raises(RunError, match=r"journal\.sqlite cannot be used: .*full"),
        Journal(path) as journal,
    ):
        journal.record_outcome(1, "retrieve", KEY, outcome("x" * 10**6), pairs("x" * 10**6))
    monkeypatch.undo()
    with Journal(path) as journal:
        assert ids(journal) == ["a"]
        assert journal.was_empty


def test_what_was_recorded_before_an_error_is_kept(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Journal(path) as journal:
        journal.record_outcome(1, "retrieve", KEY, outcome())
        raise KeyboardInterrupt
    with Journal(path) as journal:
        assert journal.outcomes("retrieve", [1])
