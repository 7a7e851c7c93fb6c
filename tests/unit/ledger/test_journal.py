from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.outcome import Cell, Failure, Known, Outcome, Status
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError, RunError, RunMismatchError
from ragbench.ledger.cells import CaseCells
from ragbench.ledger.fingerprint import text_digest
from ragbench.ledger.journal import Journal, StoredOutcome

KEY = b"k" * 16
FAILURE = Failure(type="ValueError", message="no", stage="score", cause="E: x", traceback="lines")


def cases(*ids: str, query: str = "q") -> list[Case]:
    return [Case(id=name, query=f"{query} {name}") for name in ids]


def outcome(*texts: str, body: bytes = b"[]", status: Status = Status.MEASURED) -> StoredOutcome:
    digests = b"".join(text_digest(text) for text in texts)
    return StoredOutcome(KEY, status, Known.ASKED, digests, body, 0.5, 1, b"d" * 16)


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
        journal.record_outcome(1, "retrieve", outcome("ctx"), pairs("ctx"))
        journal.record_outcome(2, "retrieve", outcome(status=Status.FAILED))
        journal.record_outcome(1, "generate", outcome(body=b'["a"]'))
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
        journal.record_outcome(1, "retrieve", outcome("ctx"), pairs("ctx"))
        journal.scores.numbers([("m v1", b"", "m")])
        journal.scores.record(1, CaseCells(KEY, KEY, [Cell.measured(1.0)]))
        assert journal.outcomes("retrieve", [1])
        assert journal.texts(text_digest("ctx")) == ["ctx"]
        assert journal.scores.cells([1])


def test_only_flushed_outcomes_are_seen_by_others(path: Path) -> None:
    with Journal(path) as journal, sqlite3.connect(path) as reader:
        journal.record_outcome(1, "retrieve", outcome())
        assert reader.execute("SELECT count(*) FROM outcomes").fetchone() == (0,)
        journal.flush()
        assert reader.execute("SELECT count(*) FROM outcomes").fetchone() == (1,)
    reader.close()


def test_a_run_that_nobody_will_continue_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal(None) as journal:
        journal.runs.begin(b"s" * 16)
        journal.record_outcome(1, "generate", outcome())
        assert journal.is_empty()
        assert journal.outcomes("generate", [1]) == {}
        journal.complete()
    assert list(tmp_path.iterdir()) == []


