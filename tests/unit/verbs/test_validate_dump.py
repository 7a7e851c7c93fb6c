"""validate_dump(): what is judged, kept, continued and reused."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, open_dump, validate_dump
from ragbench.core.validation import (
    Conflict,
    DumpSummary,
    EvidenceQuote,
    RetrievalQuality,
    Verdict,
)
from ragbench.errors import ConfigError, LLMBudgetError
from ragbench.verbs.validate import ValidatedQuery

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
        return Verdict(
            query_id="",
            relevant_chunk_ids=(first.id,),
            relevance={chunk.id: 0.25 for chunk in chunks},
            answer_present=len(query) % 2 == 0,
            answer_probability=1 / 3,
            evidence=(piece,),
            retrieval_quality=RetrievalQuality.PARTIAL,
            message=f"said of {query}",
            validator=self.name,
            warnings=("I am not sure", "12 against 14"),
            conflicts=(Conflict(kind="number", first=piece, second=piece, detail="12 against 14"),),
            details={"seen": 1.0, "half": 0.5},
        )


def record(number: int, query: str = "") -> dict[str, Any]:
    chunks = [{"id": f"{number}-{place}", "text": f"text {place} of {number}."} for place in (1, 2)]
    query = query or f"what is number {number}"
    return {"query_id": f"q{number}", "query": query, "chunks": chunks}


def written(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    return path


def judge(path: Path, make: Callable[[], Plain], **options: Any) -> DumpSummary:
    with open_dump(path) as dump:
        return validate_dump(dump, make, **options)


def asked(log: Path) -> list[str]:
    return log.read_text("utf-8").splitlines() if log.exists() else []


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return written(tmp_path / "dump.jsonl", [record(number) for number in range(QUERIES)])


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


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
    with folder() as place:
        records = [record(number, "raise it" * (number == 7)) for number in range(QUERIES)]
        path = written(place / "dump.jsonl", records)
        whole = judge(path, Plain, out=place / "whole.jsonl")
        for count in kills:
            killed_after(count, path, place / "v.jsonl", workers)
            assert not (place / "v.jsonl").exists()
        assert judge(path, Plain, out=place / "v.jsonl") == whole
        assert (place / "v.jsonl").read_bytes() == (place / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("threads", [1, 4])
def test_what_was_answered_before_the_money_ran_out_is_kept(tmp_path: Path, threads: int) -> None:
    records = [record(number, "budget" * (number == 20)) for number in range(QUERIES)]
    dump = written(tmp_path / "dump.jsonl", records)
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
    dump = written(tmp_path / "dump.jsonl", [record(1), record(2, "config"), record(3)])
    with pytest.raises(ConfigError, match="the model is gone"):
        judge(dump, Plain, out=tmp_path / "v.jsonl")
    assert not (tmp_path / "v.jsonl").exists()


def test_a_validator_that_inspects_nothing_is_given_the_warnings(tmp_path: Path) -> None:
    """Ours inspect the chunks themselves; what another package says is its own."""
    found = record(1)
    found["chunks"][1]["text"] = ""
    found["chunks"].append(17)
    dump = written(tmp_path / "dump.jsonl", [record(0), found])
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
