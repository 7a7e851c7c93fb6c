"""validate_dump(): what is judged, kept, continued and reused."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, open_dump, validate_dump
from ragbench.core.validation import Conflict, DumpSummary, EvidenceQuote, RetrievalQuality, Verdict
from ragbench.errors import (
    ConfigError,
    DataError,
    InterruptedRunError,
    LLMBudgetError,
    NoContextsError,
)
from ragbench.stages.flow import FIRST_CALLS
from ragbench.verbs.validate import ValidatedQuery
from tests.cli.runs import lines

QUERIES = 48


class Plain:
    """Says of each query what its first chunk says; writes down what it was asked."""

    name = "plain"

    def __init__(self, log: Path | None = None, identity: str = "1") -> None:
        self.log = log
        self.identity = identity

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{query}\n")
        if "raise" in query:
            raise ValueError(f"cannot read {query}")
        if "budget" in query:
            raise LLMBudgetError("no money is left")
        if "config" in query:
            raise ConfigError("the model is gone")
        chunk = chunks[0]
        quote = EvidenceQuote(chunk_id=chunk.id, start=0, end=4, text=chunk.text[:4])
        conflict = Conflict(kind="number", first=quote, second=quote, detail="12 against 14")
        return Verdict(
            query_id="",
            relevant_chunk_ids=(chunk.id,),
            validator=self.name,
            evidence=(quote,),
            relevance={chunk.id: 0.25 for chunk in chunks},
            answer_present=len(query) % 2 == 0,
            answer_probability=1 / 3,
            retrieval_quality=RetrievalQuality.PARTIAL,
            message=f"said of {query}",
            warnings=("I am not sure", "12 against 14"),
            conflicts=(conflict,),
            details={"seen": 1.0, "half": 0.5},
        )


def record(number: int, query: str = "") -> dict[str, Any]:
    """A line of a dump: a query with two chunks."""
    return {
        "query_id": f"q{number}",
        "query": query or f"what is number {number}",
        "chunks": [
            {"id": f"{number}-1", "text": f"text 1 of {number}."},
            {"id": f"{number}-2", "text": f"text 2 of {number}."},
        ],
    }


def records(count: int, queries: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """So many lines of a dump; those of these numbers have other queries."""
    queries = queries or {}
    return [record(number, queries.get(number, "")) for number in range(count)]


def dump_of(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return Path(lines(folder / "dump.jsonl", rows))


def judge(path: Path, make: Callable[[], Plain], **options: Any) -> DumpSummary:
    with open_dump(path) as dump:
        return validate_dump(dump, make, **options)


def logged_queries(log: Path) -> list[str]:
    """The queries that a validator was asked."""
    return log.read_text("utf-8").splitlines() if log.exists() else []


def killed_after(count: int, path: Path, out: Path, workers: int) -> None:
    """Runs in a process that SIGKILL ends when so many verdicts have been emitted."""
    seen = 0

    def emit(_: ValidatedQuery) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            judge(path, Plain, out=out, emit=emit, workers=workers)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
@settings(max_examples=12, deadline=None)
@given(kills=st.lists(st.integers(1, QUERIES), min_size=1, max_size=3), workers=st.integers(1, 2))
def test_kills_after_any_number_of_verdicts_change_no_byte(kills: list[int], workers: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump = dump_of(folder, records(QUERIES, {7: "raise it"}))
        whole = folder / "whole.jsonl"
        whole_summary = judge(dump, Plain, out=whole)
        out = folder / "v.jsonl"

        for count in kills:
            killed_after(count, dump, out, workers)
            assert not out.exists()

        assert judge(dump, Plain, out=out) == whole_summary
        assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("threads", [1, 4])
def test_what_was_answered_before_the_money_ran_out_is_kept(tmp_path: Path, threads: int) -> None:
    dump = dump_of(tmp_path, records(QUERIES, {20: "budget"}))
    log = tmp_path / "log"
    out = tmp_path / "v.jsonl"

    with pytest.raises(LLMBudgetError, match="no money is left"):
        judge(dump, partial(Plain, log), out=out, threads=threads)
    answered = set(logged_queries(log)) - {"budget"}
    assert len(answered) >= 20

    log.unlink()
    with pytest.raises(LLMBudgetError):
        judge(dump, partial(Plain, log), out=out, threads=threads)
    assert not set(logged_queries(log)) & answered


def test_what_every_query_would_fail_of_ends_the_run(tmp_path: Path) -> None:
    dump = dump_of(tmp_path, [record(1), record(2, "config"), record(3)])
    out = tmp_path / "v.jsonl"

    with pytest.raises(ConfigError, match="the model is gone"):
        judge(dump, Plain, out=out)

    assert not out.exists()


def test_a_validator_that_inspects_nothing_is_given_the_warnings(tmp_path: Path) -> None:
    """Ours inspect the chunks themselves; what another package says is its own."""
    faulty_record = record(1)
    faulty_record["chunks"][1]["text"] = ""
    faulty_record["chunks"].append(17)
    dump = dump_of(tmp_path, [record(0), faulty_record])
    verdicts: list[ValidatedQuery] = []

    summary = judge(dump, Plain, emit=verdicts.append)

    own_warnings = ["conflict: 12 against 14", "validator: I am not sure"]
    assert json.loads(verdicts[0].line)["warnings"] == own_warnings
    malformed, empty, *from_validator = json.loads(verdicts[1].line)["warnings"]
    assert malformed.startswith("malformed_chunk: 1 chunk left out: expected text or an object")
    assert empty.startswith("empty_text: 1 chunk without text")
    assert from_validator == own_warnings
    counts = {warning.kind: (warning.queries, warning.chunks) for warning in summary.warnings}
    assert counts == {
        "conflict": (2, 2),
        "validator": (2, 2),
        "malformed_chunk": (1, 1),
        "empty_text": (1, 1),
    }
    assert summary.details == {"half": 1.0, "seen": 2.0}
    assert (summary.chunks, summary.relevant_chunks) == (4, 2)


# --- a validator that waits for a service

PATIENCE = 20.0
"""Seconds after which a call that waits for another one fails: the two never met."""


class Waiting(Plain):
    """Answers the first queries only when so many of them are in flight."""

    name = "waiting"
    bears_calls = True

    def __init__(self, together: int) -> None:
        super().__init__()
        self.together = together
        self.meeting = threading.Barrier(together)
        self.threads: set[int] = set()

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.threads.add(threading.get_ident())
        if int(query.rpartition(" ")[2]) < self.together:
            self.meeting.wait(PATIENCE)
        return super().validate(query, chunks)


class FirstIsLast(Plain):
    """Answers the first query once the last one was answered."""

    name = "plain"
    bears_calls = True

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        if query == "what is number 0":
            assert self.is_over.wait(PATIENCE)
        if query == f"what is number {QUERIES - 1}":
            self.is_over.set()
        return super().validate(query, chunks)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return dump_of(tmp_path, records(QUERIES))


@pytest.mark.parametrize(("threads", "together"), [(None, FIRST_CALLS), (7, 7)])
def test_queries_are_judged_together_by_a_validator_that_waits(
    dump: Path, threads: int | None, together: int
) -> None:
    summary = judge(dump, partial(Waiting, together), threads=threads)

    assert (summary.queries, summary.failed) == (QUERIES, 0)


def test_a_validator_that_waits_needs_no_processes(dump: Path) -> None:
    summary = judge(dump, partial(Waiting, FIRST_CALLS), workers=None)

    assert (summary.queries, summary.failed) == (QUERIES, 0)


def test_a_validator_that_says_nothing_of_threads_is_called_in_that_of_its_caller(
    dump: Path,
) -> None:
    validator = Waiting(1)
    validator.bears_calls = False

    judge(dump, lambda: validator)

    assert validator.threads == {threading.get_ident()}


@pytest.mark.parametrize("is_stored", [True, False])
def test_verdicts_are_in_the_order_of_the_dump_whichever_comes_first(
    dump: Path, tmp_path: Path, is_stored: bool
) -> None:
    expected: list[ValidatedQuery] = []
    judge(dump, Plain, emit=expected.append)
    verdicts: list[ValidatedQuery] = []
    out = tmp_path / "v.jsonl" if is_stored else None

    judge(dump, FirstIsLast, out=out, emit=verdicts.append)

    assert [verdict.line for verdict in verdicts] == [verdict.line for verdict in expected]


def test_a_validator_that_misses_contexts_fails_for_that_query_alone(tmp_path: Path) -> None:
    class Missing(Plain):
        def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
            if query == "nothing":
                raise NoContextsError
            return super().validate(query, chunks)

    dump = dump_of(tmp_path, [record(1), record(2, "nothing")])

    summary = judge(dump, Missing)

    assert (summary.queries, summary.failed) == (1, 1)


def test_each_of_two_equal_queries_has_its_verdict(tmp_path: Path) -> None:
    a = record(1) | {"query_id": "a"}
    b = record(1) | {"query_id": "b"}
    dump = dump_of(tmp_path, [a, b])
    verdicts: list[ValidatedQuery] = []

    judge(dump, Plain, threads=2, out=tmp_path / "v.jsonl", emit=verdicts.append)

    assert [verdict.query_id for verdict in verdicts] == ["a", "b"]


# --- a dump that workers read

FAR = 90


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """With a query that the validator fails on, a label, sources, and lines that are no queries."""
    rows = records(FAR, {40: "raise 40"})
    for row in rows:
        labelled, empty = row["chunks"]
        labelled["metadata"] = {"source": "a.pdf", "more": [row["query_id"]]}
        empty["text"] = ""
    texts = [json.dumps(row) for row in rows]
    no_queries = ["", "{", '{"chunks": ["of nobody"]}']
    path = tmp_path / "dump.jsonl"
    path.write_text("\n".join([*texts[:50], *no_queries, *texts[50:]]), "utf-8")
    return path


def far(path: Path, make: Callable[[], Any], *, piece: int = 700, **options: Any) -> DumpSummary:
    """Judged by two workers that read it in pieces."""
    with open_dump(path.as_uri()) as dump:
        assert dump.split is not None
        dump.split = replace(dump.split, piece=piece)
        return validate_dump(dump, make, engine="processes", workers=2, **options)


def near(path: Path, make: Callable[[], Any], **options: Any) -> DumpSummary:
    """Judged by this process, which reads it."""
    with open_dump(path.as_uri()) as dump:
        return validate_dump(dump, make, engine="local", **options)


def test_bytes_summary_and_order_are_those_of_one_process(faulty: Path, tmp_path: Path) -> None:
    near_file = tmp_path / "near.jsonl"
    verdicts: list[ValidatedQuery] = []

    summary = near(faulty, Plain, out=near_file)
    for piece in (60, 1 << 20):
        out = tmp_path / f"far-{piece}.jsonl"
        assert far(faulty, Plain, piece=piece, out=out, emit=verdicts.append) == summary
        assert out.read_bytes() == near_file.read_bytes()

    query_ids = [verdict.query_id for verdict in verdicts]
    assert query_ids[:FAR] == [f"q{number}" for number in range(FAR)]
    # The same where nothing is kept.
    assert far(faulty, Plain, piece=60) == near(faulty, Plain) == summary
    assert (summary.failed, summary.malformed) == (1, 2)
    # The warnings of a query without a verdict are read in its texts, which are far away.
    failed = json.loads(near_file.read_text("utf-8").splitlines()[40])
    assert any("empty_text" in warning for warning in failed["warnings"])


def other_bytes(faulty: Path) -> None:
    faulty.write_bytes(faulty.read_bytes().replace(b"text 1 of", b"TEXT 1 of"))


def grown(faulty: Path) -> None:
    with faulty.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(record(FAR)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_bytes, "it has changed since the command began to read it"),
        (grown, "it has changed since the command began to read it"),
        pytest.param(
            Path.unlink, "a worker cannot read it: there is no such file", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_dump_that_changes_under_the_command_is_one_error_and_the_next_command_goes_on(
    faulty: Path, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    out = tmp_path / "v.jsonl"
    log = tmp_path / "log"

    def emit(judged: ValidatedQuery) -> None:
        if judged.query_id == "q0" and faulty.exists():
            change(faulty)

    with pytest.raises(DataError, match=said):
        far(faulty, partial(Plain, log), out=out, emit=emit)

    assert not out.exists()
    if change is grown:
        log.unlink()
        summary = far(faulty, partial(Plain, log), out=out)
        assert summary.queries == FAR
        assert sorted(logged_queries(log)) == ["raise 40", "what is number 90"]


class Interrupted(Plain):
    """The second Ctrl-C comes while a query is judged."""

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        if query.endswith("3"):
            raise KeyboardInterrupt
        return super().validate(query, chunks)


def test_a_stop_that_does_not_wait_for_calls_says_what_is_kept(tmp_path: Path) -> None:
    dump = dump_of(tmp_path, records(5))
    requests = iter([False, False, False])

    with pytest.raises(InterruptedRunError, match=r"finished queries are stored in .*journal"):
        validate_dump(
            dump,
            Interrupted(),
            out=tmp_path / "verdicts.jsonl",
            engine="local",
            stopped=lambda: next(requests, True),
        )


def test_an_interrupt_that_is_no_request_to_stop_is_passed_on(tmp_path: Path) -> None:
    dump = dump_of(tmp_path, records(5))

    with pytest.raises(KeyboardInterrupt):
        validate_dump(dump, Interrupted(), engine="local")