def test_an_outcome_makes_a_journal_one_that_is_not_empty(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.is_empty()
        journal.record_outcome(1, "generate", outcome())
        assert not journal.is_empty()
        journal.flush()
        assert not journal.is_empty()


def test_a_later_outcome_replaces_the_earlier(path: Path) -> None:
    with Journal(path) as journal:
        journal.record_outcome(1, "retrieve", outcome(status=Status.FAILED))
        journal.record_outcome(1, "retrieve", outcome(body=b'["new"]'))
        assert journal.outcomes("retrieve", [1])[1, KEY].body == b'["new"]'


def test_a_text_is_stored_once(path: Path) -> None:
    for _ in range(2):
        with Journal(path) as journal:
            for number in range(5):
                found = outcome("shared", f"own {number}")
                journal.record_outcome(number, "retrieve", found, pairs("shared", f"own {number}"))
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
        journal.record_outcome(1, "retrieve", outcome(*texts), pairs(*texts))
        assert journal.texts(outcome(*texts).texts) == texts


def test_a_lost_text_is_told(path: Path) -> None:
    with Journal(path) as journal, pytest.raises(RunMismatchError, match="lacks a context text"):
        journal.texts(text_digest("never stored"))


# --- runs and epochs


def test_an_interrupted_run_goes_on_and_a_finished_one_is_reused(path: Path) -> None:
    for expected in (Known.ASKED, Known.ASKED, Known.REUSED):
        with Journal(path) as journal:
            journal.runs.begin(b"setting", "2026-01-01T09:17:00")
            found = journal.outcomes("retrieve", [1])
            if not found:
                journal.record_outcome(1, "retrieve", outcome())
                continue  # the first run is interrupted
            assert journal.how(found[1, KEY]) is expected
            journal.complete()
    with Journal(path) as journal:
        assert journal.runs.started() == {1: "2026-01-01T09:17:00", 2: "2026-01-01T09:17:00"}


def test_what_another_setting_gave_is_not_shown_until_it_is_confirmed(path: Path) -> None:
    with Journal(path) as journal:
        journal.runs.begin(b"one", "")
        journal.record_outcome(1, "retrieve", outcome())
        journal.record_outcome(2, "retrieve", outcome())
        assert set(journal.valid_outcomes("retrieve", [1, 2])) == {1, 2}
    with Journal(path) as journal:
        journal.runs.begin(b"two", "")
        assert journal.valid_outcomes("retrieve", [1, 2]) == {}
        journal.confirm(2, "retrieve", journal.outcomes("retrieve", [2])[2, KEY])
        assert set(journal.valid_outcomes("retrieve", [1, 2])) == {2}


def test_of_two_outcomes_of_a_case_one_is_valid(path: Path) -> None:
    other = outcome(body=b'["other"]')._replace(key=b"o" * 16)
    with Journal(path) as journal:
        journal.runs.begin(b"setting", "")
        journal.record_outcome(1, "retrieve", outcome())
        journal.flush()
    with Journal(path) as journal:
        journal.runs.begin(b"setting", "")
        journal.record_outcome(1, "retrieve", other)
        assert journal.valid_outcomes("retrieve", [1])[1].body == other.body
        assert len(journal.outcomes("retrieve", [1])) == 2
        journal.confirm(1, "retrieve", journal.outcomes("retrieve", [1])[1, KEY])
        assert journal.valid_outcomes("retrieve", [1])[1].body == b"[]"


def test_recorded_outcomes_are_those_of_the_latest_cases(path: Path) -> None:
    answer = Outcome(status=Status.MEASURED, value=GenerationResult("Paris"), seconds=1.5)
    found = Outcome(status=Status.MEASURED, value=RetrievalResult(["one", "two"]))
    entry = Entry(case=Case(id="a", query="q"), recorded={"retrieve": found, "generate": answer})
    with Journal(path) as journal:
        journal.replace_cases([entry, Case(id="b", query="q")])
        assert journal.recorded_counts() == {"retrieve": 1, "generate": 1}
        (stored,) = journal.outcomes("retrieve", [1, 2]).values()
        assert stored.known is Known.RECORDED
        assert journal.texts(stored.texts) == ["one", "two"]
        assert journal.outcomes("generate", [1])[1, b""].seconds == 1.5
        journal.replace_cases([Case(id="a", query="q")])
        assert journal.recorded_counts() == {}


# --- views


def test_the_scores_can_be_read_with_sql(path: Path) -> None:
    with Journal(path) as journal:
        journal.replace_cases(cases("a", "b"))
        journal.runs.begin(b"setting", "")
        journal.scores.numbers([("it's v1", b"", "it's"), ("f1 v1", b"", "f1")])
        journal.scores.record(1, CaseCells(KEY, KEY, [Cell.measured(0.25), Cell.skipped("none")]))
    with sqlite3.connect(path) as reader:
        rows = reader.execute("SELECT * FROM scores ORDER BY metric").fetchall()
    reader.close()
    assert rows == [("a", "f1", "skipped", None, "none"), ("a", "it's", "measured", 0.25, None)]
    with Journal(path) as journal:
        journal.runs.begin(b"another setting", "")  # nothing was scored in it yet
    with sqlite3.connect(path) as reader:
        assert reader.execute("SELECT * FROM scores").fetchall() == []
    reader.close()


def test_chunks_can_be_read_with_sql(path: Path) -> None:
    found = RetrievalResult(["one", "two"], context_ids=["x", "y"], scores=[0.5, 0.25])
    outcomes = {"retrieve": Outcome(status=Status.MEASURED, value=found)}
    with Journal(path) as journal:
        journal.replace_cases([Entry(case=Case(id="a", query="q"), recorded=outcomes)])
        journal.runs.begin(b"setting", "")
        journal.confirm(1, "retrieve", journal.outcomes("retrieve", [1])[1, b""])
    with sqlite3.connect(path) as reader:
        rows = reader.execute("SELECT * FROM chunks ORDER BY rank").fetchall()
        stages = reader.execute("SELECT case_id, stage, status, known FROM outcomes_by_case")
        assert stages.fetchall() == [("a", "retrieve", "measured", "recorded")]
    reader.close()
    assert rows == [
        ("a", "retrieve", 1, "x", 0.5, "one"),
        ("a", "retrieve", 2, "y", 0.25, "two"),
    ]


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
    line = CaseCells(KEY, b"a" * 16, [cell])
    with Journal(path) as journal:
        assert journal.scores.numbers([("recall@5 v1", b"", "recall@5")]) == [0]
        journal.scores.record(1, line)
        journal.scores.record(2, line)
    with Journal(path) as journal:
        assert journal.scores.cells([1]) == {1: line}


def test_a_further_metric_leaves_the_cells_of_the_others(path: Path) -> None:
    with Journal(path) as journal:
        journal.scores.numbers([("a v1", b"", "a")])
        journal.scores.record(1, CaseCells(KEY, KEY, [Cell.measured(0.5)]))
    with Journal(path) as journal:
        wanted = [("b v1", b"", "b"), ("a v1", b"", "a"), ("a v1", b"judge", "a")]
        assert journal.scores.numbers(wanted) == [1, 0, 2]
        assert journal.scores.find([("a v1", b""), ("c v1", b"")]) == [0, None]
        assert journal.scores.cells([1])[1].cells == [Cell.measured(0.5), None, None]


def test_more_metrics_than_a_table_bears_are_refused(path: Path) -> None:
    with Journal(path) as journal, pytest.raises(ConfigError, match="at most 400 metrics"):
        journal.scores.numbers([(f"m{n} v1", b"", f"m{n}") for n in range(401)])


def test_a_stage_failure_in_a_cell_keeps_no_second_traceback(path: Path) -> None:
    failure = Failure(type="E", message="m", stage="retrieve", traceback="lines")
    with Journal(path) as journal:
        journal.scores.numbers([("m v1", b"", "m")])
        journal.scores.record(1, CaseCells(KEY, KEY, [Cell.failed(failure)]))
        (cell,) = journal.scores.cells([1])[1].cells
    assert cell is not None
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
        journal.record_outcome(1, "retrieve", outcome("x" * 10**6), pairs("x" * 10**6))
    monkeypatch.undo()
    with Journal(path) as journal:
        assert ids(journal) == ["a"]
        assert journal.was_empty


def test_what_was_recorded_before_an_error_is_kept(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Journal(path) as journal:
        journal.record_outcome(1, "retrieve", outcome())
        raise KeyboardInterrupt
    with Journal(path) as journal:
        assert journal.outcomes("retrieve", [1])
