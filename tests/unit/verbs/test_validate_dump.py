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
        first = chunks[0]
        piece = EvidenceQuote(chunk_id=first.id, start=0, end=4, text=first.text[:4])
        rivals = Conflict(kind="number", first=piece, second=piece, detail="12 against 14")
        return Verdict(
            query_id="",
            relevant_chunk_ids=(first.id,),
            validator=self.name,
            evidence=(piece,),
            relevance={chunk.id: 0.25 for chunk in chunks},
            answer_present=len(query) % 2 == 0,
            answer_probability=1 / 3,
            retrieval_quality=RetrievalQuality.PARTIAL,
            message=f"said of {query}",
            warnings=("I am not sure", "12 against 14"),
            conflicts=(rivals,),
            details={"seen": 1.0, "half": 0.5},
        )


def record(number: int, query: str = "") -> dict[str, Any]:
    chunks = [{"id": f"{number}-{place}", "text": f"text {place} of {number}."} for place in (1, 2)]
    query = query or f"what is number {number}"
    return {"query_id": f"q{number}", "query": query, "chunks": chunks}


def judge(path: Path, make: Callable[[], Plain], **options: Any) -> DumpSummary:
    with open_dump(path) as dump:
        return validate_dump(dump, make, **options)


def asked(log: Path) -> list[str]:
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
@given(st.lists(st.integers(1, QUERIES), min_size=1, max_size=3), st.integers(1, 2))
def test_kills_after_any_number_of_verdicts_change_no_byte(kills: list[int], workers: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        records = [record(number, "raise it" * (number == 7)) for number in range(QUERIES)]
        path = Path(lines(place / "dump.jsonl", records))
        whole = judge(path, Plain, out=place / "whole.jsonl")
        for count in kills:
            killed_after(count, path, place / "v.jsonl", workers)
            assert not (place / "v.jsonl").exists()
        assert judge(path, Plain, out=place / "v.jsonl") == whole
        assert (place / "v.jsonl").read_bytes() == (place / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("threads", [1, 4])
def test_what_was_answered_before_the_money_ran_out_is_kept(tmp_path: Path, threads: int) -> None:
    records = [record(number, "budget" * (number == 20)) for number in range(QUERIES)]
    dump = Path(lines(tmp_path / "dump.jsonl", records))
    log, out = tmp_path / "log", tmp_path / "v.jsonl"
    with pytest.raises(LLMBudgetError, match="no money is left"):
        judge(dump, partial(Plain, log), out=out, threads=threads)
    answered = {*asked(log)} - {"budget"}
    assert len(answered) >= 20
    log.unlink()
    with pytest.raises(LLMBudgetError):
        judge(dump, partial(Plain, log), out=out, threads=threads)
    assert not {*asked(log)} & answered


def test_what_every_query_would_fail_of_ends_the_run(tmp_path: Path) -> None:
    dump = Path(lines(tmp_path / "dump.jsonl", [record(1), record(2, "config"), record(3)]))
    with pytest.raises(ConfigError, match="the model is gone"):
        judge(dump, Plain, out=tmp_path / "v.jsonl")
    assert not (tmp_path / "v.jsonl").exists()


def test_a_validator_that_inspects_nothing_is_given_the_warnings(tmp_path: Path) -> None:
    """Ours inspect the chunks themselves; what another package says is its own."""
    found = record(1)
    found["chunks"][1]["text"] = ""
    found["chunks"].append(17)
    dump = Path(lines(tmp_path / "dump.jsonl", [record(0), found]))
    verdicts: list[ValidatedQuery] = []
    summary = judge(dump, Plain, emit=verdicts.append)
    own = ["conflict: 12 against 14", "validator: I am not sure"]
    assert json.loads(verdicts[0].line)["warnings"] == own
    malformed, empty, *rest = json.loads(verdicts[1].line)["warnings"]
    assert malformed.startswith("malformed_chunk: 1 chunk left out: expected text or an object")
    assert empty.startswith("empty_text: 1 chunk without text")
    assert rest == own
    counts = {warning.kind: (warning.queries, warning.chunks) for warning in summary.warnings}
    both = {"conflict": (2, 2), "validator": (2, 2)}
    assert counts == both | {"malformed_chunk": (1, 1), "empty_text": (1, 1)}
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
    return Path(lines(tmp_path / "dump.jsonl", [record(number) for number in range(QUERIES)]))


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

    path = Path(lines(tmp_path / "dump.jsonl", [record(1), record(2, "nothing")]))

    summary = judge(path, Missing)

    assert (summary.queries, summary.failed) == (1, 1)


def test_each_of_two_equal_queries_has_its_verdict(tmp_path: Path) -> None:
    twice = [record(1) | {"query_id": "a"}, record(1) | {"query_id": "b"}]
    path = Path(lines(tmp_path / "dump.jsonl", twice))
    verdicts: list[ValidatedQuery] = []

    judge(path, Plain, threads=2, out=tmp_path / "v.jsonl", emit=verdicts.append)

    assert [verdict.query_id for verdict in verdicts] == ["a", "b"]


# --- a dump that workers read

FAR = 90


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """With a query that the validator fails on, a label, sources, and lines that are no queries."""
    rows = [record(number, f"raise {number}" * (number == 40)) for number in range(FAR)]
    for row in rows:
        row["chunks"][0]["metadata"] = {"source": "a.pdf", "more": [row["query_id"]]}
        row["chunks"][1]["text"] = ""
    known = [json.dumps(row) for row in rows]
    known[50:50] = ["", "{", '{"chunks": ["of nobody"]}']
    path = tmp_path / "dump.jsonl"
    path.write_text("\n".join(known), "utf-8")
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
    seen: list[ValidatedQuery] = []
    here = near(faulty, Plain, out=tmp_path / "near.jsonl")
    for piece in (60, 1 << 20):
        out = tmp_path / f"far-{piece}.jsonl"
        assert far(faulty, Plain, piece=piece, out=out, emit=seen.append) == here
        assert out.read_bytes() == (tmp_path / "near.jsonl").read_bytes()
    assert [one.query_id for one in seen[:FAR]] == [f"q{number}" for number in range(FAR)]
    assert far(faulty, Plain, piece=60) == near(faulty, Plain) == here  # nothing is kept
    assert (here.failed, here.malformed) == (1, 2)
    # What is wrong with a query that has no verdict is read in its texts, which are far away.
    failed = json.loads((tmp_path / "near.jsonl").read_text("utf-8").splitlines()[40])
    assert any("empty_text" in text for text in failed["warnings"])


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
    out, log = tmp_path / "v.jsonl", tmp_path / "log"

    def emit(judged: ValidatedQuery) -> None:
        if judged.query_id == "q0" and faulty.exists():
            change(faulty)

    with pytest.raises(DataError, match=said):
        far(faulty, partial(Plain, log), out=out, emit=emit)
    assert not out.exists()
    if change is grown:
        log.unlink()
        assert far(faulty, partial(Plain, log), out=out).queries == FAR
        assert sorted(asked(log)) == ["raise 40", "what is number 90"]


class Interrupted(Plain):
    """The second Ctrl-C comes while a query is judged."""

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        if query.endswith("3"):
            raise KeyboardInterrupt
        return super().validate(query, chunks)


def test_a_stop_that_does_not_wait_for_calls_says_what_is_kept(tmp_path: Path) -> None:
    dump = lines(tmp_path / "dump.jsonl", [record(number) for number in range(5)])
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
    dump = lines(tmp_path / "dump.jsonl", [record(number) for number in range(5)])

    with pytest.raises(KeyboardInterrupt):
        validate_dump(dump, Interrupted(), engine="local")
