"""TREC judgements and runs, there and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.io.trec import read_qrels, read_run, write_qrels, write_run

# Of each kind that could break a line or a number: quotes, signs, digits, other scripts, combining
# marks, beyond the basic plane.
ids = st.text("a7-.#\"'\\,ß€\u0301中\u0e33😀", min_size=1, max_size=4)
# One file that every example writes anew: a folder an example costs more than the example.
cheap = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_qrels_and_run(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("q1 0 a 2\nq1\t0\tb\t0\n", encoding="utf-8")
    assert read_qrels(path) == {"q1": {"a": 2, "b": 0}}
    path.write_text("q1 Q0 a 1 0.5 t\nq1 Q0 b 2 1e1 t\nq1 Q0 c 3 0.5 t\n", encoding="utf-8")
    assert list(read_run(path)["q1"].items()) == [("b", 10.0), ("a", 0.5), ("c", 0.5)]


def test_wrong_lines_are_all_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("q1 0 a\nq1 0 a x\nq1 0\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_qrels(path)
    assert [problem.line for problem in caught.value.problems] == [2, 3]
    path.write_text(
        "q Q0 a 1 x t\nq Q0 b 1 2 t\nq Q0 b 2 1 t\nq Q0 c\nq Q0 d 1 nan t\n", encoding="utf-8"
    )
    with pytest.raises(DataError) as caught:
        read_run(path)
    assert [problem.line for problem in caught.value.problems] == [1, 3, 4, 5]


@cheap
@given(
    st.dictionaries(
        ids, st.dictionaries(ids, st.integers(-2, 4), min_size=1, max_size=4), max_size=3
    )
)
def test_qrels_come_back(tmp_path: Path, qrels: dict[str, dict[str, int]]) -> None:
    path = tmp_path / "qrels.txt"
    assert write_qrels(qrels, path) == sum(map(len, qrels.values()))
    assert read_qrels(path) == qrels


@cheap
@given(
    st.dictionaries(
        ids,
        st.dictionaries(
            ids, st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4
        ),
        max_size=3,
    )
)
def test_runs_come_back(tmp_path: Path, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path / "run.txt"
    assert write_run(run, path, tag="mine") == sum(map(len, run.values()))
    assert read_run(path) == run
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(line[1] == "Q0" and line[5] == "mine" for line in lines)


def test_what_the_format_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot hold the id 'a b'"):
        write_qrels({"q": {"ok": 1, "a b": 1}}, tmp_path / "qrels.txt")
    with pytest.raises(DataError, match="cannot hold the id ''"):
        write_run({"": {"a": 1.0}}, tmp_path / "run.txt")
    with pytest.raises(DataError, match="is nan"):
        write_run({"q": {"a": float("nan")}}, tmp_path / "run.txt")
    assert list(tmp_path.iterdir()) == []
